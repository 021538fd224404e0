"""Writes headrace/aws/shapes/<service>.pyi: TypedDicts of implemented operations' inputs, and of imported shapes.

Run it when the imported shapes or botocore's version change: `python -m scripts.generate_shapes`.
With --check it names the stale files and exits 1.
"""

from __future__ import annotations

import ast
import functools
import keyword
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from botocore.model import ListShape, MapShape, ServiceModel, Shape, StructureShape

from headrace.aws.calls.operation import operation_model, operation_name, service_model
from headrace.aws.shapes import MODULES

PACKAGE = Path(__file__).parent.parent / "headrace"
FOLDER = PACKAGE / "aws" / "shapes"
SHAPES = "headrace.aws.shapes"
SCALARS = {
    "string": "str",
    "character": "str",
    "integer": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "boolean": "bool",
    "blob": "bytes",
    "timestamp": "datetime",
}
# What the annotations take from the standard library.
LIBRARIES = {"datetime": ("datetime",), "typing": ("Any", "NotRequired", "TypedDict")}


def annotation(shape: Shape) -> str:
    """Return the annotation of a member of this shape."""
    if isinstance(shape, StructureShape):
        return f'"{shape.name}"' if shape.members else "dict[str, Any]"
    if isinstance(shape, ListShape):
        return f"list[{annotation(shape.member)}]"
    if isinstance(shape, MapShape):
        return f"dict[str, {annotation(shape.value)}]"
    return SCALARS[shape.type_name]


def typed_dict(name: str, shape: StructureShape) -> str:
    """Return the source of one TypedDict. Exits when a member's name cannot be written in a class."""
    if not shape.members:
        return f"class {name}(TypedDict): ...\n"
    required = set(shape.required_members)
    rows: list[str] = []
    for member, value in shape.members.items():
        if not member.isidentifier() or keyword.iskeyword(member) or member.startswith("__"):
            raise SystemExit(f"{name} has a member that is no name in Python: {member}")
        text = annotation(value)
        is_open = required and member not in required
        rows.append(f"    {member}: " + (f"NotRequired[{text}]" if is_open else text))
    head = f"class {name}(TypedDict{'' if required else ', total=False'}):"
    return "\n".join([head, *rows, ""])


def structures(model: ServiceModel) -> dict[str, StructureShape]:
    """Return the structures to write: all, and `<Operation>Input` and `Output` if the model names them otherwise."""
    structure_shapes: dict[str, StructureShape] = {}
    for name in model.shape_names:
        shape = model.shape_for(name)
        if isinstance(shape, StructureShape) and not shape.metadata.get("exception"):
            structure_shapes[name] = shape
    for name in model.operation_names:
        operation = model.operation_model(name)
        for suffix, shape in (("Input", operation.input_shape), ("Output", operation.output_shape)):
            if isinstance(shape, StructureShape):
                structure_shapes.setdefault(f"{name}{suffix}", shape)
    return structure_shapes


def imported(module: str) -> set[str]:
    """Return the names that the package imports from `headrace.aws.shapes.<module>`."""
    ways = (f"from {SHAPES}.{module} import ", f"from {SHAPES} import ")
    trees = (tree for text, tree in _importers() if any(way in text for way in ways))
    return {name for tree in trees for name in _taken(tree, module)}


@functools.cache
def _importers() -> list[tuple[str, ast.Module]]:
    """Return the package's modules that import any shapes, as texts and as trees."""
    texts = (path.read_text() for path in PACKAGE.rglob("*.py") if FOLDER not in path.parents)
    return [(text, ast.parse(text)) for text in texts if SHAPES in text]


def _taken(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield the names that one module imports, or reaches through `from headrace.aws.shapes import <module> as ...`."""
    aliases: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == f"{SHAPES}.{module}":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == SHAPES:
            aliases.update(a.asname or a.name for a in node.names if a.name == module)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(name), attribute) if name in aliases:
                yield attribute
            case _:
                pass


def inputs(service: str, module: str, names: set[str]) -> set[str]:
    """Return the inputs of the implemented operations that are not in `names`, what the package imports.

    `newer_parameters` compares every input with later botocores, by either of its names.
    """
    built = map(operation_name, import_module(f"headrace.services.{module}.actions").ACTIONS)
    shapes = {f"{name}Input": operation_model(service, name).input_shape for name in built}
    return {name for name, shape in shapes.items() if shape and shape.name not in names}


def with_members(names: Iterable[str], known: dict[str, StructureShape]) -> set[str]:
    """Return these names and the names of all structures inside them. Exits when a structure does not exist."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        if name not in known:
            raise SystemExit(f"there is no structure {name}")
        found.add(name)
        for member in known[name].members.values():
            left.extend(_structures_in(member))
    return found


def _structures_in(shape: Shape) -> list[str]:
    if isinstance(shape, StructureShape):
        return [shape.name] if shape.members else []
    if isinstance(shape, ListShape):
        return _structures_in(shape.member)
    if isinstance(shape, MapShape):
        return _structures_in(shape.value)
    return []


def source(service: str, names: Iterable[str]) -> str:
    """Return the module's text for `service`: the structures `names` and the structures inside them."""
    known = structures(service_model(service))
    wanted = with_members(names, known)
    classes = [typed_dict(name, known[name]) for name in sorted(wanted)]
    imports = [
        f"from {module} import {', '.join(used)}\n"
        for module, names in LIBRARIES.items()
        if (used := [name for name in names if any(re.search(rf"\b{name}\b", c) for c in classes)])
    ]
    about = (
        f"Inputs and outputs of {service}, generated by scripts/generate_shapes.py. Do not edit."
    )
    return "\n".join([f'"""{about}"""\n', "".join(imports), *classes])


def main() -> int:
    """Write or check every module."""
    check = "--check" in sys.argv
    stale: list[str] = []
    for service, module in MODULES.items():
        path = FOLDER / f"{module}.pyi"
        names = imported(module)
        names |= inputs(service, module, names)
        text = source(service, names) if names else ""
        if (path.read_text() if path.exists() else "") == text:
            continue
        stale.append(module)
        if check:
            continue
        if text:
            path.write_text(text)
        else:
            path.unlink()
    if stale:
        sys.stdout.write(f"{'stale' if check else 'wrote'}: {', '.join(stale)}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
