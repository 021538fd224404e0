"""The README, the decisions and the changelog keep to their forms; no file of tests is too long."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README_LINES, README_WORDS = 100, 900
CHANGELOG_LINES, ENTRY_LENGTH = 120, 200
SERVICES_WORDS, LINE_LENGTH, CELL_LENGTH = 5000, 400, 220
DECISIONS, DECISION_LINES = 60, 6
FILE_LINES = 500
FUNCTION_LINES = 60
# Source: https://keepachangelog.com/en/1.1.0/
VERSION = re.compile(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d")


def _parts(text: str, heading: str) -> list[tuple[str, list[str]]]:
    """Return what stands below each heading of a level, without blank lines, by the heading's words."""
    found = re.split(rf"^{heading} ", text, flags=re.MULTILINE)[1:]
    lines = [[line for line in part.splitlines() if line.strip()] for part in found]
    return [(part[0], part[1:]) for part in lines]


def test_the_readme_is_one_page() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= README_LINES
    assert len(text.split()) <= README_WORDS


def test_the_decisions_are_few_and_short_and_numbered() -> None:
    decisions = _parts((ROOT / "DECISIONS.md").read_text(), "###")
    assert 40 < len(decisions) <= DECISIONS
    for number, (title, lines) in enumerate(decisions, start=1):
        # One that is not merged yet has the letter N for its number.
        assert title.startswith((f"{number}. ", "N. ")), title
        # The next area's heading stands below the last decision of an area.
        assert len([line for line in lines if not line.startswith("#")]) <= DECISION_LINES, title


def test_the_changelog_is_one_page_by_area_with_a_short_line_an_entry() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert len(text.splitlines()) <= CHANGELOG_LINES
    assert [line for line in text.splitlines() if len(line) > ENTRY_LENGTH] == []
    versions = _parts(text, "##")
    names = [name for name, _ in versions]
    assert names[0] == "[Unreleased]"
    assert [name for name in names if not VERSION.fullmatch(name)] == []
    for name, lines in versions:
        assert lines, name
        areas = [area for area, _ in _parts("\n".join(lines), "###")]
        assert lines[0].startswith("### "), name
        assert len(areas) == len(set(areas)), f"{name} has a heading twice"
        odd = [line for line in lines if not line.startswith(("### ", "- "))]
        assert odd == [], name


@pytest.mark.parametrize("name", ["services.md", "queries.md"])
def test_what_is_simulated_is_read_in_short_cells(name: str) -> None:
    text = (ROOT / "docs" / name).read_text()
    assert len(text.split()) <= SERVICES_WORDS
    assert [line for line in text.splitlines() if len(line) > LINE_LENGTH] == []
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    assert [cell for cell in cells if len(cell) > CELL_LENGTH] == []


@pytest.mark.parametrize("folder", ["headrace", "tests"])
def test_a_file_is_read_in_one_sitting(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*.py") if "node_modules" not in path.parts]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {name: count for name, count in lengths.items() if count > FILE_LINES} == {}


def test_a_function_is_read_at_a_glance() -> None:
    long: dict[str, int] = {}
    for path in sorted((ROOT / "headrace").rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES:
                    long[f"{module}:{node.name}"] = length
    assert long == {}
