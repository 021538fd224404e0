"""The hdfs sink, whose files are objects of S3.

An object is written whole, once it is due by `rollCount`, `rollSize`, `rollInterval` or `idleTimeout`: until then its
events stay in the channel, so that no kill loses one, and a full channel makes it due. Flume's own sink on S3 commits
what a kill then loses with the file that was open. An object is only written where none is, and one that is there and
has the same bytes is this one, whose answer was lost.

The escapes of Flume's paths, such as `%{host}` and `%Y-%m-%d`: by an event's headers and its time.

Documented: https://flume.apache.org/releases/content/1.11.0/FlumeUserGuide.html#hdfs-sink; observed in Flume's source
(BucketPath): a time escape needs the header `timestamp`, a header that is missing becomes nothing.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import re
import socket
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from botocore.exceptions import BotoCoreError, ClientError

from headrace.agent.flume.channels import MemoryChannel, Taken
from headrace.agent.flume.cloud_sinks import CloudOptions, Reach, serialize
from headrace.agent.flume.events import Event, Headers, SinkFailed
from headrace.agent.flume.intake import Counts
from headrace.agent.properties import Section
from headrace.core.clock import Clock

_TAG = re.compile(r"%(?:\{([\w.-]+)\}|\[(\w+)\]|(\w|%))")
# Of so many digits every number is one of Java's long.
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_HOST = ("localhost", "IP", "FQDN")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_SIGNS: dict[str, Callable[[datetime], str]] = {
    "a": lambda t: _DAYS[t.weekday()][:3],
    "A": lambda t: _DAYS[t.weekday()],
    "b": lambda t: _MONTHS[t.month - 1][:3],
    "B": lambda t: _MONTHS[t.month - 1],
    "c": lambda t: (
        f"{_DAYS[t.weekday()][:3]} {_MONTHS[t.month - 1][:3]} {t.day} {t:%H:%M:%S} {t.year}"
    ),
    "d": lambda t: f"{t.day:02}",
    "e": lambda t: str(t.day),
    "D": lambda t: f"{t:%m/%d/%y}",
    "H": lambda t: f"{t.hour:02}",
    "I": lambda t: f"{t.hour % 12 or 12:02}",
    "j": lambda t: f"{t:%j}",
    "k": lambda t: str(t.hour),
    "l": lambda t: str(t.hour % 12 or 12),
    "m": lambda t: f"{t.month:02}",
    "n": lambda t: str(t.month),
    "M": lambda t: f"{t.minute:02}",
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "S": lambda t: f"{t.second:02}",
    "y": lambda t: f"{t.year % 100:02}",
    "Y": lambda t: f"{t.year:04}",
    "z": lambda t: f"{t:%z}",
}


class NoTime(Exception):
    """An event has no time, which a path needs. The message is one sentence."""


def read_timestamp(headers: Headers) -> int | None:
    """Return the milliseconds of the header `timestamp`; None without one that is a number of 64 bits."""
    text = headers.get("timestamp", "")
    return int(text) if _NUMBER.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Rounding:
    """How the time is rounded down: to a multiple of `value` units within the next larger unit."""

    unit: str
    value: int

    def down(self, moment: datetime) -> datetime:
        """Return the rounded time."""
        if self.unit == "second":
            return moment.replace(second=moment.second - moment.second % self.value, microsecond=0)
        if self.unit == "minute":
            return moment.replace(
                minute=moment.minute - moment.minute % self.value, second=0, microsecond=0
            )
        return moment.replace(
            hour=moment.hour - moment.hour % self.value, minute=0, second=0, microsecond=0
        )


class Escapes:
    """A text with escapes. `has_time`: whether what it becomes depends on an event's time."""

    def __init__(self, text: str) -> None:
        """Take the text. Raises ValueError with one sentence for a host escape that Flume has not."""
        self._text = text
        tags = list(_TAG.finditer(text))
        self.has_time = any(tag[3] and tag[3] != "%" for tag in tags)
        self._hosts: dict[str, str] = {}
        for tag in tags:
            if tag[2]:
                self._hosts[tag[2]] = _host(tag[2])

    def fill(
        self, headers: Headers, zone: tzinfo | None, rounding: Rounding | None, local_ms: int | None
    ) -> str:
        """Return the text for an event; its time is `local_ms`, or else the header `timestamp`. Raises NoTime."""
        moment = None
        if self.has_time:
            now_ms = read_timestamp(headers) if local_ms is None else local_ms
            if now_ms is None:
                raise NoTime(
                    f"an event has no header timestamp that is a number, which {self._text} needs"
                )
            try:
                moment = datetime.fromtimestamp(now_ms / 1000, zone).astimezone(zone)
            except (ValueError, OverflowError, OSError) as error:
                raise NoTime(f"an event's header timestamp {now_ms} is no time: {error}") from error
            if rounding is not None:
                moment = rounding.down(moment)

        def value(tag: re.Match[str]) -> str:
            header, host, sign = tag.groups()
            if header:
                return headers.get(header, "")
            if host:
                return self._hosts[host]
            if sign == "%":
                return "%"
            assert moment is not None
            if sign == "t":
                return str(local_ms) if local_ms is not None else headers["timestamp"]
            if sign == "s":
                return str(int(moment.timestamp()))
            make = _SIGNS.get(sign)
            return make(moment) if make else ""

        return _TAG.sub(value, self._text)


