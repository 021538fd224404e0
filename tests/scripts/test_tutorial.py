"""The tutorial of docs/testing.md, typed in an empty folder: what it shows is what a reader gets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADDING = re.compile(r"^        table\.update_item\(.*?^        \)\n", re.MULTILINE | re.DOTALL)


def _block(after: str) -> str:
    """Return the first block of code after a text of the tutorial."""
    text = PAGE.read_text()
    assert text.count(after) == 1, after
    found = _BLOCK.search(text, text.index(after))
    assert found is not None
    return found[2]


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
def test_the_tutorial_is_true(tmp_path: Path) -> None:
    (tmp_path / "totals").mkdir()
    handler = tmp_path / "totals" / "handler.py"
    handler.write_text(_block("You deploy `totals/handler.py`"))
    (tmp_path / "test_totals.py").write_text(_block("`test_totals.py` creates the stream"))
    first = _pytest(tmp_path, "test_totals.py")
    assert "1 passed" in first.stdout, first.stdout + first.stderr

    (tmp_path / "orders.jsonl").write_text(_block("is always the same. `orders.jsonl`:"))
    (tmp_path / "test_converges.py").write_text(_block("\n`test_converges.py`:"))
    second = _pytest(tmp_path, "test_converges.py")
    assert "1 failed" in second.stdout, second.stdout + second.stderr
    shown = _block("It finds a defect that the first test did not")
    for line in shown.splitlines():
        assert line.strip() in second.stdout, f"{line!r} is not in:\n{second.stdout}"

    mended = textwrap.indent(_block("With this in the handler's loop"), " " * 8)
    code, count = _ADDING.subn(lambda _: mended, handler.read_text())
    assert count == 1
    handler.write_text(f"import contextlib\n{code}")
    both = _pytest(tmp_path)
    assert "2 passed" in both.stdout, both.stdout + both.stderr

    (tmp_path / "test_simulated.py").write_text(
        _block("A simulation has one thread, virtual time, and a seed")
    )
    simulated = _pytest(tmp_path, "test_simulated.py")
    assert "1 passed" in simulated.stdout, simulated.stdout + simulated.stderr


def test_the_tutorials_blocks_are_found() -> None:
    """The long form above needs them; this one sees at once that the page has moved away from it."""
    for after in ("You deploy `totals/handler.py`", "With this in the handler's loop"):
        assert _block(after)
    assert len(_ADDING.findall(_block("You deploy `totals/handler.py`"))) == 1
