"""Validates requests against the constraints of botocore's model, in AWS's sentences.

botocore's own ParamValidator ignores maxima, patterns and enums, and has sentences of its own; AWS answers `1
validation error detected: Value 'x' at 'streamName' failed to satisfy constraint: ...`. The model is an upper bound: a
service's quotas live in its `errors.py`. Compiled once per operation; thread-safe. Evidence: sentences observed by
kinesalite and documented across AWS's forums (assumed to be one wording for all services that share AWS's framework).
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_model
from headrace.core.patterns import MatchTooLong, Pattern, PatternRefused, model_pattern
from headrace.core.system_tags import are_set_now

log = logging.getLogger(__name__)

Failures = list[str]
Check = Callable[[Any, str, Failures], None]

MOST_FAILURES_LISTED = 10

_NESTED = (StructureShape, ListShape, MapShape)
_NULL = "Value null at "
_MEMBER_MUST = "Member must satisfy constraint: "


@dataclass(frozen=True, slots=True, eq=False)
class Wording:
    """How a service's validation differs from its model, and how its sentences differ from other services'.

    Attributes:
        shapes: constraints (`min`, `max`, `pattern`, `enum`) in place of the model's, by the name of a shape, or of an
            operation and a shape (`GetFunction.FunctionName`); None removes a constraint. `shown` is the text in the
            sentence about a pattern or an enum, when that is not the pattern or not all values.
        never_null: lists and maps whose sentences say that their items must not be null.
        first: members of structures whose failures come before those of the others.
        bare: lists whose sentences show the constraint of their items without brackets.
        hidden: members of a request of whose values, and of what is in them, the sentences show nothing.
        shows_whole: the sentences show complete lists and maps of plain values, as those of REST protocols do.
    """

    shapes: Mapping[str, Mapping[str, Any]]
    never_null: frozenset[str] = field(default_factory=frozenset[str])
    first: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    bare: frozenset[str] = field(default_factory=frozenset[str])
    hidden: frozenset[str] = field(default_factory=frozenset[str])
    shows_whole: bool = True

    def hide(self, failure: str) -> str:
        """Return a failure's sentence, without the value when that is hidden."""
        before, _, after = failure.rpartition("' at '")
        path = re.split(r"[.']", after)[0]
        return f"Value at '{after}" if before and path in self.hidden else failure


def validate(
    service: str,
    operation: str,
    params: Mapping[str, Any],
    *,
    code: str = "ValidationException",
    wording: Wording | None = None,
) -> None:
    """Raise AwsError with AWS's sentence when `params` break the model's constraints.

    With `wording`, sentences show complete lists and maps of plain values unless `shows_whole` is false.
    """
    check = _compile_check(service, operation, wording)
    if check is None:
        return
    failures: Failures = []
    check(params, "", failures)
    if failures:
        raise AwsError(code, sentence([wording.hide(f) for f in failures] if wording else failures))


def find_missing_member(service: str, operation: str, params: Mapping[str, Any]) -> str:
    """Return AWS's sentence about `params` when a required member is not there; empty when all are.

    As on AWS, the sentence also reports the other failures.
    """
    check = _compile_check(service, operation, None)
    if check is None:
        return ""
    failures: Failures = []
    check(params, "", failures)
    return sentence(failures) if any(failure.startswith(_NULL) for failure in failures) else ""


def sentence(failures: Sequence[str]) -> str:
    """Return AWS's sentence for one or several failures."""
    count = len(failures)
    noun = "error" if count == 1 else "errors"
    return f"{count} validation {noun} detected: {'; '.join(failures[:MOST_FAILURES_LISTED])}"


@functools.cache
def _compile_check(service: str, operation: str, wording: Wording | None) -> Check | None:
    shape = operation_model(service, operation).input_shape
    return None if shape is None else _Compiler(operation, wording).compile(shape)


def _lower_first(name: str) -> str:
    return name[:1].lower() + name[1:]


def _fail(value: Any, path: str, constraint: str) -> str:
    shown = "null" if value is None else f"'{_show(value)}'"
    return f"Value {shown} at '{path}' failed to satisfy constraint: {constraint}"


def _show(value: Any) -> str:
    if isinstance(value, bytes):
        return f"java.nio.HeapByteBuffer[pos=0 lim={len(value)} cap={len(value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_show(item) for item in cast("list[Any]", value)[:10]) + "]"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{" + ", ".join(f"{key}={_show(item)}" for key, item in list(pairs)[:10]) + "}"
    return str(value)


