"""IoT: queries of things match by wildcards in bounded time."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from types import ModuleType
from typing import Any

from headrace.core.wildcards import glob_matches


def match_by_wildcards(models: ModuleType) -> None:
    """Match queries of things by wildcards instead of regular expressions."""
    thing: Any = models.FakeThing
    matches: Any = thing._matches_single_query

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

    thing._matches_single_query = matches_by_wildcard
