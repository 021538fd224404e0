"""Replaces moto's unbounded processing of client input, above all regular expressions, with bounded code.

moto imports its modules on first use, so each is patched as it is imported. tests/security/test_patterns.py
lists moto's patterns and fails when another version of moto has others.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

from headrace.core.patterns import MatchingBudget, MatchTooLong, PatternRefused, java_pattern
from headrace.core.wildcards import glob_matches
from headrace.fallback.dynamodb_expressions import patch_expressions
from headrace.fallback.event_patterns import (
    patch_event_templates,
    patch_events,
    patch_filter_policies,
)
from headrace.fallback.iot_sql import refusal_of
from headrace.fallback.query_parameters import patch_query_parser
from headrace.fallback.ssm_values import patch_parameters
from headrace.fallback.yaml_documents import patch_api_documents, patch_yaml

# --- literal prefixes -------------------------------------------------------------------------


def _events(models: ModuleType) -> None:
    patch_events(models)
    backend: Any = models.EventsBackend
    list_rules: Any = backend.list_rules

    @functools.wraps(list_rules)
    def list_rules_by_literal(
        self: Any, prefix: str | None = None, *args: Any, **named: Any
    ) -> Any:
        return list_rules(self, prefix and re.escape(prefix), *args, **named)

    backend.list_rules = list_rules_by_literal


def _sqs(models: ModuleType) -> None:
    backend: Any = models.SQSBackend
    list_queues: Any = backend.list_queues

    @functools.wraps(list_queues)
    def list_queues_by_literal(self: Any, queue_name_prefix: str) -> Any:
        return list_queues(self, queue_name_prefix and re.escape(queue_name_prefix))

    backend.list_queues = list_queues_by_literal


def _ssm(models: ModuleType) -> None:
    patch_parameters(models)
    patch_yaml(models)


# --- wildcards --------------------------------------------------------------------------------


def _iam(access_control: ModuleType) -> None:
    access_control.IAMPolicyStatement._match = staticmethod(glob_matches)  # noqa: SLF001


def _ec2(module: ModuleType) -> None:
    def aws_api_matches(pattern: str, string: Any) -> bool:
        return glob_matches(pattern, str(string), escape="\\")

    vars(module)["aws_api_matches"] = aws_api_matches


# Several times AWS's usual quota; moto creates each instance in twenty milliseconds.
_MOST_INSTANCES = 100


def _ec2_instances(module: ModuleType) -> None:
    backend: Any = module.InstanceBackend
    run: Any = backend.run_instances

    @functools.wraps(run)
    def run_some(self: Any, image_id: str, count: int, *args: Any, **named: Any) -> Any:
        if count > _MOST_INSTANCES:
            from moto.ec2.exceptions import EC2ClientError

            raise EC2ClientError(
                "InstanceLimitExceeded",
                f"You have requested more instances ({count}) than your current instance limit of"
                f" {_MOST_INSTANCES} allows for the specified instance type.",
            )
        return run(self, image_id, count, *args, **named)

    backend.run_instances = run_some


def _ecr(models: ModuleType) -> None:
    backend: Any = models.ECRBackend
    resolve: Any = backend._resolve_image_tag_mutability  # noqa: SLF001

    def matches_filter(self: Any, filter: str, repository_name: str) -> bool:  # noqa: A002
        return filter in repository_name or glob_matches(f"{filter}*", repository_name)

    @functools.wraps(resolve)
    def resolve_by_wildcard(self: Any, repository: Any, proposed_image_tag: str) -> Any:
        filters: Sequence[Any] = repository.image_tag_mutability_exclusion_filters or []
        applying = [
            {**one, "filter": re.escape(proposed_image_tag)}
            for one in filters
            if glob_matches(one["filter"], proposed_image_tag)
        ]
        if not filters:
            return resolve(self, repository, proposed_image_tag)
        changed = _With(repository, image_tag_mutability_exclusion_filters=applying or _NOTHING)
        return resolve(self, changed, proposed_image_tag)

    backend._match_repository_filter = matches_filter  # noqa: SLF001
    backend._resolve_image_tag_mutability = resolve_by_wildcard  # noqa: SLF001


# A filter that matches nothing: an empty list would mean that there are no filters.
_NOTHING = [{"filter": r"(?!)", "filterType": "WILDCARD"}]


class _With:
    """An object with some attributes of its own, and otherwise those of another object."""

    def __init__(self, inner: Any, **own: Any) -> None:
        self._inner = inner
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _iot(models: ModuleType) -> None:
    thing: Any = models.FakeThing
    matches: Any = thing._matches_single_query  # noqa: SLF001

    @functools.wraps(matches)
    def matches_by_wildcard(self: Any, query_string: str) -> bool:
        kind, found, pattern = query_string.partition(":")
        if found and kind == "thingName":
            return glob_matches(pattern, self.thing_name)
        if found and kind == "thingTypeName":
            return bool(self.thing_type) and glob_matches(pattern, self.thing_type.thing_type_name)
        if not found or kind != "thingGroupNames":
            return bool(matches(self, query_string))
        backend: Any = models.iot_backends[self.account_id][self.region_name]
        groups = [group.thing_group_name for group in backend.list_thing_groups(None, None, None)]
        names = [*groups, *filter(None, [self.billing_group_name])]
        return any(
            matches(self, f"thingGroupNames:{re.escape(name)}")
            for name in names
            if glob_matches(pattern, name)
        )

    thing._matches_single_query = matches_by_wildcard  # noqa: SLF001
    backend: Any = models.IoTBackend
    backend.create_topic_rule = _checking_statement(backend.create_topic_rule)
    # moto replaces a rule by deleting it first.
    backend.replace_topic_rule = _checking_statement(backend.replace_topic_rule)


def _checking_statement(store: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a rule's statement that is too long or nests too deeply; others fail when they select a message."""

    @functools.wraps(store)
    def checked(self: Any, rule_name: str, **named: Any) -> Any:
        refusal = refusal_of(str(named.get("sql", "")))
        if refusal:
            from moto.iot.exceptions import IoTClientError

            # Documented: API_CreateTopicRule; the sentence is assumed.
            raise IoTClientError("SqlParseException", refusal)
        return store(self, rule_name, **named)

    return checked


