"""Topics: a subscriber that cannot be reached is nobody else's trouble, and nothing of a message stays."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.deliveries.outside_http import post
from headrace.moto.current_cloud import CURRENT
from tests.support.moto_lab import MotoLab

TOPIC = "arn:aws:sns:us-east-1:000000000000:t"
QUEUE = "arn:aws:sqs:us-east-1:000000000000:q"


@pytest.fixture
def topic(lab: MotoLab) -> Any:
    client = lab.client("sns")
    client.create_topic(Name="t")
    return client


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]], list[int]]]:
    """An address, what was posted to it, and what it answers next."""
    posted, answers = list[tuple[dict[str, str], bytes]](), list[int]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(answers.pop(0) if answers else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/here", posted, answers
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("is_guarded", "status"), [("true", 403), ("false", 200)])
def test_a_guarded_subscription_is_left_by_a_signed_request_alone(
    lab: MotoLab, topic: Any, endpoint: Any, is_guarded: str, status: int
):
    url, posted, _ = endpoint
    topic.subscribe(TopicArn=TOPIC, Protocol="http", Endpoint=url)
    lab.outbox.step()
    token = json.loads(posted[-1][1])["Token"]
    arn = topic.confirm_subscription(
        TopicArn=TOPIC, Token=token, AuthenticateOnUnsubscribe=is_guarded
    )["SubscriptionArn"]
    link = HttpRequest("GET", "/", f"Action=Unsubscribe&SubscriptionArn={arn}", {}, b"")
    assert lab.handle(link).status == status
    topic.unsubscribe(SubscriptionArn=arn)
    assert topic.list_subscriptions_by_topic(TopicArn=TOPIC)["Subscriptions"] == []


def test_a_missing_queue_does_not_fail_the_publisher(lab: MotoLab, topic: Any):
    sqs = lab.client("sqs")
    there, dead = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("there", "dead"))
    redrive = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead"})
    for name in ("gone", "there"):
        topic.subscribe(
            TopicArn=TOPIC, Protocol="sqs", Endpoint=f"arn:aws:sqs:us-east-1:000000000000:{name}",
            Attributes={"RedrivePolicy": redrive},
        )  # fmt: skip
    assert topic.publish(TopicArn=TOPIC, Message="m")["MessageId"]
    for url in (there, dead):
        (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
        assert json.loads(message["Body"])["Message"] == "m"


def test_what_a_dead_letter_queue_refuses_does_not_fail_the_publisher(
    lab: MotoLab, topic: Any, caplog: pytest.LogCaptureFixture
):
    sqs = lab.client("sqs")
    for name in ("there", "dead"):
        sqs.create_queue(QueueName=name, Attributes={"MaximumMessageSize": "1024"})
    topic.subscribe(
        TopicArn=TOPIC, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:000000000000:there",
        Attributes={
            "RedrivePolicy": '{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead"}'
        },
    )  # fmt: skip
    assert topic.publish(TopicArn=TOPIC, Message="m" * 1025)["MessageId"]
    assert "is lost: One or more parameters are invalid" in caplog.text
    assert CURRENT.handled.events() == {(TOPIC, "NumberOfNotificationsFailedToRedriveToDlq"): 1}


def subscribe_by_http(lab: MotoLab, topic: Any, endpoint: Any) -> str:
    """Subscribe an endpoint that confirms; return the subscription's ARN."""
    url, posted, _ = endpoint
    topic.subscribe(TopicArn=TOPIC, Protocol="http", Endpoint=url)
    lab.outbox.step()
    token = json.loads(posted[-1][1])["Token"]
    return str(topic.confirm_subscription(TopicArn=TOPIC, Token=token)["SubscriptionArn"])


