"""A function acts as its role: what STS says of it, that it outlasts the cloud's process, and that it ends."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from headrace.aws.signatures.access_keys import Credentials, RoleSession, RoleSessions
from headrace.core.clock import SystemClock
from headrace.services.lambda_.errors import CREDENTIALS_SECONDS
from tests.support.cloud import InProcessCloud
from tests.support.lambda_lab import LambdaLab, wait_for_update, zipped
from tests.support.policies import TRUST_TEXT
from tests.support.server import ServerProcess

ACCOUNT = "123456789012"
REGION = "us-east-1"
# Who it is, what it signs with, and whether the cloud takes it.
WHOAMI = """
import boto3, os
def handler(event, context):
    identity = boto3.client("sts").get_caller_identity()
    boto3.client("s3").put_object(Bucket="box", Key="made", Body=b"1")
    streams = boto3.client("kinesis").list_streams()["StreamNames"]
    return {"arn": identity["Arn"], "account": identity["Account"], "user_id": identity["UserId"],
            "streams": streams, "key": os.environ["AWS_ACCESS_KEY_ID"],
            "secret": os.environ["AWS_SECRET_ACCESS_KEY"], "token": os.environ["AWS_SESSION_TOKEN"]}
"""


def create(client: Any, name: str, role: str) -> None:
    client.create_function(
        FunctionName=name, Runtime="python3.11", Handler="app.handler", Timeout=30, MemorySize=512,
        Role=role, Code={"ZipFile": zipped({"app.py": WHOAMI})},
    )  # fmt: skip


def ask(client: Any, name: str) -> dict[str, Any]:
    answer = client.invoke(FunctionName=name)
    payload = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, payload
    return payload


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data_dir = tmp_path_factory.mktemp("cloud") / "data"
    with ServerProcess(data_dir, "--account", ACCOUNT) as server:
        server.client("s3").create_bucket(Bucket="box")
        server.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        yield server


@pytest.fixture(scope="module")
def credentials(server: ServerProcess) -> dict[str, Any]:
    """What a function with a role of IAM's says of itself."""
    role = server.client("iam").create_role(
        RoleName="enricher", Path="/service-role/", AssumeRolePolicyDocument=TRUST_TEXT
    )["Role"]
    lambda_ = server.client("lambda")
    create(lambda_, "enrich", role["Arn"])
    return {**ask(lambda_, "enrich"), "role_id": role["RoleId"]}


def client_of(server: ServerProcess, service: str, key: str, secret: str, token: str) -> Any:
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=server.endpoint_url,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(
            retries={"total_max_attempts": 1},
            signature_version="s3v4" if service == "s3" else None,
            s3={"addressing_style": "path"},
        ),
    )


def given(server: ServerProcess, expires_ms: int) -> Credentials:
    """Return credentials as the cloud gives them out, that expire at some time."""
    sessions = RoleSessions((server.data_dir / "session-secret").read_bytes())
    return sessions.issue(RoleSession(ACCOUNT, "enricher", "enrich", expires_ms))


