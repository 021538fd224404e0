"""Writes `moto_classes.txt`: the classes of moto that its stored state may have, and the methods that it refers to.

Run it when moto's version changes (`python -m scripts.stored_classes`); `--check` says whether it is up to date. A
name that a new version of moto no longer has stays in the list only while old data directories may name it: the
classes of `RENAMED`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Services that headrace has itself, and moto's machinery.
_NOT_STORED = {
    "awslambda", "awslambda_simple", "batch_simple", "cloudformation", "core", "dynamodb_v20111205", "emr",
    "firehose", "instance_metadata", "kinesis", "moto_api", "moto_proxy", "moto_server", "packages", "s3",
    "s3bucket_path", "s3control",
}  # fmt: skip
# Where objects keep methods of their own, as filters or for tags.
_WITH_METHODS = ("moto.amp.models", "moto.ec2.models.security_groups")
_NOT_MODULES = ("responses", "urls", "exceptions", "parser", "parsing", "server", "mock_client")
# Of the machinery, what services keep.
_ALSO = {
    "moto.core.model": {"ServiceModel", "ShapeResolver"},
    # The user data of an EC2 instance.
    "moto.core.types": {"Base64EncodedString"},
    # Other services ask it for buckets, so that it exists, empty.
    "moto.s3.models": {"S3Backend"},
    "moto.utilities.tagging_service": {"TaggingService"},
    "moto.utilities.utils": {"CaseInsensitiveDict", "LowercaseDict"},
}


def target() -> Path:
    """Return the file."""
    import headrace.moto.storage as kept

    return Path(str(kept.__file__)).with_name("moto_classes.txt")


def listing() -> str:
    """Return the file's text."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for kind in _classes():
        names[kind.__module__].add(kind.__qualname__)
        if kind.__module__ in _WITH_METHODS:
            names[kind.__module__] |= {f"{kind.__qualname__}.{name}" for name in _referred(kind)}
    for module, some in _ALSO.items():
        names[module] |= some
    lines = [f"{module} {' '.join(sorted(some))}" for module, some in sorted(names.items())]
    head = "# Written by scripts/stored_classes.py: a module of moto, and what its stored state may name of it."
    return "\n".join([head, *lines, ""])


def _classes() -> Iterator[type]:
    from moto.backends import list_of_moto_modules
    from moto.core.responses import BaseResponse

    for service in sorted({*list_of_moto_modules()} - _NOT_STORED):
        folder = Path(str(importlib.import_module(f"moto.{service}").__file__)).parent
        for file in sorted(folder.rglob("*.py")):
            name = ".".join(file.relative_to(folder.parents[1]).with_suffix("").parts)
            name = name.removesuffix(".__init__")
            parts = name.split(".")[2:]
            # Step Functions keeps its records below its parser.
            is_record = name.startswith("moto.stepfunctions.parser.backend.")
            if not is_record and any(part in _NOT_MODULES for part in parts):
                continue
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            for value in vars(module).values():
                is_own = isinstance(value, type) and value.__module__ == name
                if is_own and not issubclass(value, BaseResponse | BaseException | type):
                    yield value


def _referred(kind: type) -> Iterator[str]:
    """Yield the methods that a class takes from itself without calling them: some end up in its attributes."""
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        return
    methods = {name for name, value in vars(kind).items() if inspect.isfunction(value)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    nodes: Any = ast.walk(tree)
    for node in nodes:
        value: Any = getattr(node, "value", None)
        is_own = isinstance(node, ast.Attribute) and isinstance(value, ast.Name)
        if is_own and value.id == "self" and node.attr in methods and id(node) not in called:
            yield node.attr


def main() -> int:
    """Write the file, or check it."""
    warnings.simplefilter("ignore")
    text = listing()
    if "--check" in sys.argv:
        return 0 if target().read_text() == text else 1
    target().write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
