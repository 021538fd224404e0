"""Reads from other services: the texts of Secrets Manager secrets, and the schemas of Glue tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import ControlPlane, SchemaNotFound, TableSchema


class Secrets:
    """Reads Secrets Manager."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def text_of(self, arn: str, account: str, region: str) -> str | None:
        """Return a secret's text, None when there is none."""
        params = {"SecretId": arn}
        try:
            secret = self._control.call(
                "secretsmanager", "GetSecretValue", params, account=account, region=region
            )
        except AwsError:
            return None
        return secret.get("SecretString")


class Schemas:
    """Reads the Glue Data Catalog. Implements `SchemaCatalog`."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def table(
        self, database: str, table: str, *, account: str, region: str, version: str = "LATEST"
    ) -> TableSchema:
        """See `SchemaCatalog.table`."""
        names = {"DatabaseName": database}
        operation, params = "GetTable", {**names, "Name": table}
        if version != "LATEST":
            operation = "GetTableVersion"
            params = {**names, "TableName": table, "VersionId": version}
        try:
            answer = self._control.call("glue", operation, params, account=account, region=region)
            table_version = (
                answer["TableVersion"]["Table"] if version != "LATEST" else answer["Table"]
            )
        except AwsError as error:
            if error.code == "EntityNotFoundException":
                raise SchemaNotFound(f"{database}.{table}") from error
            raise
        storage = table_version.get("StorageDescriptor", {})
        return TableSchema(_columns(storage.get("Columns", [])))


def _columns(columns: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(column["Name"]), str(column.get("Type", "string"))) for column in columns)
