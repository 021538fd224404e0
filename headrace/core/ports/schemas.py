"""The port through which services read table schemas of the Glue Data Catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class SchemaNotFound(Exception):
    """No such database or table."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A Glue table: column name and Hive type, in order, without the partition keys."""

    columns: tuple[tuple[str, str], ...]


class SchemaCatalog(Protocol):
    """Looks tables up in the Glue Data Catalog."""

    def table(
        self, database: str, table: str, *, account: str, region: str, version: str = "LATEST"
    ) -> TableSchema:
        """Return a table's schema, of the latest version or of the one that is named. Raises SchemaNotFound."""
        ...
