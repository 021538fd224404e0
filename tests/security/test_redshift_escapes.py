"""What the users of a Redshift cluster get at: their tables. PostgreSQL's known ways out, by each door of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.services.redshift.postgres import HOST, SUPERUSER
from headrace.walls.walled_server import refusal
from tests.security.postgres_escapes import ESCAPES
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

SECRET = "the developer's own file"
PASSWORD = "Secret123"
KEY = f"cluster-{ACCOUNT}-{REGION}-c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("escapes")
    folder.chmod(0o755)
    (folder / "secret").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def cloud(folder: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(folder / "data") as cloud:
        cloud.client("redshift").create_cluster(
            ClusterIdentifier="c",
            NodeType="ra3.large",
            MasterUsername="boss",
            MasterUserPassword=PASSWORD,
            Port=5220,
        )
        # The server is up when a statement has run.
        assert by_statements(cloud).run(["select 1"])[0] == "FINISHED "
        yield cloud


class Door:
    """Runs statements in one session, and returns the texts of what came back."""

    def __init__(self, run: Callable[[list[str]], list[str]]) -> None:
        self.run = run


def by_statements(cloud: InProcessCloud) -> Door:
    data = cloud.client("redshift-data")

    def run(statements: list[str]) -> list[str]:
        texts: list[str] = []
        session: dict[str, Any] = {}
        for sql in statements:
            where = session or {
                "ClusterIdentifier": "c", "Database": "dev", "SessionKeepAliveSeconds": 1,
            }  # fmt: skip
            begun = data.execute_statement(Sql=sql, **where)
            session = {"SessionId": begun["SessionId"]}
            ended = data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)
            texts.append(f"{ended['Status']} {ended.get('Error', '')}")
            if ended.get("HasResultSet"):
                texts.append(str(data.get_statement_result(Id=begun["Id"])["Records"]))
        return texts

    return Door(run)


def by_batch(cloud: InProcessCloud) -> Door:
    data = cloud.client("redshift-data")

    def run(statements: list[str]) -> list[str]:
        begun = data.batch_execute_statement(ClusterIdentifier="c", Database="dev", Sqls=statements)
        ended = data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)
        texts = [str(ended.get("Error", ""))]
        for part in ended["SubStatements"]:
            texts.append(f"{part['Status']} {part.get('Error', '')}")
            if part.get("HasResultSet") and part["Status"] == "FINISHED":
                with contextlib.suppress(data.exceptions.ResourceNotFoundException):
                    texts.append(str(data.get_statement_result(Id=part["Id"])["Records"]))
        return texts

    return Door(run)


def by_wire(cloud: InProcessCloud) -> Door:
    at = cloud.client("redshift").describe_clusters()["Clusters"][0]["Endpoint"]

    def run(statements: list[str]) -> list[str]:
        texts: list[str] = []
        with psycopg.connect(
            host=at["Address"],
            port=at["Port"],
            user="boss",
            password=PASSWORD,
            dbname="dev",
            autocommit=True,
        ) as connection:
            for sql in statements:
                try:
                    cursor = connection.execute(sql.encode())
                    texts.append(str(cursor.fetchall()) if cursor.description else "FINISHED")
                except psycopg.Error as error:
                    texts.append(str(error))
        return texts

    return Door(run)


DOORS = {"statements": by_statements, "batch": by_batch, "wire": by_wire}
STANDING = "select 'super=' || current_setting('is_superuser') || ',' || current_user || ',' || session_user"


@pytest.mark.parametrize(
    "door", [pytest.param(name, marks=[pytest.mark.slow] * (name != "wire")) for name in DOORS]
)
@pytest.mark.parametrize("name", ESCAPES)
def test_no_statement_leaves_its_cluster(
    cloud: InProcessCloud, folder: Path, name: str, door: str
) -> None:
    escaped = folder / "escaped"
    statements = [
        sql.replace("{file}", str(escaped)).replace("{secret}", str(folder / "secret"))
        for sql in ESCAPES[name]
    ]
    texts = DOORS[door](cloud).run(statements)
    assert not escaped.exists()
    assert not any(SECRET in text for text in texts), texts
    assert not any("No such file" in text for text in texts), texts
    # At least one of its statements is refused, or nothing comes of them.
    assert any("FINISHED" not in text for text in texts), texts
    standing = " ".join(DOORS[door](cloud).run([STANDING]))
    assert "super=off,boss,boss" in standing, (texts, standing)


@pytest.fixture(scope="module")
def superuser(cloud: InProcessCloud, folder: Path) -> Iterator[psycopg.Connection[Any]]:
    """The superuser's own connection, which no client has: somebody who has broken through PostgreSQL's rules."""
    own = folder / "data" / "redshift" / KEY
    pid_file = (own / "data" / "postmaster.pid").read_text().splitlines()
    port, socket = int(pid_file[3]), pid_file[4]
    with psycopg.connect(
        host=socket, port=port, user=SUPERUSER, dbname="dev", autocommit=True
    ) as connection:
        assert connection.execute("show is_superuser").fetchone() == ("on",)
        yield connection


@pytest.mark.skipif(bool(refusal()), reason="no walls on this machine")
@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to program 'touch {file}'",
        "copy (select 1) to program '/bin/touch {file}'",
        "copy (select 1) to '{file}'",
        "select pg_read_file('{secret}')",
        "select pg_read_file('/etc/passwd')",
        "select pg_read_file('/proc/1/root/etc/passwd')",
        "select lo_import('{secret}')",
        "select pg_read_binary_file('{folder}/data/state.sqlite')",
        "select pg_read_file('{own}/password')",
        "create extension file_fdw",
        "create extension dblink",
        "create extension plpython3u",
        "load 'dblink'",
        "load '{own}/data/evil.so'",
        "alter system set archive_command = 'touch {file}'",
    ],
)
def test_a_superuser_is_behind_walls(
    superuser: psycopg.Connection[Any], folder: Path, sql: str
) -> None:
    own = folder / "data" / "redshift" / KEY
    library = own / "data" / "evil.so"
    if "evil.so" in sql:
        import shutil

        from headrace.services.redshift.postgres import binaries

        shutil.copy(binaries().parent / "lib" / "dblink.so", library)
    text = sql.replace("{file}", str(folder / "escaped")).replace("{own}", str(own))
    text = text.replace("{secret}", str(folder / "secret")).replace("{folder}", str(folder))
    try:
        with pytest.raises(psycopg.Error) as refused:
            superuser.execute(text.encode())
    finally:
        library.unlink(missing_ok=True)
    assert not (folder / "escaped").exists()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("door", ["the front", "behind it"])
def test_the_superuser_has_no_login(cloud: InProcessCloud, folder: Path, door: str) -> None:
    own = folder / "data" / "redshift" / KEY
    ports = {
        "the front": (own / "port").read_text(),
        "behind it": (own / "data" / "postmaster.pid").read_text().splitlines()[3],
    }
    assert len(set(ports.values())) == 2
    with pytest.raises(psycopg.OperationalError, match="rejects connection"):
        psycopg.connect(
            host=HOST,
            port=int(ports[door]),
            user=SUPERUSER,
            password=(own / "password").read_text(),
            dbname="dev",
        )


@pytest.mark.parametrize("user", [SUPERUSER, "headrace", "pg_execute_server_program", "postgres"])
def test_nobody_acts_as_a_role_of_postgresql(cloud: InProcessCloud, user: str) -> None:
    data = cloud.client("redshift-data")
    begun = data.execute_statement(
        ClusterIdentifier="c", Database="dev", DbUser=user, Sql="select current_user"
    )
    ended = data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)
    assert ended["Status"] == "FAILED"
    assert ended["Error"] == f'FATAL: user "{user}" does not exist'
    redshift = cloud.client("redshift")
    if user != "postgres":
        with pytest.raises(redshift.exceptions.ClientError, match="does not exist"):
            redshift.get_cluster_credentials(ClusterIdentifier="c", DbUser=user, DbName="dev")
