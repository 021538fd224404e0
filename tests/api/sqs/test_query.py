"""SQS by the query protocol, as curl and SDKs of before 2023 speak it: forms, and queries at the queue's address."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import ACCOUNT, InProcessCloud

VERSION = "Version=2012-11-05"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_a_message_goes_through_a_queue_s_address(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("sqs").create_queue(QueueName="q")

        def ask(method: str, path: str, parameters: str) -> tuple[int, str]:
            query, body, more = (
                (parameters, b"", {}) if method == "GET" else ("", parameters.encode(), FORM)
            )
            headers = {"host": "localhost:4566", **more}
            answer = cloud.handle(HttpRequest(method, path, query, headers, body))
            return answer.status, bytes(answer.body).decode()  # type: ignore[arg-type]

        queue = f"/{ACCOUNT}/q"
        for method, body in (("GET", "first"), ("POST", "second")):
            send = f"Action=SendMessage&MessageBody={body}&{VERSION}"
            status, said = ask(method, queue, send)
            assert (status, "<MD5OfMessageBody>" in said) == (200, True), said
        receive = f"Action=ReceiveMessage&MaxNumberOfMessages=10&{VERSION}"
        status, said = ask("GET", queue, receive)
        assert status == 200, said
        assert sorted(re.findall("<Body>(.*?)</Body>", said)) == ["first", "second"], said
        status, said = ask("GET", "/", f"Action=GetQueueUrl&QueueName=none&{VERSION}")
        assert (status, "AWS.SimpleQueueService.NonExistentQueue" in said) == (400, True)
        # What names no version of a known service is an object.
        status, said = ask("GET", queue, "Action=SendMessage")
        assert (status, "NoSuchBucket" in said) == (404, True)