# Documented: API_GetPartitions. How many parsed expressions are kept; moto keeps all.
_MOST_PREDICATE_CHARACTERS = 2048
_MOST_PREDICATES = 256


def _glue_expressions(utils: ModuleType) -> None:
    like: Any = utils._Like  # noqa: SLF001

    def evaluate(self: Any, part_keys: Any, part_input: Any) -> bool:
        kind = str(self.ident.type_(part_keys))
        if kind in ("bigint", "int", "smallint", "tinyint"):
            raise _glue_refusal("Integral data type doesn't support operation 'LIKE'")
        if kind in ("date", "decimal", "timestamp"):
            raise _glue_refusal(f"{kind.capitalize()} data type doesn't support operation 'LIKE'")
        text = self.ident.eval(part_keys, part_input)
        pattern = str(utils._cast("string", self.literal))  # noqa: SLF001
        return glob_matches(pattern, str(text), any_run="%", any_one="_")

    like.eval = evaluate
    cache: Any = utils._PARTITION_FILTER_EXPRESSION_CACHE  # noqa: SLF001
    parse: Any = cache.get

    def parse_within_bounds(expression: str | None) -> Any:
        if expression is not None and len(expression) > _MOST_PREDICATE_CHARACTERS:
            raise _glue_refusal("Expression is longer than 2048 characters")
        if len(cache._cache) >= _MOST_PREDICATES:  # noqa: SLF001
            cache._cache.clear()  # noqa: SLF001
        try:
            return parse(expression)
        except RecursionError:
            raise _glue_refusal(f"Unsupported expression '{expression}'") from None

    cache.get = parse_within_bounds


def _glue_refusal(message: str) -> Exception:
    from moto.glue.exceptions import InvalidInputException

    return InvalidInputException("GetPartitions", message)


# --- regular expressions ----------------------------------------------------------------------


