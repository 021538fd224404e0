"""Sinks to Kinesis and Firehose.

Their keys are those of AWS's plugin for Flume (com.amazonaws.services.kinesis.flume.KinesisSink and FirehoseSink).

Sinks on this machine: logger, null and file_roll.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from headrace.agent.flume.channels import MemoryChannel, Taken
from headrace.agent.flume.events import Event, SinkFailed, bytes_of
from headrace.agent.flume.intake import Counts
from headrace.agent.properties import Section
from headrace.client import Producer, PutError, PutsFailed, Receipt
from headrace.client.wire import ServiceError, WireError
from headrace.core.clock import Clock

_RECORDS, _BYTES = 500, 4 << 20
_REFUSALS = (PutsFailed, PutError, BotoCoreError, ClientError, ServiceError, WireError, OSError)
# Events of a block share their random key, which costs less, and leaves aggregates whole.
_BLOCK = 500
_IN_FLIGHT_BYTES = 4 << 20
# Neighbours that were delivered, or were not.
_Runs = list[tuple[int, int, bool]]


class Reach(Protocol):
    """How sinks reach the cloud: the local one, or AWS by an endpoint, keys and a region that the file has."""

    def producer(self, stream: str, options: CloudOptions) -> Producer:
        """Return a producer of a stream."""
        ...

    def client(self, service: str, options: CloudOptions) -> Any:
        """Return a client of a service."""
        ...


class CloudOptions:
    """What a sink's keys say of the cloud. They have an effect on AWS alone."""

    def __init__(self, section: Section) -> None:
        """Take the keys. Raises ConfigurationError."""
        self.endpoint, self.region = section.text("endpoint", ""), section.text("region", "")
        self.access_key, self.secret_key = (
            section.text("accessKeyId", ""),
            section.text("secretAccessKey", ""),
        )
        if bool(self.access_key) != bool(self.secret_key):
            raise section.error(
                "accessKeyId", f"{section.owner} needs accessKeyId and secretAccessKey, or neither"
            )


