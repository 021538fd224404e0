"""A parsed template: its sections, which resources and conditions its values name, and the order that follows.

Values are UNKNOWN before deployment, or AWS::NoValue; they are converted to text, and measured. A graph of dependencies
is ordered in linear time, and a function runs on its nodes in parallel.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, cast

from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import TemplateError
from headrace.services.cloudformation.signals import CloudStopped

# The only version (documented: format-version-structure).
VERSION = "2010-09-09"
SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion",
        "Description",
        "Metadata",
        "Parameters",
        "Rules",
        "Mappings",
        "Conditions",
        "Transform",
        "Resources",
        "Outputs",
        "Hooks",
    }
)
RESOURCE_KEYS = frozenset(
    {
        "Type",
        "Properties",
        "DependsOn",
        "Condition",
        "Metadata",
        "CreationPolicy",
        "DeletionPolicy",
        "UpdatePolicy",
        "UpdateReplacePolicy",
        "Version",
    }
)
PSEUDO_PARAMETERS = frozenset(
    {
        "AWS::AccountId",
        "AWS::NotificationARNs",
        "AWS::NoValue",
        "AWS::Partition",
        "AWS::Region",
        "AWS::StackId",
        "AWS::StackName",
        "AWS::URLSuffix",
    }
)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; a section that is missing is empty."""

    body: str
    description: str
    parameters: Mapping[str, Any]
    rules: Mapping[str, Any]
    mappings: Mapping[str, Any]
    conditions: Mapping[str, Any]
    resources: Mapping[str, Any]
    outputs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    version: str
    # The text from which transforms produced `body`; empty without transforms.
    original: str = ""

    @classmethod
    def empty(cls, body: str) -> Template:
        """Return an empty template, for a text that could not be read or transformed."""
        return cls(body, "", {}, {}, {}, {}, {}, {}, {}, "")


def template_of(body: str, value: Any) -> Template:
    """Return the template in `value`, the loaded `body`, without checking its sections. Raises TemplateError."""
    if not isinstance(value, dict):
        raise TemplateError("Template format error: unsupported structure.")
    template = cast("dict[str, Any]", value)
    unknown = sorted(set(template) - SECTIONS)
    if unknown:
        raise TemplateError(f"Invalid template property or properties [{', '.join(unknown)}]")
    if not isinstance(template.get("Resources", {}), dict):
        raise TemplateError("Template format error: Any Resources member must be an object.")
    resources = _section(template, "Resources")
    if not resources:
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    return Template(
        body=body,
        description=_description(template),
        parameters=_section(template, "Parameters"),
        rules=_section(template, "Rules"),
        mappings=_section(template, "Mappings"),
        conditions=_section(template, "Conditions"),
        resources=resources,
        outputs=_section(template, "Outputs"),
        metadata=_section(template, "Metadata"),
        version=_version(template),
    )


def _description(template: dict[str, Any]) -> str:
    value: Any = template.get("Description", "")
    if not isinstance(value, str):
        raise TemplateError("Template format error: Every Description member must be a string.")
    return value


def _version(template: dict[str, Any]) -> str:
    version = str(template.get("AWSTemplateFormatVersion", ""))
    if version not in ("", VERSION):
        # Reported by many.
        raise TemplateError(
            f"Template format error: {version} is not a supported value for AWSTemplateFormatVersion"
        )
    return version


def _section(template: dict[str, Any], name: str) -> Mapping[str, Any]:
    value: Any = template.get(name) or {}
    if not isinstance(value, dict):
        raise TemplateError(f"Template format error: {name} must be an object.")
    return cast("dict[str, Any]", value)


SUB_NAME = re.compile(r"\$\{([^!${}][^${}]*)\}")

# The parts of a resource, other than its Properties, that are evaluated.
_READ_BESIDE = ("Metadata", "CreationPolicy", "UpdatePolicy")


# In AWS's order; the list is the same whatever transforms add.
FUNCTIONS = (
    "Fn::Base64", "Fn::GetAtt", "Fn::GetAZs", "Fn::ImportValue", "Fn::Join", "Fn::Split", "Fn::FindInMap", "Fn::Select",
    "Ref", "Fn::Equals", "Fn::If", "Fn::Not", "Condition", "Fn::And", "Fn::Or", "Fn::Contains", "Fn::EachMemberEquals",
    "Fn::EachMemberIn", "Fn::ValueOf", "Fn::ValueOfAll", "Fn::RefAll", "Fn::Sub", "Fn::Cidr",
)  # fmt: skip


def references(value: Any) -> Iterator[str]:
    """Yield the names that Ref, GetAtt and Sub in `value` refer to."""
    for _, name, _ in mentions(value):
        yield name


