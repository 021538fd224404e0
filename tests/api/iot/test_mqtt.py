"""MQTT: devices of a foreign client (paho-mqtt) beside IoT's API, rules and retained messages.

What AWS does is documented in docs.aws.amazon.com/iot/latest/developerguide/mqtt.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.iot.devices import WITHIN_S, TestDevice
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    folder = tmp_path_factory.mktemp("mqtt") / "data"
    with InProcessCloud(folder, mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        yield cloud


def rule(cloud: InProcessCloud, name: str, sql: str, action: Any, error: Any = None) -> None:
    payload = {"sql": sql, "actions": [action], **({"errorAction": error} if error else {})}
    cloud.client("iot").create_topic_rule(ruleName=name, topicRulePayload=payload)


def queue(cloud: InProcessCloud, name: str) -> tuple[str, Any]:
    """Return a queue's URL, and what takes its next message as JSON."""
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]

    def take() -> Any:
        found: list[Any] = []

        def arrived() -> bool:
            found.extend(sqs.receive_message(QueueUrl=url).get("Messages", []))
            return bool(found)

        wait_until(arrived, within_s=WITHIN_S, what=f"a message in {name}")
        sqs.delete_message(QueueUrl=url, ReceiptHandle=found[0]["ReceiptHandle"])
        return json.loads(found[0]["Body"])

    return url, take


@pytest.mark.parametrize("version", [4, 5])
def test_a_message_reaches_subscribers_and_rules(cloud: InProcessCloud, version: int):
    url, take = queue(cloud, f"plant{version}")
    sql = f"SELECT *, topic(2) AS device, clientid() AS by FROM 'plant{version}/+'"
    rule(cloud, f"plant{version}", sql, {"sqs": {"queueUrl": url, "roleArn": ROLE}})
    with (
        TestDevice(cloud, f"reader{version}", version=version) as reader,
        TestDevice(cloud, f"writer{version}", version=version) as writer,
    ):
        assert reader.subscribe(f"plant{version}/#") == 1
        assert writer.publish(f"plant{version}/d1", {"t": 40}) == 0
        assert reader.wait_for(1) == [(f"plant{version}/d1", b'{"t": 40}', False)]
    assert take() == {"t": 40, "device": "d1", "by": f"writer{version}"}


def test_what_the_api_publishes_reaches_devices(cloud: InProcessCloud):
    with TestDevice(cloud, "listener") as device:
        device.subscribe("from/api/+", 0)
        cloud.client("iot-data").publish(topic="from/api/1", qos=1, payload=b"\x00raw")
        assert device.wait_for(1) == [("from/api/1", b"\x00raw", False)]


def test_basic_ingest_goes_to_its_rule_alone(cloud: InProcessCloud):
    url, take = queue(cloud, "direct")
    sql = "SELECT topic(1) AS first, v FROM 'never/matches'"
    rule(cloud, "direct", sql, {"sqs": {"queueUrl": url, "roleArn": ROLE}})
    with TestDevice(cloud, "direct") as device:
        device.subscribe("#")
        device.publish("$aws/rules/direct/a/b/c/d/e/f/g/h", {"v": 1})
        device.publish("seen", "x")
        assert [topic for topic, _, _ in device.wait_for(1)] == ["seen"]
    assert take() == {"first": "a", "v": 1}


@pytest.mark.parametrize("kind", ["at once", "when it is delivered"])
def test_an_action_that_fails_runs_the_error_action(cloud: InProcessCloud, kind: str):
    name = "errors_" + kind.replace(" ", "_")
    url, take = queue(cloud, name)
    missing = {"streamName": "no-such-stream", "partitionKey": "k", "roleArn": ROLE}
    function = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:none"
    action = {"lambda": {"functionArn": function}} if kind == "at once" else {"kinesis": missing}
    error = {"sqs": {"queueUrl": url, "roleArn": ROLE}}
    rule(cloud, name, f"SELECT * FROM '{name}'", action, error)
    with TestDevice(cloud, "fails") as device:
        device.publish(name, {"v": 1})
    report = take()
    assert (report["ruleName"], report["topic"], report["clientId"]) == (name, name, "fails")
    assert report["base64OriginalPayload"] == "eyJ2IjogMX0="
    failed = report["failures"][0]
    expected = (
        ("LambdaAction", function) if kind == "at once" else ("KinesisAction", "no-such-stream")
    )
    assert (failed["failedAction"], failed["failedResource"]) == expected
    assert failed["errorMessage"]


