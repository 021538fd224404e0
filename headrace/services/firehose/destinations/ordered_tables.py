"""Makes and fills the table of another service's order: a table of S3 Tables whose columns a registered schema says.

Sources: docs.aws.amazon.com/streams/latest/dev/data-delivery-st-about.html and data-delivery-st-iceberg.html; the
header of GSR_JSON (18 bytes) is that of awslabs/aws-glue-schema-registry's serializers. Codes and sentences are
assumed.
"""

from __future__ import annotations

import functools
import importlib.util
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import Arn
from headrace.core.extras import install_command
from headrace.core.ports import CallerIdentity, ControlPlane, ObjectOrder, TableTarget
from headrace.services.firehose.destinations.common import Attempt, Outcome
from headrace.services.firehose.destinations.iceberg_routing import INSERT, Change, Name
from headrace.services.firehose.destinations.json_schema import (
    RecordSchema,
    SchemaRefused,
    read_schema,
)
from headrace.services.firehose.destinations.s3 import OrderedDestination, order_of
from headrace.services.firehose.output import Suspended
from headrace.services.firehose.permits import SESSION
from headrace.services.firehose.records import DELIVERED, FailedRecord, Ports
from headrace.services.firehose.state import DeliveryStream

# The property of a table that names its order, so that a kill while it is made leaves no table without an owner.
_OWNER = "headrace.order-id"
_CODECS = {"NONE": "uncompressed", "ZSTD": "zstd", "SNAPPY": "snappy"}
_HEADER_BYTES = 18
_MOST_BYTES = 10 * 1024 * 1024
_read_schema = functools.lru_cache(maxsize=64)(read_schema)


class TableRefused(Exception):
    """A table cannot be made; the message is why, in a sentence."""


@dataclass(frozen=True, slots=True)
class OrderedTable:
    """The calls of S3 Tables and of the schema registry about an order's table. Thread-safe.

    Attributes:
        acting: the role that calls; None for the cloud itself.
    """

    control: ControlPlane
    order: ObjectOrder
    target: TableTarget
    acting: CallerIdentity | None = None

    def call(self, operation: str, service: str = "s3tables", **params: Any) -> dict[str, Any]:
        """Call an operation; for S3 Tables with the names of the table. Raises AwsError."""
        target = self.target
        if service == "s3tables":
            params = {"tableBucketARN": target.bucket_arn, **params}
        return self.control.call(
            service,
            operation,
            params,
            account=self.order.account,
            region=self.order.region,
            acting=self.acting,
        )

    def call_table(self, operation: str, **params: Any) -> dict[str, Any]:
        """Call an operation on the table. Raises AwsError."""
        target = self.target
        return self.call(operation, namespace=target.namespace, name=target.name, **params)

    def read_definition(self) -> str:
        """Return the newest version of the schema. Raises TableRefused, AwsError."""
        arn = self.target.schema_arn
        try:
            answer = self.call(
                "GetSchemaVersion",
                "glue",
                SchemaId={"SchemaArn": arn},
                SchemaVersionNumber={"LatestVersion": True},
            )
        except AwsError as error:
            if error.code != "EntityNotFoundException":
                raise
            raise TableRefused(f"The schema {arn} cannot be resolved.") from error
        if answer["DataFormat"] != "JSON":
            raise TableRefused(
                f"The schema {arn} has the data format {answer['DataFormat']}, not JSON."
            )
        return str(answer["SchemaDefinition"])

    def is_of_schema(self, version_id: str) -> bool:
        """Return whether the schema has a version with this id. Raises AwsError."""
        try:
            answer = self.call("GetSchemaVersion", "glue", SchemaVersionId=version_id)
        except AwsError as error:
            if error.code != "EntityNotFoundException":
                raise
            return False
        return answer.get("SchemaArn") == self.target.schema_arn


def table_of(order: ObjectOrder, control: ControlPlane, *, as_role: bool = True) -> OrderedTable:
    """Return the calls about an order's table, with its role's permissions or without."""
    assert isinstance(order.target, TableTarget)
    acting = CallerIdentity(order.role_arn, SESSION) if as_role else None
    return OrderedTable(control, order, order.target, acting)


