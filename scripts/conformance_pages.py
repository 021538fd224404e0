"""Writes docs/conformance/<service>.md: operations, parameters, and the scenarios that compare answers with AWS's.

`python -m scripts.conformance_pages` writes the page of every service with scenarios in tests/conformance/<service>
(botocore's service name), from botocore's model, the service's fidelity table and the scenarios; with names, only the
pages of these services. The text above the table comes from `about.md` beside the scenarios. Kinesis's page has
another form: `scripts.conformance` writes it, with the list of scenarios from this module.
With --check it writes nothing, and exits 1 when a page is stale.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from headrace.aws.calls.operation import operation_model, operation_name, service_model
from tests.conformance.scenarios import Scenario, calls, load

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "conformance"
SCENARIOS = ROOT / "tests" / "conformance"
# Services whose scenarios are on a page of another form, or on none because moto runs the service.
OTHER_FORM = frozenset({"kinesis", "others"})
_PACKAGES = {
    "lambda": "lambda_",
    "emr-serverless": "emr_serverless",
    "resourcegroupstaggingapi": "tagging",
}

HOW = """
Written by `python -m scripts.conformance_pages` from botocore's model and from the scenarios in
`tests/conformance/{service}`; do not edit. Nothing here was compared with a running AWS account by us: each scenario
says who recorded or documented the answers. It compares whole answers: every member, and every member of an error.
"""


def services() -> list[str]:
    """Return the services that have scenarios and a page of this form."""
    names = {path.parent.name for path in SCENARIOS.glob("*/*.json")}
    return sorted(names - OTHER_FORM)


def page(service: str) -> str:
    """Return a service's whole page."""
    package = f"headrace.services.{_PACKAGES.get(service, service)}"
    built = {operation_name(one) for one in importlib.import_module(f"{package}.actions").ACTIONS}
    table = importlib.import_module(f"{package}.api").FIDELITY
    title, _, text = (SCENARIOS / service / "about.md").read_text().partition("\n")
    names = list(service_model(service).operation_names)
    lines = [title, HOW.format(service=service), *([text.strip(), ""] if text.strip() else [])]
    lines += _operations(service, names, built, table)
    missing = ", ".join(name for name in names if name not in built)
    if missing:
        lines += ["", f"Not built, and refused with an error: {missing}."]
    return "\n".join([*lines, "", *scenario_lines(service)]) + "\n"


def _operations(service: str, names: list[str], built: set[str], table: Any) -> list[str]:
    asked = Counter(
        call.replace("_", "").lower()
        for scenario in load(SCENARIOS / service)
        for call in calls(scenario, service)
    )
    total = sum(len(_members(service, name)) for name in built)
    levels = Counter(level for paths in table.values() for level in paths.values())
    counted = (
        f"{len(built)} of {len(names)} operations are built; of their {total} parameters"
        f" {levels['stored']} are stored and {levels['ignored']} ignored."
    )
    lines = [
        counted,
        "",
        "| operation | calls in scenarios | parameters | stored only | ignored |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in names:
        if name not in built:
            continue
        paths = table.get(name, {})
        shown = [
            ", ".join(f"`{path}`" for path, found in paths.items() if found == level)
            for level in ("stored", "ignored")
        ]
        lines.append(
            f"| {name} | {asked[name.lower()]} | {len(_members(service, name))} | {shown[0]} | {shown[1]} |"
        )
    return lines


def _members(service: str, operation: str) -> list[str]:
    shape = cast("Any", operation_model(service, operation)).input_shape
    return list(shape.members) if shape is not None else []


def scenario_lines(service: str) -> list[str]:
    """Return the list of a service's scenarios, by topic."""
    scenarios = list(load(SCENARIOS / service))
    lines = [f"## The {len(scenarios)} scenarios"]
    topics: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        topics.setdefault(scenario["topic"], []).append(scenario)
    for topic, found in topics.items():
        lines += ["", f"### {topic.replace('_', ' ')}", ""]
        for one in found:
            steps = sum("call" in step or "http" in step for step in one["steps"])
            lines.append(f"- {one['name']} ({steps} calls): {'; '.join(one['evidence'])}")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them."""
    names = [name for name in arguments if name != "--check"]
    stale = 0
    for service in names or services():
        text = page(service)
        path = PAGES / f"{service}.md"
        if "--check" not in arguments:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
        elif not path.exists() or path.read_text() != text:
            stale = 1
            print(
                f"{path.relative_to(ROOT)} is stale; run python -m scripts.conformance_pages {service}"
            )
    return stale


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
