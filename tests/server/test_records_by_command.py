"""`headrace put`, `tail` and `replay` against a real cloud: what they say when they are cut off or refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.client.faults import Faults
from tests.support.command import BROKEN_PIPE, INTERRUPTED, begin
from tests.support.server import ServerProcess, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


@pytest.fixture
def stream(server: ServerProcess, request: pytest.FixtureRequest) -> str:
    name = request.node.name.partition("[")[0][:128]
    server.client("kinesis").create_stream(StreamName=name, ShardCount=1)
    return name


def records(server: ServerProcess, stream: str) -> list[bytes]:
    kinesis: Any = server.client("kinesis")
    iterator = kinesis.get_shard_iterator(
        StreamName=stream, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return [record["Data"] for record in kinesis.get_records(ShardIterator=iterator)["Records"]]


def start(server: ServerProcess, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    return begin(*arguments, "--endpoint-url", server.endpoint_url, **options)


def run(server: ServerProcess, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run a command in this process; return its exit code, its output, and what it complains of."""
    where = ["--endpoint-url", server.endpoint_url]
    done = CliRunner().invoke(headrace, [*arguments, *where], input=stdin)
    return done.exit_code, done.stdout_bytes, done.stderr


# --- put --------------------------------------------------------------------------------------


def test_put_puts_lines_as_they_come_and_counts_them_when_interrupted(
    server: ServerProcess, stream: str
) -> None:
    with start(server, "put", stream) as process:
        assert process.stdin is not None
        process.stdin.write("one\ntwo\nthree is not ended")
        process.stdin.flush()
        wait_until(lambda: records(server, stream) == [b"one", b"two"])
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=30)
    assert (process.returncode, said) == (INTERRUPTED, "")
    assert complained == f"interrupted: 2 records put into {stream}\n"


def test_put_into_this_cloud_loads_neither_boto3_nor_botocore(
    server: ServerProcess, stream: str
) -> None:
    program = (
        "import sys\n"
        "from headrace.cli.commands import headrace\n"
        "headrace(sys.argv[1:], standalone_mode=False)\n"
        "print(*sorted({'boto3', 'botocore', 'asyncio', 'urllib.request', 'http.client'} & set(sys.modules)))\n"
    )
    arguments = ["put", stream, "x", "--endpoint-url", server.endpoint_url]
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [f"1 record put into {stream}", ""]
    assert records(server, stream) == [b"x"]


def test_put_lets_the_request_that_is_on_its_way_be_answered(
    server: ServerProcess, stream: str
) -> None:
    with Faults(server.endpoint_url) as faults:
        faults.add("latency", service="kinesis", action="PutRecords", latency_ms=500)
        with start(server, "put", stream, "one") as process:
            wait_until(lambda: any(rule["acted"] for rule in faults.list()))
            process.send_signal(signal.SIGINT)
            _, complained = process.communicate(timeout=30)
    assert process.returncode == INTERRUPTED
    assert complained == f"interrupted: 1 record put into {stream}\n"
    assert records(server, stream) == [b"one"]


def test_put_leaves_at_the_second_interrupt_and_says_what_it_does_not_know(
    server: ServerProcess, stream: str
) -> None:
    with Faults(server.endpoint_url) as faults:
        faults.add("latency", service="kinesis", action="PutRecords", latency_ms=20_000)
        with start(server, "put", stream, "one") as process:
            wait_until(lambda: any(rule["acted"] for rule in faults.list()))
            process.send_signal(signal.SIGINT)
            wait_until(lambda: not _is_pending(process.pid, signal.SIGINT))
            process.send_signal(signal.SIGINT)
            _, complained = process.communicate(timeout=10)
    assert process.returncode == INTERRUPTED
    assert complained == (
        f"interrupted: 0 records put into {stream}; of 1 more, which were on their way, "
        "some may be there too\n"
    )


def _is_pending(pid: int, number: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    shared = next(line for line in lines if line.startswith("ShdPnd:"))
    return bool(int(shared.split()[1], 16) >> (number - 1) & 1)


def test_put_names_the_record_that_was_refused_and_counts_those_before(
    server: ServerProcess, stream: str
) -> None:
    lines = b"".join(b"%d\n" % number for number in range(700))
    code, said, complained = run(server, "put", stream, stdin=lines + b"x" * 2**20 + b"y\nend\n")
    assert (code, said) == (1, b"")
    assert "Error: record" in complained
    assert complained.count("\n") == 1
    taken = len(records(server, stream))
    assert complained.endswith(f"; {taken} records put into {stream}.\n")
    assert 500 <= taken <= 700


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["put", "none"], "ResourceNotFoundException: Stream none under account 000000000000"),
        (["put", "none", "x"], "ResourceNotFoundException: Stream none under account 000000000000"),
        (["put", "", "x"], "Parameter validation failed: Invalid length for parameter StreamName"),
        (["put", "none", "x", "--key", ""], "ResourceNotFoundException: Stream none under account"),
        (["tail", "none"], "ResourceNotFoundException: Stream none under account 000000000000"),
        (["tail", "a b"], "ValidationException: 1 validation error detected: Value 'a b'"),
        (["put", "s", "x", "--region", "no region"], "Provided region_name 'no region'"),
    ],
)
def test_bad_arguments_get_one_sentence(
    server: ServerProcess, arguments: list[str], sentence: str
) -> None:
    code, said, complained = run(server, *arguments)
    assert (code, said) == (1, b"")
    assert sentence in complained
    assert complained.count("\n") == 1


