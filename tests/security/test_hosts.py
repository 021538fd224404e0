"""DNS rebinding: a page whose own name leads to 127.0.0.1 is of one origin with what answers, but the name tells."""

from __future__ import annotations

import socket

import pytest

from headrace.aws.gateway.hosts import MOST_REMEMBERED, HostRefused, Hosts, is_loopback
from tests.security.conftest import Door, body_of

OURS = [
    "127.0.0.1:4566",
    "127.0.0.1",
    "127.8.9.10:1",
    "localhost",
    "LOCALHOST:4566",
    "localhost.:4566",
    "[::1]:4566",
    "[::ffff:127.0.0.1]:4566",
    "0.0.0.0:4566",
    "bucket.localhost:4566",
    "bucket.s3.localhost:4566",
    "with_underscore.localhost:4566",
    "abc.lambda-url.us-east-1.localhost:4566",
    "localhost.localstack.cloud:4566",
    "bucket.s3.eu-west-1.localhost.localstack.cloud:4566",
    "bucket.127.0.0.1:4566",
    "cloud.test",
    "CLOUD.TEST:4566",
    "a.corp",
    "a.b.corp:1",
    "[fd00::7]:4566",
]
STRANGERS = [
    "evil.example",
    "evil.example:4566",
    "127.0.0.1.evil.example",
    "x.127.0.0.1.nip.io",
    "localhost.evil.example",
    "evillocalhost",
    "xlocalhost.localstack.cloud",
    "localstack.cloud",
    "kinesis.us-east-1.amazonaws.com",
    "corp",
    "evilcorp",
    "a.cloud.test",
    "198.51.100.7",
    "[2001:db8::1]:4566",
    "bucket.198.51.100.7",
    "",
    ":4566",
    "localhost:",
    "localhost:4566:1",
    "localhost:999999",
    "localhost evil",
    "localhost,evil.example",
    "localhost/evil",
    "user@localhost",
    "::1",
    "[::1",
    "[localhost]",
    "lo\xe7alhost",
]


@pytest.fixture(scope="module")
def hosts() -> Hosts:
    return Hosts(["cloud.test", "*.corp", "[fd00::7]"])


@pytest.mark.parametrize("host", OURS)
def test_the_names_of_this_machine_are_answered(hosts: Hosts, host: str):
    assert hosts.owns(host)
    # A function's host is no host like others: it is asked about each time.
    assert (host in hosts.known) is ("lambda-url" not in host)
    assert hosts.owns(host)


@pytest.mark.parametrize("host", STRANGERS)
def test_every_other_name_is_a_strangers(hosts: Hosts, host: str):
    assert not hosts.owns(host)
    assert host not in hosts.known


def test_the_addresses_of_this_machines_interfaces_are_its_own(hosts: Hosts):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only has the system choose the interface.
            probe.connect(("198.51.100.7", 9))
        except OSError:
            pytest.skip("this machine has no interface but the loopback")
        address = probe.getsockname()[0]
    assert hosts.owns(f"{address}:4566")


def test_a_star_answers_to_every_name():
    assert Hosts(["*"]).owns("evil.example")


@pytest.mark.parametrize("name", ["", "http://x", "x:80", "a b", "*x", "a*", "x/y"])
def test_what_is_no_name_is_refused_in_a_sentence(name: str):
    with pytest.raises(HostRefused, match=r"^--allow-host takes a host's name without a port"):
        Hosts([name])


def test_what_is_remembered_is_bounded():
    hosts = Hosts()
    for number in range(MOST_REMEMBERED + 10):
        assert hosts.owns(f"b{number}.localhost")
    assert len(hosts.known) <= MOST_REMEMBERED


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.1.2.3", True),
     ("0.0.0.0", False), ("::", False), ("198.51.100.7", False)],
)  # fmt: skip
def test_what_only_this_machine_can_reach(host: str, expected: bool):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "path", ["/", "/plain/page.html", "/_headrace/health", "/_localstack/health",
             "/_headrace/function-url/abc/", "/2015-03-31/functions", "/applications"],
)  # fmt: skip
def test_a_strangers_name_is_answered_nowhere(door: Door, path: str):
    answer = door.ask("GET", path, {"host": "evil.example", "content-type": "application/json"})
    assert answer.status == 421
    assert "--allow-host evil.example (HEADRACE_ALLOW_HOST)" in body_of(answer)["message"]


def test_a_listed_name_is_answered(door: Door):
    assert door.status("GET", "/_headrace/health", {"host": "cloud.test:4566"}) == 200


def test_a_reset_for_motos_server_is_a_page_also_by_a_known_name(door: Door):
    for _ in range(2):
        assert door.status("POST", "/moto-api/reset", {"host": "127.0.0.1:4566"}) == 501