@pytest.mark.parametrize(
    ("kind", "settings", "payload", "sentence"),
    [
        ("cloudwatchLogs", {"logGroupName": "none"}, {}, "specified log group does not exist"),
        ("dynamoDBv2", {"putItem": {"tableName": "t"}}, {"v": 10**50 + 1}, "range or precision"),
        ("dynamoDBv2", {"putItem": {"tableName": "t"}}, {"v": 1e200}, "a number is outside"),
    ],
)
def test_what_moto_refuses_in_an_action_runs_the_error_action(
    cloud: InProcessCloud, kind: str, settings: dict[str, Any], payload: Any, sentence: str
):
    name = f"refused_{kind}_{len(sentence)}"
    url, take = queue(cloud, name)
    error = {"sqs": {"queueUrl": url, "roleArn": ROLE}}
    rule(cloud, name, f"SELECT * FROM '{name}'", {kind: {**settings, "roleArn": ROLE}}, error)
    with TestDevice(cloud, "refused", version=5) as device:
        assert device.publish(name, payload) == 0
        assert not device.ends
    assert sentence in take()["failures"][0]["errorMessage"]


def test_retained_messages(cloud: InProcessCloud):
    data = cloud.client("iot-data")
    with TestDevice(cloud, "keeper", version=5) as device:
        device.publish("kept/1", "old", retain=True)
        device.publish("kept/1", "new", retain=True)
        data.publish(topic="kept/2", qos=1, retain=True, payload=b"by the api")
        device.publish("kept/3", "gone", retain=True)
        device.publish("kept/3", "", retain=True)
        device.subscribe("kept/+")
        assert sorted(device.wait_for(2)) == [
            ("kept/1", b"new", True),
            ("kept/2", b"by the api", True),
        ]
    message = data.get_retained_message(topic="kept/1")
    assert (message["payload"], message["qos"]) == (b"new", 1)
    assert message["lastModifiedTime"] > 0
    first = data.list_retained_messages(maxResults=1)
    assert [each["topic"] for each in first["retainedTopics"]] == ["kept/1"]
    rest = data.list_retained_messages(nextToken=first["nextToken"])
    assert [(each["topic"], each["payloadSize"]) for each in rest["retainedTopics"]] == [
        ("kept/2", 10)
    ]
    with pytest.raises(ClientError) as error:
        data.get_retained_message(topic="kept/3")
    assert error.value.response["Error"]["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize("version", [4, 5])
def test_a_persistent_session_gets_what_it_missed(cloud: InProcessCloud, version: int):
    name = f"sleeper{version}"
    asleep = TestDevice(cloud, name, version=version, is_clean=False, expiry_s=600)
    assert not asleep.is_present
    asleep.subscribe(f"{name}/+")
    asleep.close()
    with TestDevice(cloud, "waker") as other:
        other.publish(f"{name}/1", "stored")
        other.publish(f"{name}/2", "not stored", 0)
    with TestDevice(cloud, name, version=version, is_clean=False, expiry_s=600) as awake:
        assert awake.is_present
        assert awake.wait_for(1) == [(f"{name}/1", b"stored", False)]
    with TestDevice(cloud, name, version=version, is_clean=True) as anew:
        assert not anew.is_present


def test_a_session_that_is_kept_no_longer_is_not_stored(cloud: InProcessCloud):
    name, database = "moody", cloud.cloud.mqtt.broker._store._database

    def is_stored() -> bool:
        return any(
            key.endswith(f"/{name}") for (key,) in database.query("SELECT key FROM mqtt_sessions")
        )

    asleep = TestDevice(cloud, name, version=5, is_clean=False, expiry_s=600)
    asleep.subscribe(name)
    asleep.close()
    assert is_stored()
    with TestDevice(cloud, name, version=5, is_clean=False, expiry_s=0) as awake:
        assert awake.is_present
        # A kill now would bring it back for the time that it was once to be kept.
        assert not is_stored()
        awake.publish(name, "heard")
        assert awake.wait_for(1) == [(name, b"heard", False)]


def test_a_will_is_published_when_a_device_is_lost(cloud: InProcessCloud):
    with TestDevice(cloud, "watcher") as watcher:
        watcher.subscribe("wills/+")
        TestDevice(cloud, "polite", will=("wills/polite", "x")).close()
        TestDevice(cloud, "lost", will=("wills/lost", "gone")).break_off()
        assert watcher.wait_for(1) == [("wills/lost", b"gone", False)]


def test_a_client_id_connects_once(cloud: InProcessCloud):
    first = TestDevice(cloud, "twin", version=5)
    with TestDevice(cloud, "twin", version=5):
        assert first.wait_for_end() == 0x8E


def test_presence_is_an_event_for_rules(cloud: InProcessCloud):
    url, take = queue(cloud, "presence")
    sql = "SELECT clientId, eventType FROM '$aws/events/presence/+/present1'"
    rule(cloud, "presence", sql, {"sqs": {"queueUrl": url, "roleArn": ROLE}})
    TestDevice(cloud, "present1").close()
    events = [take()["eventType"], take()["eventType"]]
    assert sorted(events) == ["connected", "disconnected"]


def test_a_shared_subscription_takes_turns(cloud: InProcessCloud):
    with TestDevice(cloud, "s1") as one, TestDevice(cloud, "s2") as two:
        one.subscribe("$share/g/shared/#")
        two.subscribe("$share/g/shared/#")
        for number in range(4):
            one.publish("shared/x", str(number))
        wait_until(
            lambda: len(one.messages) == len(two.messages) == 2, within_s=WITHIN_S, what="turns"
        )


def test_shadows(cloud: InProcessCloud):
    cloud.client("iot").create_thing(thingName="lamp")
    with TestDevice(cloud, "lamp") as device:
        device.subscribe("$aws/things/lamp/shadow/#")
        prefix = "$aws/things/lamp/shadow"
        device.publish(f"{prefix}/get", "")
        state = {"reported": {"dim": {"a": 1}}, "desired": {"on": True, "dim": {"a": 1, "b": 2}}}
        device.publish(f"{prefix}/update", {"state": state, "clientToken": "c"})
        wait_until(
            lambda: (
                {topic for topic, _, _ in device.messages}
                >= {f"{prefix}/get/rejected", f"{prefix}/update/accepted", f"{prefix}/update/delta"}
            ),
            within_s=WITHIN_S,
            what="the shadow's answers",
        )
        by_topic = {topic: json.loads(data or b"{}") for topic, data, _ in device.messages}
    assert by_topic[f"{prefix}/get/rejected"]["code"] == 404
    assert by_topic[f"{prefix}/update/accepted"]["clientToken"] == "c"
    delta = by_topic[f"{prefix}/update/delta"]
    assert delta["state"] == {"on": True, "dim": {"b": 2}}
    assert set(delta["metadata"]) == {"on", "dim"}
    assert set(delta["metadata"]["dim"]) == {"b"}
    assert delta["clientToken"] == "c"
    assert by_topic[f"{prefix}/update/documents"]["current"]["version"] == 1


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        ("5", "Invalid JSON"),
        ('"state"', "Invalid JSON"),
        ('["state"]', "Invalid JSON"),
        ('{"state": {"desired": 5}}', "Desired node must be an object"),
        ('{"state": {"reported": ["x"]}}', "Reported node must be an object"),
        ("[" * 50_000, "JSON contains too many levels of nesting"),
        ('{"state": {"desired": ' + '{"a":' * 5000 + "1" + "}" * 5002, "JSON contains too many"),
    ],
)
def test_a_shadow_is_not_updated_by_what_is_no_document(
    cloud: InProcessCloud, payload: str, sentence: str
):
    things = cloud.client("iot")
    things.create_thing(thingName="odd")
    prefix = "$aws/things/odd/shadow/update"
    with TestDevice(cloud, "odd", version=5) as device:
        device.subscribe(f"{prefix}/rejected")
        assert device.publish(prefix, payload) == 0
        rejection = json.loads(device.wait_for(1)[0][1])
        assert not device.ends
    assert rejection["code"] == 400
    assert rejection["message"].startswith(sentence)
    with pytest.raises(ClientError) as error:
        cloud.client("iot-data").update_thing_shadow(thingName="odd", payload=payload)
    # The gateway refuses some depths before IoT sees them.
    codes = {
        "InvalidRequestException",
        *(["SerializationException"] if len(payload) > 9999 else []),
    }
    assert error.value.response["Error"]["Code"] in codes


