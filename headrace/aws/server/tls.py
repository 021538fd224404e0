"""TLS on the cloud's own port: its certificate, and the file by which its functions trust that certificate.

AWS's addresses are https, and some clients can speak nothing else: `http.client.HTTPSConnection` with the host of a
custom resource's ResponseURL, as crhelper does. So a connection that begins with a TLS handshake gets TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
import subprocess
import sys
import threading
from asyncio import sslproto
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

# The first byte of a TLS connection: a handshake record.
HANDSHAKE = 0x16
HANDSHAKE_S = 10
_VALID_DAYS = 3650
_RENEWED_DAYS = 30
_CHILD = Path(__file__).with_name("identity_child.py")
_LONGEST_MAKING_S = 60
# They say where OpenSSL looks for authorities.
_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----[^-]+-----END [A-Z0-9 ]+-----")


class Tls:
    """The certificate of a cloud, in a folder of its data directory. Thread-safe.

    The key is new for each data directory, and only the user may read it. Nothing trusts the certificate except the
    cloud's functions.
    """

    def __init__(self, folder: Path, host: Callable[[], str]) -> None:
        """Take the folder, and the host of the cloud's own URL; nothing is written before it is needed."""
        self._is_served = False
        self._folder = folder
        self._host = host
        self._lock = threading.Lock()
        self._trusts = False
        self._context: ssl.SSLContext | None = None

    @property
    def is_served(self) -> bool:
        """Whether a socket of this cloud speaks TLS; a cloud in a test's process has no socket."""
        return self._is_served

    def for_socket(self) -> Tls:
        """Return this certificate for a socket that speaks TLS with it."""
        self._is_served = True
        return self

    def context(self) -> ssl.SSLContext:
        """Return the server's context; `trust_file` exists then. Raises OSError when a file cannot be stored."""
        with self._lock:
            if self._context is None:
                self._context = self._new_context(["http/1.1"])
            return self._context

    def device_context(self) -> ssl.SSLContext:
        """Return a new context for MQTT; it takes the clients' certificates that it is told to trust. Raises OSError.

        A client may present none. Each certificate is trusted for itself: who issued it does not count.
        """
        with self._lock:
            # Documented: the name by which AWS's port 443 knows MQTT with certificates.
            context = self._new_context(["x-amzn-mqtt-ca", "mqtt"])
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def _new_context(self, protocols: list[str]) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(protocols)
        context.load_cert_chain(self._identity())
        self._write_trust()
        return context

    def trust_file(self) -> Path:
        """Return a file with this cloud's certificate and the machine's authorities. Raises OSError."""
        with self._lock:
            return self._write_trust()

    def _write_trust(self) -> Path:
        path = self._folder / "trusted.pem"
        if not self._trusts:
            identity = self._identity().read_text()
            own = identity[identity.index("-----BEGIN CERTIFICATE") :]
            _write(path, "\n".join([own, *_authorities()]), mode=0o644)
            self._trusts = True
        return path

    def _identity(self) -> Path:
        """Return the file with the key and the certificate for the present host; make it if it is missing or old."""
        host = self._host()
        path = self._folder / f"{host.replace(':', '_')}.pem"
        with contextlib.suppress(FileNotFoundError):
            age = datetime.now(UTC) - datetime.fromtimestamp(path.stat().st_mtime, UTC)
            if age < timedelta(days=_VALID_DAYS - _RENEWED_DAYS):
                return path
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, _new_identity(host), mode=0o600)
        return path


def _write(path: Path, text: str, *, mode: int) -> None:
    """Write a file at once: a reader finds the old text or the new text, with this mode.

    A file that already has the text stays: a start on a full disk has no room for a second copy. No part is left over.
    """
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    content = text.encode()
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _authorities() -> list[str]:
    """Return the certificates that Python, Node.js and `requests` trust on this machine, each once. Raises OSError."""
    import certifi

    files = {_file_of_machine(), certifi.where()} - {""}
    texts = "\n".join(Path(file).read_text(encoding="utf-8") for file in sorted(files))
    return list(dict.fromkeys(_PEM.findall(texts)))


def _file_of_machine() -> str:
    """Return the file of the authorities that OpenSSL trusts; empty when there is none. Raises OSError."""
    if "_ssl" in sys.modules:
        return ssl.get_default_verify_paths().cafile or ""
    # The library would stay in an idle cloud's memory for this one question.
    ask = "import ssl; print(ssl.get_default_verify_paths().cafile or '')"
    return _run_child("-c", ask).rstrip("\n")


def _new_identity(host: str) -> str:
    """Return a new key and a certificate of it for `host`, as PEM. Raises OSError when there is none."""
    return _run_child(str(_CHILD), host, str(_VALID_DAYS))


def _run_child(*arguments: str) -> str:
    """Return what Python prints in a process of its own. Raises OSError when it fails."""
    try:
        made = subprocess.run(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            # It finds libraries where this process does, which may be a user's own folder.
            env={
                **{name: os.environ[name] for name in _VARIABLES if name in os.environ},
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
            # Ctrl-C ends the cloud, which waits for this.
            start_new_session=True,
            timeout=_LONGEST_MAKING_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"no certificate was made within {_LONGEST_MAKING_S} seconds") from error
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        raise OSError(f"no certificate could be made: {lines[-1] if lines else error}") from error
    return made.stdout


def begin_tls(
    transport: asyncio.Transport,
    first: bytes,
    protocol: asyncio.BaseProtocol,
    context: ssl.SSLContext,
    on_settled: Callable[[], None],
) -> None:
    """Speak TLS on a connection whose first bytes, `first`, were read already; `protocol` gets what is decrypted.

    `loop.start_tls` cannot take bytes that were read. `on_settled` is called once the handshake has ended, either way.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def settle(done: asyncio.Future[None]) -> None:
        # A client that breaks off its handshake is no failure of ours; asyncio has closed its connection.
        if not done.cancelled():
            done.exception()
        on_settled()

    waiter.add_done_callback(settle)
    tls = sslproto.SSLProtocol(
        loop, protocol, context, waiter, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
    )
    transport.set_protocol(tls)
    tls.connection_made(transport)
    view = memoryview(first)
    while view and not transport.is_closing():
        room = tls.get_buffer(len(view))
        count = min(len(room), len(view))
        room[:count] = view[:count]
        tls.buffer_updated(count)
        view = view[count:]
