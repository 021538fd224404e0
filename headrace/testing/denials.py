"""Collects, from each cloud that ends, the calls that AWS would deny; the end of the test run reports them."""

from __future__ import annotations

import re
from typing import Any

from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.report import in_words, report_of

MOST_LINES = 10
# headrace.testing gives this role to its functions; nobody deploys it.
OWN_ROLE = "role/headrace-test"
_ACCOUNT = re.compile(r"(?<=:)\d{12}(?=:)")

_Row = dict[str, Any]
_rows: dict[tuple[str, str, str], _Row] = {}


def collect(decisions: Decisions) -> None:
    """Add the denials that a cloud noted. As long as moto is not loaded there is no role, and so nothing to deny."""
    if decisions.people.is_ready():
        add(report_of(decisions)["denied"])


def add(rows: list[_Row]) -> None:
    """Add rows. Rows that differ only by account become one, because each test has a new account."""
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
    """Return all rows, and forget them."""
    rows = list(_rows.values())
    _rows.clear()
    return rows


def lines(rows: list[_Row]) -> list[str]:
    """Return the lines of the report; none if AWS would deny nothing."""
    if not rows:
        return []
    return in_words({"mode": "report", "denied": rows}, most=MOST_LINES)
