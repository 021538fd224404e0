"""Athena's calls about databases and tables, which are Glue's.

Source: docs.aws.amazon.com/athena/latest/APIReference (documented); sentences: observed in public reports, or assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
from typing import Any

from headrace.core.patterns import MatchTooLong, PatternRefused, java_pattern


def refuse(message: str, code: str = "InvalidRequestException") -> Any:
    """Return the error of a call."""
    from moto.core.exceptions import JsonRESTError

    return JsonRESTError(code, message)


def read_offset(token: str | None) -> int:
    """Return where a page starts. Raises JsonRESTError."""
    if token is None:
        return 0
    if not token.isdecimal() or len(token) > 18:
        raise refuse("Invalid NextToken")
    return int(token)


def _absent(sentence: str) -> Any:
    """Return the refusal of what Glue does not have. SQLAlchemy's dialect of PyAthena reads Glue's code out of it.

    Observed by others for a table: github.com/DyfanJones/noctua, issue 205; for a database: assumed.
    """
    from moto.moto_api._internal import mock_random

    of = "Service: AmazonDataCatalog; Status Code: 400; Error Code: EntityNotFoundException"
    return refuse(
        f"{sentence} ({of}; Request ID: {mock_random.uuid4()}; Proxy: null)", "MetadataException"
    )


def _glue(self: Any) -> Any:
    from moto.glue.models import glue_backends

    name = self._get_param("CatalogName") or ""
    if name.lower() != "awsdatacatalog":
        raise refuse(
            f"headrace shows the catalog AwsDataCatalog alone, and not {name}", "MetadataException"
        )
    return glue_backends[self.current_account][self.region]


def _database(self: Any) -> Any:
    name = self._get_param("DatabaseName") or ""
    database = _glue(self).databases.get(name.lower())
    if database is None:
        raise _absent(f"Database {name} not found.")
    return database


def _show_database(database: Any) -> dict[str, Any]:
    details: dict[str, Any] = database.input or {}
    shown: dict[str, Any] = {"Name": database.name, "Parameters": details.get("Parameters") or {}}
    if details.get("Description"):
        shown["Description"] = details["Description"]
    return shown


def list_databases(self: Any) -> str:
    """Answer ListDatabases."""
    databases = sorted(_glue(self).databases.values(), key=lambda database: database.name)
    return json.dumps(_page(self, "DatabaseList", [_show_database(one) for one in databases]))


def get_database(self: Any) -> str:
    """Answer GetDatabase."""
    return json.dumps({"Database": _show_database(_database(self))})


def _show_table(table: Any) -> dict[str, Any]:
    details: dict[str, Any] = table.as_dict()
    storage: dict[str, Any] = details.get("StorageDescriptor") or {}

    def columns(items: Any) -> list[dict[str, Any]]:
        return [
            {name: one[name] for name in ("Name", "Type", "Comment") if one.get(name)}
            for one in items or []
        ]

    serde: dict[str, Any] = storage.get("SerdeInfo") or {}
    formats = {
        "inputformat": storage.get("InputFormat"), "outputformat": storage.get("OutputFormat"),
        "location": storage.get("Location"), "serde.serialization.lib": serde.get("SerializationLibrary"),
    }  # fmt: skip
    parameters = {
        **(details.get("Parameters") or {}),
        **{name: value for name, value in formats.items() if value},
        **{f"serde.param.{name}": value for name, value in (serde.get("Parameters") or {}).items()},
    }
    created = details.get("CreateTime")
    shown = {
        "Name": details["Name"],
        "TableType": details.get("TableType", ""),
        "Columns": columns(storage.get("Columns")),
        "PartitionKeys": columns(details.get("PartitionKeys")),
        "Parameters": {name: str(value) for name, value in parameters.items()},
    }
    return shown if created is None else {**shown, "CreateTime": _seconds(created)}


def _seconds(moment: Any) -> float:
    return float(moment.timestamp() if hasattr(moment, "timestamp") else moment)


def list_table_metadata(self: Any) -> str:
    """Answer ListTableMetadata."""
    tables = sorted(_database(self).tables.values(), key=lambda table: table.name)
    if wanted := self._get_param("Expression"):
        try:
            pattern = java_pattern(wanted.replace("*", ".*"))
            tables = [table for table in tables if pattern.matches(table.name)]
        except (PatternRefused, MatchTooLong) as error:
            raise refuse(f"Invalid expression {wanted}: {error}") from None
    return json.dumps(_page(self, "TableMetadataList", [_show_table(one) for one in tables]))


def get_table_metadata(self: Any) -> str:
    """Answer GetTableMetadata."""
    name = self._get_param("TableName") or ""
    table = _database(self).tables.get(name.lower())
    if table is None:
        raise _absent("Entity Not Found")
    return json.dumps({"TableMetadata": _show_table(table)})


def _page(self: Any, member: str, items: list[Any]) -> dict[str, Any]:
    start, count = (
        read_offset(self._get_param("NextToken")),
        int(self._get_param("MaxResults") or 50),
    )
    answer: dict[str, Any] = {member: items[start : start + count]}
    if start + count < len(items):
        answer["NextToken"] = str(start + count)
    return answer