def find_obstacle(order: ObjectOrder, control: ControlPlane | None) -> str:
    """Return why the table of a new order cannot be made; "" if it can."""
    if importlib.util.find_spec("pyiceberg") is None or control is None:
        return (
            "Delivery to streaming tables needs pyiceberg, which is not installed here:"
            f" {install_command('iceberg')}"
        )
    table = table_of(order, control, as_role=False)
    target, home = table.target, (order.account, order.region)
    for arn in (target.bucket_arn, target.schema_arn):
        parsed = Arn.parse(arn)
        if (parsed.account, parsed.region) != home:
            # Documented: data-delivery-quotas.md.
            return f"{arn} is not in account {order.account}, {order.region}."
    try:
        table.call("GetTableBucket")
    except AwsError:
        return f"The table bucket {target.bucket_arn} does not exist."
    try:
        table.call_table("GetTable")
    except AwsError:
        try:
            _columns(target, table.read_definition())
        except TableRefused as error:
            return str(error)
        return ""
    # Documented: a channel writes to no table that is there already.
    return f"The table {target.namespace}.{target.name} exists already."


def make_table(order: ObjectOrder, control: ControlPlane) -> TableTarget:
    """Make an order's table, unless it is there, and note it. Raises TableRefused, AwsError."""
    table = table_of(order, control)
    target = table.target
    definition = table.read_definition()
    schema = _columns(target, definition)
    try:
        table.call("CreateNamespace", namespace=[target.namespace])
    except AwsError as error:
        if error.code != "ConflictException":
            raise
    try:
        arn = str(_create(table, schema)["tableARN"])
    except AwsError as error:
        if error.code != "ConflictException":
            raise
        arn = _adopt(table)
    order.note_table(definition, arn)
    assert isinstance(order.target, TableTarget)
    return order.target


def _columns(target: TableTarget, definition: str) -> RecordSchema:
    """Return the table's columns. Raises TableRefused."""
    try:
        schema = _read_schema(definition, tuple(target.partition_columns))
    except SchemaRefused as error:
        raise TableRefused(f"The schema cannot become a table: {error}") from error
    kinds = {column["name"]: column["type"] for column in schema.fields}
    for name in target.partition_columns:
        if kinds.get(name) != "timestamptz":
            # Documented: the column of TIME_HOUR is a timestamptz, which is a string with the format date-time.
            raise TableRefused(f"The partition column {name} is not of the type timestamptz.")
    return schema


def _create(table: OrderedTable, schema: RecordSchema) -> dict[str, Any]:
    target, numbers = table.target, {field["name"]: field["id"] for field in schema.fields}
    hours = [
        {"sourceId": numbers[name], "transform": "hour", "name": f"{name}_hour"}
        for name in target.partition_columns
    ]
    properties = {
        _OWNER: table.order.order_id,
        "write.parquet.compression-codec": _CODECS[target.compression],
    }
    metadata = {
        "schemaV2": {"type": "struct", "fields": list(schema.fields)},
        "partitionSpec": {"fields": hours},
        "properties": properties,
    }
    return table.call_table("CreateTable", format="ICEBERG", metadata={"iceberg": metadata})


def _adopt(table: OrderedTable) -> str:
    """Return the ARN of the table that this order made before a kill. Raises TableRefused, AwsError."""
    described = table.call_table("GetTable")
    bucket, _, key = str(described.get("metadataLocation") or "").partition("://")[2].partition("/")
    if key:
        body = table.control.call("s3", "GetObject", {"Bucket": bucket, "Key": key})["Body"]
        if msgspec.json.decode(body)["properties"].get(_OWNER) == table.order.order_id:
            return str(described["tableARN"])
    target = table.target
    raise TableRefused(f"The table {target.namespace}.{target.name} exists already.")


