"""Finds the PostgreSQL of a Redshift cluster or workgroup: a server in the data directory, or the user's own server.

A cluster's server is created and started at its first use, and started again with the cloud. Its administrator has the
name and the password of CreateCluster; a caller that AWS has already authenticated logs in as its database user,
through a socket that only headrace reaches. The superuser's connections never carry a client's text. A user's own
server has the databases of all clusters, by their names.
"""

from __future__ import annotations

import json
import logging
import shutil
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import ControlPlane, ObjectStore
from headrace.core.ports.warehouses import (
    ClusterSpec,
    Load,
    Login,
    MayRead,
    WarehouseError,
    WarehouseNotFound,
    WarehouseUnavailable,
    anybody,
)
from headrace.core.workers import Supervisor, WorkerDone
from headrace.services.redshift import preparation
from headrace.services.redshift.postgres import (
    HOST,
    SUPERUSER,
    PostgresServer,
    binaries,
    check_driver,
)
from headrace.services.redshift.preparation import issue_login, log_in, set_up, set_up_real
from headrace.services.redshift.session import PgSession, connect

log = logging.getLogger(__name__)

FOLDER = "redshift"
_DELETED = "deleted-"
_HERE = ("127.0.0.1", "localhost", "::1")
Parameters = dict[str, Any]


class _Cluster:
    """A cluster with a server of this cloud."""

    def __init__(self, spec: ClusterSpec, folder: Path, tls: Callable[[], ssl.SSLContext]) -> None:
        self.spec = spec
        self.server = PostgresServer(folder, spec.port, tls)
        self.lock = threading.Lock()
        # The cluster's specification for which the server was last prepared.
        self.ready_for: ClusterSpec | None = None
        self.is_wanted = False

    def note(self, spec: ClusterSpec) -> None:
        """Store the cluster's specification."""
        file = self.server.folder / "spec.json"
        if spec != self.spec or not file.exists():
            self.spec = spec
            self.server.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(json.dumps(asdict(spec)))


