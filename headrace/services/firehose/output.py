"""The bytes of S3 objects: records joined, compressed, or converted to the columns of a Glue table.

Compresses delivered objects: GZIP, ZIP, Snappy, Hadoop's Snappy and, for Kinesis' channels, ZSTD. Pure functions.

The same bytes and name always give the same object, so that a repeated delivery changes nothing. Extensions, content
encodings and containers are AWS's (observed by others, 2026: Snappy is snappy-java's stream, not Google's framing;
Hadoop's Snappy has the extension .snappy too, although the documentation says otherwise).
"""

from __future__ import annotations

import gzip
import io
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.ports import BucketNotFound, KeyRefused, SchemaNotFound, TableSchema
from headrace.services.firehose import serde
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.permits import RoleDenied, check_object, check_table, find_key
from headrace.services.firehose.records import Ports, Record
from headrace.services.firehose.state import DeliveryStream, processors_of

if TYPE_CHECKING:
    from headrace.services.firehose.convert import ConvertedFile

_ENCODINGS = {
    "GZIP": "gzip",
    "ZIP": "zip",
    "Snappy": "snappy-java",
    "HADOOP_SNAPPY": "hadoop-snappy",
    "ZSTD": "zstd",
}
# snappy-java's header: magic, version, and the lowest version that can read it.
_SNAPPY_JAVA_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4) + (1).to_bytes(4)
_SNAPPY_JAVA_BLOCK_BYTES = 32 * 1024
_HADOOP_BLOCK_BYTES = 256 * 1024


def compress_body(body: bytes, kind: str, name: str) -> tuple[bytes, str | None]:
    """Compress a body; return it and its Content-Encoding. `name` gives the file name inside a ZIP archive."""
    match kind:
        case "GZIP":
            # A fixed time in the header, so that the bytes are always the same.
            compressed = gzip.compress(body, compresslevel=6, mtime=0)
        case "ZIP":
            compressed = _zip(body, str(uuid.uuid5(uuid.NAMESPACE_URL, name)))
        case "Snappy":
            compressed = _SNAPPY_JAVA_HEADER + b"".join(
                _compress_blocks(body, _SNAPPY_JAVA_BLOCK_BYTES)
            )
        case "HADOOP_SNAPPY":
            compressed = b"".join(_build_hadoop_blocks(body))
        case "ZSTD":
            import cramjam

            compressed = bytes(cramjam.zstd.compress(body))
        case _:
            return body, None
    return compressed, _ENCODINGS[kind]