def test_an_empty_input_is_no_record_and_a_closed_one_is_an_error(
    server: ServerProcess, stream: str
) -> None:
    code, said, _ = run(server, "put", stream)
    assert (code, said) == (0, f"0 records put into {stream}\n".encode())
    command = f"exec {sys.executable} -m headrace.cli.main put {stream} <&-"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} --endpoint-url {server.endpoint_url}"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: standard input cannot be read: it is closed; 0 records put into {stream}.\n"
    )


def test_binary_data_comes_out_as_it_went_in(server: ServerProcess, stream: str) -> None:
    data = os.urandom(3000).replace(b"\n", b"")
    code, _, complained = run(server, "put", stream, stdin=data + b"\nplain\n")
    assert code == 0, complained
    _, shown, _ = run(server, "tail", stream, "--from", "TRIM_HORIZON", "--drain")
    assert shown == data + b"\nplain\n"
    _, lines, _ = run(server, "tail", stream, "--from", "TRIM_HORIZON", "--drain", "--json")
    first, second = (json.loads(line) for line in lines.splitlines())
    assert "data" not in first
    assert first["dataBase64"]
    assert second["data"] == "plain"


# --- tail -------------------------------------------------------------------------------------


def test_tail_ends_when_nobody_reads_it_without_waiting_for_a_record(
    server: ServerProcess, stream: str
) -> None:
    server.client("kinesis").put_record(StreamName=stream, Data=b"one", PartitionKey="k")
    with start(server, "tail", stream, "--from", "TRIM_HORIZON") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "one\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == BROKEN_PIPE


def test_tail_shows_nothing_older_than_its_start_of_a_resharded_stream(
    server: ServerProcess, stream: str
) -> None:
    kinesis: Any = server.client("kinesis")
    kinesis.put_record(StreamName=stream, Data=b"parent", PartitionKey="k")
    kinesis.split_shard(
        StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127)
    )
    kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    for key in ("k", "l", "m", "n"):
        kinesis.put_record(StreamName=stream, Data=b"old", PartitionKey=key)
    _, shown, _ = run(server, "tail", stream, "--drain")
    assert shown == b""
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    wait_until(lambda: datetime.now(UTC) > soon, what="a later moment")
    kinesis.put_record(StreamName=stream, Data=b"new", PartitionKey="k")
    _, shown, _ = run(server, "tail", stream, "--drain", "--from", soon.isoformat())
    assert shown == b"new\n"
    _, shown, _ = run(server, "tail", stream, "--drain", "--from", "TRIM_HORIZON")
    assert sorted(shown.split()) == [b"new", *[b"old"] * 4, b"parent"]


def test_tail_shows_the_records_of_a_key_or_of_a_shard(server: ServerProcess) -> None:
    kinesis = server.client("kinesis")
    kinesis.create_stream(StreamName="sorted", ShardCount=2)
    shard_of = {
        key: kinesis.put_record(StreamName="sorted", Data=f"{key}\n".encode(), PartitionKey=key)[
            "ShardId"
        ]
        for key in ("a", "b", "c", "d")
    }

    def tail(*arguments: str, stream: str = "sorted") -> list[str]:
        code, shown, complained = run(server, "tail", stream, "--from", "5m", "--drain", *arguments)
        return sorted(shown.decode().split()) if code == 0 else [complained]

    assert tail("--key", "b") == ["b"]
    assert tail("--key", "none") == []
    arn = kinesis.describe_stream_summary(StreamName="sorted")["StreamDescriptionSummary"]
    for name, stream in (
        ("shardId-000000000001", "sorted"),
        ("1", "sorted"),
        ("1", arn["StreamARN"]),
    ):
        assert tail("--shard", name, stream=stream) == [
            key for key, shard in shard_of.items() if shard.endswith("1")
        ]
    (complained,) = tail("--shard", "7")
    assert "sorted has no shard 7; it has shardId-000000000000, shardId-000000000001." in complained
    (complained,) = tail("--queue", "--key", "a")
    assert "are of a stream's records" in complained


