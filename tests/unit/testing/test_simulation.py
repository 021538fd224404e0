"""Simulated clouds: the same seed gives the same history, time passes at once, crashes lose nothing."""

from __future__ import annotations

import datetime
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ParamValidationError

from headrace.testing import CALM, ROUGH, Chances, cloud, simulation
from headrace.testing.code import make_function
from headrace.testing.simulated.disk import Crashed, Disk
from headrace.testing.simulated.workers import Deadlock, SeededWorkers, VirtualClock
from headrace.testing.simulated.world import NotQuiet, NotSimulated
from headrace.testing.stacks import deploy
from scripts.simulated_deployment import ENRICH, small_enrich
from scripts.simulated_flights import PromiseBroken, run

SEEDS = 4


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_flights_pipeline_keeps_its_promises(seed: int) -> None:
    """A few here, more in test_many_seeds."""
    assert run(seed).acknowledged > 0


def test_many_seeds(nightly: bool) -> None:
    """10 in `make test`, 10,000 nightly, as scripts/simulate runs them."""
    count = 10_000 if nightly else 10 - SEEDS
    done = subprocess.run(
        [sys.executable, "-m", "scripts.simulate", "--first-seed", str(SEEDS), "--seeds", str(count)],
        capture_output=True, text=True, check=False, cwd=ENRICH.parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{count} seeds kept every promise")


def test_a_seed_gives_one_history_whatever_the_process(tmp_path: Path) -> None:
    """Byte for byte: with other hashes of strings, another folder of temporary files, after other seeds."""
    program = "import sys; from scripts.simulated_flights import run; [run(int(s)) for s in sys.argv[2:]];"
    program += "print(chr(10).join(run(int(sys.argv[1])).history))"
    hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", program, "7", "3"], capture_output=True, text=True, check=True,
        cwd=ENRICH.parents[1], env={**os.environ, "PYTHONHASHSEED": hashes, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    here = run(7)
    assert done.stdout.splitlines() == here.history
    assert len(here.history) > 100
    assert here.digest != run(8).digest


FORGETFUL = {
    "every record counts as written, whatever the answer": {
        "writer.py": [('if result.get("ErrorCode")}', "if not result}")],
    },
    "a request holds several records of a key": {
        "writer.py": [
            ("request.append(records[0])", "request.extend(records)"),
            ("MAX_PACKED_BYTES = 256 * 1024", "MAX_PACKED_BYTES = 1"),
            ("if record.partition_key not in refused:", "if record.data not in refused:"),
            ("return {record.partition_key for", "return {record.data for"),
            ("_take(waiting, record.partition_key)", "_drop(waiting, record)"),
            ("def _take(", """def _drop(waiting, record):
    waiting[record.partition_key].remove(record)
    if not waiting[record.partition_key]:
        del waiting[record.partition_key]


def _take("""),
        ],
    },
    "the record after the malformed one is reported": {
        "handler.py": [(
            "return entries, sequence_number",
            "return entries, next((r['kinesis']['sequenceNumber'] for r in records[len(entries) + 1:]), None)",
        )],
    },
}  # fmt: skip


@pytest.mark.parametrize("bug", FORGETFUL)
def test_a_seeded_bug_of_the_pipeline_is_found(bug: str, tmp_path: Path) -> None:
    """The simulation can fail: it does when the function is wrong, and says how to see it again."""
    broken = shutil.copytree(
        small_enrich(), tmp_path / "enrich", ignore=shutil.ignore_patterns("__pycache__")
    )
    for file, changes in FORGETFUL[bug].items():
        text = (broken / file).read_text()
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (broken / file).write_text(text)

    def run_all() -> None:
        for seed in range(60):
            run(seed, enrich=broken)

    with pytest.raises((PromiseBroken, NotQuiet)) as found:
        run_all()
    assert "seed=" in "".join(found.value.__notes__)


def test_three_hours_pass_at_once(tmp_path: Path) -> None:
    began_s = time.perf_counter()
    with simulation(1) as here:
        kinesis = here.client("kinesis")
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        before_ms = here.clock.now_ms()
        here.advance(hours=3)
        assert here.clock.now_ms() - before_ms == 3 * 3_600_000
        assert kinesis.get_records(ShardIterator=_iterator(kinesis))["MillisBehindLatest"] == 0
        here.advance(days=2)
        assert here.records_of("orders") == []
    assert time.perf_counter() - began_s < 60


def _iterator(kinesis: Any) -> str:
    return kinesis.get_shard_iterator(
        StreamName="orders", ShardId="shardId-000000000000", ShardIteratorType="LATEST"
    )["ShardIterator"]


def test_functions_see_the_simulations_time_and_chance(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(
        """
import datetime, random, time, uuid
def handler(event, context):
    time.sleep(3600)
    now = datetime.datetime.now(datetime.UTC).timestamp()
    return [round(time.time()), round(now), random.random(), str(uuid.uuid4())]
"""
    )

    with simulation(3) as here:
        make_function(here, tmp_path, name="f")
        answer = here.client("lambda").invoke(FunctionName="f")
        assert "Task timed out after 60.00 seconds" in answer["Payload"].read().decode()
    answers = []
    for _ in range(2):
        with simulation(3) as here:
            here.advance(minutes=1)
            (tmp_path / "handler.py").write_text(
                (tmp_path / "handler.py").read_text().replace("3600", "60", 1)
            )
            made = make_function(here, tmp_path, name="f", Timeout=900)
            answers.append(made.invoke({}))
    assert answers[0] == answers[1]
    assert answers[0][0] == answers[0][1] == 1_700_000_000 + 120
    assert datetime.datetime.now(datetime.UTC).timestamp() > 1_700_000_500


def test_what_it_changes_in_the_process_is_as_before() -> None:
    before = (
        time.sleep,
        time.monotonic,
        os.urandom,
        os.write,
        os.replace,
        random.getstate(),
        dict(os.environ),
    )
    with simulation(1):
        assert time.sleep is not before[0]
        uuid.uuid4()
        random.random()
    after = (
        time.sleep,
        time.monotonic,
        os.urandom,
        os.write,
        os.replace,
        random.getstate(),
        dict(os.environ),
    )
    assert after == before


def test_a_crash_anywhere_loses_nothing_that_was_acknowledged() -> None:
    """Dies at each of the first writes in turn."""
    crashes = 0
    for at in range(1, 40, 3):
        with simulation(at, chances=CALM) as here:
            kinesis = here.client("kinesis")
            kinesis.create_stream(StreamName="orders", ShardCount=1)
            here.disk.dies_at = here.disk.calls + at
            acknowledged: set[bytes] = set()
            for n in range(10):
                data = str(n).encode()
                # botocore tries again what got no answer.
                kinesis.put_record(StreamName="orders", Data=data, PartitionKey="k")
                acknowledged.add(data)
            crashes += here.crashes
            assert {record.data for record in here.records_of("orders")} == acknowledged
    assert crashes > 3


def test_a_dead_cloud_does_nothing_more() -> None:
    disk = Disk()
    with disk.watched():
        disk.is_counting, disk.dies_at = True, 2
        path = Path("/tmp") / f"headrace-{uuid.uuid4().hex}"
        path.mkdir()
        with pytest.raises(Crashed):
            path.rmdir()
        for _ in range(2):
            with pytest.raises(Crashed):
                path.rmdir()
        disk.drop()
        path.rmdir()
    assert not path.exists()


def test_other_threads_of_the_process_are_no_part_of_a_simulation(tmp_path: Path) -> None:
    disk = Disk()
    with disk.watched():
        disk.is_counting, disk.dies_at = True, 1
        other = threading.Thread(target=(tmp_path / "made").mkdir)
        other.start()
        other.join()
        assert (disk.calls, disk.is_dead) == (0, False)
        with pytest.raises(Crashed):
            (tmp_path / "other").mkdir()
    assert (tmp_path / "made").is_dir()


def test_workers_that_are_ready_take_turns_by_the_seed() -> None:
    def order(seed: int) -> str:
        clock = VirtualClock()
        lines: list[str] = []
        workers = SeededWorkers(
            clock, random.Random(seed), lambda kind, what: lines.append(what[0])
        )

        class Twice:
            def __init__(self, name: str) -> None:
                self.name, self.left = name, 2

            def step(self) -> float:
                self.left -= 1
                return 0.0 if self.left else 1e9

        for name in "abc":
            workers.start(Twice(name))
        workers.work(None, None)
        return "".join(lines)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 5
    assert all(sorted(order(seed)) == list("aabbcc") for seed in range(20))


def test_a_wait_that_nobody_ends_is_told() -> None:
    clock = VirtualClock()
    SeededWorkers(clock, random.Random(1), lambda *_: None)
    with pytest.raises(Deadlock):
        clock.wait(threading.Event(), None)
    assert clock.wait(threading.Event(), 5) is False
    assert clock.now_us == 5_000_000


def test_faults_reach_clients_and_functions() -> None:
    with simulation(5, chances=Chances(throttled=1.0)) as here:
        kinesis = boto3.client("kinesis")
        with pytest.raises(ClientError, match=r"LimitExceeded|ProvisionedThroughput"):
            kinesis.list_streams()
        with here.undisturbed():
            assert kinesis.list_streams()["StreamNames"] == []
    with simulation(5, chances=Chances(lost_request=1.0)), pytest.raises(ConnectionClosedError):
        boto3.client("kinesis").list_streams()


def test_what_never_gets_quiet_is_told_with_its_seed(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text("def handler(event, context): raise ValueError\n")

    def wait_in_vain() -> None:
        with simulation(9) as here:
            kinesis = here.client("kinesis")
            kinesis.create_stream(StreamName="orders", ShardCount=1)
            make_function(here, tmp_path, name="f", source="orders")
            kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
            here.run_until_quiet()

    with pytest.raises(NotQuiet, match=r"1 records of orders wait for f .*for 6 hours.*seed=9"):
        wait_in_vain()


def test_what_it_cannot_do_is_one_sentence() -> None:
    with simulation(1) as here, pytest.raises(NotSimulated, match="has no EMR"):
        here.client("emr").list_clusters()


def test_stacks_are_deployed_in_it() -> None:
    stream = {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1, "Name": "s"}}
    with simulation(1) as here:
        assert deploy(here, {"Resources": {"S": stream}}).resources == {"S": "s"}


def test_a_cloud_on_threads_after_it_is_as_ever() -> None:
    with simulation(1, chances=ROUGH):
        pass
    with cloud() as here:
        boto3.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        assert here.client("kinesis").list_streams()["StreamNames"] == ["s"]


def test_a_simulation_starts_from_what_another_has_saved(tmp_path: Path) -> None:
    with simulation(1) as here:
        here.client("kinesis").create_stream(StreamName="orders", ShardCount=1)
        here.client("kinesis").put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        here.client("sqs").create_queue(QueueName="q")
        here.advance(minutes=5)
        here.save_to(tmp_path / "deployed")
    digests: list[str] = []
    for _ in range(2):
        with simulation(2, chances=ROUGH, start_from=tmp_path / "deployed") as here:
            assert here.clock.now_ms() == 1_700_000_000_000 + 300_000
            with here.undisturbed():
                assert [r.data for r in here.records_of("orders")] == [b"1"]
                assert here.client("sqs").get_queue_url(QueueName="q")
            here.crash()
            with here.undisturbed():
                assert [r.data for r in here.records_of("orders")] == [b"1"]
            digests.append(here.digest())
    assert digests[0] == digests[1]


def test_a_clients_mistakes_and_retries_are_botocores(tmp_path: Path) -> None:
    """Its requests are handed over without a signature and a session; all else is as it is anywhere."""
    with simulation(1) as here:
        kinesis = here.client("kinesis")
        with pytest.raises(ParamValidationError, match="Missing required parameter"):
            kinesis.create_stream()
        with pytest.raises(kinesis.exceptions.ResourceNotFoundException, match="orders") as found:
            kinesis.describe_stream_summary(StreamName="orders")
        assert found.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        here.add_fault({"fault": "drop", "service": "kinesis", "when": "before", "count": 2})
        answer = kinesis.put_record(StreamName="orders", Data=b"1", PartitionKey="k")
        assert answer["ResponseMetadata"]["RetryAttempts"] == 2
        assert answer["ResponseMetadata"]["HTTPHeaders"]["x-amzn-requestid"]
        # The query protocol, and a body of JSON with a path.
        topic = here.client("sns").create_topic(Name="t")["TopicArn"]
        assert topic.endswith(":t")
        assert here.client("lambda").list_functions(MaxItems=3)["Functions"] == []


def test_another_threads_sleep_is_none_of_the_simulations() -> None:
    with simulation(1) as here:
        before_ms = here.clock.now_ms()
        other = threading.Thread(target=time.sleep, args=(0.001,))
        other.start()
        other.join()
        assert here.clock.now_ms() == before_ms
        time.sleep(90)
        assert here.clock.now_ms() == before_ms + 90_000


def test_a_queue_in_virtual_time() -> None:
    with simulation(seed=7) as cloud:
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="s", StreamModeDetails={"StreamMode": "ON_DEMAND"})
        stream = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]
        queue = kinesis.create_queue(
            QueueName="q", StreamConfigurationList=[{"StreamARN": stream["StreamARN"]}]
        )["QueueDescription"]["QueueARN"]
        began_us = cloud.clock.now_us

        def receive(wait_s: int) -> tuple[list[int], float]:
            records = kinesis.receive_queue_records(QueueARN=queue, WaitTimeSeconds=wait_s)
            handles[:] = [{"ReceiptHandle": r["ReceiptHandle"]} for r in records["QueueRecords"]]
            counts = [record["ReceiveCount"] for record in records["QueueRecords"]]
            return counts, (cloud.clock.now_us - began_us) / 1e6

        handles: list[dict[str, str]] = []
        assert receive(5) == ([], 5.0)
        kinesis.put_record(StreamName="s", Data=b"1", PartitionKey="1")
        assert receive(5) == ([1], 5.0)
        cloud.crash()
        # In flight over the crash, and visible after its 30 seconds.
        assert receive(20) == ([], 25.0)
        assert receive(20) == ([2], 35.0)
        kinesis.acknowledge_queue_records(QueueARN=queue, Entries=handles)
        cloud.crash()
        assert receive(20) == ([], 55.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_queue_under_faults_and_crashes_loses_nothing(seed: int) -> None:
    often = Chances(lost_answer=0.02, crash_every=20)
    with simulation(seed=seed, chances=often) as cloud:
        kinesis = cloud.client("kinesis")
        with cloud.undisturbed():
            kinesis.create_stream(StreamName="s", StreamModeDetails={"StreamMode": "ON_DEMAND"})
            stream = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]
            queue = kinesis.create_queue(
                QueueName="q",
                StreamConfigurationList=[{"StreamARN": stream["StreamARN"]}],
                QueueAttributes={"DeadLetterConfiguration": {"TargetType": "NONE"}},
            )["QueueDescription"]["QueueARN"]
        texts = {str(number) for number in range(60)}
        for text in sorted(texts):
            kinesis.put_record(StreamName="s", Data=text.encode(), PartitionKey=text)
        done: set[str] = set()
        while len(done) < len(texts):
            try:
                records = kinesis.receive_queue_records(QueueARN=queue)["QueueRecords"]
            except ConnectionClosedError:
                # A long poll that waits for records in flight sees crash after crash, more than the SDK tries again.
                continue
            kept = {r["ReceiptHandle"]: r["Data"].decode() for r in records}
            if kept:
                entries = [{"ReceiptHandle": handle} for handle in kept]
                answer = kinesis.acknowledge_queue_records(QueueARN=queue, Entries=entries)
                done |= {kept[one["ReceiptHandle"]] for one in answer["Successful"]}
                # A repeated acknowledgement, whose first answer was lost, finds the record gone.
                gone = [
                    e for e in answer["Failed"] if e["ErrorCode"] == "ResourceNotFoundException"
                ]
                done |= {kept[one["ReceiptHandle"]] for one in gone}
        assert done == texts
        assert cloud.crashes > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_channel_under_faults_and_crashes_delivers_each_record_once(seed: int) -> None:
    often = Chances(lost_answer=0.02, crash_every=25)
    with simulation(seed=seed, chances=often) as cloud:
        kinesis, s3 = cloud.client("kinesis"), cloud.client("s3")
        with cloud.undisturbed():
            s3.create_bucket(Bucket="lake")
            kinesis.create_stream(StreamName="s", StreamModeDetails={"StreamMode": "ON_DEMAND"})
            stream = kinesis.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]
            records = {"RecordFormatType": "STRING"}
            kinesis.create_channel(
                ChannelName="c",
                ServiceExecutionRoleARN="arn:aws:iam::000000000000:role/r",
                StreamConfigurationList=[
                    {"StreamARN": stream["StreamARN"], "RecordConfiguration": records}
                ],
                S3DestinationConfiguration={
                    "StorageConfiguration": {
                        "BucketARN": "arn:aws:s3:::lake",
                        "ExpectedBucketOwner": cloud.account,
                        "CompressionType": "NONE",
                    }
                },
            )
        for number in range(60):
            kinesis.put_record(StreamName="s", Data=b"<%d>" % number, PartitionKey=str(number))
            if number % 20 == 0:
                cloud.advance(seconds=200)
        cloud.run_until_quiet()
        with cloud.undisturbed():
            put = sorted(record.data for record in cloud.records_of("s"))
            keys = [one["Key"] for one in s3.list_objects_v2(Bucket="lake")["Contents"]]
            bodies = [s3.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys]
        # A put whose answer was lost is in the stream twice, and then in the bucket twice.
        assert sorted(re.findall(rb"<\d+>", b"".join(bodies))) == put
        assert cloud.crashes > 0
