"""Runs AWS's runtime client for a Python function: `python python_client.py HANDLER`, in the folder of its code.

On AWS, the ResponseURL of a custom resource has no port, so handlers open `HTTPSConnection(url.hostname)`. In this
process, port 443 of the cloud's own host is therefore the cloud's port, which speaks TLS too. A function may bring a
botocore older than AWS_ENDPOINT_URL (1.31, of boto3 1.28): its clients would ask the real AWS, and get that address
here. It uses only the standard library and awslambdaric.

awslambdaric speaks to the Runtime API by a compiled module, `runtime_client`, around libcurl. `RuntimeClient` takes its
place: it sends a response together with the question for the next invocation, which halves the wake-ups of both sides.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType

# Every cold start waits for these imports: what only names types is not among them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

# A function may put another class in its place, such as a proxy's.
_Socket = socket.socket
HTTPS_PORTS = (443, "443", "https")
# Up to this size glibc takes memory from what it has, not from the system, where it comes page by page.
_READ_BYTES = 64 * 1024
_MOST_READ_BYTES = 1024 * 1024
# The compiled module gives this header as a number.
_DEADLINE = "Lambda-Runtime-Deadline-Ms"
# The cloud's answer to a response; another one is parsed.
_ACCEPTED = (
    b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
    b'{"status":"OK"}'
)


def lead_to_the_cloud(endpoint_url: str) -> None:
    """Resolve port 443 of the cloud's host to the cloud's own port."""
    cloud_host, _, port_text = endpoint_url.rpartition("/")[2].rpartition(":")
    if not port_text.isdigit():
        return
    cloud_port, resolve = int(port_text), socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **named: Any) -> Any:
        is_ours = host == cloud_host.strip("[]") and port in HTTPS_PORTS
        return resolve(host, cloud_port if is_ours else port, *arguments, **named)

    socket.getaddrinfo = getaddrinfo


# The first botocore that reads AWS_ENDPOINT_URL.
READS_ENDPOINT = (1, 31)


class OldBotocoreFinder:
    """Finds `botocore.session`, and gives the clients of an old one the cloud's endpoint."""

    def __init__(self, endpoint_url: str) -> None:
        self._endpoint_url = endpoint_url

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's specification, whose loader changes an old module; None for all other modules."""
        if name != "botocore.session" or not self._endpoint_url:
            return None
        spec = PathFinder.find_spec(name, path, target)
        version = getattr(sys.modules["botocore"], "__version__", "")
        parts = [int(part) for part in version.split(".")[:2] if part.isdigit()]
        if spec is not None and spec.loader is not None and tuple(parts) < READS_ENDPOINT:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                create = module.Session.create_client
                module.Session.create_client = _with_endpoint(create, self._endpoint_url)

            spec.loader.exec_module = exec_module
        return spec


def _with_endpoint(create: Callable[..., Any], endpoint_url: str) -> Callable[..., Any]:
    """Return `Session.create_client` with the cloud's endpoint where the caller names none."""

    def create_client(session: Any, service_name: str, *arguments: Any, **named: Any) -> Any:
        # The fifth argument after the service's name is the endpoint.
        if len(arguments) <= 4 and named.get("endpoint_url") is None:
            named["endpoint_url"] = endpoint_url
        return create(session, service_name, *arguments, **named)

    return create_client


class RuntimeClient(ModuleType):
    """The module `runtime_client`: the face of awslambdaric's compiled one, on one plain socket.

    awslambdaric asks for the next invocation as soon as it has posted a response, so a post only keeps the
    response, and `next` sends both at once.
    """

    def __init__(self, address: str) -> None:
        super().__init__("runtime_client")
        self._address = address
        self._socket: socket.socket | None = None
        self._next = self._head("GET", "invocation/next") + b"\r\n"
        self._unsent = b""
        self._received = b""

    def initialize_client(self, user_agent: str) -> None:
        """Take the name that the compiled module sends; headrace does not read it."""

    def next(self) -> tuple[bytes, dict[str, Any]]:
        """Return the next invocation: its payload, and the headers. Raises RuntimeError when the cloud is gone."""
        has_posted = bool(self._unsent)
        self._send(self._unsent + self._next)
        self._unsent = b""
        if has_posted:
            self._received += self._read()
            if self._received.startswith(_ACCEPTED):
                self._received = self._received[len(_ACCEPTED) :]
            else:
                self._receive()
        status, headers, body = self._receive()
        if status != "200":
            raise RuntimeError(f"Failed to get next. HTTP Response code: {status}")
        headers[_DEADLINE] = int(headers[_DEADLINE])
        return body, headers

    def post_invocation_result(
        self, invoke_id: str, data: bytes, content_type: str, *_more: object
    ) -> None:
        """Keep a response until the process asks for the next invocation."""
        self._post(f"invocation/{invoke_id}/response", data, content_type)

    def post_error(self, invoke_id: str, data: str, *_more: object) -> None:
        """Keep an error until the process asks for the next invocation."""
        self._post(f"invocation/{invoke_id}/error", data.encode(), "application/json")

    def _post(self, path: str, data: bytes, content_type: str) -> None:
        about = f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n"
        self._unsent = self._head("POST", path) + about.encode("latin-1", "replace") + data

    def _head(self, method: str, path: str) -> bytes:
        return f"{method} /2018-06-01/runtime/{path} HTTP/1.1\r\nHost: {self._address}\r\n".encode()

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            host, _, port = self._address.rpartition(":")
            # Not `create_connection`, which loads the codec of international names to resolve an address.
            self._socket = _Socket(socket.AF_INET, socket.SOCK_STREAM)
            # A function may limit the time of new sockets; the next invocation may come at any time.
            self._socket.settimeout(None)
            self._socket.connect((host, int(port)))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(data)

    def _receive(self) -> tuple[str, dict[str, Any], bytes]:
        """Return an answer: its status, headers and body. Raises RuntimeError."""
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            self._received += self._read()
        first, *lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        start = end + 4
        missing = start + int(headers["Content-Length"]) - len(self._received)
        parts = [self._received[start:]]
        while missing > 0:
            parts.append(self._read(min(max(missing, _READ_BYTES), _MOST_READ_BYTES)))
            missing -= len(parts[-1])
        body = b"".join(parts)
        whole = int(headers["Content-Length"])
        self._received = body[whole:]
        return first.split(" ", 2)[1], headers, body[:whole]

    def _read(self, most_bytes: int = _READ_BYTES) -> bytes:
        assert self._socket is not None
        data = self._socket.recv(most_bytes)
        if not data:
            raise RuntimeError("Failed to get next: the Runtime API has closed the connection")
        return data


def ask_on_the_main_thread(client: Any) -> None:
    """Let a class of awslambdaric's clients ask for each invocation without a thread made for that.

    It makes one since its compiled module keeps the thread that asks from handling signals; `recv` handles them.
    """
    client.use_thread_for_polling_next = property(lambda _: False, lambda _self, _value: None)


if __name__ == "__main__":
    # As with `python -m`: the folder of the code, not this file's.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - pathlib is not loaded for every function
    lead_to_the_cloud(os.environ.get("AWS_ENDPOINT_URL", ""))
    sys.meta_path.insert(0, OldBotocoreFinder(os.environ.get("AWS_ENDPOINT_URL", "")))
    sys.modules["runtime_client"] = RuntimeClient(os.environ["AWS_LAMBDA_RUNTIME_API"])
    ask_on_the_main_thread(import_module("awslambdaric.lambda_runtime_client").LambdaRuntimeClient)
    import_module("awslambdaric.__main__").main(sys.argv)