def mentions(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (function, name, attribute) for each Ref, GetAtt and Sub in `value`; the attribute is empty without one.

    Raises TemplateError.
    """
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from mentions(item)
    if not isinstance(value, dict):
        return
    mapping = cast("dict[str, Any]", value)
    for key, item in mapping.items():
        if key == "Ref" and len(mapping) == 1 and isinstance(item, str):
            yield key, item, ""
        elif key == "Fn::GetAtt" and len(mapping) == 1:
            name, attribute = get_att_parts(item)
            yield key, name, attribute if isinstance(attribute, str) else "?"
            if not isinstance(attribute, str):
                yield from mentions(attribute)
        elif key == "Fn::Sub" and len(mapping) == 1:
            yield from _sub_mentions(item)
        else:
            yield from mentions(item)


def _sub_mentions(item: Any) -> Iterator[tuple[str, str, str]]:
    text, variables = sub_parts(item)
    for named in sub_names(text):
        if named not in variables:
            name, _, attribute = named.partition(".")
            yield "Fn::Sub", name, attribute
    yield from mentions(list(variables.values()))


def sub_parts(item: Any) -> tuple[str, dict[str, Any]]:
    """Return (text, variables) of an Fn::Sub's argument. Raises TemplateError."""
    if isinstance(item, str):
        return item, {}
    if isinstance(item, list):
        parts = cast("list[Any]", item)
        if len(parts) == 2 and isinstance(parts[0], str) and isinstance(parts[1], dict):
            return parts[0], cast("dict[str, Any]", parts[1])
    raise TemplateError(
        "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. Specify a string as"
        " first argument, and an optional second argument to specify a mapping of values to replace in the string"
    )


def sub_names(text: str) -> list[str]:
    """Return the names in `${...}` of a Sub's text; `${!x}` is a literal."""
    return [name.strip() for name in SUB_NAME.findall(text)]


def get_att_parts(item: Any) -> tuple[str, Any]:
    """Return (logical id, attribute) of an Fn::GetAtt's argument; the attribute may be a Ref. Raises TemplateError.

    Source:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-getatt.html
    """
    if isinstance(item, str) and "." in item:
        name, _, attribute = item.partition(".")
        return name, attribute
    if isinstance(item, list):
        parts = cast("list[Any]", item)
        if len(parts) == 2 and isinstance(parts[0], str) and _is_attribute(parts[1]):
            return parts[0], parts[1]
    raise TemplateError(
        "Template error: every Fn::GetAtt object requires two non-empty parameters, the resource name and the resource"
        " attribute"
    )


def _is_attribute(attribute: Any) -> bool:
    if isinstance(attribute, dict):
        return list(cast("dict[str, Any]", attribute)) == ["Ref"]
    return isinstance(attribute, str)


def dependencies(template: Template, logical_id: str) -> set[str]:
    """Return the resources that must be created before this one. Raises TemplateError."""
    resource = template.resources[logical_id]
    explicit: Any = resource.get("DependsOn") or []
    named: list[str] = [explicit] if isinstance(explicit, str) else list(explicit)
    for name in named:
        if name not in template.resources:
            raise TemplateError(
                f"Template format error: Unresolved resource dependencies [{name}] in the Resources block of the"
                " template"
            )
    logical_ids = {*named, *references(resource.get("Properties", {}))}
    # Parts outside the Properties are read too, and may name the resource itself.
    beside = {*references([resource.get(key) for key in _READ_BESIDE])} - {logical_id}
    # A resource that names itself is a cycle of one.
    return {name for name in logical_ids | beside if name in template.resources}


def conditions_in(value: Any) -> Iterator[str]:
    """Yield the names of the conditions that a condition refers to."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from conditions_in(item)
    if not isinstance(value, dict):
        return
    for key, item in cast("dict[str, Any]", value).items():
        if key == "Condition" and isinstance(item, str):
            yield item
        elif key == "Fn::If" and isinstance(item, list) and item and isinstance(item[0], str):
            yield item[0]
            yield from conditions_in(cast("list[Any]", item)[1:])
        else:
            yield from conditions_in(item)


def all_dependencies(template: Template) -> dict[str, set[str]]:
    """Return every resource with the resources that must be created before it. Raises TemplateError."""
    return {name: dependencies(template, name) for name in template.resources}


UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"


class NoValue:
    """The value of `AWS::NoValue`, which removes the property that has it."""


NO_VALUE = NoValue()


def is_unknown(value: Any) -> bool:
    """Whether a value, or a part of it, is only known later."""
    if isinstance(value, str):
        return UNKNOWN in value
    if isinstance(value, list):
        return any(map(is_unknown, cast("list[Any]", value)))
    if isinstance(value, dict):
        return any(map(is_unknown, cast("dict[str, Any]", value).values()))
    return False


def scalar(item: Any) -> str:
    """Return a value as text, as it appears inside another text. Raises TemplateError."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, (dict, list)):
        raise TemplateError("Template error: every Fn::Join value must be a string")
    # Assumed: inside a text, AWS::NoValue becomes an empty text.
    return "" if item is NO_VALUE else str(item)


def substitute(text: str, values: Mapping[str, Any]) -> str:
    """Replace `${name}` in a Sub's text, and turn `${!x}` into `${x}`."""
    filled = SUB_NAME.sub(lambda match: str(values[match.group(1).strip()]), text)
    return filled.replace("${!", "${")


def size_of(value: Any) -> int:
    """Return the approximate size of a value as text, in bytes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(3 + size_of(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return sum(6 + len(key) + size_of(item) for key, item in pairs)
    return 8


@dataclass(slots=True)
class Allowance:
    """The bytes that functions may still produce. Used by one thread at a time."""

    left_bytes: int = errors.PRODUCED_BYTES

    def take(self, size_bytes: int) -> None:
        """Subtract the size of a function's result. Raises TemplateError when too little is left."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise TemplateError(
                f"Template error: functions produce more than {errors.PRODUCED_BYTES:,} bytes, which headrace does"
                " not evaluate"
            )

    def take_value(self, value: Any) -> None:
        """Subtract the size of an existing result. Raises TemplateError when too little is left."""
        self.take(size_of(value))