def _glue(models: ModuleType) -> None:
    backend: Any = models.GlueBackend
    get_tables: Any = backend.get_tables

    @functools.wraps(get_tables)
    def get_tables_in_time(self: Any, database_name: str, expression: str | None) -> Any:
        tables = get_tables(self, database_name, None)
        if not expression:
            return tables
        # As in moto: a star matches anything, and the expression matches the start of a name.
        text = expression.replace(".*", "*").replace("*", ".*")
        try:
            java_pattern(text)  # so that the reason quotes the client's text
            pattern = java_pattern(f"(?:{text}).*")
            budget = MatchingBudget()
            return [table for table in tables if pattern.matches(table.name, budget)]
        except (PatternRefused, MatchTooLong) as error:
            raise _glue_refusal(f"Expression cannot be used: {error or 'too complex'}") from error

    backend.get_tables = get_tables_in_time


def _step_functions(json_path: ModuleType) -> None:
    # The text after the slice has no bracket, so that it matches in one way instead of one for every dot.
    vars(json_path)["_PATTERN_SLICE_OR_WILDCARD_ACCESS"] = (
        r"\$(?:\.[^[]+\[(?:\*|\d*:\d*)\]|\[\*\])(?:\.[^[]+)?$"
    )


def _ecs(models: ModuleType) -> None:
    refused: Any = models.InvalidParameterException

    def parse_resource_arn(resource_arn: str) -> dict[str, str]:
        """Read `arn:aws:ecs:<region>:<account>:<service>/[<cluster>/[<service id>/ecs-svc/]]<id>`."""
        parts = resource_arn.split(":", 5)
        named = len(parts) == 6 and parts[0] == "arn" and parts[2] == "ecs"
        path = parts[5].split("/") if named else []
        if len(path) < 2 or not (parts[3] and parts[4] and path[0]):
            raise refused("The ARN provided is invalid.")
        found = {"region": parts[3], "account_id": parts[4], "service": path[0], "id": path[-1]}
        if len(path) > 2:
            found["cluster_id"] = path[1]
        if len(path) > 4 and path[-2] == "ecs-svc":
            found["service_id"] = path[2]
        return found

    models.EC2ContainerServiceBackend._parse_resource_arn = staticmethod(parse_resource_arn)  # noqa: SLF001


def _api_gateway(models: ModuleType) -> None:
    validate: Any = models.validate

    @functools.wraps(validate)
    def validate_without_patterns(document: Any, *args: Any, **named: Any) -> Any:
        # A backtracking engine matches a default against its schema's pattern.
        return validate(_without_patterns(document), *args, **named)

    vars(models)["validate"] = validate_without_patterns


def _without_patterns(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_patterns(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {
            key: _without_patterns(item)
            for key, item in cast("dict[str, Any]", value).items()
            if not (key == "pattern" and isinstance(item, str)) and key != "patternProperties"
        }
    return value


# --- changing modules as they are imported ----------------------------------------------------

_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "moto.apigateway.models": _api_gateway,
    "moto.apigateway.utils": patch_api_documents,
    "moto.apigatewayv2.models": patch_yaml,
    "moto.core.parse": patch_query_parser,
    "moto.dynamodb.responses": patch_expressions,
    "moto.ec2.models.instances": _ec2_instances,
    "moto.ec2.models.security_groups": _ec2,
    "moto.ecr.models": _ecr,
    "moto.ecs.models": _ecs,
    "moto.events.models": _events,
    "moto.events.utils": patch_event_templates,
    "moto.glue.models": _glue,
    "moto.glue.utils": _glue_expressions,
    "moto.iam.access_control": _iam,
    "moto.iot.models": _iot,
    "moto.osis.models": patch_yaml,
    "moto.sns.utils": patch_filter_policies,
    "moto.sqs.models": _sqs,
    "moto.ssm.models": _ssm,
    "moto.stepfunctions.parser.asl.utils.json_path": _step_functions,
}


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _PATCHES[module.__name__](module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to patch; the other finders import all others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


@functools.cache
def patch_patterns() -> None:
    """Make moto match clients' patterns in bounded time, in this process from now on."""
    sys.meta_path.insert(0, _Finder())
    for name, patch in _PATCHES.items():
        if name in sys.modules:
            patch(sys.modules[name])