def _host(kind: str) -> str:
    name = socket.gethostname()
    if kind == "localhost":
        return name
    if kind == "FQDN":
        return socket.getfqdn()
    if kind == "IP":
        return socket.gethostbyname(name)
    raise ValueError(f"there is no escape %[{kind}], only {', '.join(f'%[{h}]' for h in _HOST)}")


_CODECS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    # Without a time inside, so that the same events are the same bytes.
    "gzip": (".gz", lambda data: gzip.compress(data, mtime=0)),
    "bzip2": (".bz2", bz2.compress),
    "deflate": (".deflate", zlib.compress),
    "default": (".deflate", zlib.compress),
}
_FILE_TYPES = ("SequenceFile", "DataStream", "CompressedStream")
_MARK_EVERY_BYTES = 100_000
_MOST_OBJECT_BYTES = 512 << 20


@dataclass(slots=True)
class _Object:
    """An object in the making."""

    opened_s: float
    last_s: float
    taken: list[Taken] = field(default_factory=list[Taken])
    parts: list[bytes] = field(default_factory=list[bytes])
    size: int = 0


class Hdfs:
    """Objects of a bucket, by the keys of Flume's hdfs sink."""

    def __init__(
        self, section: Section, channel: MemoryChannel, reach: Reach, clock: Clock, hdfs: str
    ) -> None:
        """Take the keys; `hdfs` is the S3 URL that stands for HDFS, or empty. Raises ConfigurationError."""
        self.channel, self.counts, self._clock = channel, Counts(), clock
        part = section.part("hdfs.", section.owner)
        self._bucket, path = _place(part, hdfs)
        prefix, self._suffix = part.text("filePrefix", "FlumeData"), part.text("fileSuffix", "")
        self._name = _escapes(part, "path", f"{path.strip('/')}/{prefix}".lstrip("/"))
        self._roll_s, self._roll_bytes = (
            part.number("rollInterval", 30),
            part.number("rollSize", 1024),
        )
        self._roll_count, self._idle_s = part.number("rollCount", 10), part.number("idleTimeout", 0)
        self._batch, self._most_open = (
            part.number("batchSize", 100, least=1),
            part.number("maxOpenFiles", 5000, least=1),
        )
        self._zone = _zone(part)
        self._rounding = _rounding(part)
        self._uses_local = part.flag("useLocalTimeStamp", default=False)
        kind = part.choice("fileType", _FILE_TYPES, _FILE_TYPES[0])
        self._ending, self._compress = _codec(part, kind)
        is_text = part.choice("writeFormat", ("Writable", "Text"), "Writable") == "Text"
        part.ignore(
            "inUsePrefix", "inUseSuffix", "emptyInUseSuffix", "minBlockReplicas", "threadsPoolSize",
            "rollTimerPoolSize", "callTimeout", "closeTries", "retryInterval", "kerberosPrincipal", "kerberosKeytab",
            "proxyUser", "round", "roundUnit", "roundValue",
        )  # fmt: skip
        part.finish()
        serializer = serialize(section)
        # The bytes of an event, and what becomes of those of a whole object before they are compressed.
        self._render: Callable[[Event], bytes] = serializer.render
        self._whole: Callable[[list[bytes]], bytes] = b"".join
        if kind == "SequenceFile":
            self._render = lambda event: sequence_record(event, clock.now_ms(), is_text=is_text)
            self._whole = lambda parts: sequence_file(parts, is_text=is_text)
        options = CloudOptions(section)
        self._make: Callable[[], Any] = lambda: reach.client("s3", options)
        self._client: Any = None
        self._open: dict[str, _Object] = {}
        self._number = clock.now_ms()
        self._names: dict[int, tuple[Headers, str]] = {}

    def process(self, timeout_s: float) -> bool:
        """See `Sink.process`."""
        now_s = self._clock.monotonic_s()
        for path, item in list(self._open.items()):
            if self._is_due(item, now_s):
                self._write(path)
        taken = self.channel.take(self._batch, timeout_s)
        if taken is None:
            if self._open and self.channel.is_short:
                self._write_oldest()
                return True
            return False
        try:
            self._add(taken)
        except NoTime as error:
            self._give_back()
            self.channel.rollback(taken)
            raise SinkFailed(str(error)) from error
        for path, item in list(self._open.items()):
            if self._is_due(item, now_s):
                self._write(path)
        while len(self._open) > self._most_open:
            self._write_oldest()
        return True

    def _write_oldest(self) -> None:
        self._write(min(self._open, key=lambda path: self._open[path].opened_s))

    def _is_due(self, item: _Object, now_s: float) -> bool:
        return bool(
            (self._roll_count and len(item.parts) >= self._roll_count)
            or (self._roll_bytes and item.size >= self._roll_bytes)
            or (self._roll_s and now_s - item.opened_s >= self._roll_s)
            or (self._idle_s and now_s - item.last_s >= self._idle_s)
            or item.size >= _MOST_OBJECT_BYTES
        )

    def _add(self, taken: Taken) -> None:
        """Add events to the objects of their paths. Raises NoTime: then to none."""
        local_ms = self._clock.now_ms() if self._uses_local else None
        names = [self._path(event.headers, local_ms) for event in taken.events]
        self._names.clear()
        rendered = list(map(self._render, taken.events))
        now_s, begin = self._clock.monotonic_s(), 0
        for at in range(1, len(names) + 1):
            if (
                at < len(names)
                and names[at] == names[begin]
                and not self._is_count_full(names[begin], at - begin)
            ):
                continue
            item = self._open.setdefault(names[begin], _Object(now_s, now_s))
            run, parts = taken.part(begin, at), rendered[begin:at]
            item.taken.append(run)
            item.parts += parts
            item.size += sum(map(len, parts))
            item.last_s = now_s
            if self._is_due(item, now_s):
                self._write(names[begin], taken.part(at, len(names)))
            begin = at

    def _is_count_full(self, path: str, more: int) -> bool:
        item = self._open.get(path)
        return (
            bool(self._roll_count) and (len(item.parts) if item else 0) + more >= self._roll_count
        )

    def _path(self, headers: Headers, local_ms: int | None) -> str:
        # Events of a batch share their headers.
        known = self._names.get(id(headers))
        if known is None:
            name = self._name.fill(headers, self._zone, self._rounding, local_ms)
            known = self._names[id(headers)] = (headers, name)
        return known[1]

    def _write(self, path: str, rest: Taken | None = None) -> None:
        """Write an object and let its events go. Raises SinkFailed: all that is held back goes to the channel."""
        item = self._open[path]
        body = self._compress(self._whole(item.parts))
        try:
            self._client = self._client or self._make()
            self._put(path, body)
        except (BotoCoreError, ClientError, OSError) as error:
            if rest is not None and rest.events:
                self.channel.rollback(rest)
            self._give_back()
            raise SinkFailed(f"s3://{self._bucket}/{path}: {error}") from error
        del self._open[path]
        for run in item.taken:
            self.channel.commit(run)
            self.counts.events += len(run.events)
        self.counts.bytes_ += item.size

    def _put(self, path: str, body: bytes) -> None:
        digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
        while True:
            key = f"{path}.{self._number}{self._suffix}{self._ending}"
            try:
                self._client.put_object(Bucket=self._bucket, Key=key, Body=body, IfNoneMatch="*")
            except ClientError as error:
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if status != 412:
                    raise
                there = self._client.head_object(Bucket=self._bucket, Key=key)
                self._number += 1
                if there["ETag"].strip('"') == digest:
                    return
            else:
                self._number += 1
                return

    def _give_back(self) -> None:
        """Put all that is held back into the channel again."""
        for item in self._open.values():
            for run in item.taken:
                self.channel.rollback(run)
        self._open.clear()

    def close(self) -> None:
        """See `Sink.close`: writes what is held back."""
        for path in list(self._open):
            if path in self._open:
                self._write(path)