@pytest.mark.parametrize(
    ("topic", "qos", "size", "code"),
    [
        ("q", 2, 1, 0x9B),
        ("a/b/c/d/e/f/g/h/i", 0, 1, 0x90),
        ("$SYS/x", 0, 1, 0x90),
        ("$aws/things/t/jobs/get", 0, 1, 0x83),
        ("large", 1, 128 * 1024 + 1, 0x95),
        ("larger", 1, 200_000, 0x95),
    ],
)
def test_what_aws_disconnects_for(
    cloud: InProcessCloud, topic: str, qos: int, size: int, code: int
):
    device = TestDevice(cloud, "bad", version=5)
    device.paho.publish(topic, b"x" * size, qos)
    assert device.wait_for_end() == code


def test_a_payload_of_128_kb_passes(cloud: InProcessCloud):
    with TestDevice(cloud, "large") as device:
        device.subscribe("large")
        device.publish("large", b"x" * 128 * 1024)
        assert len(device.wait_for(1)[0][1]) == 128 * 1024


@pytest.mark.parametrize("filters", ["a/#/b", "a+/b", "#a", "$share//x", "a/b/c/d/e/f/g/h/i"])
def test_a_wrong_filter_disconnects(cloud: InProcessCloud, filters: str):
    device = TestDevice(cloud, "filters", version=5)
    subscribe = b"\x00\x01\x00" + len(filters).to_bytes(2, "big") + filters.encode() + b"\x01"
    device.paho.socket().sendall(b"\x82" + bytes([len(subscribe)]) + subscribe)
    assert device.wait_for_end() == 0x8F


