"""Ports of PostgreSQL servers: each has its own, also when several start at once."""

from __future__ import annotations

import socket
from pathlib import Path

from headrace.services.redshift.postgres import (
    HOST,
    PostgresServer,
    give_back_port,
    take_port,
)
from tests.support.postgres import tls_in


def test_servers_that_do_not_listen_yet_have_ports_of_their_own(tmp_path: Path) -> None:
    tls = tls_in(tmp_path / "tls")
    servers = [PostgresServer(tmp_path / str(number), 25600, tls) for number in range(3)]
    ports = [server.port for server in servers]
    assert len(set(ports)) == 3
    assert [server.port for server in servers] == ports
    for server in servers:
        server.stop()
    assert PostgresServer(tmp_path / "0", 25600, tls).port == ports[0]
    give_back_port(ports[0])


def test_a_port_on_which_somebody_listens_is_left_to_him() -> None:
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()
        taken = listening.getsockname()[1]
        port = take_port(taken)
        give_back_port(port)
    assert port != taken
