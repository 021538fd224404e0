"""TLS on the cloud's own port: what it carries, who trusts it, and handshakes that come to nothing."""

from __future__ import annotations

import errno
import http.client
import os
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import boto3
import certifi
import pytest
from botocore.config import Config

from headrace.aws.server import tls as tls_module
from headrace.aws.server.tls import Tls
from tests.api.kinesis.live import LiveCloud
from tests.support.server import wait_until


def test_large_bodies_pass_by_tls_and_by_plain_http_on_one_port(tmp_path: Path) -> None:
    with LiveCloud(tmp_path / "data") as live:
        trusted = live.cloud.tls.trust_file()
        body = os.urandom(5 * 1024 * 1024)
        for scheme in ("https", "http"):
            s3 = boto3.client(
                "s3",
                endpoint_url=f"{scheme}://127.0.0.1:{live.port}",
                verify=str(trusted),
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(retries={"total_max_attempts": 1}),
            )
            s3.create_bucket(Bucket=scheme)
            s3.put_object(Bucket=scheme, Key="k", Body=body)
            assert s3.get_object(Bucket=scheme, Key="k")["Body"].read() == body


def test_the_key_is_private_and_stays_and_only_the_trust_file_trusts_it(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "tls"
    for _ in range(2):
        with LiveCloud(tmp_path / "data") as live:
            trusted = live.cloud.tls.trust_file().read_text()
            context = ssl.create_default_context(cadata=trusted)
            web = http.client.HTTPSConnection("localhost", live.port, context=context)
            web.request("GET", "/_headrace/health")
            assert web.getresponse().status == 200
            web.close()
            stranger = http.client.HTTPSConnection("127.0.0.1", live.port)
            try:
                stranger.connect()
                raise AssertionError("a certificate that nobody vouches for was accepted")
            except ssl.SSLCertVerificationError:
                stranger.close()
    (key,) = folder.glob("127*.pem")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "PRIVATE" not in (folder / "trusted.pem").read_text()


def test_a_handshake_that_comes_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    with LiveCloud(tmp_path / "data") as live:
        address = ("127.0.0.1", live.port)
        for first in (b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x16garbage" * 20):
            with socket.create_connection(address, timeout=10) as client:
                client.sendall(first)
                assert client.recv(1000)[:1] in (b"", b"\x15")
        # These break off in the middle.
        socket.create_connection(address).sendall(b"\x16")
        wait_until(lambda: not live._server._connections, what="the end of every connection")
        context = ssl.create_default_context(cafile=str(live.cloud.tls.trust_file()))
        web = http.client.HTTPSConnection("127.0.0.1", live.port, context=context)
        for _ in range(3):
            web.request("GET", "/_headrace/health")
            answer = web.getresponse()
            answer.read()
            assert answer.status == 200
        assert len(live._server._connections) == 1
        web.close()
        wait_until(lambda: not live._server._connections, what="the end of the connection")


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    def start(host: str = "127.0.0.1") -> dict[str, tuple[int, int, str]]:
        tls = Tls(tmp_path / "tls", lambda: host)
        tls.context()
        tls.trust_file()
        return {
            path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_text())
            for path in tmp_path.joinpath("tls").iterdir()
        }

    first = start()
    assert sorted(first) == ["127.0.0.1.pem", "trusted.pem"]
    # A copy whose writing was broken off does not stay.
    tmp_path.joinpath("tls", "trusted.part").write_text("half")
    assert start() == first
    other = start("build.lan")
    assert other["127.0.0.1.pem"] == first["127.0.0.1.pem"]
    assert other["trusted.pem"][2] != first["trusted.pem"][2]


def test_each_authority_of_the_machine_and_of_requests_is_trusted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = Path(certifi.where()).read_text()
    Tls(tmp_path / "other", lambda: "other.lan").trust_file()
    own = tmp_path.joinpath("other", "other.lan.pem").read_text().partition("-----BEGIN CERT")
    machine = tmp_path / "machine.pem"
    machine.write_text(f"# The machine's.\n{brought}\n{own[1]}{own[2]}")
    monkeypatch.setattr(tls_module, "_file_of_machine", lambda: str(machine))
    trusted = Tls(tmp_path / "tls", lambda: "127.0.0.1").trust_file().read_text()
    # Its own certificate, and that of the machine's other authority.
    assert trusted.count("-----BEGIN") == brought.count("-----BEGIN") + 2
    context = ssl.create_default_context(cadata=trusted)
    expected = ssl.create_default_context(cadata=machine.read_text())
    missing = [each for each in expected.get_ca_certs() if each not in context.get_ca_certs()]
    assert missing == []


def test_a_full_disk_keeps_the_trust_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tls(tmp_path, lambda: "127.0.0.1").trust_file()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headrace.aws.server.tls.os.open", refuse)
    assert Tls(tmp_path, lambda: "127.0.0.1").trust_file().read_text()
    with pytest.raises(OSError, match="No space left"):
        Tls(tmp_path, lambda: "build.lan").trust_file()


def test_a_new_certificate_leaves_no_library_in_memory(tmp_path: Path) -> None:
    program = (
        "import ssl, sys\n"
        "from pathlib import Path\n"
        "from headrace.aws.server.tls import Tls\n"
        "trusted = Tls(Path(sys.argv[1]), lambda: '127.0.0.1').trust_file()\n"
        "ssl.create_default_context(cafile=trusted)\n"
        "assert 'cryptography' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "tls")], check=True)


def test_a_certificate_that_cannot_be_made_is_an_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child.py"
    child.write_text("raise ImportError('no library')")
    monkeypatch.setattr(tls_module, "_CHILD", child)
    with pytest.raises(OSError, match="no certificate could be made: ImportError: no library"):
        Tls(tmp_path / "tls", lambda: "127.0.0.1").trust_file()
    assert list((tmp_path / "tls").iterdir()) == []
