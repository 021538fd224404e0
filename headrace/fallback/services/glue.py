"""Glue: a table's partitions are kept row by row."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import functools
from typing import Any

from headrace.fallback.kept.dictionaries import DictRows, KeptDict


class PartitionRows(DictRows):
    """The partitions of a table."""

    service = "glue"


def patch(module: Any) -> None:
    """Replace methods of moto's models."""
    table = module.FakeTable
    init = table.__init__

    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.partitions = KeptDict(PartitionRows())

    table.__init__ = with_rows
