"""`headrace lag` prints what the API lists."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from headrace.cli.lag import lag
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


def test_lag_without_a_cloud_says_so() -> None:
    answer = CliRunner().invoke(lag, ["--endpoint-url", "http://127.0.0.1:9"])
    assert answer.exit_code == 1
    assert "headrace up" in answer.output