def _hadoop_int(value: int) -> bytes:
    """Return a length as Hadoop's Text has it (WritableUtils.writeVInt)."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def sequence_record(event: Event, now_ms: int, *, is_text: bool) -> bytes:
    """Return a record of a SequenceFile: the event's time as LongWritable, its body as BytesWritable or Text.

    Raises NoTime for a header `timestamp` that is no number.
    """
    if "timestamp" in event.headers:
        stamp_ms = read_timestamp(event.headers)
        if stamp_ms is None:
            stamp = event.headers["timestamp"]
            raise NoTime(f"the header timestamp of an event is no number: {stamp!r}")
        now_ms = stamp_ms
    size = len(event.body)
    value = (_hadoop_int(size) if is_text else size.to_bytes(4, "big")) + event.body
    return struct.pack(">iiq", 8 + len(value), 8, now_ms) + value


def sequence_file(records: list[bytes], *, is_text: bool) -> bytes:
    """Return Hadoop's SequenceFile, version 6, without compression, with a mark before each 100 kB or so.

    Observed in Hadoop's source (org.apache.hadoop.io.SequenceFile).
    """
    names = ("LongWritable", "Text" if is_text else "BytesWritable")
    parts = [b"SEQ\x06"]
    for name in (f"org.apache.hadoop.io.{short}".encode() for short in names):
        parts += [_hadoop_int(len(name)), name]
    # The same records have the same mark, so that an object that is there already is known.
    mark = hashlib.md5(b"".join(records), usedforsecurity=False).digest()
    parts += [b"\0\0", b"\0\0\0\0", mark]
    since = 0
    for record in records:
        if since >= _MARK_EVERY_BYTES:
            parts.append(b"\xff\xff\xff\xff" + mark)
            since = 0
        parts.append(record)
        since += len(record)
    return b"".join(parts)


def _place(section: Section, hdfs: str) -> tuple[str, str]:
    """Return the bucket and the path. Raises ConfigurationError."""
    text = section.text("path")
    url = urlsplit(text.replace("%", "%25").replace("#", "%23").replace("?", "%3F"))
    path = text.partition("://")[2].partition("/")[2] if "://" in text else text
    if url.scheme in ("s3", "s3a", "s3n"):
        bucket = text.partition("://")[2].partition("/")[0]
        if not bucket or "%" in bucket:
            raise section.error("path", f"hdfs.path names no bucket: {text!r}")
        return bucket, path
    if url.scheme not in ("", "hdfs"):
        raise section.error("path", f"hdfs.path is s3a://BUCKET/.., not {text!r}")
    if not hdfs:
        raise section.error(
            "path",
            f"there is no HDFS for {text!r}: say with --hdfs s3://BUCKET/PREFIX what stands for it",
        )
    bucket, _, prefix = hdfs.partition("://")[2].partition("/")
    return bucket, f"{prefix.strip('/')}/{path.lstrip('/')}"


def _escapes(section: Section, key: str, text: str) -> Escapes:
    try:
        return Escapes(text)
    except (ValueError, OSError) as error:
        raise section.error(key, f"hdfs.{key} of {section.owner}: {error}") from error


def _zone(section: Section) -> ZoneInfo | None:
    name = section.text("timeZone", "")
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError) as error:
        raise section.error(
            "timeZone", f"hdfs.timeZone of {section.owner} is no time zone: {name!r}"
        ) from error


def _rounding(section: Section) -> Rounding | None:
    if not section.flag("round", default=False):
        return None
    unit = section.choice("roundUnit", ("second", "minute", "hour"), "second")
    return Rounding(
        unit, section.number("roundValue", 1, least=1, most=24 if unit == "hour" else 60)
    )


def _codec(section: Section, kind: str) -> tuple[str, Callable[[bytes], bytes]]:
    name = (
        section.text("codeC", "")
        .lower()
        .removeprefix("org.apache.hadoop.io.compress.")
        .removesuffix("codec")
    )
    if kind != "CompressedStream":
        if name and name != "none":
            raise section.error(
                "codeC", f"codeC of {section.owner} is not built with fileType {kind}"
            )
        return "", bytes
    if not name:
        raise section.error("fileType", f"fileType CompressedStream of {section.owner} needs codeC")
    if name not in _CODECS:
        raise section.error(
            "codeC",
            f"the codec {section.text('codeC')!r} is not built: {', '.join(list(_CODECS)[:3])} are",
        )
    return _CODECS[name]
