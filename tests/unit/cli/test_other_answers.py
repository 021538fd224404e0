"""Commands that ask a cloud, where something else answers: one sentence, never a traceback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace
from headrace.cli.running_cloud import RUN_FILE, health


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Serve one body on every path; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(headrace, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b"[]"), (404, b"no"), (500, b'{"a": 1}')]
)
@pytest.mark.parametrize(
    "arguments", [["trace", "f"], ["faults", "list"], ["faults", "add", "drop"]]
)
def test_another_server_is_no_headrace_cloud(
    arguments: list[str], status: int, body: bytes
) -> None:
    with answering(status, body) as url:
        code, said = run(*arguments, "--endpoint-url", url)
    assert code == 1
    assert "is not a headrace cloud" in said
    assert url in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://127.0.0.1:1", "No cloud answers at http://127.0.0.1:1"),
        ("nonsense", "'nonsense' is not a cloud's URL, such as http://127.0.0.1:4566."),
        ("http://", "'http://' is not a cloud's URL"),
        ("http://127.0.0.1:notaport", "notaport' is not a cloud's URL"),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [["trace", "f"], ["faults", "list"], ["put", "s", "x"], ["tail", "s"], ["put", "s"]],
)
def test_a_url_of_nothing_is_named(arguments: list[str], url: str, sentence: str) -> None:
    code, said = run(*arguments, "--endpoint-url", url)
    assert code == 1
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1}', '{"pid": "x", "endpoint_url": 1}'])
def test_a_run_file_that_is_damaged_is_of_no_cloud(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN_FILE).write_text(text)
    assert health(tmp_path) is None
    code, said = run("status", "--data-dir", str(tmp_path))
    assert (code, said) == (1, f"Error: No headrace runs on {tmp_path}; start one: headrace up\n")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"pid": 2}'])
def test_a_cloud_whose_port_something_else_has_taken_does_not_run(
    tmp_path: Path, body: bytes
) -> None:
    with answering(200, body) as url:
        (tmp_path / RUN_FILE).write_text(json.dumps({"pid": 1, "endpoint_url": url}))
        assert health(tmp_path) is None


def test_what_is_configured_for_aws_does_not_reach_a_cloud_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "config"
    broken.write_text("[[[")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(broken))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(broken))
    monkeypatch.setenv("AWS_PROFILE", "none-of-this-name")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", "http://127.0.0.1:9")
    for name in ("AWS_MAX_ATTEMPTS", "AWS_DEFAULTS_MODE", "AWS_REQUEST_CHECKSUM_CALCULATION"):
        monkeypatch.setenv(name, "nonsense")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    shards = json.dumps({"Records": [{"ShardId": "shardId-000000000000"}]}).encode()
    with answering(200, shards) as url:
        assert run("put", "s", "x", "--endpoint-url", url) == (0, "1 record put into s\n")
        (tmp_path / RUN_FILE).write_text(json.dumps({"pid": 1, "endpoint_url": url}))
        _, said = run("faults", "list", "--endpoint-url", url)
    assert "is not a headrace cloud" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "No such command 'nonsense'; see: headrace --help"),
        (["--nonsense"], "No such option"),
        (["up", "--port", "99999"], "Invalid value for '--port': 99999 is not in the range"),
        (["up", "--region", ""], "A region is a name such as us-east-1, not ''."),
        (["faults", "add", "nope"], "'nope' is not one of 'throttle', 'error', 'partial',"),
        (["faults", "add"], "see: headrace faults add --help"),
        (["status", "extra"], "Got unexpected extra argument (extra); see: headrace status --help"),
        (["submit", "/no/job.py"], "File '/no/job.py' does not exist; see: headrace submit --help"),
        (["submit", "--conf", "a", __file__], "'a' is not NAME=VALUE; see: headrace submit --help"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_sentence(arguments: list[str], sentence: str) -> None:
    code, said = run(*arguments)
    assert code == (1 if "--region" in arguments else 2)
    assert said.startswith("Error: ")
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["faults"]])
def test_a_group_alone_shows_its_help(arguments: list[str]) -> None:
    code, said = run(*arguments)
    assert code == 2
    assert "Commands:" in said


def test_a_request_that_was_never_sent_leaves_nothing_unknown() -> None:
    with answering(200, b"{}") as url:
        code, said = run("put", "s", "x", "--key", "", "--endpoint-url", url)
    assert code == 1
    sentence = "record 1 was refused: a partition key has 1 to 256 characters, not 0"
    assert said == f"Error: {sentence}; 0 records put into s.\n"
