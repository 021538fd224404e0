"""Lists what headrace accepts without effect: `/_headrace/fidelity`; `?stack=<name>` limits it to one stack.

The page is a list of rows. A stack's row names a resource and its property. A service's row has an empty stack name,
and names an operation and its parameter; some have a note on the consequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import json_response
from headrace.aws.protocols.owned_service import with_newer
from headrace.aws.protocols.service import FidelityTable, ServiceApi
from headrace.pages.routes import Route
from headrace.services.iam.answers import NOTES, moto_tables

PATH = "/_headrace/fidelity"


def routes(apis: Sequence[ServiceApi]) -> list[Route]:
    """Return the route to the report."""
    return [Route(PATH, partial(_answer, apis), ("GET",))]


def _answer(apis: Sequence[ServiceApi], request: HttpRequest, _: list[str]) -> HttpResponse:
    stack = request.query_params().get("stack", "")
    rows = [row for api in apis if api.fidelity_rows for row in api.fidelity_rows(stack)]
    if not stack:
        rows += [row for api in apis for row in rows_of(api)]
        for name, table in moto_tables().items():
            rows += _rows(name, table, NOTES)
    return json_response(rows)


def rows_of(api: ServiceApi) -> Iterator[Mapping[str, str]]:
    """Yield the rows of a service's fidelity table."""
    table = with_newer(api.name, api.by_name(), api.fidelity)
    yield from _rows(api.name, table, api.fidelity_notes)


def _rows(
    service: str, table: FidelityTable, notes: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    for operation, parameters in table.items():
        for name, level in parameters.items():
            note = notes.get(f"{operation}.{name}")
            yield {
                "stack": "",
                "service": service,
                "operation": operation,
                "property": name,
                "level": level,
                **({} if note is None else {"note": note}),
            }
