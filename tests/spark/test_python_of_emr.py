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
FILES = sorted([*SOURCE.rglob("*.py"), *JOBS.rglob("*.py")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_module_has_no_newer_syntax(file: Path) -> None:
    ast.parse(file.read_text(), str(file), feature_version=OLDEST)


def test_newer_syntax_would_be_seen() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass", feature_version=OLDEST)
