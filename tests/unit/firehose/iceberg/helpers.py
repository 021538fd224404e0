"""Delivery to Iceberg tables whose catalogue and files are the test's own: either can refuse, lose or be killed."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField, StringType

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import CallerIdentity, NoGuard, ObjectNotFound
from headrace.services.firehose.delivery import Delivery
from headrace.services.firehose.destinations.iceberg_catalog import CloudCatalog
from headrace.services.firehose.destinations.iceberg_routing import Glue
from tests.support.objects import Killed, MemoryObjects
from tests.unit.firehose.destinations.helpers import ROLE, S3, DestinationLab
from tests.unit.firehose.helpers import processing

CATALOG = "arn:aws:glue:us-east-1:000000000000:catalog"
ROUTE = '.to as $t | {destinationDatabaseName: "db", destinationTableName: $t, operation: .op}'
PLAIN = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "v", StringType(), required=False),
)


def table(name: str, *keys: str, errors: str = "") -> dict[str, Any]:
    """Return a DestinationTableConfiguration of a table of `db`."""
    made: dict[str, Any] = {"DestinationDatabaseName": "db", "DestinationTableName": name}
    if keys:
        made["UniqueKeys"] = list(keys)
    if errors:
        made["S3ErrorOutputPrefix"] = errors
    return made


def query(text: str) -> dict[str, Any]:
    """Return a ProcessingConfiguration of a query."""
    return processing(
        "MetadataExtraction", JsonParsingEngine="JQ-1.6", MetadataExtractionQuery=text
    )


class DiskObjects(MemoryObjects):
    """Objects in memory that are files, too."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def file(self, bucket: str, key: str) -> Path:
        name = f"{bucket}/{key}"
        if name not in self.objects:
            raise ObjectNotFound(key)
        # A file of its own for each asking: pyiceberg reads on several threads.
        handle, path = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "wb") as file:
            file.write(self.objects[name])
        return Path(path)


class MemoryGlue:
    """As much of a `ControlPlane` as Iceberg's catalogue takes, with Glue's optimistic lock.

    Attributes:
        fates: what becomes of the next updates: `die before`, `die after`, `lose` (another commit comes first), `ok`.
        refusal: the error of every call.
        other_commit: makes the other commit of `lose`.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self.fates: list[str] = []
        self.refusal: AwsError | None = None
        self.other_commit: Callable[[str], None] = lambda name: None
        self.updates = 0

    def call(
        self,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        *,
        account: str | None = None,
        region: str | None = None,
        acting: CallerIdentity | None = None,
    ) -> dict[str, Any]:
        assert service == "glue"
        assert acting is not None
        assert acting.arn == ROLE
        if self.refusal is not None:
            raise self.refusal
        name = params["Name"] if operation == "GetTable" else params["TableInput"]["Name"]
        found = self.tables.get(name)
        if found is None or params["DatabaseName"] != "db":
            raise AwsError("EntityNotFoundException", f"Table {name} not found.")
        if operation == "GetTable":
            return {"Table": copy.deepcopy(found)}
        assert operation == "UpdateTable"
        fate = self.fates.pop(0) if self.fates else "ok"
        if fate == "die before":
            raise Killed
        if fate == "lose":
            self.other_commit(name)
            found = self.tables[name]
        if params["VersionId"] != found["VersionId"]:
            raise AwsError("ConcurrentModificationException", "Update table failed.")
        version = str(int(found["VersionId"]) + 1)
        self.tables[name] = {
            **params["TableInput"],
            "DatabaseName": "db",
            "VersionId": version,
        }
        self.updates += 1
        if fate == "die after":
            raise Killed
        return {}


class IcebergLab(DestinationLab):
    """See `DestinationLab`. Everything goes to a table `t` of `id` and `v` unless it is told otherwise."""

    objects: Any

    def __init__(self, tmp_path: Path, schema: Schema = PLAIN, **given: Any) -> None:
        if "JQ-1.6" in str(given):
            pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
        self.glue = MemoryGlue()
        self.disk = DiskObjects(tmp_path / "objects")
        (tmp_path / "objects").mkdir()
        self.make("t", schema)
        given.setdefault("DestinationTableConfigurationList", [table("t", "id")])
        super().__init__(
            tmp_path,
            "Iceberg",
            RoleARN=ROLE,
            CatalogConfiguration={"CatalogARN": CATALOG},
            S3Configuration=S3,
            **given,
        )

    def start(self) -> None:
        self.objects = self.disk
        super().start()
        self.ports = replace(self.ports, control=self.glue, objects=self.disk)
        self.delivery = Delivery(
            self.stream, self.source, self.store, self.ports, lambda: self.current
        )

    def make(
        self,
        name: str,
        schema: Schema = PLAIN,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    ) -> None:
        """Make a table."""
        made = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, f"s3://lake/{name}")
        at = f"{name}/metadata/00000-first.metadata.json"
        self.disk.put("lake", at, made.model_dump_json(exclude_none=True).encode())
        self.glue.tables[name] = {
            "Name": name,
            "DatabaseName": "db",
            "VersionId": "0",
            "Parameters": {"table_type": "ICEBERG", "metadata_location": f"s3://lake/{at}"},
        }

    @property
    def catalog(self) -> CloudCatalog:
        glue = Glue(self.glue, "000000000000", "us-east-1", ROLE)
        return CloudCatalog(glue, self.disk, NoGuard())

    def table(self, name: str = "t") -> Table:
        """Return a table as pyiceberg has it."""
        return self.catalog.load_table(("db", name))

    def rows(self, name: str = "t") -> list[dict[str, Any]]:
        """Return a table's rows, in the order of their `id`, then of their `v`."""
        found = self.table(name).scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: (row.get("id") or 0, str(row.get("v"))))

    def put_json(self, *records: dict[str, Any]) -> None:
        self.put(*[json.dumps(record).encode() for record in records])
