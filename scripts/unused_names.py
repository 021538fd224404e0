"""Lists the names that the code defines and nothing uses; exits 1 when there is one.

    python -m scripts.unused_names

A function, class or constant of a module is used when its own module reads it or another file imports it; the same name
elsewhere does not count. A method or a field is used when any file reads an attribute of that name, or has the name as
a string. A decorator uses the function that it decorates, a library uses the methods of subclasses of its classes, and
Java uses names in camel case.
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
# Generated shapes, which are never trimmed to the used ones; and files that run elsewhere.
NOT_READ = re.compile(
    "headrace/aws/shapes/|headrace/services/cloudformation/resources/inline/|scripts/strangers/"
)
# Replacements of parts of moto have moto's names.
ON_MOTO = (
    "apigateway cloudwatch dynamodb events glue iam iot kinesisanalyticsv2 logs opensearch pipes redshift scheduler sns"
    " sqs ssm stepfunctions"
)
AS_MOTO_NAMES = ("headrace/moto/", *(f"headrace/services/{room}/" for room in ON_MOTO.split()))
OWN = ("headrace", "scripts", "cdk", "lambdas", "spark_jobs", "tests")
# These decorators change a function, but do not register it as used.
PLAIN_DECORATORS = {"cache", "contextmanager", "dataclass", "lru_cache", "property"}
CALLBACK_OF_HTTPTOOLS = re.compile(
    r"on_(url|header|headers_complete|body|chunk_header|message_(begin|complete))"
)
CAMEL_CASE = re.compile(r"[a-z]+[A-Z]\w*")
# Names that code looks up by their text, and the code that does.
LOOKED_UP = {
    "answer": "headrace.core.evaluation.child",
    "feed": "python -c",
    "query": "python -c",
    "DECLARED": "headrace.services.cloudformation.resources.types",
    "READINGS": "headrace.services.cloudformation.resources.types",
    "TYPES": "headrace.services.cloudformation.resources",
    "NEEDS_SPARK": "scripts.spark_matrix",
    "DefaultSource": "Spark",
    "ProcessExecutor": "LocalStack",
    "ProcessExecutorPlugin": "LocalStack",
    "_send_request": "botocore",
    "_load_file": "botocore",
    "get_remaining_time_in_millis": "functions",
    "handler": "Lambda",
    "try_bundle": "jsii",
    "main": "python -c, and the console scripts of pyproject.toml",
    "collect_ignore": "pytest",
    "pytestmark": "pytest",
    "pytest_plugins": "pytest",
}


@dataclass(slots=True)
class Source:
    """A file: its imports by local name, and the names that it reads."""

    path: str
    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict[str, str])
    names: set[str] = field(default_factory=set[str])
    attributes: set[str] = field(default_factory=set[str])
    texts: set[str] = field(default_factory=set[str])
    by_position: set[str] = field(default_factory=set[str])
    # Dotted paths from an imported name, such as `headrace.core.clock.Clock`.
    dotted: set[str] = field(default_factory=set[str])

    @property
    def module(self) -> str:
        """The file as Python imports it."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def read(path: str, text: str) -> Source:
    """Return a file's imports and the names that it reads. Raises SyntaxError."""
    source = Source(path, ast.parse(text))
    folder = path.rpartition("/")[0].replace("/", ".")
    read_dotted: list[tuple[str, str]] = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                source.names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Load()):
                source.attributes.add(name)
                if isinstance(node.value, ast.Name):
                    read_dotted.append((node.value.id, name))
            case ast.Constant(value=str(words)) if len(words) < 200:
                source.texts.update(words.replace(".", " ").replace("[", " ").split())
            case ast.ImportFrom(module=module, names=aliases):
                for alias in aliases:
                    source.imported[alias.asname or alias.name] = f"{module}.{alias.name}"
                    source.dotted.add(f"{module}.{alias.name}")
                    # A Lambda function's files import each other by their bare names.
                    source.dotted.add(f"{folder}.{module}.{alias.name}")
            case ast.Import(names=aliases):
                for alias in aliases:
                    source.imported[alias.asname or alias.name] = alias.name
            case ast.MatchClass(cls=cls, patterns=patterns, kwd_attrs=attributes):
                source.attributes.update(attributes)
                if patterns:
                    source.by_position.add(ast.unparse(cls))
            case ast.arg(arg=name):
                # pytest's fixtures are read as parameters.
                source.names.add(name)
            case _:
                pass
    source.dotted |= {f"{source.imported.get(first, first)}.{name}" for first, name in read_dotted}
    return source


def unused(sources: list[Source]) -> Iterator[str]:
    """Yield a line for each name that none of the files uses."""
    by_position = set[str]().union(*(source.by_position for source in sources))
    dotted = set[str]().union(*(source.dotted for source in sources))
    read_by_text = set[str]().union(*(source.texts for source in sources))
    attributes = read_by_text.union(*(source.attributes for source in sources))
    # `getattr(self, f"_describe_{kind}")`
    beginnings = tuple(text for text in read_by_text if len(text) > 4 and text.endswith("_"))
    for source in sources:
        for line, name in _of_module(source):
            if name not in source.names and f"{source.module}.{name}" not in dotted:
                yield f"{source.path}:{line}: {name}"
        for line, owner, name in _of_classes(source, by_position):
            if name not in attributes and not name.startswith(beginnings):
                yield f"{source.path}:{line}: {owner}.{name}"


def _of_module(source: Source) -> Iterator[tuple[int, str]]:
    for node in source.tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_handed_over(node):
                continue
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                found = [name]
            case ast.Assign(targets=targets):
                found = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                found = [name]
            case _:
                continue
        yield from ((node.lineno, name) for name in found if not _is_outside(name))


def _of_classes(source: Source, by_position: set[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the methods and fields of the file's classes that no library calls and no pattern reads by position."""
    for node in source.tree.body:
        if not isinstance(node, ast.ClassDef) or not all(
            _is_own(base, source) for base in node.bases
        ):
            continue
        for member in node.body:
            match member:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    is_of_moto = source.path.startswith(AS_MOTO_NAMES)
                    if not (is_of_moto or _is_handed_over(member) or _is_outside(name)):
                        yield member.lineno, node.name, name
                case ast.AnnAssign(target=ast.Name(id=name)) if node.name not in by_position:
                    yield member.lineno, node.name, name
                case _:
                    pass


def _is_own(base: ast.expr, source: Source) -> bool:
    first = ast.unparse(base).split("[")[0].split(".")[0]
    return source.imported.get(first, "headrace").split(".")[0] in OWN


def _is_handed_over(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [ast.unparse(each).split("(")[0].split(".")[-1] for each in node.decorator_list]
    return any(name not in PLAIN_DECORATORS for name in names)


def _is_outside(name: str) -> bool:
    """Whether Python, a library or a look-up by text uses a name."""
    return (
        name in LOOKED_UP
        or name.startswith(("__", "test", "Test", "pytest_"))
        or CALLBACK_OF_HTTPTOOLS.fullmatch(name) is not None
        or CAMEL_CASE.fullmatch(name) is not None
    )


def main() -> int:
    """Print the names that nothing uses."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    # Git also lists deleted files, and lists a file in conflict several times.
    paths = [
        path
        for path in sorted(set(listed.stdout.split()))
        if NOT_READ.match(path) is None and (REPOSITORY / path).is_file()
    ]
    # Syntax trees have no cycles: to search for cycles would take twice the time of everything else.
    gc.disable()
    found = list(unused([read(path, (REPOSITORY / path).read_text()) for path in paths]))
    for line in found:
        print(f"{line} is not used", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
