"""The AWS command line, version 1, over a socket."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support.forked_command import run
from tests.support.server import ServerProcess


def aws(server: ServerProcess, *arguments: str, check: bool = True) -> Any:
    """Run `aws kinesis ...`; returns its JSON, or the standard error of a failure."""
    from awscli import clidriver

    code, out, err = run(
        "kinesis", *arguments, "--endpoint-url", server.endpoint_url, "--output", "json",
        prepare=list, command=lambda: sys.exit(clidriver.main()),
        environment={
            **os.environ,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_MAX_ATTEMPTS": "1",
        },
    )  # fmt: skip
    assert (code == 0) is check, err
    if not check:
        return err
    return json.loads(out) if out.strip() else None


def test_the_command_line_puts_and_gets(server: ServerProcess, tmp_path: Path):
    aws(server, "create-stream", "--stream-name", "cli", "--shard-count", "2")
    aws(server, "wait", "stream-exists", "--stream-name", "cli")
    put = aws(
        server, "put-record", "--stream-name", "cli", "--partition-key", "k", "--data", "hello"
    )
    entries = [
        # Version 1 takes blobs as text.
        {"Data": str(i), "PartitionKey": "k"}
        for i in range(3)
    ]
    request = tmp_path / "records.json"
    request.write_text(json.dumps({"StreamName": "cli", "Records": entries}))
    more = aws(server, "put-records", "--cli-input-json", f"file://{request}")
    assert more["FailedRecordCount"] == 0
    assert {record["ShardId"] for record in more["Records"]} == {put["ShardId"]}
    iterator = aws(
        server, "get-shard-iterator", "--stream-name", "cli", "--shard-id", put["ShardId"],
        "--shard-iterator-type", "TRIM_HORIZON",
    )["ShardIterator"]  # fmt: skip
    got = aws(server, "get-records", "--shard-iterator", iterator)
    data = [base64.b64decode(record["Data"]) for record in got["Records"]]
    assert data == [b"hello", b"0", b"1", b"2"]
    assert got["Records"][0]["SequenceNumber"] == put["SequenceNumber"]


def test_the_command_line_shows_errors_and_pages(server: ServerProcess):
    for name in ("cli-a", "cli-b", "cli-c"):
        aws(server, "create-stream", "--stream-name", name, "--shard-count", "1")
    listed = aws(server, "list-streams", "--page-size", "1")["StreamNames"]
    assert {"cli-a", "cli-b", "cli-c"} <= set(listed)
    told = aws(server, "describe-stream", "--stream-name", "nowhere", check=False)
    assert "(ResourceNotFoundException) when calling the DescribeStream operation" in told
    assert "Stream nowhere under account 000000000000 not found." in told
    told = aws(server, "create-stream", "--stream-name", "cli-a", "--shard-count", "1", check=False)
    assert "(ResourceInUseException)" in told
