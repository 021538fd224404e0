"""Reads back, by AWS's own reads, what the calls of a stack's deployment gave to moto's services.

`Recorded` keeps every call of a deployment. `read_whole` then makes each read of the service whose name has the noun of
a call (`CreateVpc`, `DescribeVpcs`) and whose required members are known from the call, its answer, or the other calls.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.model import ListShape, StructureShape

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import operation_model, service_model
from headrace.aws.gateway.dispatch import Gateway
from tests.support.read_back import Case, differences, leaves_of

_READS = ("Describe", "Get", "List", "BatchGet")
_VERBS = re.compile(
    "^(Create|Put|Register|Update|Modify|Set|AdminCreate|AdminAdd|Add|Request|Run|Allocate|Associate|Attach|Authorize"
    "|Enable|Publish|Change|Start)"
)
_WORD = re.compile("[A-Z][a-z0-9]*|[A-Z]+")
# These have tests of their own.
_OWNED = frozenset({"kinesis", "s3", "lambda", "redshift-serverless", "firehose", "emr"})
# One waits a minute for work, the others list what AWS offers.
_SHOW_NOTHING = frozenset(
    {"GetActivityTask", "DescribeInstanceTypes", "DescribeInstanceTypeOfferings"}
)
_NOT_BUILT = set[tuple[str, str]]()
# What an alarm sends when it changes its state is kept by nobody.
_KEEP_NOTHING = frozenset({"PutEvents"})
# CloudFormation's own tags, which every resource has.
_OWN = "aws:cloudformation:"


@dataclass(slots=True)
class Recorded:
    """A call: its parameters and its answer."""

    service: str
    operation: str
    params: dict[str, Any]
    answer: Any


@dataclass(slots=True)
class Recorder:
    """Records the calls that the cloud itself makes through a gateway."""

    calls: list[Recorded] = field(default_factory=list[Recorded])

    def watch(self, monkeypatch: Any) -> None:
        """Begin to record."""
        original = Gateway.call

        def call(gateway: Any, service: str, operation: str, params: Any, **more: Any) -> Any:
            answer = original(gateway, service, operation, params, **more)
            self.calls.append(Recorded(service, operation, dict(params), answer))
            return answer

        monkeypatch.setattr(Gateway, "call", call)


def is_write(call: Recorded) -> bool:
    """Return whether a call keeps something in one of moto's services."""
    keeps = _VERBS.match(call.operation) and call.operation not in _KEEP_NOTHING
    return bool(keeps and call.params and call.service not in _OWNED)


def unread(
    gateway: Any,
    calls: list[Recorded],
    tables: Mapping[str, Any],
    others: list[Recorded] | None = None,
    unique: Collection[str] = (),
) -> dict[str, list[str]]:
    """Return the members of the calls that no read shows, by `service Operation`, sorted.

    `others` are the calls whose parameters and answers fill the reads' members; None for the same calls. Values of
    `unique` are nowhere but in these calls: an answer that has one shows it, by whatever name.
    """
    missing: dict[str, set[str]] = {}
    answers_of: dict[str, Any] = {}
    for call in filter(is_write, calls):
        reads = list(_reads(gateway, call, others or calls, answers_of))
        answers = [_without_own_tags(one) for one in (call.answer, *reads)]
        params = _without_own_tags(call.params)
        lines = differences(Case(call.operation, []), params, answers, tables.get(call.service, {}))
        paths = {line.partition(" = ")[0] for line in lines if " = " in line}
        texts = json.dumps([call.answer, *(one["answer"] for one in reads)], default=str)
        paths -= {
            path
            for path, value in leaves_of(params)
            if path in paths and _values_in(value) <= set(unique) and _are_in(value, texts)
        }
        name = f"{call.service} {call.operation}"
        missing.setdefault(name, set()).update(
            path
            for path in paths
            # The kind of what is tagged is that of what is made.
            if not path.startswith("TagSpecifications.ResourceType")
        )
    return {name: sorted(paths) for name, paths in sorted(missing.items()) if paths}


def _values_in(value: Any) -> set[str]:
    return {str(one) for one in value} if isinstance(value, list) else {str(value)}


def _are_in(value: Any, texts: str) -> bool:
    return all(
        re.search(rf"(?<![\w-]){re.escape(json.dumps(text)[1:-1])}(?![\w-])", texts)
        for text in _values_in(value)
    )


