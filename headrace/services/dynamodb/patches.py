"""DynamoDB: stores items as rows, updates them atomically, and evaluates legacy conditions as AWS does.

moto changes an item in place, so that a reader sees half of an update and a failed one leaves half behind; it copies
whole tables for a transaction; and it creates an entry for every key that was ever read.

Deletes the items of tables whose time to live is over, each within a minute; AWS takes up to days.

Documented: docs.aws.amazon.com/amazondynamodb/latest/developerguide/howitworks-ttl.html and
time-to-live-ttl-streams.html: the attribute is a number of seconds since 1970, a time more than five years ago does
not count, and a stream says that the service deleted the item.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Protocol, cast

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.moto.current_cloud import CURRENT, use_clock
from headrace.moto.patching import check_first
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import MOTO_LOCK, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as
from headrace.services.dynamodb import expressions, global_tables
from headrace.services.dynamodb.items import (
    TOKENS,
    Copies,
    NoCopies,
    check_size,
    delete_item,
    get_item,
    items_of,
    key_of,
    note_put,
    of_one_partition,
    once_per_token,
    place,
    undone_if_cancelled,
    update_item,
    whole_key,
)
from headrace.services.dynamodb.metrics import measured
from headrace.services.dynamodb.streams import deleting_by_service


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.dynamodb.models as models
    import moto.dynamodb.models.table as tables
    import moto.dynamodb.responses as responses
    from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict
    from moto.dynamodb.models.table import Table
    from moto.dynamodb.responses import DynamoHandler

    use_clock(models, tables)
    attributes: Any = LimitedSizeDict
    # moto's version sums the whole item for every attribute; here the sum is computed once, for the whole item.
    attributes.__setitem__ = dict.__setitem__
    item: Any = Item
    item.__init__ = check_size(Item.__init__)
    table: Any = Table
    table.__init__ = _keep_rows(Table.__init__)
    table.describe = _describe_fully(Table.describe)
    table.put_item = note_put(Table.put_item)
    table.get_item = get_item
    table.delete_item = delete_item
    table.query = of_one_partition(Table.query)
    backup: Any = tables.Backup
    backup.summary = property(_with_table_id(backup.summary.fget))
    backup.description = property(_with_features(backup.description.fget))
    backend: Any = models.DynamoDBBackend
    backend.update_item = update_item
    backend.get_keys_value = whole_key
    backend.transact_write_items = undone_if_cancelled(backend.transact_write_items)
    module: Any = models
    module.copy = Copies
    module = responses
    module.copy = NoCopies  # pyrefly: ignore[bad-assignment]
    handler: Any = DynamoHandler
    for name in ("put_item", "update_item", "delete_item"):
        setattr(handler, name, _with_legacy(getattr(handler, name)))
    for name in ("tag_resource", "untag_resource"):
        setattr(handler, name, check_first(_check_tagged, getattr(handler, name)))
    expressions.patch(handler)
    handler.call_action = measured(handler.call_action)
    handler.create_table = _answer_creation(DynamoHandler.create_table)
    handler.update_table = _answer_updating(DynamoHandler.update_table)
    global_tables.patch(handler)
    for name in ("batch_write_item", "batch_get_item", "transact_write_items", "update_item"):
        setattr(handler, name, _as_asked(getattr(handler, name)))
    handler.transact_write_items = once_per_token(handler.transact_write_items)
    pickles.register_reducer(Table, _reduce_table)
    pickles.register_filter(
        "dynamodb",
        lambda _, state: {name: value for name, value in state.items() if name != TOKENS},
    )


def _check_tagged(handler: Any) -> None:
    """Refuse to tag what is no table: moto answers that it did. The sentence is assumed."""
    arn = handler.body.get("ResourceArn")
    if all(table.table_arn != arn for table in list(handler.dynamodb_backend.tables.values())):
        raise AwsError(
            "ResourceNotFoundException",
            f"Requested resource not found: ResourcArn: {arn} not found",
        )


# --- rows -----------------------------------------------------------------------------------------


@stored_as("dynamodb_rows")
class TableRows(Rows):
    """The items of a table, by primary key."""

    service = "dynamodb"
    table: Any

    def row_key(self, key: Any) -> RowKey:
        """See `Rows.row_key`."""
        return msgspec.msgpack.encode([_canonical(part) for part in key if part is not None])

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        item = self.table.get_item(*key)
        return None if item is None else _ENCODER.encode(item.attrs)

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return [(item.hash_key, item.range_key) for item in items_of(self.table)]

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict

        table = self.table
        for _, value in rows:
            item: Any = Item.__new__(Item)
            item.attrs = attributes = LimitedSizeDict()
            for name, typed in msgspec.msgpack.decode(value).items():
                dict.__setitem__(attributes, name, _to_value(typed))
            item.hash_key = attributes[table.hash_key_attr]
            item.range_key = attributes[table.range_key_attr] if table.range_key_attr else None
            place(table, item)


# Numbers have up to 38 digits; Python's own context rounds to 28.
_EXACT = Context(prec=64)


def _canonical(key: Any) -> tuple[str, str | bytes]:
    """Return a key's type and value, in which equal numbers are the same."""
    if key.type != "N":
        return key.type, key.value
    try:
        # Zero has a sign.
        return key.type, str(Decimal(key.value).normalize(_EXACT) or Decimal())
    except InvalidOperation:
        return key.type, key.value


