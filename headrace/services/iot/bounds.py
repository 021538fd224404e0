"""IoT: queries of things match by wildcards in bounded time."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from headrace.core.patterns import glob_matches
from headrace.services.iot.sql import refusal_of


def match_by_wildcards(models: ModuleType) -> None:
    """Match queries of things by wildcards instead of regular expressions."""
    thing: Any = models.FakeThing
    matches: Any = thing._matches_single_query

    @functools.wraps(matches)
    def matches_by_wildcard(self: Any, query_string: str) -> bool:
        kind, separator, pattern = query_string.partition(":")
        if separator and kind == "thingName":
            return glob_matches(pattern, self.thing_name)
        if separator and kind == "thingTypeName":
            return bool(self.thing_type) and glob_matches(pattern, self.thing_type.thing_type_name)
        if not separator or kind != "thingGroupNames":
            return bool(matches(self, query_string))
        backend: Any = models.iot_backends[self.account_id][self.region_name]
        groups = [group.thing_group_name for group in backend.list_thing_groups(None, None, None)]
        names = [*groups, *filter(None, [self.billing_group_name])]
        return any(
            matches(self, f"thingGroupNames:{re.escape(name)}")
            for name in names
            if glob_matches(pattern, name)
        )

    thing._matches_single_query = matches_by_wildcard


def check_statements(models: ModuleType) -> None:
    """Refuse rules whose SQL is too long or nests too deeply when they are made."""
    backend: Any = models.IoTBackend
    backend.create_topic_rule = _check_statement(backend.create_topic_rule)
    # moto replaces a rule by deleting it first.
    backend.replace_topic_rule = _check_statement(backend.replace_topic_rule)


def _check_statement(store: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a rule's statement that is too long or nests too deeply; others fail when they select a message."""

    @functools.wraps(store)
    def check_and_store(self: Any, rule_name: str, **named: Any) -> Any:
        refusal = refusal_of(str(named.get("sql", "")))
        if refusal:
            from moto.iot.exceptions import IoTClientError

            # Documented: API_CreateTopicRule; the sentence is assumed.
            raise IoTClientError("SqlParseException", refusal)
        return store(self, rule_name, **named)

    return check_and_store
