"""Fault injection for tests: makes a running cloud throttle, fail, delay or drop requests, and stop at the end.

    with Faults("http://127.0.0.1:4566") as faults:
        faults.add("throttle", service="kinesis", action="PutRecords", count=3)
        ...

Standard library only. Requests are signed for a cloud with `--auth`, see `headrace.client.pages`. Not thread-safe.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any, Self, cast

from headrace.client.pages import ask, find_keys, signed_headers

_PATH = "/_headrace/faults"
_TIMEOUT_S = 30.0


class FaultError(Exception):
    """The cloud refused a rule, or there is no cloud; the message is one sentence."""


class Faults:
    """The faults of one cloud. As a context manager, it removes the faults that it added at the end."""

    def __init__(self, endpoint_url: str | None = None) -> None:
        """Take the cloud's URL; default: AWS_ENDPOINT_URL. This sends nothing yet."""
        url = endpoint_url or os.environ.get("AWS_ENDPOINT_URL") or "http://127.0.0.1:4566"
        self._url = url.rstrip("/") + _PATH
        self._added: list[str] = []

    def add(
        self,
        fault: str,
        *,
        service: str | None = None,
        action: str | None = None,
        stream: str | None = None,
        shard: str | None = None,
        probability: float = 1.0,
        count: int | None = None,
        seed: int | None = None,
        latency_ms: int | None = None,
        error_code: str | None = None,
        error_message: str | None = None,
        when: str | None = None,
        even_if_missing: bool = False,
    ) -> dict[str, Any]:
        """Add a rule and return it, with its `id`. Raises FaultError.

        Args:
            fault: `throttle`, `error` (the service's internal error, or `error_code`), `partial` (records of a Kinesis
                PutRecords one by one), `latency` (with `latency_ms`) or `drop` (the connection).
            service: botocore's name of the service; None matches every service.
            action: an operation, such as `PutRecords`.
            stream: the name of a Kinesis stream.
            shard: the id of a shard, such as `shardId-000000000000`.
            probability: the probability that it acts on a matching request (for `partial`: on a record).
            count: how often it acts at most; None for no limit.
            seed: the same seed and requests give the same faults.
            latency_ms: how long a `latency` fault waits before the request is executed.
            error_code: AWS's code instead of the usual one.
            error_message: the message of the error.
            when: `drop` the connection `before` the request is executed (then it never is) or `after`.
            even_if_missing: accept a stream or shard that does not exist yet, which is refused otherwise.
        """
        rule: dict[str, Any] = {
            "fault": fault,
            "service": service,
            "action": action,
            "stream": stream,
            "shard": shard,
            "probability": probability,
            "count": count,
            "seed": seed,
            "latency_ms": latency_ms,
            "error_code": error_code,
            "error_message": error_message,
            "when": when,
            # Sent only when it is true: an older cloud does not know it.
            "even_if_missing": even_if_missing or None,
        }
        members = {name: member for name, member in rule.items() if member is not None}
        added = self._ask("POST", "", members, expected="id")
        self._added.append(added["id"])
        return added

    def list(self) -> list[dict[str, Any]]:  # pyrefly: ignore[not-a-type]
        """Return every rule; `acted` is how often it has acted. Raises FaultError."""
        return self._ask("GET", expected="faults")["faults"]

    def remove(self, fault_id: str) -> None:
        """Remove one rule. Raises FaultError when there is none with that id."""
        self._ask("DELETE", f"/{fault_id}")

    def clear(self) -> int:
        """Remove all rules, also those of other clients; return how many there were. Raises FaultError."""
        return self._ask("DELETE", expected="removed")["removed"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        present = {rule["id"] for rule in self.list()}
        for fault_id in self._added:
            if fault_id in present:
                self.remove(fault_id)
        self._added.clear()

    def _ask(
        self, method: str, path: str = "", value: Any = None, *, expected: str | None = None
    ) -> Any:
        """Return the page's answer, which from a headrace cloud has the member `expected`. Raises FaultError."""
        body = None if value is None else json.dumps(value).encode()
        try:
            request = urllib.request.Request(self._url + path, data=body, method=method)
            request.add_header("Content-Type", "application/json")
            signed = signed_headers(find_keys(), method, request.full_url, body or b"")
            for name, text in signed.items():
                request.add_header(name, text)
            with ask(request, _TIMEOUT_S) as response:
                answer: Any = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise FaultError(self._sentence(error.read())) from None
        except OSError as error:
            raise FaultError(f"No cloud answers at {self._url}; start one: headrace up") from error
        except ValueError as error:
            raise FaultError(f"{self._url} is not a headrace cloud's page.") from error
        if expected is not None and not (isinstance(answer, dict) and expected in answer):
            raise FaultError(f"{self._url} is not a headrace cloud's page.")
        return cast("Any", answer)

    def _sentence(self, body: bytes) -> str:
        try:
            return str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            return f"{self._url} is not a headrace cloud's page."
