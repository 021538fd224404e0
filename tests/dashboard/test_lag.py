"""`headrace lag` prints what the API lists."""

from __future__ import annotations

import io
import json
import urllib.error
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import down_status as module
from headrace.cli.down_status import lag, top
from tests.dashboard.test_page import client_at
from tests.support.server import ServerProcess


def test_lag_lists_the_pipeline(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        client_at(server.endpoint_url, "kinesis").create_stream(StreamName="orders", ShardCount=1)
        where = ["--endpoint-url", server.endpoint_url]
        text = CliRunner().invoke(lag, where)
        assert (text.exit_code, "orders" in text.output) == (0, True), text.output
        listed = json.loads(CliRunner().invoke(lag, [*where, "--json"]).output)
        assert [one["id"] for one in listed["resources"]] == ["stream:orders"]
        table = CliRunner().invoke(top, [*where, "--once"])
        assert (table.exit_code, "orders" in table.output, "heat" in table.output) == (
            0,
            True,
            True,
        )


def test_top_shows_heat_by_the_fuller_limit_and_the_last_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def row(name: str, rate: float, size: float, shards: int) -> dict[str, Any]:
        spark = [[0.0, 0], [rate / 2, 0], [rate, 0]]
        facts = {"shards": shards}
        reading = [rate, size, 0, 5, 1_500, ""]
        members = {"kind": "stream", "state": "ACTIVE", "problem": ""}
        return {**members, "name": name, "facts": facts, "reading": reading, "spark": spark}

    rows = [row("records", 500.0, 1024.0, 1), row("bytes", 2.0, 1_572_864.0, 2)]
    answer = {"timeMs": 0, "resources": rows, "refused": []}
    monkeypatch.setattr(module, "fetch_page", lambda *_: answer)
    lines = CliRunner().invoke(top, ["--once"]).output.splitlines()
    by_name = {line.split()[1]: line for line in lines if line.strip().startswith("stream")}
    assert "50%" in by_name["records"]
    assert "▁▅█" in by_name["records"]
    assert "1.5 s" in by_name["records"]
    assert "75%" in by_name["bytes"]


@pytest.mark.parametrize(("command", "options"), [(lag, []), (top, ["--once"])])
def test_names_are_whole_where_no_terminal_is_too_narrow(
    monkeypatch: pytest.MonkeyPatch, command: Any, options: list[str]
) -> None:
    facts = {"source": "stream:the-moves-of-beds", "function": "function:enrich-the-moves-of-beds"}
    problem = "PROBLEM: Function call failed"
    row = {"kind": "mapping", "state": "Enabled", "name": "m", "facts": facts, "spark": []}
    answer = {
        "timeMs": 0,
        "resources": [{**row, "reading": None, "problem": problem}],
        "refused": [],
    }
    monkeypatch.setattr(module, "fetch_page", lambda *_: answer)
    lines = CliRunner().invoke(command, options).output.splitlines()
    (line,) = [line for line in lines if "mapping" in line]
    assert f"{facts['source']} → {facts['function']}" in line
    assert problem in line


def test_a_cloud_that_refuses_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, _: str) -> None:
        body = io.BytesIO(b'{"message": "Sign the request."}')
        raise urllib.error.HTTPError(url, 403, "Forbidden", Message(), body)

    monkeypatch.setattr(module, "fetch_page", refuse)
    answer = CliRunner().invoke(lag, ["--endpoint-url", "http://127.0.0.1:9"])
    assert answer.output == "Error: http://127.0.0.1:9 answered 403: Sign the request.\n"


def test_lag_without_a_cloud_says_so() -> None:
    answer = CliRunner().invoke(lag, ["--endpoint-url", "http://127.0.0.1:9"])
    assert answer.exit_code == 1
    assert "headrace up" in answer.output