class _Compiler:
    """Compiles a shape into a check, or None for a shape that has no constraints."""

    def __init__(self, operation: str, wording: Wording | None) -> None:
        self._operation = operation
        self._wording = wording
        self._whole = wording if wording is not None and wording.shows_whole else None
        self._open: dict[str, list[tuple[str, Check]]] = {}

    def compile(self, shape: Shape) -> Check | None:
        if isinstance(shape, StructureShape):
            return self._structure(shape)
        if isinstance(shape, ListShape):
            if self._whole is not None and not isinstance(shape.member, _NESTED):
                return self._whole_list(shape, self._whole)
            return self._list(shape)
        if isinstance(shape, MapShape):
            if self._whole is not None and not isinstance(shape.value, _NESTED):
                return self._whole_map(shape, self._whole)
            return self._map(shape)
        return _scalar(shape, self._constraints(shape))

    def _in_order(self, shape: StructureShape) -> list[str]:
        first = self._wording.first.get(shape.name, ()) if self._wording is not None else ()
        return sorted(shape.members, key=lambda name: name not in first)

    def _constraints(self, shape: Shape) -> Mapping[str, Any]:
        if self._wording is None:
            return shape.metadata
        others = self._wording.shapes
        own = others.get(f"{self._operation}.{shape.name}", others.get(shape.name, {}))
        return {**shape.metadata, **own}

    def _structure(self, shape: StructureShape) -> Check | None:
        required = frozenset(shape.required_members)
        if shape.name in self._open:
            # A recursive shape: a caller is compiling its checks, which exist at run time.
            checks = self._open[shape.name]
        else:
            checks = self._open[shape.name] = []
            for name in self._in_order(shape):
                check = self.compile(shape.members[name])
                if check is not None:
                    checks.append((name, check))
        ordered_required = [name for name in shape.members if name in required]

        def run(value: Any, path: str, failures: Failures) -> None:
            if not isinstance(value, Mapping):
                return
            members = cast("Mapping[str, Any]", value)
            prefix = f"{path}.member." if path.rpartition(".")[2].isdigit() else path and f"{path}."
            for name in ordered_required:
                if members.get(name) is None:
                    where = prefix + _lower_first(name)
                    failures.append(_fail(None, where, "Member must not be null"))
            for name, check in checks:
                item = members.get(name)
                if item is not None:
                    check(item, prefix + _lower_first(name), failures)

        return run

    def _list(self, shape: ListShape) -> Check:
        length = _length(self._constraints(shape))
        item_check = self.compile(shape.member)

        def run(value: Any, path: str, failures: Failures) -> None:
            if length is not None:
                length(value, path, failures)
            if item_check is not None:
                for index, item in enumerate(value, 1):
                    item_check(item, f"{path}.{index}", failures)

        return run

    def _whole_list(self, shape: ListShape, wording: Wording) -> Check:
        length = _length(self._constraints(shape))
        constraints = self._constraints(shape.member)
        item_check = _scalar(shape.member, constraints)
        inside = ", ".join(
            _sentences(shape.member, constraints, never_null=shape.name in wording.never_null)
        )
        sentence_ = inside if shape.name in wording.bare else f"{_MEMBER_MUST}[{inside}]"

        def run(value: Any, path: str, failures: Failures) -> None:
            if length is not None:
                length(value, path, failures)
            failures_of_item: Failures = []
            for item in value if item_check is not None else ():
                item_check(item, path, failures_of_item)  # type: ignore[misc]
            if failures_of_item:
                failures.append(_fail(value, path, sentence_))

        return run

    def _whole_map(self, shape: MapShape, wording: Wording) -> Check:
        length = _length(self._constraints(shape))
        never_null = shape.name in wording.never_null
        sides = [
            (
                pick,
                _scalar(side, self._constraints(side)),
                self._inside(word, side, never_null=never_null),
            )
            for pick, side, word in ((0, shape.key, "Map keys"), (1, shape.value, "Map value"))
        ]

        def run(value: Any, path: str, failures: Failures) -> None:
            if length is not None:
                length(value, path, failures)
            for pick, check, constraint in sides:
                failures_of_pair: Failures = []
                for pair in value.items() if check is not None else ():
                    if pair[pick] is not None:
                        check(pair[pick], path, failures_of_pair)  # type: ignore[misc]
                if failures_of_pair:
                    failures.append(_fail(value, path, constraint))

        return run

    def _inside(self, word: str, side: Shape, *, never_null: bool) -> str:
        shown = _sentences(side, self._constraints(side), never_null=never_null)
        return f"{word} must satisfy constraint: [{', '.join(shown)}]"

    def _map(self, shape: MapShape) -> Check:
        length = _length(self._constraints(shape))
        key_check = self.compile(shape.key)
        value_check = self.compile(shape.value)

        def run(value: Any, path: str, failures: Failures) -> None:
            if length is not None:
                length(value, path, failures)
            for key, item in value.items():
                if key_check is not None:
                    _map_key(key_check, key, path, failures)
                if value_check is not None and item is not None:
                    value_check(item, f"{path}.{key}.member", failures)

        return run


