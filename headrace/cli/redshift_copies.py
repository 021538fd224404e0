"""Repeats the COPY statements that a delivery stream gave up, each once: `headrace redrive --to redshift:NAME`.

What was loaded is in a table beside those that are loaded, written in the transaction of the COPY. So a run that was
killed, or whose answer was lost, loads nothing twice: the next looks there, after what still runs has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.core.values import get_mapping

PLACES = "headrace_redrive"
_MADE = (
    f"create table if not exists {PLACES} (manifest varchar(2048) not null, loaded_at timestamp)"
)
_ENDED = ("FINISHED", "FAILED", "ABORTED")
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 2.0
_NAME_CHARS = 32
_HERE = ("127.0.0.1", "localhost", "::1")


class NotCopied(Exception):
    """A statement failed, or there is no such cluster; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Copier:
    """Loads manifests as a delivery stream does. `where`: the Data API's members that name database and user."""

    data: Any
    where: dict[str, str]
    command: dict[str, Any]
    role: str
    wait: Callable[[float], None]

    def sql(self, manifest_url: str) -> str:
        """Return the COPY of a manifest."""
        columns = str(self.command.get("DataTableColumns") or "").strip()
        listed = f" ({columns})" if columns else ""
        options = str(self.command.get("CopyOptions") or "").strip().rstrip(";")
        return (
            f"copy {self.command['DataTableName']}{listed} from {_text(manifest_url)} manifest"
            f" iam_role {_text(self.role)} {options}"
        ).strip()

    def prepare(self) -> None:
        """Make the table of what was loaded. Raises NotCopied."""
        self._end(self.data.execute_statement(Sql=_MADE, **self.where)["Id"])

    def load(self, manifest_url: str) -> bool:
        """Load what a manifest names; return False when it was loaded before. Raises NotCopied."""
        name = "headrace-" + hashlib.sha256(manifest_url.encode()).hexdigest()[:_NAME_CHARS]
        self._wait_for(name)
        if self._is_loaded(manifest_url):
            return False
        sqls = [
            f"insert into {PLACES} values ({_text(manifest_url)}, getdate())",
            self.sql(manifest_url),
        ]
        begun = self.data.batch_execute_statement(Sqls=sqls, StatementName=name, **self.where)
        self._end(begun["Id"])
        return True

    def _wait_for(self, name: str) -> None:
        """Wait until what an earlier run began has ended."""
        pages = self.data.get_paginator("list_statements").paginate(
            StatementName=name, Status="ALL"
        )
        for page in pages:
            for statement in page["Statements"]:
                self._wait_for_end(statement["Id"])

    def _is_loaded(self, manifest_url: str) -> bool:
        sql = f"select count(*) from {PLACES} where manifest = {_text(manifest_url)}"
        begun = self.data.execute_statement(Sql=sql, **self.where)
        self._end(begun["Id"])
        ((field,),) = self.data.get_statement_result(Id=begun["Id"])["Records"]
        return int(field["longValue"]) > 0

    def _end(self, statement_id: str) -> None:
        described = self._wait_for_end(statement_id)
        if described["Status"] != "FINISHED":
            raise NotCopied(" ".join(str(described.get("Error") or described["Status"]).split()))

    def _wait_for_end(self, statement_id: str) -> dict[str, Any]:
        wait_s = _FIRST_LOOK_S
        while True:
            described: dict[str, Any] = self.data.describe_statement(Id=statement_id)
            if described["Status"] in _ENDED:
                return described
            self.wait(wait_s)
            wait_s = min(_LAST_LOOK_S, 2 * wait_s)


def copier_of(
    name: str, client: Callable[[str], Any], role: str, wait: Callable[[float], None]
) -> Copier:
    """Return what repeats a delivery stream's COPY.

    Args:
        name: the delivery stream's.
        client: makes a client of a service.
        role: the IAM role that COPY reads S3 by; empty for the delivery stream's own.
        wait: sleeps for so many seconds.

    Raises NotCopied.
    """
    described = client("firehose").describe_delivery_stream(DeliveryStreamName=name)
    (destination,) = described["DeliveryStreamDescription"]["Destinations"]
    redshift: dict[str, Any] | None = destination.get("RedshiftDestinationDescription")
    if redshift is None:
        raise NotCopied(f"{name} does not deliver to Redshift")
    parts = urlsplit(str(redshift["ClusterJDBCURL"]).removeprefix("jdbc:"))
    kind, target = _target(parts.hostname or "", parts.port or 5439, client)
    where = {kind: target, "Database": unquote(parts.path.lstrip("/"))}
    secret = get_mapping(redshift, "SecretsManagerConfiguration")
    if secret.get("Enabled"):
        where["SecretArn"] = str(secret["SecretARN"])
    elif kind == "ClusterIdentifier":
        where["DbUser"] = redshift["Username"]
    return Copier(
        client("redshift-data"), where, redshift["CopyCommand"], role or redshift["RoleARN"], wait
    )


def _target(host: str, port: int, client: Callable[[str], Any]) -> tuple[str, str]:
    """Return the Data API's member for a cluster or a workgroup, and its name. Raises NotCopied."""
    labels = host.split(".")
    if "redshift-serverless" in labels:
        return "WorkgroupName", labels[0]
    if "redshift" in labels and host not in _HERE:
        return "ClusterIdentifier", labels[0]
    for page in client("redshift").get_paginator("describe_clusters").paginate():
        for cluster in page["Clusters"]:
            at = get_mapping(cluster, "Endpoint")
            if (at.get("Address"), at.get("Port")) == (host, port):
                return "ClusterIdentifier", cluster["ClusterIdentifier"]
    raise NotCopied(f"no cluster has the address {host}:{port}")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
