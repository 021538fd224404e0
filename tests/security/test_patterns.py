"""No client's pattern, and no text, holds the cloud up.

The evil patterns are those of pattern_doors.py, and fifteen random ones with nested repeats (seed 11).
"""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import moto
import pytest

import headrace
from headrace.core.event_patterns.compiling import TOO_COMPLEX
from headrace.services.events.targets import InputTooLarge, fill_template
from tests.security.child import rows_of
from tests.security.moto_patterns import REVIEWED
from tests.security.pattern_doors import DOORS, TEXT

# A door answers in fractions of a second; an evil pattern takes a backtracking engine longer than the sun has. Of
# processor time, so that other work beside the tests does not count; the deadline only ends what has frozen.
DEADLINE_S = 300
MOST_SECONDS_A_DOOR = 20


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Open every door in another process, which is killed when none answers for minutes."""
    folder = tmp_path_factory.mktemp("doors")
    rows = rows_of("tests.security.pattern_doors", folder, silent_s=DEADLINE_S)
    return {row["door"]: row for row in rows if "door" in row}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_answers_whatever_the_pattern(answered: dict[str, dict[str, Any]], door: str):
    assert door in answered, "it froze, or one before it did"
    assert answered[door]["seconds"] < MOST_SECONDS_A_DOOR


@pytest.mark.parametrize(
    ("door", "said"),
    [
        ("cloudformation_allowed_pattern", "must match pattern (a+)+$"),
        ("cloudformation_many_slow_patterns", "cannot be held against its AllowedPattern in time"),
        ("api_gateway_yaml", "Unable to parse API definition: the document has more than 200000"),
        ("ssm_documents", "The content for the document is not valid."),
        ("eventbridge_wildcards", f"Event pattern is not valid. Reason: {TOO_COMPLEX}"),
        ("eventbridge_json_paths", TEXT),
        ("eventbridge_patterns_that_nest", "Event pattern is not valid. Reason: Filter is nested"),
        ("ssm_allowed_pattern", "cannot be validated against allowedPattern: (a+)+$"),
        ("lambda_event_filters", "Rule is too complex"),
        ("step_functions_paths", "[True, True, False]"),
    ],
)
def test_what_a_door_says(answered: dict[str, dict[str, Any]], door: str, said: str):
    assert said in answered[door]["said"]


def test_an_input_template_is_filled_once():
    paths = {"a": "$.a", "b": "$.b"}
    assert fill_template("<a> <x> <b>", paths, {"a": "<b>", "b": "2"}, {}) == "<b> <x> 2"
    with pytest.raises(InputTooLarge, match="larger than 262144 bytes"):
        fill_template("<a>" * 2000, paths, {"a": "x" * 1000}, {})


# --- what makes regular expressions -----------------------------------------------------------

_MODULES = ("re", "regex", "re2", "fnmatch", "glob")
_MAKING = {
    *("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"),
    *("fnmatch", "fnmatchcase", "filter", "translate", "template"),
}
# Libraries' own ways to regular expressions.
_ELSEWHERE = {"match_substring_regex", "replace_substring_regex", "extract_regex", "rlike"}
_TELLING = (*(f"{how} {name}" for how in ("import", "from") for name in _MODULES), *_ELSEWHERE)


def _is_constant(node: ast.expr) -> bool:
    """Whether a pattern is written out in the source: a literal, or one with constants of the module in it."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(name):
            return name.isupper()
        case ast.BinOp(left, ast.Add(), right):
            return _is_constant(left) and _is_constant(right)
        case ast.JoinedStr(values):
            return all(_is_constant(value) for value in values)
        case ast.FormattedValue(value):
            return _is_constant(value)
        case _:
            return False


def _makers(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield (the function's qualified name, the call) of each call that makes or uses a regular expression."""
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in _MODULES
    }
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in _MODULES
        for alias in node.names
        if alias.name in _MAKING
    }

    def walk(node: ast.AST, where: str) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            inside = where
            if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                inside = f"{where}.{child.name}" if where else child.name
            if isinstance(child, ast.Call):
                function = child.func
                if isinstance(function, ast.Attribute):
                    of = function.value
                    known = isinstance(of, ast.Name) and of.id in names
                    if (known and function.attr in _MAKING) or function.attr in _ELSEWHERE:
                        yield where, child
                elif isinstance(function, ast.Name) and function.id in imported:
                    yield where, child
            yield from walk(child, inside)

    yield from walk(tree, "")


def _pattern(call: ast.Call) -> ast.expr | None:
    function = call.func
    of = function.value if isinstance(function, ast.Attribute) else None
    second = (
        isinstance(of, ast.Name)
        and of.id == "fnmatch"
        and ast.unparse(function) != "fnmatch.translate"
    )
    if len(call.args) > second:
        return call.args[second]
    return next((word.value for word in call.keywords if word.arg in ("pattern", "pat")), None)


@functools.cache
def _calls_below(root: Path) -> list[tuple[str, str, ast.Call]]:
    """Return (the file, the function, the call) of each call in a folder that makes or uses a regular expression."""
    found: list[tuple[str, str, ast.Call]] = []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text()
        if any(word in source for word in _TELLING):  # of a thousand files few
            file = path.relative_to(root).as_posix()
            found += [(file, where, call) for where, call in _makers(ast.parse(source))]
    return found