def _zip(body: bytes, entry: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(entry), body, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def _compress_blocks(body: bytes, block_bytes: int) -> Iterator[bytes]:
    # Imported with the first delivery that needs it: it takes 1.5 MB.
    import cramjam

    compress: Callable[[bytes], bytes] = lambda part: bytes(cramjam.snappy.compress_raw(part))  # noqa: E731
    for start in range(0, len(body), block_bytes):
        block = compress(body[start : start + block_bytes])
        yield len(block).to_bytes(4) + block


def _build_hadoop_blocks(body: bytes) -> Iterator[bytes]:
    """Return Hadoop's blocks: the uncompressed length, then chunks (here one) of length and compressed bytes."""
    for start in range(0, len(body), _HADOOP_BLOCK_BYTES):
        part = body[start : start + _HADOOP_BLOCK_BYTES]
        yield len(part).to_bytes(4) + b"".join(_compress_blocks(part, len(part)))


def find_delimiter(destination: Mapping[str, Any]) -> bytes:
    """Return the delimiter that AppendDelimiterToRecord puts between two records; empty without that processor.

    It is always a newline, whatever the processor's parameters are, and no delimiter follows the last record (observed
    by others on AWS, 2026).
    """
    return b"\n" if "AppendDelimiterToRecord" in processors_of(destination) else b""


def compress_for(stream: DeliveryStream, body: bytes, key: str) -> tuple[bytes, str | None]:
    """Compress a body in the stream's CompressionFormat; return it and its Content-Encoding."""
    kind = str(stream.destination.get("CompressionFormat") or "UNCOMPRESSED")
    return (body, None) if kind == "UNCOMPRESSED" else compress_body(body, kind, key)


class NotPut(Exception):
    """An object of the error output, of the backup, or for COPY could not be put.

    Attributes:
        cause: a `RoleDenied` or a `BucketNotFound`.
        s3: the S3 configuration, whose log gets the error.
        is_backup: whether it belongs to the backup.
    """

    def __init__(self, cause: Exception, s3: Mapping[str, Any], *, is_backup: bool) -> None:
        super().__init__(str(cause))
        self.cause, self.s3, self.is_backup = cause, s3, is_backup


class Suspended(Exception):
    """Nothing can ever be delivered again: a bucket changed its owner, a table is gone. The message is a sentence."""


def put_beside(
    ports: Ports,
    s3: Mapping[str, Any],
    key: str,
    body: bytes,
    encoding: str | None = None,
    *,
    is_backup: bool = False,
) -> None:
    """Do `put`, but raise NotPut for a Denied or a BucketNotFound."""
    try:
        put(ports, s3, key, body, encoding)
    except (BucketNotFound, RoleDenied) as error:
        raise NotPut(error, s3, is_backup=is_backup) from error


def put(
    ports: Ports, s3: Mapping[str, Any], key: str, body: bytes, encoding: str | None = None
) -> None:
    """Put an object with an S3 configuration's role and encryption.

    Raises RoleDenied, BucketNotFound, Suspended, OSError.
    """
    bucket = str(s3["BucketARN"]).rpartition(":")[2]
    owner = s3.get("ExpectedBucketOwner")
    if owner and ports.objects.home(bucket)[0] != owner:
        raise Suspended(f"The bucket {bucket} is not owned by the expected account.")
    check_object(ports.guard, s3, key)
    try:
        ports.objects.put(
            bucket,
            key,
            body,
            content_type="application/octet-stream",
            content_encoding=encoding,
            kms_key=find_key(s3),
            storage_class=str(s3.get("StorageClass") or ""),
        )
    except KeyRefused as error:
        # Documented: monitoring-with-cloudwatch-logs.html has S3.KMS.NotFoundException; the other codes are assumed.
        raise RoleDenied(f"S3.{error.code}", error.message) from error


def describe_table(stream: DeliveryStream) -> dict[str, str]:
    """Return a conversion's Glue table in the form of AWS's error output."""
    assert stream.conversion is not None
    schema = stream.conversion["SchemaConfiguration"]
    return {
        "catalogId": schema.get("CatalogId") or stream.account,
        "databaseName": schema["DatabaseName"],
        "tableName": schema["TableName"],
        "region": schema.get("Region") or stream.region,
        "versionId": schema.get("VersionId") or "LATEST",
        "roleArn": schema["RoleARN"],
    }


def check_schema(stream: DeliveryStream, ports: Ports) -> None:
    """Raise AwsError for a conversion whose table does not exist; the sentence around AWS's code is assumed."""
    try:
        _schema_of(stream, ports)
    except SchemaNotFound as error:
        raise invalid(
            f"The schema of the data format conversion cannot be read: EntityNotFoundException: {error}"
        ) from error


def _schema_of(stream: DeliveryStream, ports: Ports) -> TableSchema:
    table = describe_table(stream)
    return ports.schemas.table(
        table["databaseName"],
        table["tableName"],
        account=table["catalogId"],
        region=table["region"],
        version=table["versionId"],
    )


def convert_records(
    stream: DeliveryStream, records: Sequence[Record], ports: Ports
) -> ConvertedFile:
    """Convert records to a file of the conversion's format. Raises SchemaNotFound."""
    # pyarrow takes a fifth of a second to import, and a cloud must be healthy within one second.
    serde.check_can_convert()
    from headrace.services.firehose import convert

    assert stream.conversion is not None
    check_table(ports.guard, stream)
    schema = _schema_of(stream, ports)
    return convert.convert(records, schema, *serde.options_of(stream.conversion))