class KinesisSink:
    """A stream. What of a transaction a stream refuses is in the channel again, the rest has left it."""

    def __init__(self, section: Section, channel: MemoryChannel, reach: Reach) -> None:
        """Take the keys; nothing is sent yet. Raises ConfigurationError."""
        self.channel, self.counts = channel, Counts()
        stream = section.text("streamName", section.text("kinesisStreamName", ""))
        if not stream:
            raise section.error("streamName", f"{section.owner} needs streamName")
        self._batch = section.number("batchSize", 100, least=1)
        self._has_keys = section.flag("partitionKeyFromEvent", default=False)
        section.ignore("maxAttempts", "rollbackAfterMaxAttempts")
        options = CloudOptions(section)
        self._make: Callable[[], Producer] = lambda: reach.producer(stream, options)
        self._producer: Producer | None = None
        self._chance = random.Random()

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`; what the channel has goes at once, in as many transactions."""
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            return False
        sent: list[tuple[Taken, list[Receipt]]] = []
        failure: BaseException | None = None
        size = 0
        try:
            self._producer = producer = self._producer or self._make()
        except _REFUSALS as error:
            self.channel.rollback(taken)
            raise SinkFailed(str(error)) from error
        try:
            while taken is not None:
                receipts: list[Receipt] = []
                sent.append((taken, receipts))
                size += self._put(producer, taken, receipts)
                # A request to each shard costs a round trip, which the next transactions need not wait for.
                taken = self.channel.take(self._batch) if size < _IN_FLIGHT_BYTES else None
            producer.flush()
        except (*_REFUSALS, ValueError) as error:
            # ValueError: a body that no stream takes, such as one of more than 10 MiB.
            failure = error
        if failure is None:
            for whole, _ in sent:
                _settle(self, whole, [(0, len(whole.events), True)])
            return True
        left = 0
        for whole, receipts in sent:
            done = [receipt.done() and receipt.exception() is None for receipt in receipts]
            done += [False] * (len(whole.events) - len(done))
            left += done.count(False)
            _settle(self, whole, _runs(done))
        raise SinkFailed(f"{failure}; {left} events stay in the channel") from failure

    def _put(self, producer: Producer, taken: Taken, receipts: list[Receipt]) -> int:
        """Put events, note their receipts, and return their bytes."""
        put, events = producer.put, taken.events
        if self._has_keys:
            receipts.extend(put(event.body, event.headers.get("key")) for event in events)
        else:
            for at in range(0, len(events), _BLOCK):
                key = f"{self._chance.getrandbits(64):016x}"
                receipts.extend(put(body, key) for _, body in events[at : at + _BLOCK])
        return bytes_of(events)

    def close(self) -> None:
        """See `Sink.close`; nothing is held back."""
        if self._producer is not None:
            self._producer.close(timeout_s=0.0)
            self._producer = None


class FirehoseSink:
    """A delivery stream, by PutRecordBatch."""

    def __init__(self, section: Section, channel: MemoryChannel, reach: Reach) -> None:
        """Take the keys; nothing is sent yet. Raises ConfigurationError."""
        self.channel, self.counts = channel, Counts()
        self._name = section.text("streamName")
        self._batch = section.number("batchSize", 100, least=1)
        section.ignore("maxAttempts", "rollbackAfterMaxAttempts", "partitionKeyFromEvent")
        options = CloudOptions(section)
        self._make: Callable[[], Any] = lambda: reach.client("firehose", options)
        self._client: Any = None

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            return False
        done: list[bool] = []
        failure = ""
        try:
            self._client = self._client or self._make()
            for begin, end in _requests(taken):
                done += self._put([event.body for event in taken.events[begin:end]])
        except _REFUSALS as error:
            failure = str(error)
        done += [False] * (len(taken.events) - len(done))
        _settle(self, taken, _runs(done))
        if not all(done):
            failure = failure or "ServiceUnavailableException"
            raise SinkFailed(
                f"{failure}; {done.count(False)} of {len(done)} events stay in the channel"
            )
        return True

    def _put(self, bodies: list[bytes]) -> list[bool]:
        answer = self._client.put_record_batch(
            DeliveryStreamName=self._name, Records=[{"Data": body} for body in bodies]
        )
        return [not result.get("ErrorCode") for result in answer["RequestResponses"]]

    def close(self) -> None:
        """See `Sink.close`; nothing is held back."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _requests(taken: Taken) -> list[tuple[int, int]]:
    """Return which events go in a request together."""
    requests: list[tuple[int, int]] = []
    begin = size = 0
    for at, event in enumerate(taken.events):
        if at > begin and (at - begin == _RECORDS or size + len(event.body) > _BYTES):
            requests.append((begin, at))
            begin, size = at, 0
        size += len(event.body)
    return [*requests, (begin, len(taken.events))]


def _runs(done: list[bool]) -> _Runs:
    runs: _Runs = []
    for at, is_done in enumerate(done):
        if runs and runs[-1][2] == is_done:
            runs[-1] = (runs[-1][0], at + 1, is_done)
        else:
            runs.append((at, at + 1, is_done))
    return runs


def _settle(sink: KinesisSink | FirehoseSink, taken: Taken, runs: _Runs) -> None:
    """Commit what was delivered, and put the rest back."""
    for begin, end, is_done in runs:
        part = taken if end - begin == len(taken.events) else taken.part(begin, end)
        if is_done:
            sink.channel.commit(part)
            sink.counts.add(part.events)
        else:
            sink.channel.rollback(part)


_LOG = logging.getLogger("headrace.agent")
_PATH_MANAGERS = ("DEFAULT", "ROLLTIME")


class Logger:
    """Logs events."""

    def __init__(self, section: Section, channel: MemoryChannel, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        del clock
        self.channel, self.counts = channel, Counts()
        self._most_bytes = section.number("maxBytesToLog", 16)

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        taken = self.channel.take(100, timeout_s)
        if taken is None:
            return False
        for event in taken.events:
            part = event.body[: self._most_bytes]
            headers = ", ".join(f"{name}={value}" for name, value in event.headers.items())
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
            _LOG.info("Event: { headers:{%s} body: %s %s }", headers, part.hex(" ").upper(), text)
        self.counts.add(taken.events)
        self.channel.commit(taken)
        return True

    def close(self) -> None:
        """See `Sink.close`."""


class Null:
    """Drops events."""

    def __init__(self, section: Section, channel: MemoryChannel, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        del clock
        self.channel, self.counts = channel, Counts()
        self._batch = section.number("batchSize", 100, least=1)

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            return False
        self.counts.add(taken.events)
        self.channel.commit(taken)
        return True

    def close(self) -> None:
        """See `Sink.close`."""


def serialize(section: Section, prefix: str = "") -> Serializer:
    """Return what the `serializer` keys make of an event. Raises ConfigurationError."""
    kind = section.text(f"{prefix}serializer", "TEXT")
    ends = section.flag(f"{prefix}serializer.appendNewline", default=True)
    if kind.upper() not in ("TEXT", "HEADER_AND_TEXT"):
        raise section.error(f"{prefix}serializer", f"the serializer {kind!r} is not built")
    return Serializer(has_headers=kind.upper() == "HEADER_AND_TEXT", ends_lines=ends)


class Serializer:
    """Flume's TEXT and HEADER_AND_TEXT."""

    def __init__(self, *, has_headers: bool, ends_lines: bool) -> None:
        """Take what is put before and behind a body."""
        self._has_headers, self._end = has_headers, b"\n" if ends_lines else b""

    def render(self, event: Event) -> bytes:
        """Return an event's bytes."""
        if not self._has_headers:
            return event.body + self._end
        # Java's way to show a map.
        headers = ", ".join(f"{name}={value}" for name, value in event.headers.items())
        return f"{{{headers}}} ".encode() + event.body + self._end


class FileRoll:
    """Files of a folder, a new one at each interval.

    Durability: a transaction is committed once the operating system has it; a kill while it is written leaves a part of
    it in the file, and the next start writes the whole of it again.
    """

    def __init__(self, section: Section, channel: MemoryChannel, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        self.channel, self.counts, self._clock = channel, Counts(), clock
        self._folder = Path(section.text("sink.directory"))
        if not self._folder.is_dir():
            raise section.error("sink.directory", f"{self._folder} is not a folder")
        self._batch = section.number("sink.batchSize", 100, least=1)
        self._roll_s = section.number("sink.rollInterval", 30)
        self._serializer = serialize(section, "sink.")
        manager = section.choice("sink.pathManager", _PATH_MANAGERS, "DEFAULT")
        self._has_time = manager == "ROLLTIME"
        self._prefix = section.text("sink.pathManager.prefix", "")
        self._ending = section.text("sink.pathManager.extension", "")
        self._series_ms, self._number = clock.now_ms(), 0
        self._file: IO[bytes] | None = None
        self._opened_s = 0.0

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        if (
            self._file is not None
            and self._roll_s
            and self._clock.monotonic_s() - self._opened_s >= self._roll_s
        ):
            self.close()
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            return False
        try:
            file = self._file or self._open()
            start = file.tell()
            try:
                rest = memoryview(b"".join(map(self._serializer.render, taken.events)))
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                # Such as a full disk: what was written of the transaction is taken back.
                os.ftruncate(file.fileno(), start)
                file.seek(start)
                raise
        except OSError as error:
            self.channel.rollback(taken)
            raise SinkFailed(f"{self._folder}: {error.strerror}") from error
        self.counts.add(taken.events)
        self.channel.commit(taken)
        return True

    def _open(self) -> IO[bytes]:
        while True:
            self._number += 1
            series = str(self._series_ms)
            if self._has_time:
                series = self._clock_text()
            path = (
                self._folder
                / f"{self._prefix}{series}-{self._number}{'.' if self._ending else ''}{self._ending}"
            )
            try:
                self._file = path.open("xb", buffering=0)
            except FileExistsError:
                continue
            self._opened_s = self._clock.monotonic_s()
            return self._file

    def _clock_text(self) -> str:
        return (
            datetime.fromtimestamp(self._clock.now_ms() / 1000)
            .astimezone()
            .strftime("%Y%m%d%H%M%S")
        )

    def close(self) -> None:
        """See `Sink.close`."""
        if self._file is not None:
            self._file.close()
            self._file = None
