"""Writes docs/conformance/clouds.md: the results of the integration tests on headrace and other clouds, side by side.

python -m scripts.clouds --run       runs the tests on every cloud first (LocalStack takes minutes), then writes
python -m scripts.clouds             writes the page from tests/integration/seen/
python -m scripts.clouds --check     fails when the page is stale
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SEEN = ROOT / "tests" / "integration" / "seen"
PAGE = ROOT / "docs" / "conformance" / "clouds.md"
# In the page's order.
CLOUDS = ("headrace", "localstack", "ministack", "moto")
TITLES = {
    "test_streams": "Streams", "test_triggers": "Functions on streams", "test_deliveries": "Firehose to S3",
    "test_jobs": "EMR steps", "test_stacks": "CloudFormation",
}  # fmt: skip
HEAD = """# The same tests on several clouds

Made by `python -m scripts.clouds` from what `tests/integration` saw; not written by hand. Each line is a test of what
a user of the pipeline sees, written once, and stands for what AWS documents; the tests have not been run on AWS.
**yes**: the test passes. A number: the cloud is known to differ, as the note says. The table of differences
(`tests/integration/differences.py`) holds the words by which each shows itself: another failure, or a difference
that has gone, fails the run.

    scripts/test --cloud localstack tests/integration
"""


@dataclass(frozen=True)
class Seen:
    """The tests' results on a cloud: its name and version, and each test's difference, empty for none."""

    cloud: str
    tests: dict[str, str]


def read(product: str) -> Seen | None:
    """Return the stored results of a cloud; None if the tests never ran on it."""
    file = SEEN / f"{product}.json"
    if not file.exists():
        return None
    found = json.loads(file.read_text())
    return Seen(found["cloud"], {name: one.get("what", "") for name, one in found["tests"].items()})


def page(clouds: list[Seen]) -> str:
    """Return the page."""
    parts, notes = [HEAD], list[str]()
    names = sorted({name for seen in clouds for name in seen.tests})
    for file, title in TITLES.items():
        parts.append(f"\n## {title}\n")
        parts.append(f"| | {' | '.join(seen.cloud for seen in clouds)} |")
        parts.append(f"|---|{'---|' * len(clouds)}")
        for name in names:
            module, _, test = name.partition("::")
            if module == file:
                cells = [_cell(seen, name, notes) for seen in clouds]
                words = test.removeprefix("test_").replace("_", " ")
                parts.append(f"| {words} | {' | '.join(cells)} |")
    parts.append("\n## The differences\n")
    parts += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(parts) + "\n"


def _cell(seen: Seen, name: str, notes: list[str]) -> str:
    if name not in seen.tests:
        return "not run"
    what = seen.tests[name]
    if not what:
        return "yes"
    note = f"{seen.cloud}: {what}"
    if note not in notes:
        notes.append(note)
    return str(notes.index(note) + 1)


def run(product: str) -> bool:
    """Run the tests on a cloud and store the results; return whether the table of differences is right."""
    print(f"=== {product}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/integration", "-q", "--cloud", product,
         "--seen", str(SEEN / f"{product}.json")],
        cwd=ROOT, check=False,
    )  # fmt: skip
    return done.returncode == 0


def main() -> int:
    """Write the page, or with --check compare it; return 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    held = [run(product) for product in CLOUDS] if options.run else []
    clouds = [seen for product in CLOUDS if (seen := read(product)) is not None]
    text = page(clouds)
    if options.check:
        if not PAGE.exists() or PAGE.read_text() != text:
            print(f"{PAGE.relative_to(ROOT)} is stale: python -m scripts.clouds", file=sys.stderr)
            return 1
    else:
        PAGE.write_text(text)
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
