"""An Iceberg table of the latest rows, whose snapshots say up to where in the stream they are.

`headrace.cdc.iceberg` keeps one from a process, spark_jobs/compact.py from a Spark job; each refuses the other's. The
job carries this module in headrace_spark.zip: Python 3.9, and pyiceberg (the extra `iceberg`) only once it is used.
"""

# pyiceberg's annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from typing import Any

from headrace.cdc.events import CaptureError, Compaction

STATE = "headrace.compact.state"
# pyiceberg would repeat a lost commit on the newer table, where another writer has put the same keys.
_NO_RETRIES = {"commit.retry.num-retries": "0"}


def glue_catalog(glue: Any, s3: Any) -> Any:
    """Return pyiceberg's catalogue over boto3's clients: Glue by the one, files by the other's endpoint and keys.

    Raises NoCredentialsError.
    """
    from botocore.exceptions import NoCredentialsError
    from pyiceberg.catalog.glue import GlueCatalog

    credentials = s3._request_signer._credentials  # noqa: SLF001 - boto3 has no public way
    if credentials is None:
        raise NoCredentialsError
    keys = credentials.get_frozen_credentials()
    properties = {
        "s3.endpoint": s3.meta.endpoint_url,
        "s3.region": s3.meta.region_name,
        "s3.access-key-id": keys.access_key,
        "s3.secret-access-key": keys.secret_key,
        "s3.session-token": keys.token or "",
    }
    return GlueCatalog("glue", client=glue, **properties)


def schema() -> Any:
    """Return the schema of a compaction's lines."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import BooleanType, LongType, NestedField, StringType

    types = (StringType, StringType, StringType, BooleanType, LongType, LongType, LongType)
    columns = enumerate(Compaction.COLUMNS, 1)
    return Schema(*(NestedField(number, name, types[number - 1]()) for number, name in columns))


class RowsTable:
    """One table by its name, made when it is not there. One thread; any number of processes.

    Attributes:
        name: `database.table`.
    """

    def __init__(
        self, catalog: Any, database: str, name: str, *, is_partitioned: bool = True
    ) -> None:
        """Take pyiceberg's catalogue, and whether a new table is partitioned by the captured tables."""
        self._catalog, self._id, self._is_partitioned = catalog, (database, name), is_partitioned
        self.name = f"{database}.{name}"

    def exists(self) -> bool:
        """Return whether it is there."""
        return bool(self._catalog.table_exists(self._id))

    def load(self) -> tuple[Any, dict[str, Any]]:
        """Return pyiceberg's table and what the newest of our snapshots says; {} of a new one. Raises CaptureError."""
        from pyiceberg.exceptions import (
            NoSuchIcebergTableError,
            NoSuchNamespaceError,
            NoSuchPropertyException,
        )

        try:
            table = self._open()
        except NoSuchNamespaceError as error:
            raise CaptureError(
                f"There is no database {self._id[0]} in the catalogue: make it with a LocationUri, below which the"
                " table's files go."
            ) from error
        except (NoSuchIcebergTableError, NoSuchPropertyException) as error:
            raise CaptureError(f"{self.name} is no Iceberg table: give another name.") from error
        except (ValueError, OSError) as error:
            # No LocationUri; no bucket, or no right to it.
            raise CaptureError(f"{self.name} cannot be made or read: {error}.") from error
        if tuple(table.schema().column_names) != Compaction.COLUMNS:
            raise CaptureError(
                f"{self.name} has other columns: give another table, which may be new."
            )
        if not set(_NO_RETRIES.items()) <= set(table.properties.items()):
            with self.commits(), table.transaction() as transaction:
                transaction.set_properties(_NO_RETRIES)
        return table, self._state(table)

    def _open(self) -> Any:
        from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchTableError
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.transforms import IdentityTransform

        try:
            return self._catalog.load_table(self._id)
        except NoSuchIcebergTableError:
            raise  # A kind of NoSuchTableError: another table has the name.
        except NoSuchTableError:
            fields = [PartitionField(1, 1000, IdentityTransform(), "table")]
            spec = PartitionSpec(*(fields if self._is_partitioned else ()))
            # Another process may make it now, too.
            return self._catalog.create_table_if_not_exists(
                self._id, schema(), partition_spec=spec, properties=_NO_RETRIES
            )

    def _state(self, table: Any) -> dict[str, Any]:
        """Return what the newest of our snapshots says; others, such as a compaction's, come between."""
        snapshot = newest = table.current_snapshot()
        while snapshot is not None:
            text = snapshot.summary.get(STATE) if snapshot.summary is not None else None
            if text is not None:
                return dict(json.loads(text))
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        if newest is not None:
            raise CaptureError(
                f"{self.name} has rows, and no snapshot says up to where they are: give another table."
            )
        return {}

    @contextlib.contextmanager
    def commits(self) -> Generator[None, None, None]:
        """Raise CaptureError for a commit that comes after another process's."""
        from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

        try:
            yield
        except (CommitFailedException, NoSuchTableError) as error:
            what = "stored rows in" if self.exists() else "dropped"
            raise CaptureError(
                f"Another process has {what} {self.name} meanwhile; that counts."
            ) from error
