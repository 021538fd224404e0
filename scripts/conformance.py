"""Writes docs/conformance/kinesis.md: every action's parameters and errors, their tests, and their sources.

`python -m scripts.conformance` runs the API tests with `scripts.conformance_seen` and writes their results. With
--scenarios it rewrites only the list of the scenarios in tests/conformance/kinesis. With --check it runs nothing, and
exits 1 when the table lacks a part of botocore's model, names a deleted test, or has an old list.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

from headrace.aws.calls.operation import operation_name, service_model
from headrace.services.kinesis.actions import ACTIONS
from headrace.services.kinesis.api import FIDELITY
from scripts.conformance_pages import scenario_lines

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "conformance" / "kinesis.md"
TESTS = ROOT / "tests" / "api" / "kinesis"
PREFIX = "Kinesis_20131202"
TESTS_SHOWN = 2
# These tests send thousands of random requests, which do not test one parameter.
RANDOM = ("test_hot_path.py", "test_hot_layouts.py")

# The sources of errors that the model does not list with an action.
COMMON_ERRORS = {
    "ValidationException": "documented (common errors)",
    "InternalFailure": "documented (common errors)",
    "AccessDeniedException": "documented (common errors)",
    "UnknownOperationException": "observed (kinesalite)",
    "SerializationException": "observed (kinesalite)",
    "RequestEntityTooLargeException": "assumed",
    "DryRunOperationException": "assumed",
}
# The sources of error sentences; the first match counts. Other people recorded AWS's answers.
SENTENCES = (
    (r"validation errors? detected: Value ", "observed (kinesalite)"),
    (r"^Stream .* under account .* not found\.", "observed (kinesalite)"),
    (r"^Stream .* under account .* already exists", "observed (kinesalite)"),
    (r"^Stream .* not ACTIVE, instead in state", "observed (kinesalite)"),
    (r"^Could not find shard ", "observed (kinesalite)"),
    (r"^Invalid ExplicitHashKey", "observed (kinesalite)"),
    (r"^ExclusiveMinimumSequenceNumber ", "observed (kinesalite)"),
    (r"^Iterator expired\.", "observed (kinesalite)"),
    (r"^Rate exceeded for shard", "observed (issues of the Kinesis clients)"),
    (r"(to|for) an? .*(String|Integer|Boolean|Blob|Structure)$|^Expected |^Start of ", "observed (kinesalite)"),
    (r"^$", "observed (kinesalite)"),
)  # fmt: skip
_ELSE = "assumed"

HEAD = """# Kinesis Data Streams: what is as on AWS, and how we know

Written by `python -m scripts.conformance` from botocore's model and from what the API tests sent and saw
(`tests/api/kinesis`); do not edit. Nothing here was compared with a running AWS account by us.

- A **parameter** is *enforced*, or *stored*: taken, checked and shown, but acted on by nothing. The tests are those
  that sent it in a request that was accepted, and in one that was refused. All are *documented* (API reference).
- An **error** is *documented* when the API reference lists it with the action or among the common errors, *observed*
  when somebody wrote down what AWS answered (kinesalite, whose author compared it with AWS; issues of AWS's own
  clients), else *assumed*. The source of its **sentence** is told apart from that of its code.
- "none" means that no API test shows it. Every action is also sent random requests, sound and broken, in JSON and in
  CBOR (`tests/fuzz`): 100 in the default suite, 10,000 nightly; and the actions that clients need are driven by AWS's
  SDKs for JavaScript and Python, its command line and async-kinesis (`tests/clients`).
"""


# --- the model --------------------------------------------------------------------------------


def members(shape: Shape | None, before: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the paths of a structure's members, with nested members."""
    if depth > 4:
        return
    if isinstance(shape, StructureShape):
        for name, member in shape.members.items():
            path = f"{before}.{name}" if before else name
            yield path
            yield from members(member, path, depth + 1)
    elif isinstance(shape, ListShape):
        yield from members(shape.member, f"{before}[]", depth + 1)
    elif isinstance(shape, MapShape):
        yield from ()


def operations() -> list[OperationModel]:
    """Return the model's actions, by name."""
    model = service_model("kinesis")
    return [model.operation_model(name) for name in sorted(model.operation_names)]


def built() -> frozenset[str]:
    """Return the actions that headrace implements."""
    return frozenset(map(operation_name, ACTIONS))


def required(operation: OperationModel) -> set[str]:
    """Return the required parameters."""
    shape = operation.input_shape
    return set(shape.required_members) if shape is not None else set()


# --- the page ---------------------------------------------------------------------------------


def page(seen: dict[str, Any]) -> str:
    """Return the whole page."""
    parts = [HEAD, _summary(seen)]
    parts += [_action(operation, seen.get(operation.name, {})) for operation in operations()]
    return "\n".join([*parts, _scenarios()])


def _scenarios() -> str:
    return "\n".join(scenario_lines("kinesis")) + "\n"


def with_scenarios(text: str) -> str:
    """Return a page with the current list of scenarios."""
    return text.partition("\n## The ")[0] + "\n" + _scenarios()