def test_an_address_gets_messages_once_it_has_confirmed(lab: MotoLab, topic: Any, endpoint: Any):
    url, posted, _ = endpoint
    request = {"TopicArn": TOPIC, "Protocol": "http", "Endpoint": url}
    assert topic.subscribe(**request)["SubscriptionArn"] == "pending confirmation"
    arn = topic.subscribe(**request, ReturnSubscriptionArn=True)["SubscriptionArn"]
    assert arn.startswith(f"{TOPIC}:")
    (shown,) = topic.list_subscriptions_by_topic(TopicArn=TOPIC)["Subscriptions"]
    assert (shown["SubscriptionArn"], shown["Endpoint"]) == ("PendingConfirmation", url)
    topic.publish(TopicArn=TOPIC, Message="too early")
    lab.restart()
    lab.moto.warm_up()
    lab.outbox.step()
    told = [json.loads(body) for _, body in posted]
    assert {one["Type"] for one in told} == {"SubscriptionConfirmation"}
    headers = posted[0][0]
    assert headers["x-amz-sns-message-type"] == "SubscriptionConfirmation"
    token = told[0]["Token"]
    assert (
        told[0]["SubscribeURL"]
        .split("?")[1]
        .startswith(f"Action=ConfirmSubscription&TopicArn={TOPIC}&Token={token}")
    )
    for wrong in (token[:-1] + ("0" if token[-1] != "0" else "1"), "0" * 64):
        with pytest.raises(topic.exceptions.InvalidParameterException, match="Token"):
            topic.confirm_subscription(TopicArn=TOPIC, Token=wrong)
    for _ in range(2):
        confirmed = topic.confirm_subscription(TopicArn=TOPIC, Token=token)
        assert confirmed["SubscriptionArn"] == arn
    attributes = topic.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert attributes["PendingConfirmation"] == "false"
    posted.clear()
    topic.publish(TopicArn=TOPIC, Message="now")
    lab.outbox.step()
    ((_, body),) = posted
    assert json.loads(body)["Message"] == "now"


def test_an_address_is_posted_to_after_the_answer(lab: MotoLab, topic: Any, endpoint: Any):
    _, posted, answers = endpoint
    assert subscribe_by_http(lab, topic, endpoint)
    posted.clear()
    sent = topic.publish(TopicArn=TOPIC, Message="m", Subject="about")["MessageId"]
    assert posted == []
    lab.restart()
    lab.moto.warm_up()
    answers.append(503)
    lab.outbox.step()
    lab.clock.advance(10)
    lab.outbox.step()
    assert len(posted) == 2
    headers, body = posted[-1]
    assert headers["x-amz-sns-message-id"] == sent
    told = json.loads(body)
    assert (told["Message"], told["Subject"], told["MessageId"]) == ("m", "about", sent)


def test_posting_has_a_scheme_and_says_what_was_answered(endpoint: Any):
    url, _, answers = endpoint
    with pytest.raises(AwsError, match="is not an HTTP address"):
        post("file:///etc/passwd", b"", {})
    answers.append(404)
    with pytest.raises(AwsError, match="answered 404"):
        post(url, b"", {})


