"""MQTT with TLS: certificates that IoT made really let devices in, and policies decide with `--iam enforce`.

Documented: docs.aws.amazon.com/iot/latest/developerguide/iot-policies.html.
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from paho.mqtt.client import WebsocketConnectionError

from headrace.permissions.decisions.report import report_of
from tests.api.iot.devices import WITHIN_S, TestDevice, tls_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ARN = f"arn:aws:iot:{REGION}:{ACCOUNT}"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    folder = tmp_path_factory.mktemp("mqtt") / "data"
    with InProcessCloud(folder, mqtt=True, mqtt_port=0, mqtt_tls_port=0, iam="enforce") as cloud:
        cloud.cloud.start_devices()
        yield cloud


@pytest.fixture(scope="module")
def keys(cloud: InProcessCloud) -> Any:
    """A certificate whose policy has the variables of its client and its thing."""
    iot = cloud.client("iot")
    keys = iot.create_keys_and_certificate(setAsActive=True)
    statements = [
        {"Action": "iot:Connect", "Resource": f"{ARN}:client/${{iot:Connection.Thing.ThingName}}"},
        {
            "Action": ["iot:Publish", "iot:Receive"],
            "Resource": f"{ARN}:topic/devices/${{iot:ClientId}}/*",
        },
        {
            "Action": "iot:Subscribe",
            "Resource": f"{ARN}:topicfilter/devices/${{iot:ClientId}}/*",
        },
        {"Action": ["iot:Subscribe"], "Resource": f"{ARN}:topicfilter/deaf"},
    ]
    policy(cloud, "devices", statements)
    iot.attach_policy(policyName="devices", target=keys["certificateArn"])
    iot.create_thing(thingName="d1")
    iot.attach_thing_principal(thingName="d1", principal=keys["certificateArn"])
    return keys


def policy(cloud: InProcessCloud, name: str, statements: list[dict[str, Any]]) -> None:
    document = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", **each} for each in statements],
    }
    cloud.client("iot").create_policy(policyName=name, policyDocument=json.dumps(document))


def tls(cloud: InProcessCloud, folder: Path, keys: Any) -> ssl.SSLContext:
    return tls_of(folder, cloud.cloud.config.data_dir, keys)


def test_a_certificate_and_its_policy_let_a_device_in(
    cloud: InProcessCloud, keys: Any, tmp_path: Path
):
    context = tls(cloud, tmp_path, keys)
    context.set_alpn_protocols(["x-amzn-mqtt-ca"])
    with TestDevice(cloud, "d1", tls=context, version=5) as device:
        assert device.paho.socket().selected_alpn_protocol() == "x-amzn-mqtt-ca"
        assert device.subscribe("devices/d1/#") == 1
        assert device.publish("devices/d1/t", "x") == 0
        assert device.wait_for(1) == [("devices/d1/t", b"x", False)]
        assert device.publish("devices/d2/t", "x") == 0x87
        assert device.subscribe("devices/#") == 0x87
        # It may subscribe, and receives nothing.
        assert device.subscribe("deaf") == 1
        cloud.client("iot-data").publish(topic="deaf", payload=b"x")
        device.publish("devices/d1/t", "y")
        assert [payload for _, payload, _ in device.wait_for(2)] == [b"x", b"y"]


def test_others_are_disconnected(cloud: InProcessCloud, keys: Any, tmp_path: Path):
    device = TestDevice(cloud, "d1", tls=tls(cloud, tmp_path, keys))
    assert device.subscribe("devices/#") == 0x80
    device.paho.publish("devices/d2/t", "x", 1)
    device.wait_for_end()


def test_a_thing_that_is_not_attached_may_not_connect(
    cloud: InProcessCloud, keys: Any, tmp_path: Path
):
    context = tls(cloud, tmp_path, keys)
    device = TestDevice(cloud, "d2", tls=context, version=5, is_refused=True)
    assert device.refusal == 0x87


def test_without_a_certificate_nobody_connects(cloud: InProcessCloud, tmp_path: Path):
    device = TestDevice(cloud, "d1", tls=tls(cloud, tmp_path, None), version=5, is_refused=True)
    assert device.refusal == 0x87
    listener = cloud.cloud.mqtt.listener
    assert listener is not None
    # There is no port without TLS.
    assert listener.port == 0


def test_a_certificate_that_nobody_registered_ends_the_handshake(
    cloud: InProcessCloud, tmp_path: Path
):
    answers: list[Any] = []
    # With TLS 1.3 a client learns it by the first read.
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        device = TestDevice(cloud, "d1", tls=tls(cloud, tmp_path, self_signed()), is_refused=True)
        answers += device.answers
    assert answers == []


def test_a_registered_certificate_and_a_group_policy_let_in(cloud: InProcessCloud, tmp_path: Path):
    iot, own = cloud.client("iot"), self_signed()
    arn = iot.register_certificate_without_ca(
        certificatePem=own["certificatePem"], status="ACTIVE"
    )["certificateArn"]
    policy(cloud, "group", [{"Action": "iot:*", "Resource": "*"}])
    group = iot.create_thing_group(thingGroupName="g")["thingGroupArn"]
    iot.attach_policy(policyName="group", target=group)
    iot.create_thing(thingName="d3")
    iot.attach_thing_principal(thingName="d3", principal=arn)
    context = tls(cloud, tmp_path, own)
    refused = TestDevice(cloud, "d3", tls=context, version=5, is_refused=True)
    assert refused.refusal == 0x87
    iot.add_thing_to_thing_group(thingGroupName="g", thingName="d3")
    with TestDevice(cloud, "d3", tls=context, version=5) as device:
        assert device.publish("anything", "x") == 0


def test_a_certificate_that_is_revoked_disconnects(cloud: InProcessCloud, tmp_path: Path):
    iot = cloud.client("iot")
    keys = iot.create_keys_and_certificate(setAsActive=True)
    if "all" not in {each["policyName"] for each in iot.list_policies()["policies"]}:
        policy(cloud, "all", [{"Action": "iot:*", "Resource": "*"}])
    iot.attach_policy(policyName="all", target=keys["certificateArn"])
    context = tls(cloud, tmp_path, keys)
    device = TestDevice(cloud, "d4", tls=context, version=5)
    iot.update_certificate(certificateId=keys["certificateId"], newStatus="REVOKED")
    assert device.wait_for_end() == 0x87
    assert TestDevice(cloud, "d4", tls=context, version=5, is_refused=True).refusal == 0x87


def test_a_change_of_a_policy_counts_at_once(cloud: InProcessCloud, tmp_path: Path):
    iot = cloud.client("iot")
    keys = iot.create_keys_and_certificate(setAsActive=True)
    policy(cloud, "changes", [{"Action": "iot:*", "Resource": "*"}])
    iot.attach_policy(policyName="changes", target=keys["certificateArn"])
    with TestDevice(cloud, "d5", tls=tls(cloud, tmp_path, keys), version=5) as device:
        assert device.publish("a", "x") == 0
        iot.detach_policy(policyName="changes", target=keys["certificateArn"])
        wait_until(lambda: device.publish("a", "x") == 0x87, within_s=WITHIN_S, what="a refusal")


def target_of(
    access_key: str, secret: str, *, token: str = "", signs_token: bool = False, service: str = "iotdevicegateway"
) -> str:  # fmt: skip
    """Return the path and query of a signed WebSocket's request, as AWS's SDKs make them."""
    keys = Credentials(access_key, secret, token if signs_token else None)
    request = AWSRequest("GET", "https://localhost/mqtt")
    SigV4QueryAuth(keys, service, REGION, expires=300).add_auth(request)
    target = "/mqtt" + request.url.partition("/mqtt")[2]
    return (
        f"{target}&X-Amz-Security-Token={quote(token, safe='')}"
        if token and not signs_token
        else target
    )


@pytest.fixture(scope="module")
def user(cloud: InProcessCloud) -> tuple[str, str]:
    iam = cloud.client("iam")
    iam.create_user(UserName="dash")
    statements = [
        {"Effect": "Allow", "Action": "iot:Connect", "Resource": f"{ARN}:client/browser"},
        {"Effect": "Allow", "Action": ["iot:Publish", "iot:Receive"], "Resource": f"{ARN}:topic/board/*"},
        {"Effect": "Allow", "Action": "iot:Subscribe", "Resource": f"{ARN}:topicfilter/board/*"},
    ]  # fmt: skip
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_user_policy(UserName="dash", PolicyName="p", PolicyDocument=document)
    keys = iam.create_access_key(UserName="dash")["AccessKey"]
    return keys["AccessKeyId"], keys["SecretAccessKey"]


def test_who_signs_a_websocket_is_asked_about_in_iam(
    cloud: InProcessCloud, user: tuple[str, str], tmp_path: Path
):
    def device(client_id: str, **more: Any) -> TestDevice:
        return TestDevice(
            cloud, client_id, version=5, transport="websockets", target=target_of(*user),
            tls=tls(cloud, tmp_path, None), **more,
        )  # fmt: skip

    assert device("other", is_refused=True).refusal == 0x87
    with device("browser") as browser:
        assert browser.subscribe("board/#") == 1
        assert browser.subscribe("#") == 0x87
        assert browser.publish("board/a", "x") == 0
        assert browser.publish("elsewhere", "x") == 0x87
        assert browser.wait_for(1) == [("board/a", b"x", False)]


@pytest.mark.parametrize("signs_token", [False, True])
def test_a_session_s_token_is_signed_or_not(
    cloud: InProcessCloud, user: tuple[str, str], tmp_path: Path, signs_token: bool
):
    iam, sts = cloud.client("iam"), cloud.client("sts")
    name = f"board-{signs_token}"
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}],
    }
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    document = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "iot:*", "Resource": "*"}],
    }
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=json.dumps(document))
    keys = sts.assume_role(RoleArn=arn, RoleSessionName="board")["Credentials"]
    target = target_of(
        keys["AccessKeyId"],
        keys["SecretAccessKey"],
        token=keys["SessionToken"],
        signs_token=signs_token,
    )
    with TestDevice(
        cloud, "role", transport="websockets", target=target, tls=tls(cloud, tmp_path, None)
    ) as device:
        device.publish("anything", "x")


def test_who_signs_nothing_opens_no_websocket(cloud: InProcessCloud, tmp_path: Path):
    with pytest.raises(WebsocketConnectionError):
        TestDevice(cloud, "x", transport="websockets", tls=tls(cloud, tmp_path, None))


def test_a_report_names_what_policies_of_devices_would_deny(tmp_path: Path):
    options = {"mqtt": True, "mqtt_port": 0, "mqtt_tls_port": 0, "iam": "report"}
    with InProcessCloud(tmp_path / "data", **options) as cloud:
        cloud.cloud.start_devices()
        iot = cloud.client("iot")
        keys = iot.create_keys_and_certificate(setAsActive=True)
        policy(cloud, "own", [{"Action": "iot:Connect", "Resource": "*"}])
        iot.attach_policy(policyName="own", target=keys["certificateArn"])
        with TestDevice(cloud, "d", tls=tls(cloud, tmp_path, keys), version=5) as device:
            assert device.publish("t", "x") == 0
            assert device.publish("t", "x") == 0
        rows = report_of(cloud.cloud.decisions)["denied"]
        (row,) = [row for row in rows if row["principal"] == keys["certificateArn"]]
        assert (row["action"], row["resource"], row["count"]) == (
            "iot:Publish",
            f"{ARN}:topic/t",
            2,
        )
        assert "is not authorized to perform: iot:Publish" in row["reason"]


def self_signed() -> dict[str, Any]:
    """Return a certificate of a device's own, in the form of CreateKeysAndCertificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=10))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return {
        "certificateId": "own-own-own",
        "certificatePem": pem,
        "keyPair": {"PrivateKey": private.decode()},
    }


def test_a_will_that_may_not_be_published_is_refused(
    cloud: InProcessCloud, keys: Any, tmp_path: Path
):
    context, will = tls(cloud, tmp_path, keys), ("elsewhere", "x")
    device = TestDevice(cloud, "d1", tls=context, version=5, will=will, is_refused=True)
    assert device.refusal == 0x87
