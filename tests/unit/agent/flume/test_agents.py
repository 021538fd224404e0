"""Flume's files as they are: sources into sinks through channels, and what is refused with its line."""

from __future__ import annotations

import errno
import gzip
import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.agent.flume import building
from headrace.agent.flume.http_source import BadEvents, read_events
from headrace.agent.flume.socket_sources import TcpServer, kept_fields, read_message
from headrace.agent.properties import ConfigurationError, parse_properties
from headrace.client import PutError, PutsFailed
from tests.support.server import wait_until
from tests.unit.agent.flume.conftest import Flume

# ruff: noqa: E501 - lines of files.
ROLL = (
    "a.sinks.k.type = file_roll\na.sinks.k.channel = c\na.sinks.k.sink.directory = {folder}\n"
    "a.sinks.k.sink.rollInterval = 0\n"
)


def conf(source: str, folder: Path, *, channel: str = "memory", more: str = "") -> str:
    folder.mkdir(exist_ok=True)
    keys = "".join(f"a.sources.s.{line}\n" for line in source.split("\n"))
    return (
        f"a.sources = s\na.channels = c\na.sinks = k\na.channels.c.type = {channel}\na.sources.s.channels = c\n"
        f"{keys}{ROLL.format(folder=folder)}{more}"
    )


def lines_in(folder: Path) -> list[str]:
    return [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]


