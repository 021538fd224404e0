"""The stages of `make run ARGS="--pipeline devices"`: devices by MQTT, a rule, a stream, alerts, a Spark job."""

# pandas' own annotations give every index and conversion a union of all possible types.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import json
import selectors
import ssl
import time
from collections import Counter
from typing import Any

import paho.mqtt.client as paho
import pandas as pd
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from rich.progress import Progress

from headrace.cli.running_cloud import health
from scripts import simulated_devices as simulated
from scripts.pipeline.run import Check, Run, StageError
from scripts.pipeline.stages import (
    LOOK_EVERY_S,
    STAGE_WITHIN_S,
    read_results,
    submit,
    wait_for_step,
)

MINUTES, SEED = 60, 36
MQTT_PORT = 8883
WATERMARK = "10 minutes"
# As long as nothing comes for so long, every window has ended.
QUIET_S = 30.0


class Fleet:
    """Connected devices with one certificate, on one thread. A context manager that disconnects them."""

    def __init__(self, run: Run, names: list[str], progress: Progress) -> None:
        """Connect them. Raises StageError."""
        self._selector = selectors.DefaultSelector()
        self._devices: dict[str, paho.Client] = {}
        self._unacknowledged = 0
        self.acknowledged = 0
        self._refused: Counter[str] = Counter()
        host, port, context = _door(run)
        task = progress.add_task("connecting devices by MQTT", total=len(names))
        for name in names:
            device = paho.Client(CallbackAPIVersion.VERSION2, client_id=name)
            device.tls_set_context(context)
            device.on_connect = self._connected
            device.on_publish = self._published
            device.max_inflight_messages_set(100)
            try:
                device.connect(host, port, keepalive=600)
            except OSError as error:
                raise StageError(
                    f"The device {name} cannot connect to {host}:{port}: {error}"
                ) from error
            self._devices[name] = device
            self._selector.register(device.socket(), selectors.EVENT_READ, device)  # pyrefly: ignore[bad-argument-type]
            self._unacknowledged += 1
            if self._unacknowledged >= 50:
                self._wait()
            progress.advance(task)
        self._wait()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for device in self._devices.values():
            device.disconnect()
        self._selector.close()

    def _connected(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self._unacknowledged -= 1
        if reason.is_failure:
            self._refused[str(reason)] += 1

    def _published(self, *_: Any) -> None:
        self._unacknowledged -= 1
        self.acknowledged += 1

    def publish(self, batch: list[tuple[str, dict[str, Any]]]) -> None:
        """Send readings by QoS 1, and wait until each is acknowledged. Raises StageError."""
        for name, reading in batch:
            self._unacknowledged += 1
            topic = f"devices/{name}/telemetry"
            self._devices[name].publish(topic, simulated.encode(reading), qos=1)
        self._wait()

    def _wait(self) -> None:
        """Wait until everything that was sent is answered. Raises StageError."""
        deadline = time.monotonic() + STAGE_WITHIN_S
        while self._unacknowledged > 0:
            for key, _ in self._selector.select(1.0):
                if key.data.loop_read(100) != MQTTErrorCode.MQTT_ERR_SUCCESS:
                    raise StageError("A device was disconnected; the cloud's log says why.")
            if self._refused:
                raise StageError(f"Devices are refused: {dict(self._refused)}")
            if time.monotonic() > deadline:
                raise StageError(f"{self._unacknowledged} answers to devices are missing.")


def _door(run: Run) -> tuple[str, int, ssl.SSLContext]:
    """Return where devices connect, and their TLS with a new certificate that has the stack's policy."""
    iot = run.client("iot")
    keys = iot.create_keys_and_certificate(setAsActive=True)
    policy = run.output("devices", "DevicePolicyName")
    iot.attach_policy(policyName=policy, target=keys["certificateArn"])
    folder = run.data_dir / "devices"
    folder.mkdir(exist_ok=True)
    both = folder / "device.pem"
    both.touch(mode=0o600)
    both.write_text(keys["certificatePem"] + keys["keyPair"]["PrivateKey"])
    address = str(iot.describe_endpoint(endpointType="iot:Data-ATS")["endpointAddress"])
    if run.target.is_aws:
        context, port = ssl.create_default_context(), MQTT_PORT
    else:
        trusted = run.data_dir / "tls" / "trusted.pem"
        context = ssl.create_default_context(cafile=str(trusted))
        port = int((health(run.data_dir) or {})["mqtt"]["tls"])
    context.load_cert_chain(both)
    return address, port, context


def process(run: Run, count: int, progress: Progress) -> pd.DataFrame:
    """Let devices live through an hour, and one more minute: check every stage; return the job's sessions.

    The job runs twice: its first run leaves all sessions in the checkpoint, the second one, by newer readings, writes
    those that have ended.
    """
    minutes = list(simulated.readings(count, MINUTES + 1, SEED))
    with Fleet(run, simulated.device_names(count), progress) as fleet:
        hour = _play(fleet, minutes[:MINUTES], progress)
        _arrived(run, simulated.table_of(hour), progress)
        _run_job(run, "Spark: sessions of devices, the hour", progress)
        hour_rows = simulated.table_of(hour)
        rows = simulated.table_of(hour + _play(fleet, minutes[MINUTES:], progress))
        run.checks.append(
            Check(
                "MQTT",
                "readings acknowledged",
                len(rows),
                fleet.acknowledged,
                f"{count:,} devices with a certificate, QoS 1",
            )
        )
    found, repeated = _arrived(run, rows, progress)
    run.checks.append(
        Check("IoT rule", "readings in Kinesis", len(rows), found, f"{repeated} repeated")
    )
    run.checks.append(Check("IoT rule", "error actions", 0, _waiting(run, "RuleErrorsQueueUrl")))
    _alerted(run, rows, progress)
    _run_job(run, "Spark: sessions of devices, a minute later", progress)
    closed = hour_rows["event_time"].max() - pd.Timedelta(WATERMARK)
    return _sessions(run, simulated.expected_sessions(rows, closed))


def _play(
    fleet: Fleet, minutes: list[list[tuple[str, dict[str, Any]]]], progress: Progress
) -> list[tuple[str, dict[str, Any]]]:
    """Let the devices send minute by minute; return what they sent, each reading acknowledged."""
    task = progress.add_task("MQTT: readings, minute by minute", total=len(minutes))
    for batch in minutes:
        fleet.publish(batch)
        progress.advance(task)
    return [reading for batch in minutes for reading in batch]


def _arrived(run: Run, rows: pd.DataFrame, progress: Progress) -> tuple[int, int]:
    """Wait until every reading is in the stream; return how many are there, and how many came again."""
    task = progress.add_task("IoT rule: readings in Kinesis", total=len(rows))
    kinesis, stream = run.client("kinesis"), run.output("devices", "TelemetryStreamName")
    counter: Counter[tuple[str, int]] = Counter()
    iterators = {
        shard["ShardId"]: kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        for shard in kinesis.list_shards(StreamName=stream)["Shards"]
    }
    deadline = time.monotonic() + STAGE_WITHIN_S
    while len(counter) < len(rows):
        for shard_id, iterator in iterators.items():
            answer = kinesis.get_records(ShardIterator=iterator)
            iterators[shard_id] = answer["NextShardIterator"]
            for record in answer["Records"]:
                event = json.loads(record["Data"])
                counter[event["device"], event["seq"]] += 1
        progress.update(task, completed=len(counter))
        if time.monotonic() > deadline:
            raise StageError(f"Only {len(counter):,} of {len(rows):,} readings are in {stream}.")
        time.sleep(LOOK_EVERY_S)
    wanted = set(zip(rows["device"], rows["seq"], strict=True))
    return len(wanted & set(counter)), counter.total() - len(counter)


def _alerted(run: Run, rows: pd.DataFrame, progress: Progress) -> None:
    """Read the alerts until the queue is empty and none is missing, or no more come; compare them with pandas."""
    expected = simulated.expected_alerts(rows)
    task = progress.add_task("Lambda: alerts by SNS", total=len(expected))
    sqs, url = run.client("sqs"), run.output("devices", "AlertsQueueUrl")
    counter: Counter[str] = Counter()
    deadline = time.monotonic() + STAGE_WITHIN_S
    quiet_until = time.monotonic() + QUIET_S
    while time.monotonic() < min(deadline, quiet_until):
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        messages = answer.get("Messages", [])
        for message in messages:
            counter[json.loads(message["Body"])["id"]] += 1
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        if messages:
            quiet_until = time.monotonic() + QUIET_S
        progress.update(task, completed=len(counter))
        if not messages and expected <= set(counter):
            break
    for kind, words in (("silent", "silent devices"), ("overheating", "overheating devices")):
        wanted, got = (
            {each for each in ids if each.startswith(f"{kind}#")}
            for ids in (expected, set(counter))
        )
        detail = (
            f"{len(wanted - got)} missing, {len(got - wanted)} too many" if wanted != got else ""
        )
        run.checks.append(Check("Lambda", words, len(wanted), len(got & wanted), detail))
    run.checks.append(Check("Lambda", "alerts that pandas lacks", 0, len(set(counter) - expected)))
    run.checks.append(Check("Lambda", "failure reports", 0, _waiting(run, "FailureQueueUrl")))


def _run_job(run: Run, words: str, progress: Progress) -> None:
    stream = run.output("devices", "TelemetryStreamName")
    step_id = submit(run, "device_sessions", stream, "--watermark", WATERMARK)
    wait_for_step(run, step_id, words, progress)


def _sessions(run: Run, expected: pd.DataFrame) -> pd.DataFrame:
    """Compare the job's sessions with pandas; return them."""
    sessions = read_results(run, ["device", "session_start"])
    run.checks.append(Check("Spark", "sessions", len(expected), len(sessions)))
    run.checks.append(
        Check(
            "Spark",
            "readings in them",
            int(expected["readings"].sum()),
            int(sessions["readings"].sum()),
        )
    )
    run.checks.append(
        Check("Spark", "sessions that differ from pandas", 0, _differing(expected, sessions))
    )
    return sessions


def _differing(expected: pd.DataFrame, found: pd.DataFrame) -> int:
    """Return how many sessions are missing, too many, or have other values."""
    key = ["device", "session_start"]
    for column in ("session_start", "session_end"):
        found[column] = pd.to_datetime(found[column], utc=True)
    both = expected.merge(found, on=key, how="outer", suffixes=("", "_found"), indicator=True)
    same = both["_merge"].eq("both")
    for column in ("session_end", "readings", "max_celsius"):
        same &= both[column].eq(both[f"{column}_found"])
    same &= (both["mean_celsius"] - both["mean_celsius_found"]).abs() < 1e-9
    return int((~same).sum())


def _waiting(run: Run, queue: str) -> int:
    name = "ApproximateNumberOfMessages"
    answer = run.client("sqs").get_queue_attributes(
        QueueUrl=run.output("devices", queue), AttributeNames=[name]
    )
    return int(answer["Attributes"][name])
