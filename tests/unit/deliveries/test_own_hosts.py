"""AWS's host names are answered in this cloud, or refused; nothing is looked up or sent."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.outside_http import exchange, is_aws_host, post, request
from headrace.moto.current_cloud import CURRENT
from headrace.services.firehose.destinations import exchange as wire

API = "https://abc123.execute-api.us-east-1.amazonaws.com/dev/in?x=1"


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the calls of APIs; any use of the network fails."""
    made: list[Any] = []

    def answer(api_id: str, **call: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        made.append((api_id, call["method"], call["url"], call["headers"], call["body"]))
        return 202, [], b'{"ok":1}'

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the network was used")

    monkeypatch.setattr(CURRENT, "apis", answer)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return made


def test_an_api_answers_by_its_aws_name(calls: list[Any]):
    headers = {"X-A": "b", "Host": "x"}
    assert request("POST", API, b"body", headers, within_s=1) == (202, b'{"ok":1}')
    limits = wire.Limits(within_s=1, answer_bytes=100, stopping=threading.Event())
    answer = wire.exchange("POST", API, {"X-A": "b"}, b"body", limits)
    assert (answer.status, answer.body) == (202, b'{"ok":1}')
    assert calls == [("abc123", "POST", "/dev/in?x=1", {"X-A": "b"}, b"body")] * 2


@pytest.mark.parametrize(
    "host",
    [
        "sqs.us-east-1.amazonaws.com",
        "kinesis.cn-north-1.amazonaws.com.cn",
        "abc.lambda-url.us-east-1.on.aws",
        "SNS.US-EAST-1.AMAZONAWS.COM.",
        "lambda.us-east-1.api.aws",
    ],
)
def test_other_names_of_aws_are_refused(calls: list[Any], host: str):
    with pytest.raises(AwsError, match="sends nothing to AWS"):
        post(f"https://{host}/x", b"", {})
    limits = wire.Limits(within_s=1, answer_bytes=100, stopping=threading.Event())
    with pytest.raises(wire.ConnectFailed, match="sends nothing to AWS"):
        wire.exchange("POST", f"https://{host}/x", {}, b"", limits)
    assert calls == []


@pytest.mark.parametrize("host", ["example.com", "amazonaws.com.example.com", "notamazonaws.com"])
def test_other_hosts_are_not_awss(host: str):
    assert not is_aws_host(host)


def test_apis_that_call_each_other_end(monkeypatch: pytest.MonkeyPatch):
    def again(*_: Any, **__: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        return exchange("GET", API, b"", {}, within_s=1)

    monkeypatch.setattr(CURRENT, "apis", again)
    with pytest.raises(AwsError, match="5 deep"):
        request("GET", API, b"", {}, within_s=1)
