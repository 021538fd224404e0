"""SQS: prefixes of queues are literal."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from types import ModuleType
from typing import Any


def match_literal_prefixes(models: ModuleType) -> None:
    """List queues by a literal prefix."""
    backend: Any = models.SQSBackend
    list_queues: Any = backend.list_queues

    @functools.wraps(list_queues)
    def list_queues_by_literal(self: Any, queue_name_prefix: str) -> Any:
        return list_queues(self, queue_name_prefix and re.escape(queue_name_prefix))

    backend.list_queues = list_queues_by_literal
