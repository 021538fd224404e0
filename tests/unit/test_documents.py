"""The README, the decisions and the changelog keep to their forms."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README_LINES = 150
DECISION_LINES = 15
FORM = "Context Choice Rejected Follows"
# Source: https://keepachangelog.com/en/1.1.0/
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
VERSION = re.compile(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d")


def _parts(text: str, heading: str) -> list[tuple[str, list[str]]]:
    """Return what stands below each heading of a level, without blank lines, by the heading's words."""
    found = re.split(rf"^{heading} ", text, flags=re.MULTILINE)[1:]
    lines = [[line for line in part.splitlines() if line.strip()] for part in found]
    return [(part[0], part[1:]) for part in lines]


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_each_decision_has_its_number_its_form_and_few_lines() -> None:
    decisions = _parts((ROOT / "DECISIONS.md").read_text(), "##")
    assert len(decisions) > 100
    wrong: list[str] = []
    for number, (title, lines) in enumerate(decisions, start=1):
        # One that replaces another, or is replaced, says so first.
        first = lines[bool(re.match(r"Replace(d by|s) \d+[.;]", lines[0]))]
        named = re.findall(r"\b(Context|Choice|Rejected|Follows):", "\n".join(lines))
        # One that is not merged yet has the letter N for its number.
        if (
            not title.startswith((f"{number}. ", "N. "))
            or len(lines) > DECISION_LINES
            or not first.startswith("Context: ")
            or " ".join(named) != FORM
        ):
            wrong.append(title)
    assert wrong == []


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    versions = _parts((ROOT / "CHANGELOG.md").read_text(), "##")
    names = [name for name, _ in versions]
    assert names[0] == "[Unreleased]"
    assert names[-1].startswith("[0.1.0] - ")
    assert [name for name in names if not VERSION.fullmatch(name)] == []
    for name, lines in versions:
        assert lines, name
        kinds = [kind for kind, _ in _parts("\n".join(lines), "###")]
        assert lines[0].startswith("### "), name
        assert set(kinds) <= KINDS, name
        assert len(kinds) == len(set(kinds)), f"{name} has a heading twice"
        # An entry, or its next line.
        odd = [line for line in lines if not line.startswith(("### ", "- ", "  "))]
        assert odd == [], name
