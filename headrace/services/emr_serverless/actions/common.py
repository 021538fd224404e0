"""What EMR Serverless' actions share: pages, times, and the comparison of repeated requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from headrace.aws.shapes import emr_serverless as shapes
from headrace.core.values import BadMarker, page_of
from headrace.services.emr_serverless.errors import validation
from headrace.services.emr_serverless.limits import LONGEST_PAGE

_T = TypeVar("_T")


def epoch_ms(moment: datetime) -> float:
    """Return a datetime as epoch milliseconds."""
    return moment.timestamp() * 1000


def fingerprint(
    request: shapes.CreateApplicationRequest | shapes.StartJobRunRequest,
) -> str:
    """Return what must be equal in two requests with the same client token."""
    return json.dumps({k: v for k, v in request.items() if k != "clientToken"}, sort_keys=True)


def page(items: Iterable[_T], token: str | None, most: int | None) -> tuple[list[_T], str | None]:
    """Return one page of `items` and the next page's token. Raises AwsError for an invalid token."""
    try:
        return page_of(items, token, most or LONGEST_PAGE)
    except BadMarker:
        raise validation("nextToken is not valid.") from None
