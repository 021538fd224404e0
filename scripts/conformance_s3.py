"""Writes docs/conformance/s3.md: S3's operations, their parameters, and the scenarios that hold its answers to AWS's.

`python -m scripts.conformance_s3` writes it from botocore's model, the table of parameters and tests/conformance/s3.
With --check nothing is written: it exits 1 when the page is not what would be written.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from headrace.aws.model import operation_model, service_model
from headrace.aws.operation import operation_name
from headrace.services.s3.actions import ACTIONS
from headrace.services.s3.fidelity import FIDELITY
from tests.conformance.scenarios import Scenario, load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "conformance" / "s3.md"
SCENARIOS = ROOT / "tests" / "conformance" / "s3"

HEAD = """# S3: what is as on AWS, and how we know

Written by `python -m scripts.conformance_s3` from botocore's model and from the scenarios in `tests/conformance/s3`; do
not edit. Nothing here was compared with a running AWS account by us: the answers were recorded from AWS by others, with
the day of each recording. A scenario compares whole answers: every member, and every member of an error.

Where sources disagree: AWS's documentation shows a member `Resource` in errors, which no recorded answer has (we send
none); `If-Match` of DeleteObject was refused by general-purpose buckets when it was recorded, and is documented now (we
act on it). With KMS and customers' keys, AWS's ETag is not the MD5 of the bytes; ours is.
"""


def _members(operation: str) -> list[str]:
    shape = cast("Any", operation_model("s3", operation)).input_shape
    return list(shape.members) if shape is not None else []


def page() -> str:
    """Return the whole page."""
    scenarios = list(load(SCENARIOS))
    calls = Counter(
        step["call"].replace("_", "")
        for scenario in scenarios
        for step in scenario["steps"]
        if "call" in step
    )
    built = {operation_name(action) for action in ACTIONS}
    names = list(service_model("s3").operation_names)
    total = sum(len(_members(name)) for name in built)
    levels = Counter(level for paths in FIDELITY.values() for level in paths.values())
    counted = (
        f"{len(built)} of {len(names)} operations are built; of their {total} parameters"
        f" {levels['stored']} are stored and {levels['ignored']} ignored."
    )
    lines = [
        HEAD,
        counted,
        "",
        "| operation | calls in scenarios | parameters | stored only | ignored |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in names:
        if name in built:
            paths = FIDELITY.get(name, {})
            shown = [
                ", ".join(f"`{path}`" for path, found in paths.items() if found == level)
                for level in ("stored", "ignored")
            ]
            asked = calls[name.lower()]
            lines.append(f"| {name} | {asked} | {len(_members(name))} | {shown[0]} | {shown[1]} |")
    missing = ", ".join(name for name in names if name not in built)
    lines += ["", f"Not built, and answered with NotImplemented (501): {missing}.", ""]
    lines.append(f"## The {len(scenarios)} scenarios")
    topics: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        topics.setdefault(scenario["topic"], []).append(scenario)
    for topic, found in topics.items():
        lines += ["", f"### {topic.replace('_', ' ')}", ""]
        for one in found:
            steps = sum("call" in step for step in one["steps"])
            lines.append(f"- {one['name']} ({steps} calls): {'; '.join(one['evidence'])}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text)
        print(f"wrote {PAGE.relative_to(ROOT)}")
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is stale; run python -m scripts.conformance_s3")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
