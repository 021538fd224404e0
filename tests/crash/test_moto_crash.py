"""Kill -9 a cloud while leases, queues, topics and parameters are written: what was acknowledged is there."""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash

LEASES = 40
ACCOUNT = "000000000000"


def ask(connection: http.client.HTTPConnection, service: str, target: str, **params: Any) -> Any:
    """Return an answer, or the error's code when AWS refuses."""
    headers = {
        "X-Amz-Target": target,
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, x",
    }
    connection.request("POST", "/", json.dumps(params), headers)
    response = connection.getresponse()
    value = json.loads(response.read() or b"{}")
    if response.status == 400:
        return value["__type"].rpartition("#")[2]
    assert response.status == 200, value
    return value


class Client:
    """Writes one thing after another until the cloud is gone, and knows what was acknowledged."""

    def __init__(self, port: int, chosen: random.Random) -> None:
        self.chosen = chosen
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.count = 0

    def run(self) -> None:
        try:
            while True:
                self.write()
                self.count += 1
        except (OSError, http.client.HTTPException):
            return
        finally:
            self.connection.close()

    def write(self) -> None:
        raise NotImplementedError


@dataclass
class Truth:
    """What was acknowledged in all rounds, and what was asked last and not answered."""

    counters: dict[str, int] = field(default_factory=dict[str, int])
    pending_counters: dict[str, int] = field(default_factory=dict[str, int])
    sent: set[str] = field(default_factory=set[str])
    pending_sent: set[str] = field(default_factory=set[str])
    deleted: set[str] = field(default_factory=set[str])
    pending_deleted: set[str] = field(default_factory=set[str])
    versions: dict[str, int] = field(default_factory=dict[str, int])
    pending_versions: set[str] = field(default_factory=set[str])


class Leases(Client):
    """Renews leases as KCL 1.x does: on the condition that the counter is what it was."""

    def __init__(self, port: int, chosen: random.Random, truth: Truth, mine: list[str]) -> None:
        super().__init__(port, chosen)
        self.truth, self.mine = truth, mine

    def write(self) -> None:
        key = self.chosen.choice(self.mine)
        now = self.truth.counters.get(key, 0)
        self.truth.pending_counters[key] = now + 1
        answer = ask(
            self.connection,
            "dynamodb",
            "DynamoDB_20120810.UpdateItem",
            TableName="leases",
            Key={"leaseKey": {"S": key}},
            AttributeUpdates={
                "counter": {"Value": {"N": str(now + 1)}, "Action": "PUT"},
                "checkpoint": {"Value": {"S": "x" * self.chosen.randrange(200)}, "Action": "PUT"},
            },
            Expected={"counter": {"Value": {"N": str(now)}} if now else {"Exists": False}},
        )
        assert isinstance(answer, dict), answer
        self.truth.counters[key] = now + 1
        del self.truth.pending_counters[key]


class Queue(Client):
    """Sends, receives and deletes; some of it through a topic."""

    def __init__(self, port: int, chosen: random.Random, truth: Truth, name: str) -> None:
        super().__init__(port, chosen)
        self.truth, self.name = truth, name
        self.url = f"http://127.0.0.1:{port}/{ACCOUNT}/q"

    def sqs(self, operation: str, **params: Any) -> Any:
        return ask(self.connection, "sqs", f"AmazonSQS.{operation}", QueueUrl=self.url, **params)

    def write(self) -> None:
        body = f"{self.name}-{self.count}"
        self.truth.pending_sent.add(body)
        self.sqs("SendMessage", MessageBody=body)
        self.truth.sent.add(body)
        if self.count % 3:
            return
        for message in self.sqs("ReceiveMessage", MaxNumberOfMessages=2, VisibilityTimeout=0).get(
            "Messages", ()
        ):
            self.truth.pending_deleted.add(message["Body"])
            self.sqs("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])
            self.truth.deleted.add(message["Body"])


class Parameters(Client):
    """Puts parameters, and makes and deletes queues: what is stored as snapshots."""

    def __init__(self, port: int, chosen: random.Random, truth: Truth) -> None:
        super().__init__(port, chosen)
        self.truth = truth

    def write(self) -> None:
        name = f"/p/{self.chosen.randrange(5)}"
        self.truth.pending_versions.add(name)
        answer = ask(
            self.connection,
            "ssm",
            "AmazonSSM.PutParameter",
            Name=name,
            Value=f"{self.count}",
            Type="String",
            Overwrite=True,
        )
        self.truth.versions[name] = answer["Version"]
        self.truth.pending_versions.discard(name)
        ask(self.connection, "sqs", "AmazonSQS.CreateQueue", QueueName=f"made{self.count % 4}")


def make(server: ServerProcess) -> None:
    dynamodb = server.client("dynamodb")
    dynamodb.create_table(
        TableName="leases",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
    )
    server.client("sqs").create_queue(QueueName="q")


def write_until_killed(
    server: ServerProcess, truth: Truth, chosen: random.Random, round_: int
) -> int:
    """Run clients, kill the cloud at a chosen moment; return how much was acknowledged."""
    keys = [f"lease-{n}" for n in range(LEASES)]
    clients: list[Client] = [
        Leases(server.port, random.Random(chosen.random()), truth, keys[::2]),
        Leases(server.port, random.Random(chosen.random()), truth, keys[1::2]),
        Queue(server.port, random.Random(chosen.random()), truth, f"r{round_}a"),
        Queue(server.port, random.Random(chosen.random()), truth, f"r{round_}b"),
        Parameters(server.port, random.Random(chosen.random()), truth),
    ]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    wanted = chosen.randrange(20, 300)
    wait_until(lambda: sum(c.count for c in clients) >= wanted, what="some writes")
    server.kill9()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return sum(client.count for client in clients)


def check(server: ServerProcess, truth: Truth) -> None:
    """Compare what is there with what was acknowledged, and take as true what was not answered."""
    leases = items(server)
    for key in {*truth.counters, *truth.pending_counters}:
        found, known = leases.get(key, 0), truth.counters.get(key, 0)
        assert found in (known, truth.pending_counters.get(key, known)), (
            f"{key}: {found}, not {known}"
        )
        truth.counters[key] = found
    truth.pending_counters.clear()
    there = messages(server)
    assert len(there) == len(set(there)), "a message is there twice"
    lost = truth.sent - truth.deleted - truth.pending_deleted - set(there)
    assert not lost, f"lost: {sorted(lost)[:5]}"
    risen = set(there) & truth.deleted
    assert not risen, f"deleted, and there again: {sorted(risen)[:5]}"
    strange = set(there) - truth.pending_sent
    assert not strange, f"never sent: {sorted(strange)[:5]}"
    truth.sent, truth.deleted, truth.pending_deleted = set(there), set(), set()
    truth.pending_sent = set(there)
    for name, version in truth.versions.items():
        found = server.client("ssm").get_parameter(Name=name)["Parameter"]["Version"]
        assert found - version in ((0, 1) if name in truth.pending_versions else (0,)), name
        truth.versions[name] = found
    truth.pending_versions.clear()


def items(server: ServerProcess) -> dict[str, int]:
    pages = server.client("dynamodb").get_paginator("scan").paginate(TableName="leases")
    return {i["leaseKey"]["S"]: int(i["counter"]["N"]) for page in pages for i in page["Items"]}


def messages(server: ServerProcess) -> list[str]:
    """Return the bodies of all messages, each seen once: they stay out of sight for a second."""
    sqs, found = server.client("sqs"), list[dict[str, Any]]()
    url = f"{server.endpoint_url}/{ACCOUNT}/q"
    while got := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600
    ).get("Messages"):
        found += got
    for message in found:
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
    return [message["Body"] for message in found]


