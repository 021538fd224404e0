"""A template for the rules: resources by type, the possible values of a property, the resources that it names.

Finds a mapping's event source: a stream, a table's stream, a registered consumer, or a queue.
The base class of every rule: id, reason, source, two examples, and the check that cfn-lint runs.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

from cfnlint.rules import CloudFormationLintRule, RuleMatch

from headrace.core.arn import partition_of
from headrace.core.values import as_mapping
from headrace.lint.inputs import find_construct, find_export, templates_together

MAPPING = "AWS::Lambda::EventSourceMapping"
STREAM = "AWS::Kinesis::Stream"
CONSUMER = "AWS::Kinesis::StreamConsumer"
QUEUE = "AWS::SQS::Queue"
TABLES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
DEFAULT_RETENTION_HOURS = 24
TABLE_RETENTION_HOURS = 24
# A function's default. Documented: API_CreateFunction.
DEFAULT_TIMEOUT_S = 3


def source_of(mapping: Resource) -> Resource | None:
    """Return a mapping's event source if these templates contain it; a registered consumer stands for itself."""
    kinds = (STREAM, CONSUMER, QUEUE, *TABLES)
    targets = [one for one in mapping.targets("EventSourceArn") if one.type in kinds]
    return targets[0] if len(targets) == 1 else None


def stream_of(mapping: Resource) -> Resource | None:
    """Return the Kinesis stream that a mapping reads, directly or through a registered consumer."""
    source = source_of(mapping)
    if source is not None and source.type == CONSUMER:
        streams = [one for one in source.targets("StreamARN") if one.type == STREAM]
        source = streams[0] if len(streams) == 1 else None
    return source if source is not None and source.type == STREAM else None


def function_of(mapping: Resource) -> Resource | None:
    """Return the function that a mapping invokes."""
    targets = [
        one for one in mapping.targets("FunctionName") if one.type == "AWS::Lambda::Function"
    ]
    if not targets:
        through = [one for one in mapping.targets("FunctionName") if "Lambda" in one.type]
        targets = [two for one in through for two in one.targets("FunctionName")]
    return targets[0] if len(targets) == 1 else None


def stream_mappings(template: Template) -> list[Resource]:
    """Return the mappings that read shards: of Kinesis streams and of tables' streams."""
    return [one for one in template.of_type(MAPPING) if _reads_shards(one)]


def _reads_shards(mapping: Resource) -> bool:
    source = source_of(mapping)
    if source is not None:
        return source.type != QUEUE
    # Only streams and Kafka have a starting position, and Kafka has topics.
    has_topics = mapping.get("Topics") is not NOT_SET
    return mapping.get("StartingPosition") is not NOT_SET and not has_topics


def retention_hours(mapping: Resource) -> int | None:
    """Return the retention of a mapping's source; None if unknown."""
    source = source_of(mapping)
    if source is not None and source.type in TABLES:
        return TABLE_RETENTION_HOURS
    stream = stream_of(mapping)
    if stream is None:
        return None
    if stream.get("RetentionPeriodHours") is NOT_SET:
        return DEFAULT_RETENTION_HOURS
    return stream.number("RetentionPeriodHours")


def shards_of(stream: Resource) -> int | None:
    """Return a provisioned stream's shard count; None if it is on-demand or unknown."""
    if "ON_DEMAND" in stream.possible("StreamModeDetails", "StreamMode"):
        return None
    return stream.number("ShardCount")


def timeout_s(function: Resource) -> int | None:
    """Return a function's timeout; None if unknown."""
    return DEFAULT_TIMEOUT_S if function.get("Timeout") is NOT_SET else function.number("Timeout")


# Expands SAM functions as AWS does: into a function, and a mapping for each event with an event source.
#
# cfn-lint reads SAM templates untransformed. The roles that SAM generates are left out: SAM gives them every
# permission that the function's events need.

_FUNCTION = "AWS::Serverless::Function"
# SAM's name for an event's source, by event type; SAM and the mapping share the names of all other members.
_SOURCES = {"Kinesis": "Stream", "DynamoDB": "Stream", "SQS": "Queue"}

Made = tuple[str, str, dict[str, Any], tuple[str, ...]]