@dataclass(slots=True)
class OperationSize:
    """The total size of the properties of an operation's resources. Used by one thread at a time."""

    bytes: int = 0

    def add(self, properties: Mapping[str, Any]) -> None:
        """Add a resource's properties. Raises TemplateError when the total is too large."""
        self.bytes += size_of(properties)
        if self.bytes > errors.OPERATION_BYTES:
            raise TemplateError(
                f"Template error: the properties of all resources have more than {errors.OPERATION_BYTES:,} bytes,"
                " which headrace does not store"
            )


def in_order(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes, each after its dependencies, without nodes in a cycle or dependent on one."""
    left = {node: sum(other in graph for other in others) for node, others in graph.items()}
    dependents_of = reverse_graph(graph)
    order = [node for node, count in left.items() if not count]
    for node in order:  # the list grows meanwhile
        for dependent in dependents_of[node]:
            left[dependent] -= 1
            if not left[dependent]:
                order.append(dependent)
    return order


def in_circles(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the nodes that are in a cycle or depend on one, sorted."""
    return sorted(set(graph) - set(in_order(graph)))


def check_acyclic(graph: Mapping[str, Set[str]]) -> None:
    """Raise TemplateError, with the nodes' names, when the graph has a cycle."""
    left = in_circles(graph)
    if left:
        raise TemplateError(f"Circular dependency between resources: [{', '.join(left)}]")


def reverse_graph(graph: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Return the reversed graph, in which a node comes after the nodes that depend on it: the order of deletion."""
    turned: dict[str, set[str]] = {node: set() for node in graph}
    for node, others in graph.items():
        for other in others:
            if other in turned:
                turned[other].add(node)
    return turned


AT_ONCE = 4


def run_in_order(
    depends_on: Mapping[str, Set[str]],
    work: Callable[[str], None],
    *,
    stop: threading.Event,
    keep_going: bool,
    pool: Executor,
) -> dict[str, BaseException]:
    """Run `work` on each node after its dependencies; return the nodes that failed with their errors.

    Args:
        depends_on: node -> its dependencies.
        work: raises when it fails; nodes that depend on this one are then not begun.
        stop: once it is set, no node is begun; running ones end first.
        keep_going: whether nodes that do not depend on a failed one are still begun. Otherwise a failure sets `stop`.
        pool: runs the work; it is shut down at the end.

    Raises CloudStopped.
    """
    left = {
        name: sum(other in depends_on for other in others) for name, others in depends_on.items()
    }
    dependents_of = reverse_graph(depends_on)
    ready = [name for name, count in left.items() if not count]
    running: dict[Future[None], str] = {}
    failed: dict[str, BaseException] = {}
    with pool:
        while True:
            while ready and not stop.is_set():
                name = ready.pop(0)
                running[pool.submit(work, name)] = name
            if not running:
                return failed
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                error = future.exception()
                if isinstance(error, CloudStopped):
                    raise error
                if error is not None:
                    failed[name] = error
                    if not keep_going:
                        stop.set()
                    continue
                for dependent in dependents_of[name]:
                    left[dependent] -= 1
                    if not left[dependent]:
                        ready.append(dependent)