class OrderedTableDestination(OrderedDestination):
    """See `Destination`. A delivery is one snapshot, which names it; what cannot be committed is tried again."""

    kind = "OrderedTable"
    metrics = "DeliveryToIceberg"

    def name_objects(
        self, stream: DeliveryStream, kinds: Sequence[str], ports: Ports
    ) -> dict[str, str]:
        """See `ObjectNames.name_objects`. What stands for the delivered object is the delivery's id."""
        order, now_ms = order_of(stream), ports.clock.now_ms()
        return {
            kind: order.error_key(now_ms, ports.ids.uuid())
            if kind != DELIVERED
            else ports.ids.uuid()
            for kind in kinds
        }

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. Raises Suspended when the table is gone or can never be made."""
        # pyiceberg takes half a second to import, and a cloud must be healthy within one second.
        from headrace.services.firehose.destinations import iceberg_catalog, iceberg_commit

        ports, order = attempt.ports, order_of(attempt.stream)
        assert ports.control is not None
        assert isinstance(order.target, TableTarget)
        try:
            target = order.target if order.target.arn else make_table(order, ports.control)
        except TableRefused as error:
            raise Suspended(str(error)) from error
        table = table_of(order, ports.control)
        changes, outcome = _read_records(attempt, target, table), Outcome()
        good = [change for change in changes if isinstance(change, Change)]
        outcome.failed += [failure for failure in changes if isinstance(failure, FailedRecord)]
        if not good:
            return outcome
        name = Name(target.namespace, target.name)
        files = iceberg_catalog.TableFiles(
            ports.objects, ports.guard, order.role_arn, target.arn, target.key_arn
        )
        catalog = iceberg_catalog.TablesCatalog(table.call_table, files)
        try:
            refused = iceberg_commit.commit(catalog, name, good, [], attempt.intent.keys[DELIVERED])
        except iceberg_catalog.NoSuchTableError as error:
            # Documented: a channel whose table was deleted is suspended.
            raise Suspended(f"The table {name} does not exist any more.") from error
        for index, change in enumerate(good):
            if index in refused:
                code, message = refused[index]
                outcome.failed.append(FailedRecord(change.record, code, message, attempt.number))
            else:
                outcome.size_bytes += len(change.record.data)
        return outcome


def _read_records(
    attempt: Attempt, target: TableTarget, table: OrderedTable
) -> Sequence[Change | FailedRecord]:
    """Return each record's row to add, or why it is not valid. Raises AwsError."""
    schema = _read_schema(target.definition, tuple(target.partition_columns))
    is_known = functools.cache(table.is_of_schema)
    results = list[Change | FailedRecord]()
    for record in attempt.records:
        try:
            data = _take_payload(record.data, is_known) if target.has_header else record.data
            value = msgspec.json.decode(data)
        except (ValueError, zlib.error, msgspec.MsgspecError, RecursionError) as error:
            words = (
                f"The record is not valid {'GSR_JSON' if target.has_header else 'JSON'}: {error}"
            )
            results.append(FailedRecord(record, "Iceberg.InvalidRecord", words, attempt.number))
            continue
        fault = schema.check(value)
        if fault:
            words = f"The record is not valid by the schema: {'record' if fault[0] in '.[' else 'it '}{fault}"
            code = "Iceberg.SchemaValidationFailed"
            results.append(FailedRecord(record, code, words, attempt.number))
        else:
            results.append(Change(msgspec.structs.replace(record, data=data), INSERT))
    return results


def _take_payload(data: bytes, is_known: Any) -> bytes:
    """Return what follows a record's header. Raises ValueError, zlib.error, AwsError."""
    if len(data) < _HEADER_BYTES or data[0] != 3:
        raise ValueError("it has no header of the Glue Schema Registry")
    version_id = str(uuid.UUID(bytes=data[2:_HEADER_BYTES]))
    if not is_known(version_id):
        raise ValueError(f"{version_id} is no version of the channel's schema")
    payload = data[_HEADER_BYTES:]
    if data[1] == 0:
        return payload
    if data[1] != 5:
        raise ValueError(f"its compression has the unknown number {data[1]}")
    whole = zlib.decompressobj()
    payload = whole.decompress(payload, _MOST_BYTES)
    if whole.unconsumed_tail or not whole.eof:
        raise ValueError(f"it has more than {_MOST_BYTES} bytes, or ends too early")
    return payload