def expand(name: str, kind: str, properties: dict[str, Any]) -> Iterator[Made]:
    """Yield the resources that a resource expands to: logical id, type, properties, and their path in the template."""
    path = ("Resources", name, "Properties")
    if kind != _FUNCTION:
        yield name, kind, properties, path
        return
    yield name, "AWS::Lambda::Function", properties, path
    for event, written in as_mapping(properties.get("Events")).items():
        one = as_mapping(written)
        source = _SOURCES.get(str(one.get("Type")))
        if source is None:
            continue
        properties_given = as_mapping(one.get("Properties"))
        mapping = {member: value for member, value in properties_given.items() if member != source}
        mapping.update(EventSourceArn=properties_given.get(source), FunctionName={"Ref": name})
        at = (*path, "Events", event, "Properties")
        yield f"{name}{event}", "AWS::Lambda::EventSourceMapping", mapping, at


_IN_SUB = re.compile(r"\$\{([^!}][^}]*)\}")
_DEPTH = 20


class _Nothing:
    """The value of a property that is not set."""

    def __repr__(self) -> str:
        return "not set"


NOT_SET = _Nothing()


class _Unknown:
    """A value that is known only once the stack is deployed."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a template.

    Attributes:
        template: the one that declares it.
        name: its logical id.
        at: the path of its properties.
    """

    template: Template
    name: str
    type: str
    properties: dict[str, Any]
    at: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """A key that is unique among all templates of the run."""
        return (self.template.source, self.name)

    def path(self, *members: str | int) -> list[str | int]:
        """Return a property's path in the template, or the longest part of that path that exists."""
        path: list[str | int] = []
        part_of_body: Any = self.template.body
        for member in (*self.at, *members):
            try:
                part_of_body = part_of_body[member]
            except (KeyError, IndexError, TypeError):
                break
            path.append(member)
        return path

    def origin(self) -> str:
        """Return the path of the CDK's construct that made it, in brackets; empty for others."""
        path = find_construct(self.template.source, self.at[1], self.template.body)
        return f" ({path})" if path else ""

    def own_name(self) -> Any:
        """Return the name that its template gives it, as written; NOT_SET if CloudFormation generates one."""
        return self.get(_NAMED[self.type]) if self.type in _NAMED else NOT_SET

    def get(self, *members: str) -> Any:
        """Return a property as written, or NOT_SET; UNKNOWN if it stands below an Fn::If."""
        part: Any = self.properties
        for member in members:
            if not isinstance(part, Mapping):
                return UNKNOWN
            mapping = cast("Mapping[str, Any]", part)
            if member not in mapping:
                return (
                    UNKNOWN if len(mapping) == 1 and _is_function(next(iter(mapping))) else NOT_SET
                )
            part = mapping[member]
        return part

    def possible(self, *members: str) -> list[Any]:
        """Return all possible values of a property, except those known only at deployment."""
        return [one for one in self.template.possible(self.get(*members)) if one is not UNKNOWN]

    def number(self, *members: str) -> int | None:
        """Return a property that has exactly one possible value, a number; None for anything else."""
        values = self.template.possible(self.get(*members))
        if len(values) == 1 and not isinstance(values[0], bool):
            return whole_number(values[0])
        return None

    def is_true(self, *members: str) -> bool | None:
        """Return whether a boolean is certainly true or false; None if unknown."""
        values = {
            str(one).lower() if one is not NOT_SET else "false"
            for one in self.template.possible(self.get(*members))
        }
        return {"true": True, "false": False}.get(values.pop()) if len(values) == 1 else None

    @property
    def neighbours(self) -> list[Resource]:
        """The resources that any of its properties names."""
        return self.template.list_named_by(self)

    def targets(self, *members: str) -> list[Resource]:
        """Return the resources that a property names."""
        value = self.get(*members)
        return [] if value in (NOT_SET, UNKNOWN) else self.template.list_named_in(value)