def _summary(seen: dict[str, Any]) -> str:
    lines = [
        "| action | tests | parameters shown | errors of the model shown |",
        "| --- | --- | --- | --- |",
    ]
    for operation in operations():
        link = f"[{operation.name}](#{operation.name.lower()})"
        if operation.name not in built():
            lines.append(f"| {link} | not built | | |")
            continue
        found = seen.get(operation.name, {})
        paths = list(members(operation.input_shape))
        shown = [path for path in paths if path in found.get("parameters", {})]
        errors = [shape.name for shape in operation.error_shapes]
        met = [name for name in errors if name in found.get("errors", {})]
        lines.append(
            f"| {link} | {len(found.get('tests', {}))} |"
            f" {len(shown)} of {len(paths)} | {len(met)} of {len(errors)} |"
        )
    return "\n".join(lines) + "\n"


def _action(operation: OperationModel, found: dict[str, Any]) -> str:
    protocols = " and ".join(sorted(found.get("protocols", {}), reverse=True)) or "none"
    if operation.name not in built():
        return f"## {operation.name}\n\nNot built: it is answered with UnknownOperationException.\n"
    lines = [f"## {operation.name}", "", f"Asked by API tests in: {protocols}.", ""]
    paths = list(members(operation.input_shape))
    if paths:
        lines += ["| parameter | level | accepted | refused |", "| --- | --- | --- | --- |"]
        must = required(operation)
        lines += [_parameter(operation.name, path, path in must, found) for path in paths]
        lines.append("")
    lines += ["| error | code | sentence | tests |", "| --- | --- | --- | --- |"]
    errors = [shape.name for shape in operation.error_shapes]
    errors += sorted(set(found.get("errors", {})) - set(errors))
    for code in errors:
        lines += _error(operation, code, found)
    answers = list(members(operation.output_shape))
    unseen = [path for path in answers if path not in found.get("answers", {})]
    if answers:
        text = (
            "all seen" if not unseen else f"not seen: {', '.join(f'`{path}`' for path in unseen)}"
        )
        lines += ["", f"Members of its answer ({len(answers)}): {text}."]
    return "\n".join(lines) + "\n"


def _parameter(action: str, path: str, must: bool, found: dict[str, Any]) -> str:
    known = found.get("parameters", {}).get(path, {})
    level = FIDELITY.get(action, {}).get(path.partition(".")[0], "enforced")
    name = f"**`{path}`**" if must else f"`{path}`"
    return (
        f"| {name} | {level} | {_tests(known.get('accepted'))} | {_tests(known.get('refused'))} |"
    )


def _error(operation: OperationModel, code: str, found: dict[str, Any]) -> list[str]:
    is_listed = any(shape.name == code for shape in operation.error_shapes)
    source = f"documented (API_{operation.name})" if is_listed else COMMON_ERRORS.get(code, _ELSE)
    known = found.get("errors", {}).get(code)
    if known is None:
        return [f"| {code} | {source} | | none |"]
    sentences = [_cell(sentence) for sentence in list(known["sentences"])[:3]]
    words = "<br>".join(f"{text} *{_source_of(text)}*" for text in sentences)
    return [f"| {code} | {source} | {words} | {_tests(known['tests'])} |"]


def _source_of(sentence: str) -> str:
    return next((source for pattern, source in SENTENCES if re.search(pattern, sentence)), _ELSE)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


def _tests(names: Any) -> str:
    if not names:
        return "none"
    found = sorted(names)
    shown = ", ".join(f"`{name.rpartition('::')[2]}`" for name in found[:TESTS_SHOWN])
    return shown if len(found) <= TESTS_SHOWN else f"{shown} and {len(found) - TESTS_SHOWN} more"


# --- checking ---------------------------------------------------------------------------------


def stale(text: str) -> list[str]:
    """Return a sentence for each defect of the page."""
    wrong = [] if text.endswith(_scenarios()) else ["the list of scenarios is old"]
    text = text.partition("\n## The ")[0]
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    for operation in operations():
        section = sections.get(operation.name)
        if section is None:
            wrong.append(f"{operation.name} is missing")
            continue
        if ("Not built" in section) == (operation.name in built()):
            wrong.append(f"{operation.name}: the page is wrong about whether it is built")
        if operation.name not in built():
            continue
        names = [*(f"`{path}`" for path in members(operation.input_shape))]
        names += [f"| {shape.name} |" for shape in operation.error_shapes]
        wrong += [f"{operation.name}: {name} is missing" for name in names if name not in section]
    wrong += [f"{name} is no action" for name in sections if name not in _names()]
    existing = set(_test_functions())
    named = set(re.findall(r"`(test_\w+)`", text))
    return wrong + [f"the test {name} is gone" for name in sorted(named - existing)]


def _names() -> set[str]:
    return {operation.name for operation in operations()}


def _test_functions() -> Iterator[str]:
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield node.name


def observe() -> dict[str, Any]:
    """Run the API tests and return their results. Exits when they fail."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seen.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "scripts.conformance_seen"),
                *("--conformance", f"{PREFIX}={out}", str(TESTS)),
                *(f"--ignore={TESTS / name}" for name in RANDOM),
            ],
            cwd=ROOT,
            check=False,
        )
        if done.returncode:
            raise SystemExit("the API tests of Kinesis fail: the page is unchanged")
        return json.loads(out.read_text())


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it."""
    if "--scenarios" in arguments:
        PAGE.write_text(with_scenarios(PAGE.read_text()))
        return 0
    if "--check" not in arguments:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(observe()))
        print(f"wrote {PAGE.relative_to(ROOT)}")
        return 0
    wrong = stale(PAGE.read_text()) if PAGE.exists() else ["there is none"]
    for sentence in wrong:
        print(f"{PAGE.relative_to(ROOT)}: {sentence}; run python -m scripts.conformance")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