def kill_again_and_again(folder: Path, seed: int, kills: int, *arguments: str) -> None:
    chosen, truth, acknowledged = random.Random(seed), Truth(), 0
    with ServerProcess(folder / "data", *arguments) as server:
        make(server)
        for round_ in range(kills):
            acknowledged += write_until_killed(server, truth, chosen, round_)
            server.start()
            check(server, truth)
    assert acknowledged >= 20 * kills
    print(f"seed {seed}: {kills} kills, {acknowledged} acknowledged writes, nothing lost")  # noqa: T201


def test_what_moto_s_services_acknowledged_outlasts_kill_9(tmp_path: Path):
    kill_again_and_again(tmp_path, seed=9, kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_what_moto_s_services_acknowledged_outlasts_kill_9_many_times(
    tmp_path: Path, seed: int, durability: str
):
    kill_again_and_again(tmp_path, seed, 100, "--durability", durability)


# --- how large, and how soon ------------------------------------------------------------------------

WRITES = 100_000
KEYS = 300


def renew(connection: http.client.HTTPConnection, number: int) -> None:
    """Renew one of a few hundred leases, as KCL 1.x does."""
    ask(
        connection,
        "dynamodb",
        "DynamoDB_20120810.UpdateItem",
        TableName="leases",
        Key={"leaseKey": {"S": f"shardId-{number % KEYS:012}"}},
        AttributeUpdates={"counter": {"Value": {"N": str(number + 1)}, "Action": "PUT"}},
        Expected={
            "counter": {"Value": {"N": str(number + 1 - KEYS)}}
            if number >= KEYS
            else {"Exists": False}
        },
    )


def send_and_delete_ten(connection: http.client.HTTPConnection, url: str, number: int) -> None:
    """Send ten messages, receive ten, delete them."""

    def sqs(operation: str, **params: Any) -> Any:
        return ask(connection, "sqs", f"AmazonSQS.{operation}", QueueUrl=url, **params)

    bodies = [{"Id": str(n), "MessageBody": f"message {number}-{n}"} for n in range(10)]
    sqs("SendMessageBatch", Entries=bodies)
    got = sqs("ReceiveMessage", MaxNumberOfMessages=10)["Messages"]
    gone = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(got)]
    assert len(sqs("DeleteMessageBatch", Entries=gone)["Successful"]) == 10


def cpu_s(server: ServerProcess) -> float:
    """Return the seconds of processor time that the cloud has had: the same however busy the machine is."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_after_100_000_leases_and_messages_the_directory_is_small_and_the_start_quick(
    tmp_path: Path,
):
    with ServerProcess(tmp_path / "data") as server:
        make(server)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        took_s: list[float] = []
        for number in range(WRITES):
            before_s = time.perf_counter()
            renew(connection, number)
            took_s.append(time.perf_counter() - before_s)
        url = f"{server.endpoint_url}/{ACCOUNT}/q"
        for number in range(WRITES // 10):
            send_and_delete_ten(connection, url, number)
        connection.close()
        server.kill9()
        files = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
        assert sum(file.stat().st_size for file in files) < 20e6
        # Nothing that a client would notice: no snapshot of everything, no clearing up.
        assert max(took_s) < 1
        server.start()
        assert items(server) == {
            f"shardId-{n % KEYS:012}": n + 1 for n in range(WRITES - KEYS, WRITES)
        }
        assert messages(server) == []
        assert cpu_s(server) < 2
