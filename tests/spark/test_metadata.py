"""The stores of the distributed mode: a file is written whole and once, in a folder, in S3 and by WebHDFS."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from headrace.spark.metadata import MetadataError, Store, open_store
from headrace.spark.options import InvalidOption, Options
from tests.support.server import REGION, ServerProcess


class NameNode(BaseHTTPRequestHandler):
    """A name node and its data node, as WebHDFS documents them."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes] = {}  # noqa: RUF012 - one per test, see `hdfs`

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._do()

    do_PUT = do_DELETE = do_GET

    def _do(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = unquote(parts.path).removeprefix("/webhdfs/v1")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        operation = query["op"]
        if operation in ("CREATE", "OPEN") and "data" not in query:
            if operation == "OPEN" and path not in self.files:
                return self.answer(404, b'{"RemoteException":{}}')
            assert not body
            host = f"http://{self.headers['Host']}"
            return self.answer(307, Location=f"{host}{self.path}&data=1")
        if operation == "CREATE":
            self.files[path] = body
            return self.answer(201)
        if operation == "OPEN":
            return self.answer(200, self.files[path])
        if operation == "RENAME":
            done = query["destination"] not in self.files
            if done:
                self.files[query["destination"]] = self.files.pop(path)
            return self.answer(200, json.dumps({"boolean": done}).encode())
        if operation == "DELETE":
            for name in [
                name for name in self.files if name == path or name.startswith(path + "/")
            ]:
                del self.files[name]
            return self.answer(200, b'{"boolean":true}')
        below = {name[len(path) + 1 :] for name in self.files if name.startswith(path + "/")}
        if not below:
            return self.answer(404, b"{}")
        folders = sorted({name.split("/")[0] for name in below if "/" in name})
        found = [{"pathSuffix": name, "type": "DIRECTORY"} for name in folders]
        return self.answer(200, json.dumps({"FileStatuses": {"FileStatus": found}}).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture
def hdfs() -> Iterator[str]:
    NameNode.files = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), NameNode)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"webhdfs://127.0.0.1:{server.server_port}/meta"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["file", "s3", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    path = str(tmp_path)
    if request.param == "s3":
        server: ServerProcess = request.getfixturevalue("server")
        for name, value in (("ENDPOINT_URL", server.endpoint_url), ("ACCESS_KEY_ID", "test")):
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        server.client("s3").create_bucket(
            Bucket=f"metadata-{tmp_path.name.replace('_', '-')[-20:]}"
        )
        path = f"s3://metadata-{tmp_path.name.replace('_', '-')[-20:]}/some where"
    if request.param == "hdfs":
        path = request.getfixturevalue("hdfs")
    return open_store(path, Options(stream="s", region=REGION))


def test_a_file_is_written_whole_and_once(store: Store) -> None:
    assert store.read("l/1-a/plan") is None
    assert store.create("l/1-a/plan", b"first")
    assert not store.create("l/1-a/plan", b"second")
    assert store.read("l/1-a/plan") == b"first"
    assert store.create("l/1-a/000000", b"")
    assert store.create("l/2-b/plan", bytes(range(256)) * 1000)
    assert store.read("l/2-b/plan") == bytes(range(256)) * 1000
    assert sorted(store.folders("l")) == ["1-a", "2-b"]
    store.remove("l/1-a", ["plan", "000000", "000001"])
    assert store.folders("l") == ["2-b"]
    assert store.folders("none") == []


def test_of_many_writers_one_wins(store: Store) -> None:
    wins: list[bytes] = []

    def write(number: int) -> None:
        if store.create("l/race", b"%d" % number):
            wins.append(b"%d" % number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wins == [store.read("l/race")]


def test_what_no_store_is_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="gs://"):
        open_store("gs://bucket/x", Options(stream="s"))
    (tmp_path / "file").write_text("")
    with pytest.raises(MetadataError, match="cannot be written"):
        open_store(str(tmp_path / "file"), Options(stream="s")).create("a/b", b"")