class Template:
    """One template. Of conditions only what the region and given parameters decide is known; else both may hold."""

    def __init__(
        self,
        body: dict[str, Any],
        parameters: Mapping[str, Any] | None = None,
        source: str = "",
        region: str = "us-east-1",
    ) -> None:
        self.body = body
        self.source, self.region = source, region
        self._held: dict[str, bool | None] = {}
        self._neighbours: list[Template] | None = None
        self._named_by: dict[str, list[Resource]] = {}
        self._given = parameters or {}
        self.resources = {
            one: Resource(self, one, kind, properties, at)
            for name, written in as_mapping(body.get("Resources")).items()
            for one, kind, properties, at in _expand(name, as_mapping(written))
            if self.holds(as_mapping(written).get("Condition")) is not False
        }

    @cached_property
    def named(self) -> dict[str, list[Resource]]:
        """The resources to which the template gives a name, by that name."""
        resources: dict[str, list[Resource]] = {}
        for one in self.resources.values():
            name = one.own_name()
            if isinstance(name, str):
                resources.setdefault(name, []).append(one)
        return resources

    def of_type(self, *types: str) -> list[Resource]:
        """Return the resources of these types, in the template's order."""
        return [one for one in self.resources.values() if one.type in types]

    def around(self) -> list[Template]:
        """Return this template and the templates that are linted with it."""
        if self._neighbours is None:
            others = templates_together().items()
            self._neighbours = [
                Template(b, source=s, region=self.region) for s, b in others if s != self.source
            ]
        return [self, *self._neighbours]

    def possible(self, value: Any) -> list[Any]:
        """Return the possible values of `value`: a parameter's default, the branches of an Fn::If that may hold."""
        if not isinstance(value, Mapping):
            return [value]
        function = cast("Mapping[str, Any]", value)
        if len(function) == 1:
            name, argument = next(iter(function.items()))
            if name == "Ref":
                return [self._of_ref(str(argument))]
            if name == "Fn::If" and isinstance(argument, list) and len(argument) == 3:  # pyright: ignore[reportUnknownArgumentType]
                condition, *both = cast("list[Any]", argument)
                holds = self.holds(condition)
                if holds is not None:
                    both = both[:1] if holds else both[1:]
                return [one for branch in both for one in self.possible(branch)]
            if _is_function(name):
                return [UNKNOWN]
        return [function]

    def holds(self, condition: Any) -> bool | None:
        """Return whether a condition, by its name or as written, surely holds or surely does not; else None."""
        if isinstance(condition, str):
            if condition not in self._held:
                self._held[condition] = None  # while it is looked up: it may name itself
                named = as_mapping(self.body.get("Conditions")).get(condition)
                self._held[condition] = self.holds(named)
            return self._held[condition]
        name, argument = next(iter(as_mapping(condition).items()), ("", None))
        if name == "Condition":
            return self.holds(str(argument))
        parts = cast("list[Any]", argument) if isinstance(argument, list) else []
        if name == "Fn::Equals" and len(parts) == 2:
            one, other = (self._known_text(part) for part in parts)
            return None if one is None or other is None else one == other
        known = [self.holds(part) for part in parts]
        if name == "Fn::Not" and len(known) == 1:
            return None if known[0] is None else not known[0]
        if name not in ("Fn::And", "Fn::Or") or not known:
            return None
        decides = name == "Fn::Or"
        if decides in known:
            return decides
        return None if None in known else not decides

    def _known_text(self, value: Any) -> str | None:
        """Return a value as text that no deployment can change: a literal, the region, a given parameter."""
        if not isinstance(value, Mapping):
            return None if value is None or isinstance(value, list) else str(value)
        name = str(cast("Mapping[str, Any]", value).get("Ref", ""))
        pseudo = {"AWS::Region": self.region, "AWS::Partition": partition_of(self.region)}
        known = {**self._given, **pseudo}.get(name)
        return None if known is None else str(known)

    def _of_ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NOT_SET
        if name in self._given:
            return self._given[name]
        parameter = as_mapping(as_mapping(self.body.get("Parameters")).get(name))
        is_looked_up = str(parameter.get("Type", "")).startswith("AWS::SSM")
        return UNKNOWN if is_looked_up else parameter.get("Default", UNKNOWN)

    def list_named_by(self, resource: Resource) -> list[Resource]:
        """Return the resources that one of its own resources names; the result is cached."""
        if resource.name not in self._named_by:
            self._named_by[resource.name] = self.list_named_in(resource.properties)
        return self._named_by[resource.name]

    def list_named_in(self, value: Any) -> list[Resource]:
        """Return the resources that a value names, each once; an import leads into other templates of the run."""
        resources: dict[tuple[str, str], Resource] = {}
        for one in self.naming(value, 0):
            resources.setdefault(one.key, one)
        return list(resources.values())

    def naming(self, value: Any, depth: int) -> Iterator[Resource]:
        """Yield the resources that a value names, with repetitions, down to a fixed depth."""
        if depth > _DEPTH:
            return
        if isinstance(value, list):
            for one in cast("list[Any]", value):
                yield from self.naming(one, depth + 1)
        elif isinstance(value, Mapping):
            for name, argument in cast("Mapping[str, Any]", value).items():
                yield from self._of_function(name, argument, depth)
        elif isinstance(value, str):
            yield from self._by_own_name(value)

    def _of_function(self, name: str, argument: Any, depth: int) -> Iterator[Resource]:
        if name == "Ref" and isinstance(argument, str):
            yield from self._by_id(argument)
        elif name == "Fn::GetAtt":
            parts: list[Any] = str(argument).split(".")
            if isinstance(argument, list) and argument:
                parts = cast("list[Any]", argument)
            yield from self._by_id(str(parts[0]))
        elif name == "Fn::ImportValue":
            for export in self.possible(argument):
                source, what = find_export(str(export)) or ("", None)
                for other in self.around():
                    if what is not None and other.source == source:
                        yield from other.naming(what, depth + 1)
        elif name == "Fn::Sub":
            text, variables = argument, {}
            if isinstance(argument, list) and argument:
                parts = cast("list[Any]", argument)
                text, variables = parts[0], as_mapping(parts[1] if len(parts) > 1 else {})
            yield from self.naming(list(variables.values()), depth + 1)
            for inner in _IN_SUB.findall(str(text)):
                if inner not in variables:
                    yield from self._by_id(str(inner).strip().split(".")[0])
            yield from self._by_own_name(_IN_SUB.sub("*", str(text)))
        else:
            yield from self.naming(argument, depth + 1)

    def _by_id(self, name: str) -> Iterator[Resource]:
        if name in self.resources:
            yield self.resources[name]

    def _by_own_name(self, text: str) -> Iterator[Resource]:
        """Yield the named resources that a literal means: an ARN, or a name after a slash."""
        last = re.split(r"[:/]", text)[-1] if text.startswith("arn:") or "/" in text else text
        if not last or last == "*":
            return
        for template in self.around():
            yield from template.named.get(last, ())


