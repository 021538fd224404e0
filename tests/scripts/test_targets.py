"""Targets of the pipeline: which names and addresses are taken, and what is found at them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.testing.access import RemoteCloud
from scripts.pipeline.targets import TargetError, check_name, expect, identify


@pytest.fixture
def serve() -> Iterator[Callable[[dict[str, bytes]], str]]:
    """Serves pages by path; every other path is 404."""
    servers: list[ThreadingHTTPServer] = []

    def start(pages: dict[str, bytes]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages.get(self.path)
                self.send_response(404 if page is None else 200)
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


OK = json.dumps({"version": "4.9.2", "services": {}}).encode()


@pytest.mark.parametrize(
    ("pages", "product"),
    [
        ({"/_localstack/health": OK}, "localstack"),
        ({"/_headrace/health": b"{}", "/_localstack/health": OK}, "headrace"),
        ({"/_ministack/health": OK, "/_localstack/health": OK}, "ministack"),
        ({"/moto-api/data.json": b"{}"}, "moto"),
    ],
)
def test_a_product_is_known_by_its_own_page(
    serve: Callable[[dict[str, bytes]], str], pages: dict[str, bytes], product: str
) -> None:
    assert identify(serve(pages)).product == product
    assert RemoteCloud(serve(pages)).product == product


def test_the_version_is_taken_where_it_is_told(serve: Callable[[dict[str, bytes]], str]) -> None:
    assert identify(serve({"/_localstack/health": OK})).title == "localstack 4.9.2"


def test_another_product_than_said_is_refused(serve: Callable[[dict[str, bytes]], str]) -> None:
    url = serve({"/_ministack/health": OK})
    with pytest.raises(TargetError, match=f"^What is up at {url} is ministack, not localstack.$"):
        expect(url, "localstack")


@pytest.mark.parametrize("pages", [{}, {"/_localstack/health": b"<html>"}])
def test_what_is_no_cloud_is_refused(
    serve: Callable[[dict[str, bytes]], str], pages: dict[str, bytes]
) -> None:
    with pytest.raises(TargetError, match=r"^What listens at .* is none of headrace, "):
        identify(serve(pages))


def test_an_address_where_nothing_is_up_is_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TargetError, match=f"^No cloud is up at http://127.0.0.1:{port}.$"):
        identify(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("name", ["headrace", "localstack", "aws", "http://127.0.0.1:4566/"])
def test_a_target_is_a_name_or_an_address(name: str) -> None:
    assert check_name(name) == name.rstrip("/")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("azure", "There is no cloud 'azure'"),
        ("http://127.0.0.1", "names no port"),
        ("http://127.0.0.1:x", "names no port"),
        ("ftp://127.0.0.1:1", "There is no cloud"),
        ("", "There is no cloud ''"),
    ],
)
def test_what_is_neither_is_refused(name: str, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        check_name(name)