def _plain(typed: Any) -> Any:
    return {typed.type: typed.value}


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)


def _to_value(plain: dict[str, Any]) -> Any:
    """Return moto's value; moto's own constructor would check everything inside twice."""
    from moto.dynamodb.models.dynamo_type import DynamoType

    ((kind, value),) = plain.items()
    typed: Any = DynamoType.__new__(DynamoType)
    typed.type = kind
    if kind == "L":
        value = [_to_value(element) for element in value]
    elif kind == "M":
        value = {name: _to_value(element) for name, element in value.items()}
    typed.value = value
    return typed


def _reduce_table(table: Any) -> Any:
    """Pickle a table without its items, which are rows; a backup's copy with them."""
    from moto.dynamodb.models import dynamodb_backends

    backends: Any = dynamodb_backends
    rows = getattr(table, "kept", None)
    is_live = backends[table.account_id][table.region_name].tables.get(table.name) is table
    if rows is None or not is_live:
        return pickles.without(table, kept=None)
    pickles.note_rows(rows)
    state = {k: v for k, v in vars(table).items() if k not in ("kept", "items")}
    return empty_table, (type(table), rows.id), state


@stored_as("dynamodb_table")
def empty_table(kind: type, rows_id: int) -> Any:
    """Return a table whose attributes and rows are still to be loaded."""
    from moto.dynamodb.models.table import Table

    rows: Any = pickles.rows_with_id(TableRows, rows_id)
    rows.table = pickles.shell(kind, Table, kept=rows, items=defaultdict(dict))
    return rows.table


def _keep_rows(init: Any) -> Any:
    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.kept = TableRows()
        self.kept.table = self

    return with_rows


# --- descriptions ---------------------------------------------------------------------------------


def _describe_fully(describe: Any) -> Any:
    """Describe a table with its id, its billing mode, and its indexes, as AWS does (recorded)."""

    @functools.wraps(describe)
    def describe_fully(self: Any, base_key: str = "TableDescription") -> dict[str, Any]:
        answer = describe(self, base_key)
        shown = answer[base_key]
        identity = f"{self.table_arn} {self.created_at}"
        shown["TableId"] = str(uuid.uuid5(uuid.NAMESPACE_URL, identity))
        for name in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
            if not shown[name]:
                del shown[name]
            else:
                shown[name] = [_describe_index(self, index) for index in shown[name]]
        billing = shown["BillingModeSummary"]
        on_demand_since = getattr(self, "on_demand_since", None)
        if billing["BillingMode"] == "PAY_PER_REQUEST":
            billing["LastUpdateToPayPerRequestDateTime"] = on_demand_since or self.created_at
        elif on_demand_since is None:
            del shown["BillingModeSummary"]
        else:
            billing["LastUpdateToPayPerRequestDateTime"] = on_demand_since
        return answer

    return describe_fully