class WarehouseHome:
    """See `Warehouses`. Thread-safe."""

    def __init__(
        self,
        data_dir: Path,
        *,
        control: ControlPlane,
        objects: ObjectStore,
        supervisor: Supervisor,
        tls: Callable[[], ssl.SSLContext],
        real_url: str = "",
    ) -> None:
        """Prepare; nothing is started.

        Args:
            data_dir: where the servers' files are.
            control: describes clusters and workgroups.
            objects: the object store that COPY reads.
            supervisor: starts servers in the background.
            tls: the cloud's TLS, which clusters speak too.
            real_url: the user's own PostgreSQL; empty for none.
        """
        self._folder = data_dir / FOLDER
        self._control = control
        self._objects = objects
        self._supervisor = supervisor
        self._tls = tls
        self._real_url = real_url
        self._lock = threading.Lock()
        self._clusters: dict[str, _Cluster] = {}
        self._prepared: set[str] = set()

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the existing servers in the background."""
        for folder in self._folder.glob(f"{_DELETED}*"):
            self._supervisor.start(_Remover(None, folder))
        for spec in self._load_specs():
            self.endpoint_of(spec)

    def stop(self) -> None:
        """Stop the servers."""
        with self._lock:
            clusters, self._clusters = list(self._clusters.values()), {}
        for cluster in clusters:
            with cluster.lock:
                cluster.server.stop()

    def check(self) -> None:
        """See `Warehouses.check`."""
        if self._real_url:
            check_driver()
        else:
            binaries()

    def _load_specs(self) -> list[ClusterSpec]:
        cluster_specs: list[ClusterSpec] = []
        for file in sorted(self._folder.glob("[cw]*-*/spec.json")):
            values: dict[str, Any] = json.loads(file.read_text())
            spec = ClusterSpec(**cast("Any", {**values, "roles": tuple(values["roles"])}))
            if spec.key != file.parent.name:
                log.error(
                    "redshift: %s describes another cluster, %s; it is ignored", file, spec.key
                )
                continue
            cluster_specs.append(spec)
        return cluster_specs

    # --- which server -------------------------------------------------------------------------

    def endpoint_of(self, spec: ClusterSpec) -> tuple[str, int] | None:
        """See `Warehouses.endpoint_of`."""
        try:
            self.check()
            cluster = self._cluster(spec)
            port = 0 if self._real_url else cluster.server.port
        except WarehouseUnavailable:
            return None
        if self._real_url:
            parts = urlsplit(self._real_url)
            return parts.hostname or HOST, parts.port or 5432
        if not cluster.is_wanted:
            cluster.is_wanted = True
            self._supervisor.start(_Starter(self, spec.key))
        return HOST, port

    def _cluster(self, spec: ClusterSpec) -> _Cluster:
        with self._lock:
            cluster = self._clusters.get(spec.key)
            if cluster is None:
                cluster = self._clusters[spec.key] = _Cluster(
                    spec, self._folder / spec.key, self._tls
                )
        cluster.note(spec)
        return cluster

    def spec_of(self, kind: str, name: str, *, account: str, region: str) -> ClusterSpec:
        """See `Warehouses.spec_of`. The cluster's description adds it to this home."""
        service, operation, params = (
            ("redshift", "DescribeClusters", {"ClusterIdentifier": name})
            if kind == "cluster"
            else ("redshift-serverless", "GetWorkgroup", {"workgroupName": name})
        )
        try:
            self._control.call(service, operation, params, account=account, region=region)
        except AwsError as error:
            raise WarehouseNotFound(f"There is no {kind} {name} in {region}.") from error
        cluster = self._clusters.get(f"{kind}-{account}-{region}-{name}")
        if cluster is None:
            self.check()
            raise WarehouseNotFound(f"There is no {kind} {name} in {region}.")
        return cluster.spec

    def _of_url(self, load: Load) -> tuple[ClusterSpec, str]:
        """Return the cluster and the database of a JDBC URL. Raises WarehouseNotFound."""
        parts = urlsplit(load.jdbc_url.removeprefix("jdbc:"))
        host, database = (parts.hostname or "").lower(), unquote(parts.path.lstrip("/"))
        labels = host.split(".")
        for label, kind in (("redshift", "cluster"), ("redshift-serverless", "workgroup")):
            if label in labels and host not in _HERE:
                # A cluster's host has name, id, region; a workgroup's has name, account, region.
                region = labels[labels.index(label) - 1]
                return self.spec_of(kind, labels[0], account=load.account, region=region), database
        return self._of_address(host, parts.port or 0, load), database

    def _of_address(self, host: str, port: int, load: Load) -> ClusterSpec:
        for spec in self._load_specs():
            if self.endpoint_of(spec) == (host if host not in _HERE else HOST, port) and (
                not self._real_url or spec.user == load.login.user
            ):
                return self.spec_of(spec.kind, spec.name, account=spec.account, region=spec.region)
        raise WarehouseNotFound(f"No cluster of this cloud has the address {host}:{port}.")

    def forget(self, kind: str, name: str, *, account: str, region: str) -> None:
        """See `Warehouses.forget`. The contents of a user's own server stay."""
        key = f"{kind}-{account}-{region}-{name}"
        with self._lock:
            cluster = self._clusters.pop(key, None)
        folder = self._folder / key
        if not folder.exists():
            return
        # A cluster of the same name may be created at once, and stopping a server takes a while.
        gone = Path(tempfile.mkdtemp(prefix=_DELETED, dir=self._folder)) / key
        folder.rename(gone)
        self._supervisor.start(_Remover(cluster, gone.parent))

    # --- connections --------------------------------------------------------------------------

    def make_ready(self, key: str) -> None:
        """Start a cluster's server and prepare it. Raises WarehouseError, WarehouseUnavailable."""
        cluster = self._clusters.get(key)
        if cluster is not None:
            self._ready(cluster)

    def _ready(self, cluster: _Cluster) -> Parameters:
        """Start a cluster's server if needed; return the superuser's connection settings."""
        if self._real_url:
            return _parameters(self._real_url)
        with cluster.lock:
            if cluster.server.start():
                cluster.ready_for = None
            admin: Parameters = {
                "host": str(cluster.server.socket_folder),
                "port": cluster.server.inner_port,
                "user": SUPERUSER,
                "options": _SUPERUSER_OPTIONS,
            }
            if cluster.ready_for != cluster.spec:
                set_up(admin, cluster.spec)
                cluster.ready_for = cluster.spec
            return admin

    def open(
        self, spec: ClusterSpec, database: str, login: Login, *, may_read: MayRead = anybody
    ) -> PgSession:
        """See `Warehouses.open`."""
        return self._open(spec, database, login, may_read, "")

    def _open(
        self, spec: ClusterSpec, database: str, login: Login, may_read: MayRead, role: str
    ) -> PgSession:
        self.check()
        cluster = self._cluster(spec)
        admin = self._ready(cluster)
        if self._real_url:
            connection = self._connect_to_real(admin, spec, database, login)
        elif login.password is not None:
            # Over TCP, where the server asks for passwords.
            connection = connect(
                host=HOST,
                port=cluster.server.inner_port,
                user=login.user,
                password=login.password,
                dbname=database,
            )
        else:
            connection = log_in(admin, login, database)
        connection.commit()
        return PgSession(connection, self._objects, spec, may_read, role)

    def _connect_to_real(
        self, admin: Mapping[str, Any], spec: ClusterSpec, database: str, login: Login
    ) -> Any:
        """Connect to the user's own server; the cluster's administrator connects as the user in its URL."""
        mine = login.password is None or login.user == spec.user
        if mine and login.password is not None and login.password != spec.password:
            raise WarehouseError(
                "AuthenticationFailed",
                f'FATAL:  password authentication failed for user "{login.user}"',
            )
        if database not in self._prepared:
            set_up_real(admin, spec, database)
            self._prepared.add(database)
        who = {} if mine else {"user": login.user, "password": login.password}
        return connect(**{**admin, **who, "dbname": database, "options": _SEARCH_PATH})

    def issue_login(
        self, spec: ClusterSpec, user: str, *, acts_as: str, until_ms: int, makes: bool = False
    ) -> str:
        """See `Warehouses.issue_login`. A user's own server gets no logins."""
        self.check()
        if self._real_url:
            raise WarehouseUnavailable("headrace makes no logins on a PostgreSQL of your own.")
        cluster = self._cluster(spec)
        admin = self._ready(cluster)
        with connect(**admin, dbname="postgres") as connection:
            return issue_login(
                connection, cluster.server.password(), user, acts_as, until_ms, makes=makes
            )

    def load(self, load: Load) -> int:
        """See `Warehouses.load`. The same transaction stores the rows and the fact that the load happened."""
        spec, database = self._of_url(load)
        session = self._open(spec, database, load.login, load.may_read, load.role)
        try:
            connection = session.connection
            row = connection.execute("select headrace.begin_load(%s)", [load.once]).fetchone()
            if row is not None and row[0] >= 0:
                session.rollback()
                return int(row[0])
            count = session.run(load.sql).count
            connection.execute("select headrace.end_load(%s, %s)", [load.once, count])
            session.commit()
            return count
        finally:
            session.close()


