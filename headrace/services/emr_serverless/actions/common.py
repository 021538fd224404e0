"""What EMR Serverless' actions share."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from headrace.services.emr_serverless.errors import validation
from headrace.services.emr_serverless.limits import LONGEST_PAGE

_T = TypeVar("_T")


def moment(time_ms: int) -> datetime:
    """Return epoch milliseconds as an aware datetime."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def epoch_ms(moment: datetime) -> float:
    """Return a datetime as epoch milliseconds."""
    return moment.timestamp() * 1000


def fingerprint(request: Mapping[str, Any]) -> str:
    """Return what two requests with the same client token must have in common."""
    return json.dumps({k: v for k, v in request.items() if k != "clientToken"}, sort_keys=True)


def present(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return `members` without those that are None."""
    return {name: value for name, value in members.items() if value is not None}


def page(items: Iterable[_T], token: str | None, most: int | None) -> tuple[list[_T], str | None]:
    """Return one page of `items` and the token of the next. Raises AwsError for a token that is not ours."""
    start = 0
    if token is not None:
        try:
            start = int(base64.urlsafe_b64decode(token))
        except (binascii.Error, ValueError):
            raise validation("nextToken is not valid.") from None
    found = list(items)
    end = start + (most or LONGEST_PAGE)
    following = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(found) else None
    return found[start:end], following