def _map_key(check: Check, key: str, path: str, failures: Failures) -> None:
    failures_of_key: Failures = []
    check(key, path, failures_of_key)
    for failure in failures_of_key:
        constraint = failure.partition(" failed to satisfy constraint: ")[2]
        failures.append(
            f"Value '{key}' at '{path}' failed to satisfy constraint:"
            f" Map keys must satisfy constraint: [{constraint}]"
        )


def _bounds(constraints: Mapping[str, Any]) -> tuple[Any, Any]:
    return constraints.get("min"), constraints.get("max")


def _sentences(shape: Shape, constraints: Mapping[str, Any], *, never_null: bool) -> list[str]:
    """Return all constraints of a plain value, in AWS's words and order."""
    low, high = _bounds(constraints)
    kind = "length" if shape.type_name in ("string", "blob") else "value"
    shown: list[str] = []
    if high is not None:
        shown.append(f"Member must have {kind} less than or equal to {high}")
    if low is not None:
        shown.append(f"Member must have {kind} greater than or equal to {low}")
    if constraints.get("pattern"):
        shown.append(f"Member must satisfy regular expression pattern: {constraints['pattern']}")
    if constraints.get("enum"):
        shown.append(_enum_must(constraints))
    return [*shown, "Member must not be null"] if never_null else shown


def _length(constraints: Mapping[str, Any]) -> Check | None:
    low, high = _bounds(constraints)
    if low is None and high is None:
        return None

    def run(value: Any, path: str, failures: Failures) -> None:
        size = len(value)
        if high is not None and size > high:
            constraint = f"Member must have length less than or equal to {high}"
            failures.append(_fail(value, path, constraint))
        if low is not None and size < low:
            constraint = f"Member must have length greater than or equal to {low}"
            failures.append(_fail(value, path, constraint))

    return run


def _range(constraints: Mapping[str, Any]) -> Check | None:
    low, high = _bounds(constraints)
    if low is None and high is None:
        return None

    def run(value: Any, path: str, failures: Failures) -> None:
        if high is not None and value > high:
            constraint = f"Member must have value less than or equal to {high}"
            failures.append(_fail(value, path, constraint))
        if low is not None and value < low:
            constraint = f"Member must have value greater than or equal to {low}"
            failures.append(_fail(value, path, constraint))

    return run


def _enum(constraints: Mapping[str, Any]) -> Check | None:
    allowed = constraints.get("enum")
    if not allowed:
        return None
    known = frozenset(allowed)
    constraint = _enum_must(constraints)

    def run(value: Any, path: str, failures: Failures) -> None:
        if value not in known:
            failures.append(_fail(value, path, constraint))

    return run


def _enum_must(constraints: Mapping[str, Any]) -> str:
    shown = constraints.get("shown") or constraints["enum"]
    return f"Member must satisfy enum value set: [{', '.join(shown)}]"


def _pattern(shape: Shape, constraints: Mapping[str, Any]) -> Check | None:
    pattern = constraints.get("pattern")
    if not pattern:
        return None
    name = shape.name

    def run(value: Any, path: str, failures: Failures) -> None:
        # Compiled with the first value: most members of an operation are never given.
        compiled = _compile_pattern(pattern, name)
        if compiled is not None and not _matches(compiled, value) and not are_set_now(value):
            shown = constraints.get("shown") or pattern
            constraint = f"Member must satisfy regular expression pattern: {shown}"
            failures.append(_fail(value, path, constraint))

    return run


@functools.cache
def _compile_pattern(pattern: str, shape: str) -> Pattern | None:
    try:
        return model_pattern(pattern)
    except PatternRefused:
        # A few of AWS's Java patterns cannot be translated; the service checks these values itself.
        log.debug("pattern of %s is not checked: %s", shape, pattern)
        return None


def _matches(compiled: Pattern, value: str) -> bool:
    try:
        return compiled.matches(value)
    except MatchTooLong:
        return False


def _scalar(shape: Shape, constraints: Mapping[str, Any]) -> Check | None:
    kind = shape.type_name
    if kind in ("string", "character"):
        checks = [_pattern(shape, constraints), _length(constraints), _enum(constraints)]
    elif kind == "blob":
        checks = [_length(constraints)]
    elif kind in ("integer", "long", "float", "double"):
        checks = [_range(constraints)]
    else:
        checks = []
    present = [check for check in checks if check is not None]
    if not present:
        return None
    if len(present) == 1:
        return present[0]

    def run(value: Any, path: str, failures: Failures) -> None:
        for check in present:
            check(value, path, failures)

    return run
