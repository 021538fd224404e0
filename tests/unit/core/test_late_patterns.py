"""A late pattern is compiled when it is used, and does what the standard library's does."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import headrace
from headrace.core.late_patterns import late_compile


def late(text: Any, flags: int = 0) -> Any:
    """Return what a module of headrace gets."""
    names: dict[str, Any] = {"__name__": "headrace.some", "compile": late_compile}
    return eval("compile(text, flags)", {**names, "text": text, "flags": flags})


def test_does_what_a_pattern_does() -> None:
    for text, flags, on in ((r"(a)(?P<b>b*)", 0, "abb a"), (rb"\w+", re.ASCII, b"a b")):
        pattern, standard = late(text, flags), re.compile(text, flags)
        assert pattern.findall(on) == standard.findall(on)
        assert pattern.search(on)[0] == standard.search(on)[0]  # pyrefly: ignore
        assert pattern.fullmatch(on) == standard.fullmatch(on)
        assert (pattern.pattern, pattern.flags) == (standard.pattern, standard.flags)
        assert (pattern.groups, pattern.groupindex) == (standard.groups, standard.groupindex)
        assert repr(pattern) == repr(standard)
        assert pickle.loads(pickle.dumps(pattern)) == standard


def test_other_packages_get_patterns() -> None:
    assert isinstance(late_compile("a"), re.Pattern)
    assert late(standard := re.compile("a")) is standard


def test_a_cloud_starts_with_late_ones() -> None:
    program = (
        "import re\n"
        "from headrace.store.memory import import_to_stay; import_to_stay('headrace.cloud')\n"
        "from headrace.aws.signatures import credential_scopes\n"
        "late = [x for x in vars(credential_scopes).values() if type(x).__name__ == '_LatePattern']\n"
        "assert late and '_compiled' not in vars(late[0]), late\n"
        "assert re.compile.__module__ == 're'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_module_gives_its_pattern_to_a_function_of_re() -> None:
    """They take the standard library's only: a method does the same."""
    for path in Path(headrace.__file__).parent.rglob("*.py"):
        source = path.read_text()
        if "re.compile(" not in source:
            continue
        nodes = list(ast.walk(ast.parse(source)))
        compiled = {
            ast.unparse(target)
            for node in nodes
            if isinstance(node, ast.Assign) and _function_of_re(node.value) == "compile"
            for target in node.targets
        }
        given = {
            ast.unparse(node.args[0])
            for node in nodes
            if isinstance(node, ast.Call) and node.args and _function_of_re(node)
        }
        assert not compiled & given, path


def _function_of_re(node: ast.expr) -> str | None:
    """Return which function of `re` an expression calls, if any."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=name)):
            return name
        case _:
            return None
