"""What AWS would deny of what tests have done: collected from each cloud as it ends, told at the end of the run."""

from __future__ import annotations

import re
from typing import Any

from headrace.iam.judge import Judge
from headrace.iam.report import in_words, report_of

MOST_LINES = 10
# The role that headrace.testing itself gives to functions, which nobody deploys.
OWN_ROLE = "role/headrace-test"
_ACCOUNT = re.compile(r"(?<=:)\d{12}(?=:)")

_Row = dict[str, Any]
_rows: dict[tuple[str, str, str], _Row] = {}


def collect(judge: Judge) -> None:
    """Take in what a cloud noted. Without moto loaded there is no role, and nothing that AWS would judge."""
    if judge.people.is_ready:
        add(report_of(judge)["denied"])


def add(rows: list[_Row]) -> None:
    """Take rows in; those that differ by the account only, which each test has anew, are one."""
    for row in rows:
        if row["principal"].endswith(OWN_ROLE) or row["resource"].endswith(OWN_ROLE):
            continue
        key = tuple(_ACCOUNT.sub("*", row[name]) for name in ("principal", "action", "resource"))
        kept = _rows.get((key[0], key[1], key[2]))
        if kept is None:
            _rows[key[0], key[1], key[2]] = dict(row)
        else:
            kept["count"] += row["count"]


def take() -> list[_Row]:
    """Return all rows, and begin anew."""
    rows = list(_rows.values())
    _rows.clear()
    return rows


def lines(rows: list[_Row]) -> list[str]:
    """Return what to say at the end; nothing where AWS would deny nothing."""
    if not rows:
        return []
    return in_words({"mode": "report", "denied": rows}, most=MOST_LINES)
