"""Reads the Spark version that a job's file declares, and checks whether an EMR release is too old for it.

A job declares the oldest Spark that it runs on with a line outside of any function:

    NEEDS_SPARK = "4.0"

The file is parsed, never imported, so that this works without Spark. Without the line, a job runs on any release.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from headrace.core.extras import Minor, format_minor
from headrace.spark_submit.emr_releases import UnknownRelease, release_of, releases

NAME = "NEEDS_SPARK"


class ReleaseTooOld(Exception):
    """A release's Spark is older than the one that a job needs; the message is a sentence."""


def read_needed_spark(job: Path) -> Minor | None:
    """Return the oldest Spark that a job's file declares, such as (4, 0); None without a declaration.

    Raises ValueError, with one sentence, for an invalid declaration. A file that is not Python declares nothing: Spark
    itself will report why it does not run.
    """
    try:
        body = ast.parse(job.read_bytes()).body
    except (SyntaxError, ValueError):
        return None
    for statement in body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == NAME for target in targets):
            return _minor(job, value)
    return None


def _minor(job: Path, value: ast.expr) -> Minor:
    text = value.value if isinstance(value, ast.Constant) else None
    match = re.fullmatch(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f'{job.name} declares {NAME} = {ast.unparse(value)}: say a version such as "4.0".'
        )
    return int(match[1]), int(match[2])


def check_release(job: Path, label: str) -> None:
    """Raise ReleaseTooOld, with a sentence, when the Spark of a release is older than a job needs.

    A label newer than the table passes: AWS may have it. Raises ValueError; see `read_needed_spark`.
    """
    needed = read_needed_spark(job)
    if needed is None:
        return
    try:
        release = release_of(label)
    except UnknownRelease:
        if not re.match(r"emr-[45]\.", label):
            return
        has = "an older one"
    else:
        if release.spark_minor >= needed:
            return
        has = f"Spark {release.spark_version}"
    raise ReleaseTooOld(
        f"{job.name} needs Spark {format_minor(needed)}, and {label} has {has}: {_advice(needed)}."
    )


def _advice(needed: Minor) -> str:
    enough = [release.label for release in releases() if release.spark_minor >= needed]
    if not enough:
        return "no release of EMR that is known has it yet"
    return f"take {enough[0]}" if len(enough) == 1 else f"take one of {enough[-1]} to {enough[0]}"
