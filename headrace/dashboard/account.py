"""`Account`: calls AWS's operations on this cloud or on AWS; `Reader` collects the refusals beside the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


class CallRefused(Exception):
    """An operation was refused; `code` is AWS's, `status` the HTTP status."""

    def __init__(
        self, service: str, operation: str, code: str, message: str, status: int = 400
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.service, self.operation, self.code, self.message = service, operation, code, message
        self.status = status

    def as_json(self) -> dict[str, str]:
        """Return the refusal for the page, which names it in the place of what could not be read."""
        return {
            "service": self.service,
            "operation": self.operation,
            "code": self.code,
            "message": self.message,
        }


class Account(Protocol):
    """An account in a region. Thread-safe.

    Attributes:
        source: `headrace` or `aws`.
        is_read_only: whether the page may only look.
    """

    source: str
    account_id: str
    region: str
    is_read_only: bool

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """Run an operation of a service (botocore's names). Raises CallRefused."""
        ...


@dataclass(slots=True)
class Reader:
    """Reads an account; a refused call becomes an entry of `refused` and an empty answer."""

    account: Account
    refused: list[CallRefused] = field(default_factory=list[CallRefused])

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """Run an operation; return an empty answer if it is refused."""
        try:
            return self.account.call(service, operation, **params)
        except CallRefused as refusal:
            known = {(one.service, one.operation, one.code) for one in self.refused}
            if (service, operation, refusal.code) not in known:
                self.refused.append(refusal)
            return {}

    def pages(
        self, service: str, operation: str, member: str, *, token: Token, **params: Any
    ) -> Iterator[Any]:
        """Yield the elements of `member` of all pages of a list."""
        following: dict[str, Any] = {}
        for _ in range(MOST_PAGES):
            answer = self.call(service, operation, **params, **following)
            yield from answer.get(member) or ()
            following = token(answer)
            if not following:
                return

    def refusals(self) -> list[dict[str, str]]:
        """Return the refusals for the page."""
        return [refusal.as_json() for refusal in self.refused]


# Takes an answer, and returns the parameters of the next call; empty after the last page.
Token = Callable[[Mapping[str, Any]], dict[str, Any]]
# A list that is longer is cut here.
MOST_PAGES = 50


def next_token(name: str, parameter: str = "") -> Token:
    """Return the `Token` of a list whose answers have the member `name`."""

    def following(answer: Mapping[str, Any]) -> dict[str, Any]:
        value = answer.get(name)
        return {parameter or name: value} if value else {}

    return following


def milliseconds(value: Any) -> int | None:
    """Return a time of an answer in milliseconds since 1970; None for None."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return round(float(value) * 1000)


def name_of(arn: str) -> str:
    """Return the last part of an ARN: the resource's name."""
    return arn.rpartition("/")[2] if "/" in arn.rpartition(":")[2] else arn.rpartition(":")[2]