def test_the_endpoint_is_this_cloud(cloud: InProcessCloud):
    iot = cloud.client("iot")
    assert iot.describe_endpoint(endpointType="iot:Data-ATS")["endpointAddress"] == "localhost"
    assert (
        "credentials"
        in iot.describe_endpoint(endpointType="iot:CredentialProvider")["endpointAddress"]
    )


@pytest.mark.parametrize(
    ("operation", "params", "code"),
    [
        ("create_thing_group", {"thingGroupName": "below", "parentGroupName": "absent"}, "ResourceNotFoundException"),
        ("cancel_job_execution", {"jobId": "absent", "thingName": "absent"}, "ResourceNotFoundException"),
        ("delete_job_execution", {"jobId": "a", "thingName": "a", "executionNumber": 1}, "ResourceNotFoundException"),
        ("create_certificate_from_csr", {"certificateSigningRequest": "none"}, "InvalidRequestException"),
        ("register_ca_certificate", {"caCertificate": "x", "allowAutoRegistration": True}, "NotImplemented"),
        ("register_ca_certificate", {"caCertificate": "x", "registrationConfig": {"templateName": "t"}},
         "NotImplemented"),
        ("update_ca_certificate", {"certificateId": "a" * 64, "newAutoRegistrationStatus": "ENABLE"}, "NotImplemented"),
        ("register_certificate", {"certificatePem": "none"}, "CertificateValidationException"),
        ("register_certificate_without_ca", {"certificatePem": "none"}, "CertificateValidationException"),
    ],
)  # fmt: skip
def test_what_is_not_there_has_aws_s_error(
    cloud: InProcessCloud, operation: str, params: Any, code: str
):
    with pytest.raises(ClientError) as refusal:
        getattr(cloud.client("iot"), operation)(**params)
    assert refusal.value.response["Error"]["Code"] == code
