"""Writes docs/lint.md: `lint_about.md`, then the rules of `headrace lint` with their texts and examples.

`python -m scripts.lint_page` writes it; with --check it writes nothing, and exits 1 when the page is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.lint.rules import RULES
from headrace.lint.template import StreamingRule

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "lint.md"
ABOUT = ROOT / "scripts" / "lint_about.md"


def page() -> str:
    """Return the whole page."""
    lines = [ABOUT.read_text(), "## The rules", "", "| id | finding |", "|---|---|"]
    lines += [f"| [{rule.id}](#{rule.id.lower()}) | {rule.shortdesc} |" for rule in RULES]
    for rule in RULES:
        lines += ["", *_rule(rule)]
    return "\n".join(lines) + "\n"


def _rule(rule: type[StreamingRule]) -> list[str]:
    return [
        f"### {rule.id}",
        f"**{rule.shortdesc}.** {rule.description} [AWS]({rule.source_url})",
        "",
        "Found in:",
        "```yaml",
        _short(rule.bad),
        "```",
        "and not in:",
        "```yaml",
        _short(rule.good),
        "```",
    ]


def _short(example: str) -> str:
    """Return an example with its repeated lines cut."""
    lines = example.rstrip("\n").splitlines()
    return "\n".join(lines if len(lines) <= 40 else [*lines[:6], "# ... and so on", *lines[-3:]])


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    if not PAGE.is_file() or PAGE.read_text() != text:
        print("docs/lint.md is stale; run python -m scripts.lint_page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