def _describe_index(table: Any, index: dict[str, Any]) -> dict[str, Any]:
    names = [key["AttributeName"] for key in index["KeySchema"]]
    items = sum(all(name in item.attrs for name in names) for item in items_of(table))
    shown = {
        **index,
        "IndexArn": f"{table.table_arn}/index/{index['IndexName']}",
        "IndexSizeBytes": 0,
        "ItemCount": items,
    }
    if "ProvisionedThroughput" in index:
        throughput = {"NumberOfDecreasesToday": 0, **index["ProvisionedThroughput"]}
        shown["ProvisionedThroughput"] = throughput
    return shown


def _with_table_id(summarize: Any) -> Any:
    def summary(self: Any) -> dict[str, Any]:
        table = self.table.describe()["TableDescription"]
        return {**summarize(self), "TableId": table["TableId"]}

    return summary


_OF_INDEX = ("IndexName", "KeySchema", "Projection", "ProvisionedThroughput")


def _with_features(describe: Any) -> Any:
    """Describe a backup with its table's billing mode, indexes and stream (documented: API_BackupDescription.html)."""

    def description(self: Any) -> dict[str, Any]:
        shown = describe(self)
        table = shown["SourceTableDetails"]
        mode = (table.get("BillingModeSummary") or {}).get("BillingMode", "PROVISIONED")
        features = {
            kind: [{name: index[name] for name in _OF_INDEX if name in index} for index in indexes]
            for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes")
            if (indexes := table.get(kind))
        }
        for kind, member in (
            ("StreamDescription", "StreamSpecification"),
            ("SSEDescription", "SSEDescription"),
        ):
            if table.get(member):
                features[kind] = table[member]
        return {
            **shown,
            "SourceTableDetails": {**table, "BillingMode": mode},
            "SourceTableFeatureDetails": features,
        }

    return description


def _answer_creation(create_table: Any) -> Any:
    """Answer a new table's billing mode without its time, which descriptions have (recorded)."""

    @functools.wraps(create_table)
    def create_and_answer(self: Any) -> Any:
        answer = create_table(self)
        billing = answer.result["TableDescription"].get("BillingModeSummary", {})
        billing.pop("LastUpdateToPayPerRequestDateTime", None)
        return answer

    return create_and_answer


def _as_asked(action: Any) -> Any:
    """Answer the consumed capacity if the request asks for it, and no empty sizes of item collections (recorded)."""

    @functools.wraps(action)
    def act(self: Any) -> Any:
        answer = action(self)
        if self.body.get("ReturnConsumedCapacity") in (None, "NONE"):
            answer.result.pop("ConsumedCapacity", None)
        if not answer.result.get("ItemCollectionMetrics"):
            answer.result.pop("ItemCollectionMetrics", None)
        return answer

    return act


def _answer_updating(update_table: Any) -> Any:
    """Answer that a table is UPDATING (recorded); later descriptions say ACTIVE."""

    @functools.wraps(update_table)
    def update_and_answer(self: Any) -> Any:
        table = self.dynamodb_backend.get_table(self.body["TableName"])
        if self.body.get("ReplicaUpdates"):
            global_tables.refuse_replicas(self)
        if table.billing_mode == "PAY_PER_REQUEST":
            table.on_demand_since = getattr(table, "on_demand_since", table.created_at)
        elif self.body.get("BillingMode") == "PAY_PER_REQUEST":
            table.on_demand_since = datetime.fromtimestamp(CURRENT.clock.now_ms() / 1000, UTC)
        answer = update_table(self)
        if "SSESpecification" in self.body:
            _encrypt(table, self.body)
            if encryption := answer.result["TableDescription"].get("SSEDescription"):
                encryption["Status"] = "UPDATING"
        answer.result["TableDescription"]["TableStatus"] = "UPDATING"
        return answer

    return update_and_answer


