"""LocalStack's list of a queue's messages, which receives none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from headrace.aws.calls.http import HttpRequest
from tests.support.clock import ShiftedClock
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

PATH = "/_aws/sqs/messages"


def test_messages_are_listed_and_not_received(tmp_path: Path):
    clock = ShiftedClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        sqs = cloud.client("sqs")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        for body in ("one & <two>", "second"):
            attribute = {"DataType": "Binary", "BinaryValue": b"\0"}
            sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes={"a": attribute})
        sqs.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=60)

        def ask(
            path: str = PATH, query: str = "", method: str = "GET", **more: Any
        ) -> tuple[int, str]:
            body = more.pop("body", b"")
            headers = {
                "host": "localhost:4566",
                **{n.replace("_", "-"): v for n, v in more.items()},
            }
            answer = cloud.handle(HttpRequest(method, path, query, headers, body))
            assert isinstance(answer.body, bytes)
            return answer.status, answer.body.decode()

        def bodies(query: str, **more: Any) -> list[str]:
            status, text = ask(query=query, **more)
            assert status == 200, text
            return re.findall("<Body>(.*?)</Body>", text)

        named = f"QueueUrl={url}"
        assert bodies(named) == ["one &amp; &lt;two&gt;", "second"]
        assert bodies(f"{named}&ShowDelayed=true")[-1] == "late"
        (received,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=30)["Messages"]
        assert bodies(named) == ["second"]
        _, text = ask(query=f"{named}&ShowInvisible=1", accept="application/json")
        shown = json.loads(text)["ReceiveMessageResponse"]["ReceiveMessageResult"]["Message"]
        states = [{a["Name"]: a["Value"] for a in message["Attribute"]} for message in shown]
        assert [state["IsVisible"] for state in states] == ["false", "true"]
        assert [state["ApproximateReceiveCount"] for state in states] == ["1", "0"]
        assert {message["ReceiptHandle"] for message in shown} == {"SQS/BACKDOOR/ACCESS"}
        assert shown[0]["MessageId"] == received["MessageId"]
        assert shown[0]["MessageAttribute"][0]["Value"]["BinaryValue"] == "AA=="
        _, text = ask(f"{PATH}/{REGION}/{ACCOUNT}/q", accept="application/json")
        assert (
            json.loads(text)["ReceiveMessageResponse"]["ReceiveMessageResult"]["Message"]["Body"]
            == "second"
        )
        clock.advance(61)
        form = f"Action=ReceiveMessage&QueueUrl=http://sqs.{REGION}.localhost.localstack.cloud:4566/{ACCOUNT}/q"
        kind = "application/x-www-form-urlencoded"
        assert bodies("", method="POST", body=form.encode(), content_type=kind) == [
            "one &amp; &lt;two&gt;", "second", "late",
        ]  # fmt: skip
        wire = {
            "content_type": "application/x-amz-json-1.0",
            "x_amz_target": "AmazonSQS.ReceiveMessage",
        }
        _, text = ask(method="POST", body=json.dumps({"QueueUrl": url}).encode(), **wire)
        assert len(json.loads(text)["Messages"]) == 3
        for query in (
            "",
            "QueueUrl=x",
            "QueueUrl=http://localhost/000000000000/none",
            "QueueUrl=http://[x",
        ):
            status, text = ask(query=query)
            assert (status, "NonExistentQueue" in text) == (400, True)
        for broken in (b"[" * 100_000, b"[]", b"{"):
            status, text = ask(method="POST", body=broken, **wire)
            assert (status, "SerializationException" in text) == (400, True)
        status, text = ask(query=f"{named}&Action=PurgeQueue")
        assert (status, "only accepts ReceiveMessage" in text) == (400, True)


def test_a_locked_group_is_invisible(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        sqs = cloud.client("sqs")
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        url = sqs.create_queue(QueueName="q.fifo", Attributes=attributes)["QueueUrl"]
        for body, group in (("1", "a"), ("2", "a"), ("3", "b")):
            sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group)
        sqs.receive_message(QueueUrl=url)
        path = f"{PATH}/{REGION}/{ACCOUNT}/q.fifo"
        for query, expected in (("", ["3"]), ("ShowInvisible=true", ["1", "2", "3"])):
            answer = cloud.handle(HttpRequest("GET", path, query, {"host": "localhost:4566"}, b""))
            assert isinstance(answer.body, bytes)
            assert re.findall("<Body>(.*?)</Body>", answer.body.decode()) == expected
