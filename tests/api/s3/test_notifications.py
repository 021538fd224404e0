"""Bucket notifications: who is told of what, in AWS's words, over a restart too."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import BusEvent
from tests.api.s3.conftest import BUCKET
from tests.api.s3.helpers import S3Lab
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

QUEUE = "arn:aws:sqs:us-east-1:000000000000:q"
FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:f"


class Told:
    """Takes what notifications deliver."""

    def __init__(self, lab: S3Lab) -> None:
        self.lab = lab
        self.by_arn: dict[str, list[Any]] = defaultdict(list)
        self.on_bus: list[tuple[str, str, BusEvent]] = []
        self.is_broken = False
        self.refusals: dict[str, AwsError] = {}
        lab.s3.notifications._targets = self

    def exists(self, arn: str) -> bool:
        return not arn.endswith("missing")

    def send(self, arn: str, document: str) -> None:
        if self.is_broken:
            raise RuntimeError(arn)
        if arn.endswith("gone"):
            raise LookupError(arn)
        if arn in self.refusals:
            raise self.refusals[arn]
        self.by_arn[arn].append(json.loads(document))

    def put_event(self, account: str, region: str, event: BusEvent) -> None:
        self.on_bus.append((account, region, event))

    def names(self, arn: str = FUNCTION) -> list[tuple[str, str]]:
        self.lab.s3.notifications.step()
        records = [d["Records"][0] for d in self.by_arn[arn] if "Records" in d]
        return [(r["eventName"], r["s3"]["object"]["key"]) for r in records]


@pytest.fixture
def told(lab: S3Lab) -> Told:
    return Told(lab)


def configure(s3: Any, **members: Any) -> None:
    one = {"LambdaFunctionArn": FUNCTION, "Events": ["s3:ObjectCreated:*"], **members}
    s3.put_bucket_notification_configuration(
        Bucket=BUCKET, NotificationConfiguration={"LambdaFunctionConfigurations": [one]}
    )


def test_each_way_of_writing_and_removing_has_its_name(s3: Any, told: Told) -> None:
    configure(s3, Events=["s3:ObjectCreated:*", "s3:ObjectRemoved:*"])
    s3.put_object(Bucket=BUCKET, Key="a b/ü", Body=b"x")
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "a b/ü"})
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="big")["UploadId"]
    part = s3.upload_part(Bucket=BUCKET, Key="big", UploadId=upload, PartNumber=1, Body=b"y")
    s3.complete_multipart_upload(
        Bucket=BUCKET, Key="big", UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )  # fmt: skip
    s3.delete_object(Bucket=BUCKET, Key="copy")
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "big"}]})
    assert told.names() == [
        ("ObjectCreated:Put", "a+b/%C3%BC"),
        ("ObjectCreated:Copy", "copy"),
        ("ObjectCreated:CompleteMultipartUpload", "big"),
        ("ObjectRemoved:Delete", "copy"),
        ("ObjectRemoved:Delete", "big"),
    ]


def test_the_document_is_awss(s3: Any, told: Told) -> None:
    configure(s3, Id="mine")
    etag = s3.put_object(Bucket=BUCKET, Key="k", Body=b"four")["ETag"].strip('"')
    told.names()
    (record,) = told.by_arn[FUNCTION][0]["Records"]
    assert record["eventSource"] == "aws:s3"
    assert record["awsRegion"] == "us-east-1"
    assert record["s3"]["configurationId"] == "mine"
    assert record["s3"]["bucket"]["arn"] == f"arn:aws:s3:::{BUCKET}"
    assert (record["s3"]["object"]["size"], record["s3"]["object"]["eTag"]) == (4, etag)


@pytest.mark.parametrize(
    ("events", "rules", "told_of"),
    [
        (["s3:ObjectCreated:*"], [], ["in/a.csv", "in/b.txt", "out/c.csv"]),
        (["s3:ObjectCreated:Copy"], [], []),
        (["s3:ObjectCreated:*"], [("prefix", "in/")], ["in/a.csv", "in/b.txt"]),
        (["s3:ObjectCreated:Put"], [("Prefix", "in/"), ("Suffix", ".csv")], ["in/a.csv"]),
    ],
)
def test_events_and_filters_choose(
    s3: Any, told: Told, events: list[str], rules: list[tuple[str, str]], told_of: list[str]
) -> None:
    filter_rules = [{"Name": name, "Value": value} for name, value in rules]
    configure(s3, Events=events, Filter={"Key": {"FilterRules": filter_rules}})
    for key in ("in/a.csv", "in/b.txt", "out/c.csv"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"")
    assert [key for _, key in told.names()] == told_of


def test_a_queue_is_told_that_it_is_connected_and_a_missing_one_is_refused(
    s3: Any, told: Told
) -> None:
    def put(arn: str) -> None:
        one = {"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}
        s3.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"QueueConfigurations": [one]}
        )

    put(QUEUE)
    assert [d["Event"] for d in told.by_arn[QUEUE]] == ["s3:TestEvent"]
    for arn in ("arn:aws:sqs:us-east-1:000000000000:missing", FUNCTION):
        with pytest.raises(ClientError) as caught:
            put(arn)
        assert caught.value.response["Error"]["Code"] == "InvalidArgument"


def test_a_target_that_fails_is_told_again_and_one_that_is_gone_is_not(s3: Any, told: Told) -> None:
    configure(s3)
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"")
    told.is_broken = True
    with pytest.raises(RuntimeError):
        told.lab.s3.notifications.step()
    told.is_broken = False
    assert told.names() == [("ObjectCreated:Put", "k")]
    configure(s3, LambdaFunctionArn=f"{FUNCTION}-gone")
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"")
    assert len(told.names()) == 1
    assert told.lab.s3.notifications.step() > 0


def test_a_busy_target_is_told_later_and_one_that_refuses_holds_up_nobody(
    s3: Any, told: Told
) -> None:
    arns = [f"{FUNCTION}-{name}" for name in ("busy", "refuses", "takes")]
    events = ["s3:ObjectCreated:*"]
    s3.put_bucket_notification_configuration(
        Bucket=BUCKET,
        NotificationConfiguration={
            "LambdaFunctionConfigurations": [
                {"LambdaFunctionArn": arn, "Events": events, "Filter": _prefix(str(n))}
                for n, arn in enumerate(arns)
            ]
        },
    )
    told.refusals = {
        arns[0]: AwsError("ThrottlingException", "Rate exceeded"),
        arns[1]: AwsError("InvalidParameterValueException", "no"),
    }
    for n in range(3):
        s3.put_object(Bucket=BUCKET, Key=f"{n}/k", Body=b"")
    assert told.names(arns[2]) == [("ObjectCreated:Put", "2/k")]
    told.refusals.clear()
    assert told.names(arns[0]) == [("ObjectCreated:Put", "0/k")]
    assert told.names(arns[1]) == []


def _prefix(text: str) -> dict[str, Any]:
    return {"Key": {"FilterRules": [{"Name": "prefix", "Value": text}]}}


def test_a_real_queue_hears_of_objects(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path) as cloud:
        sqs, s3 = cloud.client("sqs"), cloud.client("s3")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        s3.create_bucket(Bucket=BUCKET)
        one = {"QueueArn": QUEUE, "Events": ["s3:ObjectCreated:*"]}
        s3.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"QueueConfigurations": [one]}
        )
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"body")
        bodies: list[str] = []

        def heard() -> bool:
            found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
            bodies.extend(m["Body"] for m in found.get("Messages", ()))
            return any("ObjectCreated:Put" in body for body in bodies)

        wait_until(heard, what="the event in the queue")
        assert "s3:TestEvent" in bodies[0]


def test_a_topic_and_the_event_bus_hear_of_objects(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path) as cloud:
        sqs, s3, sns = cloud.client("sqs"), cloud.client("s3"), cloud.client("sns")
        events = cloud.client("events")
        topic = sns.create_topic(Name="t")["TopicArn"]
        urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("from-topic", "from-bus")]
        arn = "arn:aws:sqs:us-east-1:000000000000:from-"
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"{arn}topic")
        events.put_rule(Name="r", EventPattern=json.dumps({"source": ["aws.s3"]}))
        events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": f"{arn}bus"}])
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_notification_configuration(
            Bucket=BUCKET,
            NotificationConfiguration={
                "TopicConfigurations": [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}],
                "EventBridgeConfiguration": {},
            },
        )
        s3.put_object(Bucket=BUCKET, Key="a b", Body=b"body")
        heard: list[list[Any]] = [[], []]

        def all_heard() -> bool:
            for url, bodies in zip(urls, heard, strict=True):
                found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
                bodies += [json.loads(m["Body"]) for m in found.get("Messages", ())]
            return len(heard[0]) == 2 and len(heard[1]) == 1

        wait_until(all_heard, what="the test event and both of the object's")
        # SNS's and EventBridge's envelopes: documented.
        assert [body["Subject"] for body in heard[0]] == ["Amazon S3 Notification"] * 2
        (event,) = heard[1]
        assert (event["source"], event["detail-type"]) == ("aws.s3", "Object Created")
        assert event["resources"] == [f"arn:aws:s3:::{BUCKET}"]
        assert event["detail"]["object"]["key"] == "a b"
        assert event["detail"]["reason"] == "PutObject"


def test_tags_markers_and_versions_are_told(s3: Any, told: Told) -> None:
    configure(s3, Events=["s3:ObjectRemoved:*", "s3:ObjectTagging:*"])
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")["VersionId"]
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    s3.put_object_tagging(Bucket=BUCKET, Key="k", Tagging=tags)
    s3.delete_object_tagging(Bucket=BUCKET, Key="k")
    marker = s3.delete_object(Bucket=BUCKET, Key="k")["VersionId"]
    s3.delete_object(Bucket=BUCKET, Key="k", VersionId=version)
    assert [name for name, _ in told.names()] == [
        "ObjectTagging:Put",
        "ObjectTagging:Delete",
        "ObjectRemoved:DeleteMarkerCreated",
        "ObjectRemoved:Delete",
    ]
    objects = [d["Records"][0]["s3"]["object"] for d in told.by_arn[FUNCTION]]
    assert [o["versionId"] for o in objects] == [version, version, marker, version]
    # Of tags, AWS tells neither a size nor a sequencer (recorded in its answers).
    assert set(objects[0]) == {"key", "eTag", "versionId"}


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({}, {}, "Configurations overlap"),
        ({"Prefix": "in/"}, {"Prefix": "in/a/"}, "Configuration is ambiguously defined"),
        ({"Prefix": "in/"}, {"Prefix": "out/"}, ""),
        ({"Suffix": ".a"}, {"Suffix": ".b"}, ""),
        ({"Prefix": "in/", "Suffix": ".a"}, {"Prefix": "in/", "Suffix": ".b"}, ""),
    ],
)
def test_rules_that_an_event_could_meet_twice_are_refused(
    s3: Any, told: Told, one: dict[str, str], other: dict[str, str], message: str
) -> None:
    def rule(names: dict[str, str]) -> dict[str, Any]:
        rules = [{"Name": name, "Value": value} for name, value in names.items()]
        return {"Events": ["s3:ObjectCreated:*"], "Filter": {"Key": {"FilterRules": rules}}}

    wanted = {
        "QueueConfigurations": [{**rule(one), "QueueArn": QUEUE}],
        "LambdaFunctionConfigurations": [{**rule(other), "LambdaFunctionArn": FUNCTION}],
    }

    def put() -> None:
        s3.put_bucket_notification_configuration(Bucket=BUCKET, NotificationConfiguration=wanted)

    if not message:
        put()
        return
    with pytest.raises(ClientError) as caught:
        put()
    assert caught.value.response["Error"]["Message"].startswith(message)
