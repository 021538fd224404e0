"""A cluster's PostgreSQL: behind walls or not, one at a time, and never with a stranger's settings."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.core.ports.warehouses import WarehouseUnavailable
from headrace.services.redshift import postgres
from headrace.services.redshift.postgres import SUPERUSER, PostgresServer
from headrace.services.redshift.server_files import foreign_files, list_refused_files
from tests.support.postgres import tls_in


def ask(server: PostgresServer, sql: str) -> object:
    with psycopg.connect(
        host=str(server.socket_folder), port=server.inner_port, user=SUPERUSER, dbname="postgres"
    ) as connection:
        found = connection.execute(sql.encode()).fetchone()
    return found[0] if found else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's folder, made once."""
    folder = tmp_path_factory.mktemp("server") / "cluster"
    server = PostgresServer(folder, 25620, tls_in(folder.parent / "tls"))
    server.start()
    server.stop()
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(folder, 25620, tls_in(folder.parent / "tls"))
    yield server
    server.stop()


@pytest.mark.parametrize("walls", ["walls", "none"])
def test_it_starts_and_stops(
    server: PostgresServer, walls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if walls == "none":
        monkeypatch.setattr(postgres, "_walls_are_missing", lambda: True)
    for _ in range(2):
        assert server.start()
        assert not server.start()
        assert ask(server, "select 1") == 1
        server.stop()


def test_a_server_whose_cloud_was_killed_ends_before_the_next_one_starts(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_STOPPED_WITHIN_S", 1.5)
    earlier = PostgresServer(server.folder, 25620, tls_in(server.folder.parent / "tls"))
    assert earlier.start()
    assert ask(earlier, "select 1") == 1
    child = earlier._child
    assert child is not None
    assert server.start()
    child.wait(10)
    assert ask(server, "select 1") == 1
    earlier.stop()


def test_its_parents_end_is_its_own(server: PostgresServer) -> None:
    assert server.start()
    child = server._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert server.start()
    assert ask(server, "select 1") == 1


def test_settings_in_its_folder_are_not_read_but_named(server: PostgresServer) -> None:
    data = server.folder / "data"
    evil = {
        "postgresql.conf": "archive_mode = on\narchive_command = 'touch /tmp/evil'\nport = 1\n",
        "postgresql.auto.conf": "shared_preload_libraries = 'evil'\n",
        "pg_hba.conf": "host all all 0.0.0.0/0 trust\n",
    }
    for name, text in evil.items():
        (data / name).write_text(text)
    said = [f"{path.name} {why}" for path, why in foreign_files(server.folder)]
    assert said == [
        "postgresql.conf sets archive_mode, which is not read",
        "postgresql.conf sets archive_command, which is not read",
        "postgresql.conf sets port, which is not read",
        "postgresql.auto.conf sets shared_preload_libraries, which is not read",
        "pg_hba.conf has the rule 'host all all 0.0.0.0/0 trust', which is not read",
    ]
    assert server.start()
    for name, value in (("archive_mode", "off"), ("shared_preload_libraries", "")):
        assert ask(server, f"show {name}") == value
    assert ask(server, "select count(*) from pg_hba_file_rules where auth_method = 'trust'") == 1
    server.stop()
    for name in ("postgresql.conf", "pg_hba.conf"):
        (data / name).unlink()
    assert not list(foreign_files(server.folder))


@pytest.mark.parametrize(
    ("path", "made", "why"),
    [
        ("data/base/link", "link", "is a link to"),
        ("data/pg_wal/link", "link", "is a link to"),
        ("log", "link", "is a link to"),
        ("data/pg_tblspc/16384", "folder", "is a tablespace"),
        ("data/recovery.signal", "file", "makes PostgreSQL restore a backup"),
        ("data/standby.signal", "file", "makes PostgreSQL restore a backup"),
        ("data/tablespace_map", "file", "makes PostgreSQL restore a backup"),
        ("data/backup_label", "file", "makes PostgreSQL restore a backup"),
        ("data/base/pipe", "pipe", "is neither a file nor a folder"),
    ],
)
def test_it_does_not_start_with_what_leads_elsewhere(
    server: PostgresServer, tmp_path: Path, path: str, made: str, why: str
) -> None:
    place = server.folder / path
    kept = place.rename(tmp_path / "kept") if place.exists() else None
    if made == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif made == "folder":
        place.mkdir()
    elif made == "pipe":
        os.mkfifo(place)
    else:
        place.write_text("")
    try:
        ((found, said),) = list_refused_files(server.folder)
        assert (found, why) == (place, said[: len(why)])
        with pytest.raises(WarehouseUnavailable, match=why):
            server.start()
    finally:
        place.rmdir() if made == "folder" else place.unlink()
        if kept is not None:
            kept.rename(place)