def _encrypt(table: Any, request: dict[str, Any]) -> None:
    """Change a table's encryption, which moto ignores."""
    encryption = dict(request["SSESpecification"])
    if encryption.get("Enabled") and "KMSMasterKeyId" not in encryption:
        region = table.table_arn.split(":")[3]
        encryption["KMSMasterKeyId"] = table._get_default_encryption_key(table.account_id, region)
    table.sse_specification = encryption


# --- requests -------------------------------------------------------------------------------------


def _with_legacy(action: Any) -> Any:
    @functools.wraps(action)
    def check_first(self: Any) -> Any:
        from moto.dynamodb.exceptions import ConditionalCheckFailed

        body = self.body
        expressions.check_expected(body)
        if body.get("AttributeUpdates"):
            expressions.check_updates(body["AttributeUpdates"])
        expected, operator = body.pop("Expected", None), body.pop("ConditionalOperator", None)
        if expected:
            table = self.dynamodb_backend.get_table(body["TableName"])
            attributes = body.get("Key") or body.get("Item") or {}
            # Without a whole key, the operation itself reports the error.
            if all(name in attributes for name in table.table_key_attrs):
                current = table.get_item(*key_of(table, attributes))
                if not expressions.holds(expected, operator, current):
                    raise ConditionalCheckFailed
        return action(self)

    return check_first


log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
# Documented; so that a wrong unit deletes nothing.
_OLDEST_S = 5 * 365 * 24 * 3600
# The items that one change deletes: others wait meanwhile.
_MOST_AT_ONCE = 500


class LoadedState(Protocol):
    """moto's state: `MotoEngine` implements it."""

    def is_loaded(self) -> bool:
        """Whether moto currently holds this cloud's state."""
        ...

    def change(self, change: Callable[[], None], service: str = "") -> None:
        """Change moto's state outside a request and store it. Raises AwsError."""
        ...


class ItemExpiry:
    """A `Worker` that deletes expired items."""

    name = "dynamodb-ttl"

    def __init__(self, state: LoadedState, clock: Clock) -> None:
        self._state, self._clock = state, clock

    def step(self) -> float:
        """Look at every table that has a time to live."""
        if self._state.is_loaded():
            with MOTO_LOCK:
                tables = list(_tables())
            for table, attribute in tables:
                self._expire(table, attribute)
        return LOOK_EVERY_S

    def _expire(self, table: Any, attribute: str) -> None:
        now_s = self._clock.now_ms() // 1000
        with MOTO_LOCK:
            items = list(items_of(table))
        # Without the lock: of a million items this takes a third of a second.
        keys = [
            (item.hash_key, item.range_key) for item in items if _is_over(item, attribute, now_s)
        ]
        del items

        def delete(some: list[tuple[Any, Any]]) -> None:
            with deleting_by_service():
                for hash_key, range_key in some:
                    # It may have been written anew since.
                    item = table.get_item(hash_key, range_key)
                    if item is not None and _is_over(item, attribute, now_s):
                        delete_item(table, hash_key, range_key)
                        CURRENT.handled.note(table.table_arn, "TimeToLiveDeletedItemCount")

        for start in range(0, len(keys), _MOST_AT_ONCE):
            some = keys[start : start + _MOST_AT_ONCE]
            try:
                self._state.change(lambda some=some: delete(some))
            except AwsError as error:
                # They are looked at again.
                log.warning("expired items of %s cannot be deleted: %s", table.name, error.message)
                return


def _tables() -> Iterator[tuple[Any, str]]:
    from moto.dynamodb.models import dynamodb_backends

    for regions in list(cast("Any", dynamodb_backends).values()):
        for backend in list(regions.values()):
            for table in backend.tables.values():
                if table.ttl.get("TimeToLiveStatus") == "ENABLED":
                    yield table, str(table.ttl.get("AttributeName"))


def _is_over(item: Any, attribute: str, now_s: int) -> bool:
    value = item.attrs.get(attribute)
    if value is None or value.type != "N":
        return False
    try:
        return now_s - _OLDEST_S <= Decimal(value.value) < now_s
    except InvalidOperation:
        return False
