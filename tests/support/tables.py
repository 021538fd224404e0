"""Reads Iceberg tables as strangers do: pyiceberg by S3 Tables' and S3's calls, DuckDB by the plain files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable


class _File(InputFile):
    def __init__(self, s3: Any, location: str) -> None:
        super().__init__(location)
        bucket, _, key = location.removeprefix("s3://").partition("/")
        self._body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()

    def __len__(self) -> int:
        return len(self._body)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._body)


class _Files(FileIO):
    def __init__(self, s3: Any) -> None:
        super().__init__()
        self._s3 = s3

    def new_input(self, location: str) -> InputFile:
        return _File(self._s3, location)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: Any) -> None:
        raise NotImplementedError


def read_table(cloud: Any, bucket_arn: str, namespace: str, name: str) -> StaticTable:
    """Return a table; `cloud` has `client`."""
    at = cloud.client("s3tables").get_table_metadata_location(
        tableBucketARN=bucket_arn, namespace=namespace, name=name
    )["metadataLocation"]
    files = _Files(cloud.client("s3"))
    metadata = FromInputFile.table_metadata(files.new_input(at))
    return StaticTable((namespace, name), metadata, at, files, NoopCatalog("theirs"))


def read_rows(table: StaticTable) -> list[dict[str, Any]]:
    """Return all rows."""
    return table.scan().to_arrow().to_pylist()


def scan_with_duckdb(extensions: Path, folder: Path, table: Any) -> list[dict[str, Any]] | None:
    """Return all rows by DuckDB's own reader; None where its extensions are not installed (`headrace[interop]`).

    `extensions` is a folder to install them in; `folder` has the table's `data` and `metadata`.
    """
    try:
        import duckdb
        import duckdb_extension_avro
        import duckdb_extension_iceberg
    except ImportError:
        return None
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"SET extension_directory = '{extensions}'")
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        (file,) = Path(module.__file__).parent.glob("extensions/*/*.duckdb_extension")
        connection.execute(f"INSTALL '{file}'")
        connection.execute(f"LOAD {file.name.partition('.')[0]}")
    version = table.metadata_location.rpartition("/")[2].removesuffix(".metadata.json")
    return (
        connection.execute(
            "SELECT * FROM iceberg_scan(?, allow_moved_paths = true, version = ?,"
            " version_name_format = '%s%s.metadata.json')",
            [str(folder), version],
        )
        .to_arrow_table()
        .to_pylist()
    )
