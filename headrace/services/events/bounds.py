"""EventBridge: patterns and prefixes of clients match in bounded time."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from types import ModuleType
from typing import Any

from headrace.services.events.patterns import patch_events


def match_in_time(models: ModuleType) -> None:
    """Match events in bounded time, and list rules by a literal prefix."""
    patch_events(models)
    backend: Any = models.EventsBackend
    list_rules: Any = backend.list_rules

    @functools.wraps(list_rules)
    def list_rules_by_literal(
        self: Any, prefix: str | None = None, *args: Any, **named: Any
    ) -> Any:
        return list_rules(self, prefix and re.escape(prefix), *args, **named)

    backend.list_rules = list_rules_by_literal
