"""The pages about event source mappings: what happened to a record, and how many records wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aws.protocols.service import DataPage, NothingToShow
from headrace.services.lambda_.mappings.mappings import Mappings


def trace_page(mappings: Mappings) -> DataPage:
    """Return the page of a record. Parameters: `mapping` (an id or a function's name) and `sequence` (a number)."""

    def data(params: Mapping[str, str]) -> dict[str, Any]:
        name = params.get("mapping", "")
        reports = mappings.traces(name, params.get("sequence"))
        if not reports:
            raise NothingToShow(f"No mapping or mapped function {name}.")
        return {"mappings": reports}

    return DataPage(
        "lambda/trace",
        "Lambda: what a mapping did with a record (JSON)",
        data,
        query="?mapping=<id or function>",
    )


def backlog_page(mappings: Mappings) -> DataPage:
    """Return the page that lists every mapping with the number of records that wait for it."""
    return DataPage(
        "lambda/mappings",
        "Lambda: each mapping's waiting records (JSON)",
        lambda _: {"mappings": mappings.backlogs()},
    )