def test_properties_are_java_s(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    path.write_text("# no\n! no\na.b = c d \\\n   e\nf:g\\=h\nk\\ l m\nempty=\nu = \\u0041\n")
    values = {key: (value.text, value.line) for key, value in parse_properties(path).items()}
    assert values == {
        "a.b": ("c d e", 3),
        "f": ("g=h", 5),
        "k l": ("m", 6),
        "empty": ("", 7),
        "u": ("A", 8),
    }


def test_taildir_sends_each_line_once(flume: Flume, tmp_path: Path) -> None:
    log, out = tmp_path / "app.log", tmp_path / "out"
    log.write_bytes(b"one\ntwo\n")
    text = conf(
        f"type = TAILDIR\nfilegroups = f\nfilegroups.f = {tmp_path}/app.*log\npositionFile = {tmp_path}/pos.json",
        out,
    )
    flume.run(text)
    log.rename(tmp_path / "app.log.1")
    log.write_bytes(b"three\n")
    flume.stop.clear()
    flume.run(text)
    assert sorted(lines_in(out)) == ["one", "three", "two"]


def test_taildir_goes_on_where_flume_was(flume: Flume, tmp_path: Path) -> None:
    log, out = tmp_path / "app.log", tmp_path / "out"
    log.write_bytes(b"one\ntwo\n")
    (tmp_path / "pos.json").write_text(
        json.dumps([{"inode": log.stat().st_ino, "pos": 4, "file": str(log)}])
    )
    flume.run(
        conf(
            f"type = TAILDIR\nfilegroups = f\nfilegroups.f = {log}\npositionFile = {tmp_path}/pos.json",
            out,
        )
    )
    assert lines_in(out) == ["two"]


def test_spooldir_takes_files_whole_and_renames_them(flume: Flume, tmp_path: Path) -> None:
    spool, out = tmp_path / "spool", tmp_path / "out"
    spool.mkdir()
    (spool / "a.txt").write_text("x" * 5 + "\nlonger than ten\n")
    (spool / "bad.txt").write_bytes(b"\xff\n")
    text = conf(
        f"type = spooldir\nspoolDir = {spool}\ndeserializer.maxLineLength = 10\nbasenameHeader = true", out,
        more="a.sinks.k.sink.serializer = HEADER_AND_TEXT\n",
    )  # fmt: skip
    flume.run(text)
    assert lines_in(out) == [
        "{basename=a.txt} xxxxx",
        "{basename=a.txt} longer tha",
        "{basename=a.txt} n ten",
    ]
    # What cannot be decoded stays where it is.
    assert sorted(p.name for p in spool.iterdir() if p.is_file()) == ["a.txt.COMPLETED", "bad.txt"]


def test_exec_interceptors_and_multiplexing(flume: Flume, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    source = (
        "type = exec\nshell = /bin/sh -c\ncommand = printf 'a 1\\nb 2\\nskip me\\na 3\\n'\ninterceptors = f x r i\n"
        "interceptors.f.type = regex_filter\ninterceptors.f.regex = skip\ninterceptors.f.excludeEvents = true\n"
        "interceptors.x.type = regex_extractor\ninterceptors.x.regex = (\\\\w) (\\\\d)\ninterceptors.x.serializers = k\n"
        "interceptors.x.serializers.k.name = kind\ninterceptors.r.type = search_replace\n"
        "interceptors.r.searchPattern = (\\\\w) (\\\\d)\ninterceptors.r.replaceString = $2-$1\ninterceptors.i.type = static\n"
        "interceptors.i.key = zone\ninterceptors.i.value = z\nselector.type = multiplexing\nselector.header = kind\n"
        "selector.mapping.b = d\nselector.default = c"
    )
    text = conf(source, out, more=(
        "a.channels.d.type = memory\na.sinks.l.type = file_roll\na.sinks.l.channel = d\n"
        f"a.sinks.l.sink.directory = {other}\na.sinks.l.sink.rollInterval = 0\n"
        "a.sinks.l.sink.serializer = HEADER_AND_TEXT\n"
    )).replace("a.channels = c\n", "a.channels = c d\n").replace("a.sinks = k\n", "a.sinks = k l\n")  # fmt: skip
    text = text.replace("a.sources.s.channels = c", "a.sources.s.channels = c d").replace(
        "printf 'a 1\\nb 2\\nskip me\\na 3\\n'", "printf 'a 1\\\\nb 2\\\\nskip me\\\\na 3\\\\n'"
    )
    flume.run(text)
    assert lines_in(out) == ["1-a", "3-a"]
    assert lines_in(other) == ["{kind=b, zone=z} 2-b"]


def test_netcat_answers_and_http_takes_json(flume: Flume, tmp_path: Path) -> None:
    out = tmp_path / "out"
    agent = flume.build(
        conf("type = netcat\nbind = 127.0.0.1\nport = 0", out, more=(
            "a.sources.h.type = http\na.sources.h.bind = 127.0.0.1\na.sources.h.port = 0\na.sources.h.channels = c\n"
            "a.sources.y.type = syslogtcp\na.sources.y.host = 127.0.0.1\na.sources.y.port = 0\na.sources.y.channels = c\n"
            "a.sources.u.type = netcatudp\na.sources.u.bind = 127.0.0.1\na.sources.u.port = 0\na.sources.u.channels = c\n"
        )).replace("a.sources = s\n", "a.sources = s h y u\n")
    )  # fmt: skip
    sources: dict[str, Any] = agent.sources
    end = flume.serve(agent)
    try:
        with socket.create_connection(("127.0.0.1", sources["s"].server.ports[0])) as client:
            client.sendall(b"from netcat\n")
            assert client.recv(100) == b"OK\n"
            client.sendall(b"x" * 600 + b"\n")
            assert client.recv(200).startswith(
                b"FAILED: Event exceeds the maximum length (512 chars"
            )
        with socket.create_connection(("127.0.0.1", sources["y"].server.ports[0])) as client:
            client.sendall(b"<34>Oct 11 22:14:15 host su: failed\n")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
            datagram.sendto(b"from udp", ("127.0.0.1", sources["u"].port))
        url = f"http://127.0.0.1:{sources['h'].port}/"
        with urllib.request.urlopen(
            urllib.request.Request(url, b'[{"headers": {"n": 1}, "body": "from http"}]')
        ) as answer:
            assert answer.status == 200
        for body, status in (
            (b"{", 400),
            (b"{}", 400),
            (json.dumps([{"body": "x"}] * 101).encode(), 503),
        ):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(urllib.request.Request(url, body))
            assert refusal.value.code == status
            refusal.value.close()
        expected = ["from http", "from netcat", "from udp", "su: failed"]
        wait_until(lambda: sorted(lines_in(out)) == expected, what="all four arrive")
    finally:
        end()


def test_a_body_that_is_nested_without_end_is_no_events() -> None:
    with pytest.raises(BadEvents, match="invalid JSON"):
        read_events(b"[" * 100_000, "utf-8")


@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_half_a_character_in_an_event_is_a_question_mark_as_in_java(charset: str) -> None:
    text = r'[{"headers": {"a\udc00": "\ud800b"}, "body": "x\ud800"}, {"body": "\ud83d\ude00"}]'
    half, whole = read_events(text.encode(charset), charset)
    assert (half.headers, half.body.decode(charset)) == ({"a?": "?b"}, "x?")
    assert whole.body.decode(charset) == "\N{GRINNING FACE}"


def test_a_port_goes_on_after_a_client_that_could_not_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [OSError(errno.EMFILE, "Too many open files")]
    accept = socket.socket.accept

    def accept_the_second(listener: socket.socket) -> tuple[socket.socket, Any]:
        if failures:
            raise failures.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", accept_the_second)
    stop = threading.Event()
    server = TcpServer("127.0.0.1", [0], lambda client, _: client.sendall(b"taken"))
    serving = threading.Thread(target=server.run, args=(stop,))
    serving.start()
    try:
        with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=30) as client:
            assert client.recv(100) == b"taken"
    finally:
        stop.set()
        serving.join()


def test_agents_are_chained_by_avro(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    last, first = Flume(tmp_path / "1"), Flume(tmp_path / "2")
    out = tmp_path / "out"
    receiver = last.build(
        conf(
            "type = avro\nbind = 127.0.0.1\nport = 0",
            out,
            more="a.sinks.k.sink.serializer = HEADER_AND_TEXT\n",
        )
    )
    sources: dict[str, Any] = receiver.sources
    end = last.serve(receiver)
    try:
        port = sources["s"].server.ports[0]
        text = conf(
            "type = seq\ntotalEvents = 250\ninterceptors = i\ninterceptors.i.type = static", out
        )
        text = re.sub(r"a\.sinks\.k\.(type|sink\.\w+) = .*\n", "", text)
        agent = first.run(
            f"{text}a.sinks.k.type = avro\na.sinks.k.hostname = 127.0.0.1\na.sinks.k.port = {port}\n"
        )
        assert agent.sinks["k"].counts.events == 250
        assert agent.sinks["k"].counts.bytes_ == sum(len(str(n)) for n in range(250))
        wait_until(lambda: len(lines_in(out)) == 250, what="all events arrive")
        assert min(lines_in(out)) == "{key=value} 0"
    finally:
        end()


def test_syslog_headers_and_bodies() -> None:
    now_ms = 1_704_067_200_000  # 2024-01-01T00:00:00Z
    event = read_message(
        b"<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47",
        "utf-8",
        frozenset(),
        now_ms,
    )
    assert event.headers == {"Facility": "4", "Severity": "2", "priority": "34", "version": "1",
                             "timestamp": "1065910455003", "host": "mymachine.example.com"}  # fmt: skip
    assert event.body == b"su - ID47"
    # A December before a January is last year's.
    late = read_message(b"<1>Dec 31 10:00:00 h b", "utf-8", kept_fields("hostname"), now_ms)
    assert int(late.headers["timestamp"]) < now_ms
    assert late.body == b"h b"
    assert (
        read_message(b"nothing", "utf-8", frozenset(), now_ms).headers["flume.syslog.status"]
        == "Invalid"
    )


def test_a_syslog_message_of_the_end_of_time_has_no_timestamp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    try:
        with monkeypatch.context() as patched:
            patched.setenv("TZ", "America/New_York")
            time.tzset()
            event = read_message(b"<1>1 9999-12-31T23:59:59 h b", "utf-8", None, 0)
    finally:
        time.tzset()
    assert event.headers["host"] == "h"
    assert "timestamp" not in event.headers


class Bucket:
    """S3 that fails at times."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.failures = 0

    def client(self, service: str, options: Any) -> Any:
        return self

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("away")
        assert IfNoneMatch == "*"
        assert Key not in self.objects
        self.objects[f"{Bucket}/{Key}"] = Body


HDFS = (
    "a.sinks.k.type = hdfs\na.sinks.k.channel = c\na.sinks.k.hdfs.rollCount = 40\na.sinks.k.hdfs.rollSize = 0\n"
    "a.sinks.k.hdfs.fileType = CompressedStream\na.sinks.k.hdfs.codeC = gzip\n"
)


def test_hdfs_writes_each_event_once_to_s3(flume: Flume, tmp_path: Path) -> None:
    bucket = Bucket()
    bucket.failures = 1
    text = conf(
        "type = seq\ntotalEvents = 100\ninterceptors = t\ninterceptors.t.type = timestamp",
        tmp_path / "out",
    )
    text = text.replace(ROLL.format(folder=tmp_path / "out"), HDFS)
    flume.run(text + "a.sinks.k.hdfs.path = hdfs://n/logs/%Y\n", reach=bucket, hdfs="s3://b/p/")
    bodies = [gzip.decompress(body).split() for _, body in sorted(bucket.objects.items())]
    assert [len(body) for body in bodies] == [40, 40, 20]
    assert [int(n) for body in bodies for n in body] == list(range(100))
    assert all(re.fullmatch(r"b/p/logs/20\d\d/FlumeData\.\d+\.gz", key) for key in bucket.objects)


def test_hdfs_writes_sooner_when_a_source_waits_for_room(flume: Flume, tmp_path: Path) -> None:
    bucket = Bucket()
    text = conf("type = seq\ntotalEvents = 240\nbatchSize = 60", tmp_path / "out")
    hdfs = HDFS.replace("rollCount = 40", "rollCount = 1000\na.sinks.k.hdfs.rollInterval = 0")
    text = text.replace(ROLL.format(folder=tmp_path / "out"), hdfs)
    # 60 events leave no room for 60 more, and are not yet due.
    flume.run(text + "a.sinks.k.hdfs.path = s3a://b/logs\n", reach=bucket)
    bodies = [gzip.decompress(body).split() for _, body in sorted(bucket.objects.items())]
    assert [int(n) for body in bodies for n in body] == list(range(240))


class Stream:
    """A producer whose stream refuses every third record the first time."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.refused: set[bytes] = set()
        self.fails = False

    def producer(self, stream: str, options: Any) -> Any:
        return self

    def put(self, data: bytes, key: str) -> Any:
        is_refused = int(data) % 3 == 0 and data not in self.refused
        self.fails |= is_refused
        (self.refused.add if is_refused else self.records.append)(data)
        return SimpleNamespace(
            done=lambda: True, exception=lambda: "refused" if is_refused else None
        )

    def flush(self) -> None:
        if self.fails:
            self.fails = False
            raise PutsFailed(1, PutError("InternalFailure", "no"))

    def close(self, timeout_s: float) -> None:
        """Nothing."""


def test_what_a_stream_refuses_stays_alone_in_the_channel(flume: Flume, tmp_path: Path) -> None:
    stream = Stream()
    text = conf("type = seq\ntotalEvents = 100", tmp_path / "out").replace(
        ROLL.format(folder=tmp_path / "out"), ""
    )
    flume.run(
        f"{text}a.sinks.k.type = kinesis\na.sinks.k.channel = c\na.sinks.k.streamName = s\n",
        reach=stream,
    )
    assert sorted(map(int, stream.records)) == list(range(100))


def test_once_ends_with_a_sentence_when_nobody_takes_the_events(
    flume: Flume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing(Stream):
        def flush(self) -> None:
            raise PutsFailed(1, PutError("ResourceNotFoundException", "no stream s"))

    monkeypatch.setattr(building, "TRIES_ONCE", 1)
    text = conf("type = seq\ntotalEvents = 3", tmp_path / "out").replace(
        ROLL.format(folder=tmp_path / "out"), ""
    )
    with pytest.raises(building.RunError, match=r"sink k: after 1 tries: .*no stream s"):
        flume.run(
            f"{text}a.sinks.k.type = kinesis\na.sinks.k.channel = c\na.sinks.k.streamName = s\n",
            reach=Missing(),
        )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("type = seq", "type = jms"), "6: the source type 'jms' is not built"),
        (("type = seq", "type = seq\na.sources.s.totl = 1"), "7: source s has no key 'totl'"),
        (("type = seq", "type = seq\na.sources.s.type = exec"), "7: a.sources.s.type has a value in line 6 already"),
        (("type = seq", "type = seq\na.sources.s.batchSize = 101"), "7: batchSize of source s is more than transactionCapacity of channel c, 100"),
        (("type = seq", "type = seq\na.sources.s.batchSize = many"), "7: batchSize of source s is a whole number of at least 1, not 'many'"),
        (("type = memory", "type = jdbc"), "4: the channel type 'jdbc' is not built"),
        (("type = memory", "type = memory\na.channels.c.capacity = 10"), "5: transactionCapacity of channel c, 100, is more than its capacity, 10"),
        (("sources.s.channels = c", "sources.s.channels = d"), "5: source s puts into 'd', which is no channel of the agent"),
        (("sinks.k.channel = c", "sinks.k.channel = d"), "8: sink k takes from 'd', which is no channel of the agent"),
        (("a.sources = s", "a.sources = s\na.color = red"), "2: the agent a has no key 'color'"),
        (("type = seq", "type = seq\na.sources.s.interceptors = i\na.sources.s.interceptors.i.type = morphline"), "8: the interceptor 'morphline' is not built"),
        (("type = file_roll", "type = hbase"), "7: the sink type 'hbase' is not built"),
        (("a.sources = s", "a.sources = s\na.sinkgroups = g\na.sinkgroups.g.sinks = k\na.sinkgroups.g.processor.type = best"), "4: processor.type of sink group g is default or failover or load_balance, not 'best'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence_with_its_line(
    flume: Flume, tmp_path: Path, change: tuple[str, str], sentence: str
) -> None:
    text = conf("type = seq", tmp_path / "out").replace(*change, 1)
    with pytest.raises(ConfigurationError) as refusal:
        flume.build(text)
    assert str(refusal.value) == f"{flume.path}:{sentence}"
