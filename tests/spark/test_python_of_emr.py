"""A Spark job, and what it imports of headrace, can be read by the oldest Python that an EMR 7 image has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import headrace.spark

# documented: EMR release guide, emr-release-app-versions-7.x
OLDEST = (3, 9)
SOURCE = Path(headrace.spark.__file__).parent
JOBS = Path(__file__).parents[2] / "spark_jobs"
# What the job compact takes along, in the same zip.
CDC = [SOURCE.parent / "cdc" / name for name in ("events.py", "iceberg_table.py")]
FILES = sorted([*SOURCE.rglob("*.py"), *JOBS.rglob("*.py"), *CDC])
# Keywords of dataclass that came with 3.10.
NEWER = {"slots", "kw_only", "match_args", "weakref_slot"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_module_has_no_newer_syntax(file: Path) -> None:
    module = ast.parse(file.read_text(), str(file), feature_version=OLDEST)
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    dataclasses = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "dataclass"]
    assert not [word.arg for call in dataclasses for word in call.keywords if word.arg in NEWER]


def test_newer_syntax_would_be_seen() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass", feature_version=OLDEST)