class _Starter:
    """A `Worker` that starts one server."""

    def __init__(self, home: WarehouseHome, key: str) -> None:
        self.name = f"redshift {key}"
        self._home, self._key = home, key

    def step(self) -> float:
        """Start it; a failure is reported again at the next connection."""
        try:
            self._home.make_ready(self._key)
        except (WarehouseError, WarehouseUnavailable) as error:
            log.warning("redshift %s: %s", self._key, error)
        raise WorkerDone


class _Remover:
    """A `Worker` that stops a server whose cluster is deleted, and deletes its files."""

    def __init__(self, cluster: _Cluster | None, folder: Path) -> None:
        self.name = f"redshift {folder.name}"
        self._cluster, self._folder = cluster, folder

    def step(self) -> float:
        """Stop the server and delete its files; see `Worker.step`."""
        if self._cluster is not None:
            with self._cluster.lock:
                self._cluster.server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        raise WorkerDone


# A superuser's names must not be looked up among a user's, and no user's setting applies to it.
_SUPERUSER_OPTIONS = (
    "-c search_path=pg_catalog -c standard_conforming_strings=on -c session_preload_libraries="
    " -c local_preload_libraries= -c event_triggers=off"
)
_SEARCH_PATH = f'-c search_path="$user",public,{preparation.SCHEMA} -c timezone=UTC'


def _parameters(url: str) -> Parameters:
    parts = urlsplit(url)
    return {
        "host": parts.hostname or HOST,
        "port": parts.port or 5432,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "dbname": unquote(parts.path.lstrip("/")) or "postgres",
    }
