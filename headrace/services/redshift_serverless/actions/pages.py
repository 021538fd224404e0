"""Pages of the list operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.values import BadMarker, page_of, present
from headrace.services.redshift_serverless.errors import invalid
from headrace.services.redshift_serverless.limits import PAGE


def paged(items: Sequence[Any], request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an answer with a page of items in the member `name`, and the next page's token. Raises AwsError."""
    try:
        shown, token = page_of(items, request.get("nextToken"), request.get("maxResults") or PAGE)
    except BadMarker:
        raise invalid("Invalid nextToken.") from None
    return present({name: shown, "nextToken": token})