@pytest.mark.parametrize("version", ["1", "2"])
def test_signatures_fit_a_certificate_that_can_be_fetched(lab: MotoLab, topic: Any, version: str):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from moto.sns.models import sns_backends

    url = lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    topic.subscribe(TopicArn=TOPIC, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:000000000000:q")
    if version == "2":
        topic.set_topic_attributes(
            TopicArn=TOPIC, AttributeName="SignatureVersion", AttributeValue="2"
        )
    names = set[str]()
    for n in range(2):
        topic.publish(TopicArn=TOPIC, Message=str(n), Subject="s")
        (message,) = lab.client("sqs").receive_message(QueueUrl=url)["Messages"]
        told = json.loads(message["Body"])
        assert told["SignatureVersion"] == version
        name = told["SigningCertURL"].rpartition("/")[2]
        names.add(name)
        lab.restart()
        lab.moto.warm_up()
        pem = sns_backends["123456789012"]["us-east-1"]._message_public_keys[name]
        key = x509.load_pem_x509_certificate(pem).public_key()
        assert isinstance(key, rsa.RSAPublicKey)
        signed = "".join(
            f"{part}\n{told[part]}\n"
            for part in ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
        )
        key.verify(
            base64.b64decode(told["Signature"]),
            signed.encode(),
            padding.PKCS1v15(),
            hashes.SHA256() if version == "2" else hashes.SHA1(),
        )
    # A key a start: the private half is not kept.
    assert len(names) == 2


def test_nothing_of_what_was_sent_stays(lab: MotoLab, topic: Any):
    from moto.sns.models import sns_backends

    for n in range(20):
        topic.publish(TopicArn=TOPIC, Message="x" * 1000)
        topic.publish(PhoneNumber="+15550100", Message=str(n))
    backend = sns_backends["000000000000"]["us-east-1"]
    kept = (
        backend.topics[TOPIC].sent_notifications,
        backend.sms_messages,
        backend.sms_message_objects,
    )
    assert [len(each) for each in kept] == [0, 0, 0]


@pytest.mark.parametrize("by", ["subscribe", "set"])
def test_a_filter_policy_has_at_most_256_kb(lab: MotoLab, by: str):
    sns = lab.client("sns")
    topic = sns.create_topic(Name="filtered")["TopicArn"]
    where = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": QUEUE}
    fits, large = (json.dumps({"a": ["x" * size]}) for size in (256 * 1024 - 11, 256 * 1024))
    arn = sns.subscribe(**where, Attributes={"FilterPolicy": fits}, ReturnSubscriptionArn=True)[
        "SubscriptionArn"
    ]
    asked: dict[str, Callable[[], Any]] = {
        "subscribe": lambda: sns.subscribe(**where, Attributes={"FilterPolicy": large}),
        "set": lambda: sns.set_subscription_attributes(
            SubscriptionArn=arn, AttributeName="FilterPolicy", AttributeValue=large
        ),
    }
    with pytest.raises(ClientError, match="FilterPolicy: Filter policy is larger than 256 KB"):
        asked[by]()


AMOUNTS = {
    "order": {
        "amount": [{"numeric": [">=", 10]}],
        "country": [{"anything-but": {"prefix": "x"}}, {"exists": False}],
    },
    "$or": [{"kind": ["a"]}, {"kind": [{"suffix": "b"}]}],
}


@pytest.mark.parametrize(
    ("scope", "policy", "taken"),
    [
        ("MessageBody", AMOUNTS, [0, 2]),
        ("MessageBody", {"order": {"country": [{"exists": False}]}}, [2]),
        (
            "MessageAttributes",
            {"$or": [{"n": [1]}, {"tag": [{"equals-ignore-case": "X"}]}]},
            [1, 2],
        ),
        ("MessageAttributes", {"list": ["v1"], "n": [{"exists": True}]}, [3]),
    ],
)
def test_a_filter_policy_is_a_pattern(
    lab: MotoLab, scope: str, policy: dict[str, Any], taken: list[int]
):
    """`$or` lost what a topic sent; a missing member of an object was never one that does not exist."""
    messages: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"order": {"amount": 12, "country": "it"}, "kind": "a"}, {}),
        ({"order": {"amount": 2, "country": "it"}, "kind": "a"}, {"n": ("Number", "1")}),
        ({"order": {"amount": 22}, "kind": "xb"}, {"tag": ("String", "x")}),
        (
            {"order": {"amount": 22, "country": "xy"}, "kind": "xb"},
            {"list": ("String.Array", '["v1", "v2"]'), "n": ("Number", "2")},
        ),
    ]
    # It imports moto's models, which are slow to import.
    from moto.sns.utils import FilterPolicyMatcher

    lab.client("sns").list_topics()
    matcher = FilterPolicyMatcher(policy, scope)
    assert [
        index
        for index, (body, attributes) in enumerate(messages)
        if matcher.matches(
            {name: {"Type": kind, "Value": value} for name, (kind, value) in attributes.items()},
            json.dumps(body),
        )
    ] == taken
    assert not FilterPolicyMatcher(policy, "MessageBody").matches({}, "no json")


def test_a_fifo_topic_knows_duplicates_and_numbers_after_a_restart(lab: MotoLab):
    sns = lab.client("sns")
    arn = sns.create_topic(Name="f.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]

    def publish(mark: str) -> tuple[str, str]:
        answer = sns.publish(
            TopicArn=arn, Message="m", MessageGroupId="g", MessageDeduplicationId=mark
        )
        return answer["MessageId"], answer["SequenceNumber"]

    first = publish("a")
    lab.restart()
    assert publish("a") == first
    second = publish("b")
    assert second[1] > first[1]
    lab.clock.advance(5 * 60)
    assert publish("a")[1] > second[1]


def test_a_raw_binary_attribute_arrives(lab: MotoLab, topic: Any):
    url = lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    topic.subscribe(
        TopicArn=TOPIC, Protocol="sqs", Endpoint=QUEUE, Attributes={"RawMessageDelivery": "true"}
    )
    topic.publish(
        TopicArn=TOPIC,
        Message="m",
        MessageAttributes={"a": {"DataType": "Binary", "BinaryValue": b"\x02\xff"}},
    )
    (message,) = lab.client("sqs").receive_message(QueueUrl=url, MessageAttributeNames=["All"])[
        "Messages"
    ]
    assert message["MessageAttributes"]["a"] == {"DataType": "Binary", "BinaryValue": b"\x02\xff"}
