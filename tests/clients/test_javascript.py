"""AWS's SDK for JavaScript, version 3: HTTP/2 as it comes, and HTTP/1.1."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.server import ServerProcess

FOLDER = Path(__file__).parent / "js"


@pytest.mark.parametrize(
    ("transport", "handler"), [("default", "NodeHttp2Handler"), ("http1", "NodeHttpHandler")]
)
def test_the_sdk_puts_gets_subscribes_and_splits(
    server: ServerProcess, node: str, transport: str, handler: str
):
    done = subprocess.run(
        [node, "kinesis.mjs", server.endpoint_url, f"js-{transport}", transport],
        cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["handler"] == handler
    assert seen["failed"] == 0
    assert seen["got"] == ["one ✓", "two", "three"]
    assert seen["key"] == "ключ"
    assert 0 <= seen["arrivedSecondsAgo"] < 60
    assert seen["error"]["name"] == "ResourceNotFoundException"
    assert seen["error"]["status"] == 400
    assert "nowhere" in seen["error"]["message"]
    assert seen["pushed"] == ["one ✓", "two", "three", "four"]
    assert int(seen["continuation"]) >= int(seen["number"])
    assert seen["children"] == ["shardId-000000000001", "shardId-000000000002"]
    assert len(seen["shards"]) == 3