_NAMED = {
    "AWS::Kinesis::Stream": "Name",
    "AWS::SQS::Queue": "QueueName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::KinesisFirehose::DeliveryStream": "DeliveryStreamName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::S3::Bucket": "BucketName",
}


def whole_number(value: Any) -> int | None:
    """Return a number that a template writes as 60 or "60"."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _expand(name: str, written: dict[str, Any]) -> Iterator[Made]:
    return expand(name, str(written.get("Type")), as_mapping(written.get("Properties")))


def _is_function(name: str) -> bool:
    return name in ("Ref", "Condition") or name.startswith("Fn::")


def as_list(value: Any) -> list[Any]:
    """Return a value that a template may give alone or in a list, as a list."""
    if value is NOT_SET or value is UNKNOWN or value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


@dataclass(frozen=True, slots=True)
class Finding:
    """A defect: the resource that has it, the property where it shows, and one sentence."""

    resource: Resource
    message: str
    members: tuple[str | int, ...] = ()


class StreamingRule(CloudFormationLintRule):
    """A rule over a whole template. AWS refuses what an E rule finds, or it cannot work; a W rule finds hazards.

    Attributes:
        shortdesc: the defect, in a sentence.
        description: the reason.
        source_url: AWS's page that documents it.
        bad, good: a template's Resources in YAML, with the defect and without.
        region: the region whose quotas apply; the first that cfn-lint is given.
    """

    id = ""
    tags: ClassVar[list[str]] = ["streaming", "headrace"]  # pyright: ignore[reportIncompatibleVariableOverride]
    bad: ClassVar[str] = ""
    good: ClassVar[str] = ""
    region: str = "us-east-1"

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the defects of a template."""
        raise NotImplementedError

    def match(self, cfn: Any) -> list[RuleMatch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the findings in cfn-lint's form."""
        regions = cast("list[str]", cfn.regions or [])
        self.region = regions[0] if regions else "us-east-1"
        body = cast("dict[str, Any]", cfn.template)
        template = Template(body, _read_parameters(cfn), str(cfn.filename or ""), self.region)
        return [
            RuleMatch(
                finding.resource.path(*finding.members), finding.message + finding.resource.origin()
            )
            for finding in self.check(template)
            # A defect in another template of the run is reported with that template.
            if finding.resource.template is template
        ]


def _read_parameters(cfn: Any) -> dict[str, Any]:
    """Return the parameter values that cfn-lint was given."""
    merged: dict[str, Any] = {}
    for one in cfn.context.parameter_sets or ():
        merged.update(one.parameters)
    return merged