def _reads(
    gateway: Any, call: Recorded, calls: list[Recorded], answers_of: dict[str, Any]
) -> Iterator[Any]:
    """Yield what each fitting read answers, and what it was asked: a read by a name finds what has that name.

    `answers_of` has the answers of earlier reads, which nothing has changed since; None of those that failed.
    """
    nouns = _nouns(call.operation)
    others = [one for one in calls if one.service == call.service]
    known = [*_strings(call.answer), *_strings(call.params)]
    elsewhere = [pair for one in others for pair in (*_strings(one.answer), *_strings(one.params))]
    for name in service_model(call.service).operation_names:
        if (
            name in _SHOW_NOTHING
            or (call.service, name) in _NOT_BUILT
            or not name.startswith(_READS)
            or not any(noun in name for noun in nouns)
        ):
            continue
        shape = operation_model(call.service, name).input_shape
        params = _fill(shape, known, elsewhere, call)
        if params is None:
            continue
        asked = json.dumps([call.service, name, params], default=str)
        if asked not in answers_of:
            answers_of[asked] = _answer(gateway, call.service, name, params)
        if (answer := answers_of[asked]) is not None:
            yield {"asked": params, "answer": answer}


def _answer(gateway: Any, service: str, name: str, params: dict[str, Any]) -> Any:
    """Return what a read answers; None where it does not know this resource, or is not built."""
    try:
        return gateway.call(service, name, params)
    except (
        AwsError,
        NotImplementedError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
    ) as no:
        if getattr(no, "code", "") == "UnknownOperationException":
            _NOT_BUILT.add((service, name))
        return None


def _nouns(operation: str) -> list[str]:
    """Return what the names of fitting reads have: the noun, its last word, or two words in sequence."""
    words = _WORD.findall(_VERBS.sub("", operation).removesuffix("WithTags"))
    pairs = ["".join(pair) for pair in itertools.pairwise(words)]
    return ["Tag", *map(_stem, ["".join(words), *words[-1:], *pairs])]


def _stem(word: str) -> str:
    return word.removesuffix("s").removesuffix("y")


def _fill(shape: Any, known: Any, elsewhere: Any, call: Recorded) -> dict[str, Any] | None:
    """Return parameters for a read, or None when a required member is not known."""
    params: dict[str, Any] = {}
    for member in [] if shape is None else shape.required_members:
        one = shape.members[member]
        own = call.params.get(member)
        # A structure inside the call may have a member of this name, too.
        value = own if one.type_name == "string" and isinstance(own, str) else None
        value = value or _known(member, known, call) or _known(member, elsewhere, call)
        if value is None or isinstance(one, StructureShape):
            return None
        params[member] = [value] if isinstance(one, ListShape) else value
    of_acl = dict(reversed(known)) if call.service == "wafv2" else {}
    for member, one in ({} if shape is None else shape.members).items():
        # A resource of a group, or of a bus, is asked for with it; a web ACL by members of which none is required.
        value = call.params.get(member, of_acl.get(member.lower()))
        if member not in params and one.type_name == "string" and isinstance(value, str):
            params[member] = value
    return params


def _known(member: str, pairs: list[tuple[str, str]], call: Recorded) -> str | None:
    low = member.lower()
    names = {low, low.removesuffix("s")}
    if low.endswith(("resourcearn", "resource", "resourceid", "arns")) or low == "arn":
        arns = [
            value for name, value in pairs if name.endswith("arn") and call.service[:4] in value
        ]
        if arns:
            return arns[0]
    exact = next((value for name, value in pairs if name in names), None)
    if exact is not None:
        return exact
    # `Name` of a call is `GroupName` of a read, and `id` is `restApiId`.
    tails = ("name", "id", "arn")
    tail = next((tail for tail in tails if low.removesuffix("s").endswith(tail)), None)
    return next((value for name, value in pairs if tail and name == tail), None)


def _strings(value: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(value, str) and name:
        return [(name.lower(), value)]
    if isinstance(value, Mapping):
        return [pair for inner, one in value.items() for pair in _strings(one, str(inner))]
    if isinstance(value, list):
        return [pair for one in value for pair in _strings(one, name)]
    return []


def _without_own_tags(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _without_own_tags(one)
            for name, one in value.items()
            if not str(name).startswith(_OWN) and not _is_own_tag(one)
        }
    if isinstance(value, list):
        return [_without_own_tags(one) for one in value if not _is_own_tag(one)]
    return value


def _is_own_tag(value: Any) -> bool:
    """Return whether a value is CloudFormation's tag, or a list or mapping of such ones only."""
    if isinstance(value, Mapping):
        key = next((value[name] for name in ("Key", "key", "TagKey") if name in value), None)
        if key is not None:
            return str(key).startswith(_OWN)
        return bool(value) and all(str(name).startswith(_OWN) for name in value)
    return isinstance(value, list) and bool(value) and all(map(_is_own_tag, value))