def test_tail_ends_quietly_when_interrupted(server: ServerProcess, stream: str) -> None:
    server.client("kinesis").put_record(StreamName=stream, Data=b"one", PartitionKey="k")
    with start(server, "tail", stream, "--from", "TRIM_HORIZON") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == INTERRUPTED


def test_tail_receives_from_a_queue_and_acknowledges_what_it_printed(server: ServerProcess) -> None:
    kinesis = server.client("kinesis")
    kinesis.create_stream(StreamName="queued", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    arn = kinesis.describe_stream_summary(StreamName="queued")["StreamDescriptionSummary"][
        "StreamARN"
    ]
    queue = kinesis.create_queue(QueueName="jobs", StreamConfigurationList=[{"StreamARN": arn}])[
        "QueueDescription"
    ]["QueueARN"]
    for text in ("one", "two", "three"):
        kinesis.put_record(StreamName="queued", Data=text.encode(), PartitionKey=text)
    _, lines, complained = run(server, "tail", "jobs", "--queue", "--limit", "2", "--json")
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [row["receiveCount"] for row in rows] == [1, 1], complained
    _, last, _ = run(server, "tail", queue, "--queue", "--drain")
    printed = {row["data"] for row in rows} | {last.decode().strip()}
    assert printed == {"one", "two", "three"}
    (row,) = server.page("/_headrace/kinesis/queues")
    assert (row["visible"], row["inFlight"]) == (0, 0)
    code, _, complained = run(server, "tail", "nothing", "--queue")
    assert (code, "There is no queue nothing." in complained) == (1, True)
    code, _, complained = run(server, "tail", "jobs", "--queue", "--from", "TRIM_HORIZON")
    assert (code, "--from does not go with --queue" in complained) == (1, True)


# --- replay -----------------------------------------------------------------------------------


def events_file(folder: Path, *lines: Any) -> str:
    file = folder / "events.jsonl"
    file.write_bytes(
        b"".join(
            line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines
        )
    )
    return str(file)


def event(hour: int, **more: Any) -> dict[str, Any]:
    return {"carrier": "AA", "event_time": f"2026-01-01T{hour:02d}:00:00Z", **more}


def test_replay_counts_what_it_has_put_when_interrupted(
    server: ServerProcess, stream: str, tmp_path: Path
) -> None:
    file = events_file(tmp_path, event(1), event(2), event(3))
    with start(server, "replay", file, "--stream", stream, "--speed", "1x") as process:
        wait_until(lambda: records(server, stream))
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=30)
    assert (process.returncode, said) == (INTERRUPTED, "")
    assert complained == (
        f"interrupted: 1 record put into {stream} (shardId-000000000000: 1)\n"
    )  # fmt: skip


def test_replay_counts_what_it_has_put_when_one_is_refused(
    server: ServerProcess, stream: str, tmp_path: Path
) -> None:
    file = events_file(tmp_path, *[event(1)] * 500, event(2), event(3, carrier="A" * 257))
    code, said, complained = run(server, "replay", file, "--stream", stream)
    assert (code, said) == (1, b"")
    assert complained.startswith("Error: record 502 was refused: a partition key has 1 to 256 char")
    assert complained.endswith(
        f"; 500 records put into {stream} (shardId-000000000000: 500).\n"
    )  # fmt: skip
    assert len(records(server, stream)) == 500


@pytest.mark.parametrize(
    ("line", "more", "sentence"),
    [
        (b"{", [], "line 2, is not JSON."),
        (b"\xff\xfe", [], "line 2, is not JSON."),
        (b"[" * 100_000, [], "line 2, is not JSON."),
        (b"[1]", [], "line 2, is not a JSON object."),
        (
            b'{"carrier": null}',
            [],
            "line 2, has no field 'carrier': name one by --key, of carrier.",
        ),
        (b'{"carrier": ["AA"]}', [], "line 2, has no text in the field 'carrier', which is the"),
        (
            b'{"carrier": "AA"}',
            ["--speed", "2x"],
            "line 2, has no field 'event_time': name one by --time, of carrier.",
        ),
        (
            b'{"carrier": "AA", "event_time": "noon"}',
            ["--speed", "2x"],
            "line 2, has no ISO time in the field 'event_time'.",
        ),
    ],
)
def test_replay_looks_at_every_event_before_it_puts_the_first(
    server: ServerProcess, tmp_path: Path, line: bytes, more: list[str], sentence: str
) -> None:
    file = events_file(tmp_path, event(1), line)
    code, _, complained = run(server, "replay", file, "--stream", "none", *more)
    assert code == 1
    assert complained.startswith(f"Error: {file}, {sentence}")
    assert complained.count("\n") == 1


def test_replay_says_why_a_source_cannot_be_read(server: ServerProcess, tmp_path: Path) -> None:
    code, _, complained = run(server, "replay", str(tmp_path))
    assert (code, complained) == (1, f"Error: {tmp_path}: Is a directory.\n")