def test_a_function_is_its_role_in_a_session_of_its_name(credentials: dict[str, Any]) -> None:
    assert credentials["arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/enricher/enrich"
    assert credentials["account"] == ACCOUNT
    assert credentials["user_id"] == f"{credentials['role_id']}:enrich"
    assert credentials["key"].startswith("ASIA")
    assert credentials["streams"] == ["flights"]


def test_a_role_that_iam_does_not_have_is_one_all_the_same(server: ServerProcess) -> None:
    lambda_ = server.client("lambda")
    create(lambda_, "loose", f"arn:aws:iam::{ACCOUNT}:role/made-up")
    said = ask(lambda_, "loose")
    assert said["arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/made-up/loose"
    assert said["user_id"].startswith("AROA")


def test_the_account_is_the_functions_whatever_its_roles_arn_says(server: ServerProcess) -> None:
    """Examples have 123456789012 and 000000000000 in their roles; what a function makes is in its own account."""
    other = boto3.client(
        "lambda", region_name=REGION, endpoint_url=server.endpoint_url,
        aws_access_key_id="210987654321", aws_secret_access_key="test",
    )  # fmt: skip
    create(other, "far", "arn:aws:iam::000000000000:role/enricher")
    server_s3 = boto3.client(
        "s3", region_name=REGION, endpoint_url=server.endpoint_url,
        aws_access_key_id="210987654321", aws_secret_access_key="test",
    )  # fmt: skip
    assert server_s3.list_buckets()["Buckets"] is not None
    said = ask(other, "far")
    assert said["arn"] == "arn:aws:sts::210987654321:assumed-role/enricher/far"
    assert said["account"] == "210987654321"
    assert said["streams"] == []


def test_credentials_mean_the_same_after_a_kill(
    server: ServerProcess, credentials: dict[str, Any]
) -> None:
    server.kill9()
    server.start()
    key = (credentials["key"], credentials["secret"], credentials["token"])
    identity = client_of(server, "sts", *key).get_caller_identity()
    assert identity["Arn"] == credentials["arn"]
    assert client_of(server, "kinesis", *key).list_streams()["StreamNames"] == ["flights"]


@pytest.mark.parametrize(
    ("service", "call", "code", "status"),
    [
        ("sts", "get_caller_identity", "ExpiredToken", 403),
        ("iam", "list_users", "ExpiredToken", 403),
        ("kinesis", "list_streams", "ExpiredTokenException", 400),
        ("dynamodb", "list_tables", "ExpiredTokenException", 400),
        ("lambda", "list_functions", "ExpiredTokenException", 403),
        ("s3", "list_buckets", "ExpiredToken", 400),
        ("cloudformation", "list_stacks", "ExpiredToken", 403),
    ],
)
def test_expired_credentials_are_refused_as_aws_does(
    server: ServerProcess, service: str, call: str, code: str, status: int
) -> None:
    made = given(server, SystemClock().now_ms() - 1)
    client = client_of(
        server, service, made.access_key_id, made.secret_access_key, made.session_token
    )
    with pytest.raises(ClientError) as caught:
        getattr(client, call)()
    assert caught.value.response["Error"]["Code"] == code
    assert "expired" in caught.value.response["Error"]["Message"]
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status


@pytest.mark.parametrize(
    ("service", "call", "code"),
    [
        ("sts", "get_caller_identity", "InvalidClientTokenId"),
        ("kinesis", "list_streams", "UnrecognizedClientException"),
        ("lambda", "list_functions", "UnrecognizedClientException"),
        ("s3", "list_buckets", "InvalidToken"),
    ],
)
@pytest.mark.parametrize("token", ["", "headrace", "of another session"])
def test_a_key_with_a_token_that_is_not_its_own_is_refused(
    server: ServerProcess, service: str, call: str, code: str, token: str
) -> None:
    later = SystemClock().now_ms() + 60_000
    made, other = given(server, later), given(server, later + 1)
    token = other.session_token if token == "of another session" else token
    client = client_of(server, service, made.access_key_id, made.secret_access_key, token)
    with pytest.raises(ClientError) as caught:
        getattr(client, call)()
    assert caught.value.response["Error"]["Code"] == code


def presigned_url(server: ServerProcess, expires_ms: int) -> str:
    made = given(server, expires_ms)
    s3 = client_of(server, "s3", made.access_key_id, made.secret_access_key, made.session_token)
    return s3.generate_presigned_url("list_objects_v2", Params={"Bucket": "box"})


def test_presigned_urls_carry_the_token(server: ServerProcess) -> None:
    now_ms = SystemClock().now_ms()
    with urllib.request.urlopen(presigned_url(server, now_ms + 60_000), timeout=10) as answer:
        assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(presigned_url(server, now_ms - 1), timeout=10)
    assert caught.value.code == 400
    assert b"<Code>ExpiredToken</Code>" in caught.value.read()


# --- in process -------------------------------------------------------------------------------


def test_nothing_piles_up_with_cold_starts(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.cloud.moto.warm_up()
        lambda_ = cloud.client("lambda")
        lambda_.create_function(
            FunctionName="f", Runtime="python3.11", Handler="app.handler",
            Role="arn:aws:iam::000000000000:role/r",
            Code={"ZipFile": zipped({"app.py": "def handler(e, c):\n    return 1\n"})},
        )  # fmt: skip

        def rows() -> int:
            tables = cloud.cloud.database.query("SELECT name FROM sqlite_master WHERE type='table'")
            names = [name for (name,) in tables if name != "doc_lambda_functions"]
            counts = [cloud.cloud.database.query(f"SELECT count(*) FROM {n}")[0][0] for n in names]
            return sum(counts)

        def cold_start() -> None:
            lambda_.update_function_configuration(FunctionName="f", Description="again")
            wait_for_update(lambda_, "f")
            assert lambda_.invoke(FunctionName="f")["StatusCode"] == 200

        # The first log line makes a log group, and each process a log stream, which moto's journal keeps.
        cloud.cloud._parts.logs.put = lambda *_, **__: None  # type: ignore[method-assign]
        cold_start()
        # What is judged is read from moto's services, each of which then has its state.
        cloud.cloud.decisions.judge.decide_waiting()
        before = rows()
        for _ in range(5):
            cold_start()
        assert rows() == before


class ShiftedClock(SystemClock):
    """The machine's clock, some hours ahead: a laptop that has slept."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def test_a_process_whose_credentials_are_about_to_expire_is_replaced(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with LambdaLab(tmp_path / "data", clock=clock) as lab:
        lab.create(
            "f", "import os\ndef handler(e, c):\n    return os.environ['AWS_SESSION_TOKEN']\n"
        )

        def token() -> str:
            return json.loads(lab.lambda_.invoker.invoke("f", b"{}").payload)

        first = token()
        clock.ahead_ms = (CREDENTIALS_SECONDS - 2 * 3600) * 1000
        assert token() == first
        clock.ahead_ms = CREDENTIALS_SECONDS * 1000
        second = token()
        assert second != first
        assert token() == second


def test_an_account_of_many_keys_is_not_kept_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.aws.gateway.dispatch.MOST_ACCOUNTS_KEPT", 10)
    with InProcessCloud(tmp_path / "data") as cloud:
        gateway, sessions = cloud.cloud.gateway, cloud.cloud.sessions
        for number in range(100):
            made = sessions.issue(RoleSession(f"{number:012d}", "r", "f", number))
            assert gateway.account_of(made.access_key_id) == f"{number:012d}"
            assert len(gateway._accounts) <= 10