def _made_from_text(root: Path) -> dict[str, list[str]]:
    """Return where patterns are made that do not stand in the source: `file function` to the calls."""
    found: dict[str, list[str]] = {}
    for file, where, call in _calls_below(root):
        pattern = _pattern(call)
        if pattern is None or not _is_constant(pattern):
            if len(file) > 75:  # a line's length
                file = f"{file[:34]}/.../{file.rpartition('/')[2]}"
            found.setdefault(f"{file} {where or '<module>'}", []).append(ast.unparse(call))
    return found


ALLOWED = {
    "agent/kinesis_agent.py _Reader.one_flow": "a file name's pattern in the agent's own configuration",
    "core/patterns.py _compile": "one set of characters, some times over",
    "core/patterns.py _program": "RE2, which is linear",
    "core/patterns.py _compile_timed": "under a deadline",
    "aws/server/usual_request.py _cut_of": "known names, escaped; a line each, whose value never gives back",
    "aws/signatures/credential_scopes.py ServiceNames.add": "the paths in our own profiles",
    "services/stepfunctions/jsonata_child.py _engine": "a process of its own, ended after five seconds",
    "services/apigateway/rest_stages.py <module>": "the paths of a stage's settings, which stand in the file",
    "services/lambda_/runtime/channel.py <module>": "the path of the runtime's own API, which stands in the file",
    "services/iam/entities.py <module>": "moto's sentences, which stand in the file",
    "moto/storage/shells.py _compile": "patterns of the state that the cloud itself wrote",
    "moto/patches/codebuild.py check_by_model.check_name": "the name's pattern in AWS's model: one set of characters",
    "moto/requests/preparation.py _import_url_table": "moto's own table of URLs",
    "permissions/requests/table.py _resource_type": "the forms of ARNs in our own table",
    "services/firehose/serde.py _build_expression": "each part once, so the work on a text is bounded",
    "sql/values.py check_constants": "RE2, which is linear; of a query's own writer",
    "sql/functions.py _replace": "RE2, which is linear; of a query's own writer",
    "sql/functions.py _extract": "RE2, which is linear; of a query's own writer",
    "sql/functions_text.py _matches": "RE2, which is linear; of a query's own writer",
    "sql/functions_text.py _split_by": "RE2, which is linear; of a query's own writer",
    "sql/parsing.py _tables": "the grammar's own terminals",
    "sql/parsing.py <module>": "the names of our own table",
    "sql/values.py _like": "RE2, which is linear; of a query's own writer",
    "sql/log_parsing.py parse_log": "RE2, which is linear; of a query's own writer",
    "sql/conversions.py _reader": "each part once, of a known length",
    "sql/kinesis_analytics.py _bind": "a name, escaped",
    "spark/option_table.py page_with_tables": "marks in our own documentation",
}


def test_only_the_guarded_way_makes_patterns_of_text():
    found = _made_from_text(Path(headrace.__file__).parent)
    unknown = {where: calls for where, calls in found.items() if where not in ALLOWED}
    assert unknown == {}, "match clients' text with headrace.core.patterns"
    assert set(ALLOWED) <= set(found), "the list has entries that are no more"


@pytest.mark.slow
def test_every_place_where_moto_makes_a_pattern_was_looked_at():
    found = _made_from_text(Path(moto.__file__).parent)
    assert sorted(set(found) - set(REVIEWED)) == [], "look at it, and replace it in its room"


# --- our own patterns -------------------------------------------------------------------------


def _own_patterns() -> list[str]:
    """Return the patterns in headrace's source that Python's `re` takes."""
    found: set[str] = set()
    for _, _, call in _calls_below(Path(headrace.__file__).parent):
        pattern = _pattern(call)
        value = pattern.value if isinstance(pattern, ast.Constant) else None
        if isinstance(value, str | bytes):
            found.add(value.decode("latin-1") if isinstance(value, bytes) else value)
    return sorted(found)


def _seconds(patterns: list[str], deadline_s: float) -> list[float]:
    """Return the seconds that the worst text took each pattern, up to the first that took for ever."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.security.pump"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watch = threading.Timer(deadline_s, child.kill)
    watch.start()
    told, _ = child.communicate("".join(json.dumps(pattern) + "\n" for pattern in patterns))
    watch.cancel()
    return [json.loads(line) for line in told.splitlines()]


def test_the_attack_finds_a_pattern_that_takes_for_ever():
    # S3's hosts, until now.
    slow = r"(?:(.+)\.)?s3(?:[.-][a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?"
    assert len(_seconds(["[a-z]+", slow], 2)) == 1


def test_no_pattern_of_ours_is_slow():
    patterns = _own_patterns()
    assert len(patterns) > 40
    seconds = _seconds(patterns, 120)
    assert len(seconds) == len(patterns), f"{patterns[len(seconds)]} takes for ever"
    # Six thousand characters: less than a millisecond when the time grows with the text, and a tenth of a second when
    # some times with its square.
    slow = {p: s for p, s in zip(patterns, seconds, strict=True) if s > 0.1}
    assert slow == {}
