"""Custom resources: which answers they wait for, and for how long."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.ids import Ids
from headrace.core.ports import FunctionNotFound, FunctionThrottled, InvokeResult
from headrace.services.cloudformation.errors import Cancelled, ResourceFailed
from headrace.services.cloudformation.resources.base import Context, ResourceResult
from headrace.services.cloudformation.resources.types.cloudformation import (
    custom_resource_type,
)
from headrace.services.cloudformation.signals import Responses
from tests.support.clock import FakeClock

ARN = "arn:aws:lambda:us-east-1:000000000000:function:custom"
Handler = Callable[[dict[str, Any]], InvokeResult]


def ended(payload: bytes = b"null", error: str | None = None, tail: bytes = b"") -> InvokeResult:
    return InvokeResult(payload, error, "$LATEST", "r", tail)


class Lab:
    """A context whose functions are `handler`, and whose time passes only by waiting."""

    def __init__(self, handler: Handler) -> None:
        self.clock = FakeClock()
        self.ids = Ids(7)
        self.responses = Responses(self.clock, self.ids, lambda: "http://cloud")
        self.stop = threading.Event()
        self.handler = handler
        self.events: list[dict[str, Any]] = []

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        event = json.loads(payload)
        self.events.append(event)
        return self.handler(event)

    def answer(self, event: dict[str, Any], **answer: Any) -> bool:
        token = event["ResponseURL"].rsplit("/", 1)[-1]
        return self.responses.receive(token, json.dumps(answer).encode())

    def create(self, **properties: Any) -> ResourceResult:
        context = Context(
            control=None,  # type: ignore[arg-type]
            clock=self.clock,
            ids=self.ids,
            account="000000000000",
            region="us-east-1",
            stack_name="s",
            stack_id="arn",
            logical_id="Thing",
            tags={},
            endpoint_url="http://cloud",
            responses=self.responses,
            functions=self,
            stop=self.stop,
            note_made=lambda _: None,
        )
        kind = custom_resource_type("Custom::Thing")
        return kind.create(context, {"ServiceToken": ARN, **properties})

    def failure(self, **properties: Any) -> str:
        with pytest.raises(ResourceFailed) as caught:
            self.create(**properties)
        return str(caught.value)


def test_an_answer_is_taken_whatever_becomes_of_the_function_after():
    def handler(event: dict[str, Any]) -> InvokeResult:
        lab.answer(event, Status="SUCCESS", PhysicalResourceId="p", Data={"A": "b"})
        return ended(b'{"errorType":"E"}', "Unhandled")

    lab = Lab(handler)
    made = lab.create()
    assert (made.physical_id, made.attributes) == ("p", {"A": "b"})


def test_a_function_that_fails_fails_the_resource_with_its_error_and_log():
    error = json.dumps(
        {"errorType": "Runtime.ImportModuleError", "errorMessage": "No module named 'x'"}
    )
    log = b"START RequestId: 1\nloading\n\n[ERROR] No module named 'x'\nEND RequestId: 1\n"
    lab = Lab(lambda _: ended(error.encode(), "Unhandled", log))
    assert lab.failure() == (
        f"The function {ARN} failed before it answered: Runtime.ImportModuleError: No module named 'x' Its log ends:"
        " loading | [ERROR] No module named 'x'"
    )
    assert lab.clock.monotonic_s() - 1_700_000_000 < 60


def test_a_function_that_is_not_there_fails_the_resource():
    def handler(_: dict[str, Any]) -> InvokeResult:
        raise FunctionNotFound

    assert "Function not found: " + ARN in Lab(handler).failure()


def test_a_throttled_function_is_invoked_again():
    left = [1, 2, 3]

    def handler(event: dict[str, Any]) -> InvokeResult:
        if left:
            left.pop()
            raise FunctionThrottled
        lab.answer(event, Status="SUCCESS", PhysicalResourceId="p")
        return ended()

    lab = Lab(handler)
    assert lab.create().physical_id == "p"
    assert len(lab.events) == 4


@pytest.mark.parametrize(("given", "seconds"), [({}, 3600), ({"ServiceTimeout": "30"}, 30)])
def test_a_function_that_ends_well_without_an_answer_is_waited_for(
    given: dict[str, Any], seconds: int
):
    lab = Lab(lambda _: ended())
    began_s = lab.clock.monotonic_s()
    reason = lab.failure(**given)
    assert reason.startswith(
        "CloudFormation did not receive a response from your Custom Resource. Please check your logs for requestId"
        f" [{lab.events[0]['RequestId']}]."
    )
    assert lab.clock.monotonic_s() - began_s == pytest.approx(seconds)


@pytest.mark.parametrize("timeout", ["0", "3601", "-1", "x", "9" * 5000, "1.5", ""])
def test_a_service_timeout_is_from_a_second_to_an_hour(timeout: str):
    reason = Lab(lambda _: ended()).failure(ServiceTimeout=timeout)
    assert reason.startswith("ServiceTimeout must be an integer from 1 to 3600, not ")


def test_an_answer_may_have_4096_bytes():
    def handler(event: dict[str, Any]) -> InvokeResult:
        assert lab.answer(event, Status="SUCCESS", PhysicalResourceId="p", Data={"A": "x" * 4096})
        return ended()

    lab = Lab(handler)
    assert lab.failure() == "Response object is too long."


def test_what_is_no_answer_is_not_taken():
    lab = Lab(lambda _: ended())
    token, _ = lab.responses.expect()
    for body in (b"", b"[]", b"{", b"[" * 4000, b"\xff"):
        assert not lab.responses.receive(token, body)
    assert not lab.responses.receive("nobody", b"{}")


def test_waiting_is_given_up_with_the_operation():
    def handler(_: dict[str, Any]) -> InvokeResult:
        lab.stop.set()
        return ended()

    lab = Lab(handler)
    with pytest.raises(Cancelled):
        lab.create()
