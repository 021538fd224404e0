"""Writes headrace/moto/dropped_members.json: the input members that moto certainly drops, of services that stacks use.

A member is dropped when no source of the service has its name, in moto or in headrace's patches, and the function that
answers the call reads members by their names, instead of storing the whole request. They are *ignored*, and so are
properties of resource types that go only to them: the fidelity report, `--strict` and
docs/conformance/resource-types.md say so.

`python -m scripts.dropped_members` writes the file, after an upgrade of moto or botocore too. With --check it writes
nothing, prints what is new, and exits 1 when the file is stale.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import moto
from botocore import xform_name

from headrace.aws.calls.operation import service_model
from headrace.moto.patches import repeated_tokens
from headrace.moto.without_effect import DROPPED_FILE
from headrace.services.cloudformation.resources import list_declared_types
from headrace.services.cloudformation.resources.declared_calls import input_of

_MOTO = Path(moto.__file__).parent
_HEADRACE = Path(__file__).parent.parent / "headrace"
_MODULES = {
    "application-autoscaling": "applicationautoscaling",
    "servicecatalog-appregistry": "servicecatalogappregistry",
    "cognito-idp": "cognitoidp",
    "cognito-identity": "cognitoidentity",
    "resource-groups": "resourcegroups",
    "timestream-write": "timestreamwrite",
}
# Services that headrace answers itself, or whose module hands requests on to another one.
_LEFT_OUT = frozenset({"emr", "es", "kinesis", "lambda", "redshift-serverless", "s3"})
# Services of which all resource types are code.
_CODED = frozenset({"dynamodb"})
# What operations that keep something begin with.
_KEEPS = ("Create", "Put", "Update", "Modify", "Set", "Register", "Request", "Run", "Start")
_WHOLE = re.compile(
    r"json\.loads\(self\.body\)|self\._get_params\(\)|self\.params\b|self\.parameters\b|xmltodict"
)


def text() -> str:
    """Return the expected text of the file."""
    dropped: dict[str, dict[str, list[str]]] = {}
    for service, operation in sorted(_calls()):
        members = _dropped(service, operation)
        if members:
            dropped.setdefault(service, {})[operation] = members
    return json.dumps(dropped, indent=0, sort_keys=True) + "\n"


def _calls() -> set[tuple[str, str]]:
    called = {
        (declared.service, call.operation)
        for declared in list_declared_types().values()
        for call in (*declared.create, *declared.update)
    }
    services = {service for service, _ in called} | _CODED
    kept = {
        (service, operation)
        for service in services
        for operation in service_model(service).operation_names
        if operation.startswith(_KEEPS)
    }
    return {call for call in called | kept if call[0] not in _LEFT_OUT}


def _dropped(service: str, operation: str) -> list[str]:
    functions = _functions(service).get(xform_name(operation), [])
    shape = input_of(service, operation)
    if shape is None or not functions or any(map(_takes_whole, functions)):
        return []
    words, body = _words(service), shape.serialization.get("payload")
    method = xform_name(operation)
    once = repeated_tokens.CALLS.get(_module_of(service), ())
    tokens = [call.token for call in once if call.method == method]
    return [
        name
        for name, member in shape.members.items()
        # A member that is the whole body has no name on the wire; of others, it may differ from the model's.
        if name != body
        and name not in tokens
        and _plain(name) not in words
        and _plain(str(member.serialization.get("name", name))) not in words
    ]


@functools.cache
def _functions(service: str) -> dict[str, list[ast.FunctionDef]]:
    """Return the functions of a service's responses, in moto and in headrace's patches, by their names."""
    functions: dict[str, list[ast.FunctionDef]] = {}
    for path in _files(service):
        if "responses" in path.as_posix():
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    functions.setdefault(node.name, []).append(node)
    return functions


def _takes_whole(function: ast.FunctionDef) -> bool:
    """Whether a function hands the whole request on, so that members may be kept without their names."""
    whole = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _WHOLE.search(ast.unparse(node.value))
        for target in node.targets
        if isinstance(target, ast.Name) and "[" not in ast.unparse(node.value)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            is_name = isinstance(value, ast.Name) and value.id in whole
            if is_name or _WHOLE.fullmatch(ast.unparse(value)):
                return True
    return False


@functools.cache
def _words(service: str) -> frozenset[str]:
    """Return every word of a service's sources, in lower case and without what divides it."""
    texts = [path.read_text() for path in _files(service)]
    return frozenset(
        _plain(word) for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_-]*", text)
    )


def _module_of(service: str) -> str:
    return _MODULES.get(service, service.replace("-", ""))


def _files(service: str) -> list[Path]:
    module = _module_of(service)
    patches = _HEADRACE / "moto" / "patches"
    room = _HEADRACE / "services"
    # Of tokens, those files' names are those of their own few services.
    shared = (path for path in patches.glob("*.py") if not path.stem.endswith("_tokens"))
    own = [*room.glob(f"{module}.py"), *(room / module).rglob("*.py"), *shared]
    return [*(_MOTO / module).rglob("*.py"), *own]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with --check compare it."""
    written = text()
    if "--check" in arguments:
        return 0 if DROPPED_FILE.read_text() == written else 1
    DROPPED_FILE.write_text(written)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
