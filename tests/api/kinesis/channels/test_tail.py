"""`headrace tail --channel`: prints what a channel delivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli import tail as tail_module
from headrace.cli.commands import headrace
from tests.api.kinesis.channels.lab import BUCKET, ChannelLab

Run = Callable[..., Result]


@pytest.fixture
def run(lab: ChannelLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    clients = {"kinesis": lab.kinesis, "s3": lab.s3}

    def client(service: str, **_: Any) -> Any:
        return clients[service]

    monkeypatch.setattr(tail_module, "client", client)
    return lambda *arguments: CliRunner().invoke(headrace, ["tail", *arguments])


@pytest.mark.parametrize("compression", ["NONE", "GZIP", "ZSTD"])
def test_it_prints_the_records_of_the_objects(lab: ChannelLab, run: Run, compression: str):
    arn = lab.channel(kind="STRING", stored={"CompressionType": compression})
    lab.s3.put_object(Bucket=BUCKET, Key="kinesis-channel/c/other", Body=b"of another program")
    for text in (b"one", b"two"):
        lab.put(text)
        lab.deliver()
        lab.clock.advance(2)
    for name in ("c", arn):
        shown = run(name, "--channel", "--from", "TRIM_HORIZON", "--drain")
        assert (shown.exit_code, shown.output) == (0, "one\ntwo\n")
    assert run("c", "--channel", "--from", "TRIM_HORIZON", "-n", "1").output == "one\n"
    assert run("c", "--channel", "--drain").output == ""


def test_it_begins_at_a_time_and_names_the_object(lab: ChannelLab, run: Run):
    lab.channel(kind="STRING")
    lab.put(b"one")
    lab.deliver()
    lab.clock.advance(10)
    start = lab.clock.now_ms() / 1000
    lab.put(b"\xc3\xbc")
    lab.deliver()
    begin = f"{lab.cloud_time(start)}"
    shown = run("c", "--channel", "--from", begin, "--drain", "--json")
    (line,) = shown.output.splitlines()
    assert (json.loads(line)["data"], json.loads(line)["bucket"]) == ("ü", BUCKET)
    assert [json.loads(line)["key"]] == lab.keys()[-1:]


def test_it_follows_until_the_limit(lab: ChannelLab, run: Run, monkeypatch: pytest.MonkeyPatch):
    lab.channel(kind="STRING")

    def deliver_one(_: float) -> None:
        lab.put(b"new")
        lab.deliver()

    monkeypatch.setattr(tail_module, "sleep", deliver_one)
    monkeypatch.setattr(tail_module, "reader_is_gone", lambda: False)
    assert run("c", "--channel", "-n", "1").output == "new\n"


def test_what_is_no_channel_is_refused(run: Run):
    assert "There is no channel nobody." in run("nobody", "--channel").output
    assert "STREAM is a queue or a channel, not both." in run("c", "--channel", "--queue").output
