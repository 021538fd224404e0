"""Pages of the list operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from headrace.aws.shapes import redshift_serverless as shapes
from headrace.core.values import BadMarker, page_of
from headrace.services.redshift_serverless.errors import invalid
from headrace.services.redshift_serverless.limits import PAGE

_T = TypeVar("_T")


def cut_page(
    items: Sequence[_T], request: shapes.ListNamespacesRequest | shapes.ListWorkgroupsRequest
) -> tuple[list[_T], str | None]:
    """Return a page and the token of the next. Raises AwsError."""
    try:
        return page_of(items, request.get("nextToken"), request.get("maxResults") or PAGE)
    except BadMarker:
        raise invalid("Invalid nextToken.") from None
