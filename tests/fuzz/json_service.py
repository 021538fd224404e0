"""Random requests to a service that speaks AWS's JSON 1.1: never a 500, and every answer is one that botocore reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import botocore.session
from botocore import parsers

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.fuzz.requests import Known, Requests, json_ready
from tests.fuzz.upkeep import Upkeep
from tests.support.cloud import InProcessCloud

JSON = "application/x-amz-json-1.1"
_PARSER: Any = parsers.create_parser("json")


class JsonFuzz:
    """Sends random requests to the operations of one service.

    Args:
        known: gives sound values for members by name, anew each time things are put right.
        put_right: makes again what requests deleted, and deletes what they made.
    """

    def __init__(
        self,
        cloud: InProcessCloud,
        service: str,
        target_prefix: str,
        known: Callable[[], Known],
        put_right: Callable[[], None],
    ) -> None:
        self.model = botocore.session.get_session().get_service_model(service)
        self._cloud = cloud
        self._prefix = target_prefix
        self._known = known
        self._put_right = put_right

    def run(self, operation: str, count: int, seed: int = 1) -> list[int]:
        """Send so many requests to an operation; return the statuses. Fails at the first answer that is none."""
        upkeep = Upkeep(operation, 25, self._put_right)
        made = Requests(f"{operation}-{seed}", self._known())
        statuses: list[int] = []
        for number in range(count):
            upkeep.before(number)
            value = made.of(self.model.operation_model(operation))
            try:
                body = json.dumps(json_ready(value)).encode()
            except (ValueError, UnicodeEncodeError):
                continue
            if made.random.random() < 0.1:
                body = made.damaged(body)
            try:
                answer = self.answer(operation, body)
                upkeep.after(answer.status)
                self.check(operation, answer)
            except Exception as error:
                raise AssertionError(f"{operation} {number}: {body!r}") from error
            statuses.append(answer.status)
        return statuses

    def answer(self, operation: str, body: bytes) -> HttpResponse:
        """Send a body to an operation."""
        headers = {"x-amz-target": f"{self._prefix}.{operation}", "content-type": JSON}
        answer = self._cloud.cloud.handle(HttpRequest("POST", "/", "", headers, body))
        return answer.result(30) if isinstance(answer, Future) else answer

    def check(self, operation: str, answer: HttpResponse) -> None:
        """Fail unless the answer is one that AWS could give, as botocore reads it."""
        assert answer.status in (200, 400, 403, 413), answer.body
        assert isinstance(answer.body, bytes)
        headers = {name.lower(): value for name, value in answer.headers}
        assert headers["x-amzn-requestid"]
        shape: Any = None
        if answer.status == 200:
            shape = self.model.operation_model(operation).output_shape
        given = {"status_code": answer.status, "headers": headers, "body": answer.body}
        parsed = _PARSER.parse(given, shape)
        if answer.status != 200:
            error = parsed["Error"]
            assert error["Code"].endswith(("Exception", "Failure", "Error"))
            assert error["Message"] or error["Code"] == "SerializationException"
        elif shape is not None:
            for name in shape.required_members:
                assert name in parsed
