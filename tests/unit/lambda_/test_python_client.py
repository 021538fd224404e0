"""The process of a Python function: an old botocore asks this cloud, and the Runtime API is asked in few writes."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.services.lambda_.runtime import channel, python_client
from headrace.services.lambda_.runtime.python_client import RuntimeClient

SESSION = """
class Session:
    def create_client(
        self, service_name, region_name=None, api_version=None, use_ssl=True, verify=None, endpoint_url=None
    ):
        return endpoint_url
"""
PROGRAM = """
import sys
from headrace.services.lambda_.runtime.python_client import OldBotocoreFinder
sys.meta_path.insert(0, OldBotocoreFinder("http://cloud"))
sys.path.insert(0, sys.argv[1])
from botocore.session import Session
print(
    Session().create_client("sqs"),
    Session().create_client("sqs", endpoint_url="http://own"),
    Session().create_client("sqs", None, None, True, None, "http://own"),
)
"""


@pytest.mark.parametrize(
    ("version", "endpoints"),
    [
        ("1.12.0", "http://cloud http://own http://own"),
        ("1.29.165", "http://cloud http://own http://own"),
        ("1.31.0", "None http://own http://own"),
        ("2.0.0", "None http://own http://own"),
    ],
)
def test_clients_of_an_old_botocore_ask_the_cloud(
    tmp_path: Path, version: str, endpoints: str
) -> None:
    package = tmp_path / "botocore"
    package.mkdir()
    (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (package / "session.py").write_text(SESSION)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == endpoints.split()


def test_a_response_goes_with_the_question_for_the_next_invocation() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = RuntimeClient(f"127.0.0.1:{listener.getsockname()[1]}")
        with ThreadPoolExecutor(1) as thread:
            first = thread.submit(client.next)
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(4096).startswith(b"GET /2018-06-01/runtime/invocation/next ")
                peer.sendall(answer(b'{"a": 1}', "Lambda-Runtime-Aws-Request-Id: r1"))
                body, headers = first.result()
                assert body == b'{"a": 1}'
                assert headers["Lambda-Runtime-Aws-Request-Id"] == "r1"
                assert headers["Lambda-Runtime-Deadline-Ms"] == 7
                client.post_invocation_result("r1", b"null", "application/json", None)
                second = thread.submit(client.next)
                both = peer.recv(4096)
                assert both.startswith(b"POST /2018-06-01/runtime/invocation/r1/response ")
                assert b"\r\n\r\nnullGET /2018-06-01/runtime/invocation/next " in both
                # The second answer comes in two pieces, the first with half of its body.
                whole = ACCEPTED + answer(b"x" * 9)
                peer.sendall(whole[:-4])
                peer.sendall(whole[-4:])
                assert second.result()[0] == b"x" * 9
                client.post_error("r2", '{"errorType": "E"}', "", None)
                third = thread.submit(client.next)
                assert peer.recv(4096).startswith(b"POST /2018-06-01/runtime/invocation/r2/error ")
            with pytest.raises((RuntimeError, ConnectionError)):
                third.result()


def test_a_function_may_change_what_sockets_it_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Proxied(socket.socket):
        def connect(self, _: object) -> None:
            raise OSError("there is no proxy")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = RuntimeClient(f"127.0.0.1:{listener.getsockname()[1]}")
        monkeypatch.setattr(socket, "socket", Proxied)
        socket.setdefaulttimeout(0.001)
        try:
            client._send(b"asks")
        finally:
            socket.setdefaulttimeout(None)
        assert client._socket is not None
        assert client._socket.gettimeout() is None
        client._socket.close()


WAITING = """
import signal, threading
started = []
start = threading.Thread.start
threading.Thread.start = lambda thread: (started.append(thread.name), start(thread))
signal.signal(signal.SIGTERM, lambda *_: print("told to end", flush=True))
def handler(event, context):
    return started
"""


def test_a_function_waits_without_a_thread_and_handles_signals_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(WAITING)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [sys.executable, str(Path(python_client.__file__)), "app.handler"],
            cwd=tmp_path,
            env={
                "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{listener.getsockname()[1]}",
                "AWS_EXECUTION_ENV": "AWS_Lambda_python3.12",
            },
            stdout=subprocess.PIPE,
        )
        with process:
            peer, _ = listener.accept()
            with peer:
                for number in range(2):
                    peer.recv(4096)
                    process.terminate()
                    assert process.stdout is not None
                    assert process.stdout.readline() == b"told to end\n"
                    named = f"Lambda-Runtime-Aws-Request-Id: r{number}"
                    accepted = channel._ACCEPTED if number else b""
                    peer.sendall(accepted + answer(b"1", named, "Content-Type: application/json"))
                assert b"\r\n\r\n[]GET " in peer.recv(4096)
            process.kill()


ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}"


def test_both_sides_have_the_same_answer_to_a_response() -> None:
    assert python_client._ACCEPTED == channel._ACCEPTED


def answer(body: bytes, *headers: str) -> bytes:
    """Return an invocation as the Runtime API sends it."""
    lines = [*headers, "Lambda-Runtime-Deadline-Ms: 7", f"Content-Length: {len(body)}"]
    return ("HTTP/1.1 200 OK\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body
