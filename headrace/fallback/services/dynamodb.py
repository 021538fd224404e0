"""DynamoDB: items kept row by row, updates that happen whole or not at all, and legacy conditions as AWS has them.

moto changes an item in place, so that a reader sees half of an update and a failed one leaves half behind; it copies
whole tables for a transaction; and it keeps a place for every key that was ever asked for.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from headrace.fallback.kept import pickles
from headrace.fallback.kept.touched import TOUCHED, RowKey, Rows
from headrace.fallback.services import dynamodb_legacy as legacy
from headrace.fallback.services.time_of import use_clock

# Documented: 400 KB, names and values.
MOST_ITEM_BYTES = 400 * 1024


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.dynamodb.models as models
    import moto.dynamodb.models.table as tables
    from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict
    from moto.dynamodb.models.table import Table
    from moto.dynamodb.models.table_export import TableExport
    from moto.dynamodb.models.table_import import TableImport
    from moto.dynamodb.responses import DynamoHandler

    use_clock(models, tables)
    sized: Any = LimitedSizeDict
    # It summed the whole item for every attribute; the sum is made once, of the whole.
    sized.__setitem__ = dict.__setitem__
    item: Any = Item
    item.__init__ = _sized(Item.__init__)
    table: Any = Table
    table.__init__ = _kept(Table.__init__)
    table.put_item = _noted_put(Table.put_item)
    table.get_item = _get_item
    table.delete_item = _delete_item
    table.query = _of_one_partition(Table.query)
    backend: Any = models.DynamoDBBackend
    backend.update_item = _update_item
    backend.get_keys_value = _whole_key
    backend.transact_write_items = _undone_if_cancelled(backend.transact_write_items)
    module: Any = models
    module.copy = _Copies
    handler: Any = DynamoHandler
    for name in ("put_item", "update_item", "delete_item"):
        setattr(handler, name, _with_legacy(getattr(handler, name)))
    for thread in (TableImport, TableExport):
        background: Any = thread
        # At once, under the lock of the request, so that what it makes is kept with it.
        background.start = _run_now
    pickles.reduces(Table, _reduce_table)


def _run_now(thread: Any) -> None:
    thread.run()


# --- rows -----------------------------------------------------------------------------------------


class TableRows(Rows):
    """The items of a table, by primary key."""

    service = "dynamodb"
    table: Any

    def row_key(self, key: Any) -> RowKey:
        """See `Rows.row_key`."""
        return msgspec.msgpack.encode([_canonical(part) for part in key if part is not None])

    def encoded(self, key: Any) -> bytes | None:
        """See `Rows.encoded`."""
        item = self.table.get_item(*key)
        return None if item is None else _ENCODER.encode(item.attrs)

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return [(item.hash_key, item.range_key) for item in _items(self.table)]

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict

        table = self.table
        for _, value in rows:
            item: Any = Item.__new__(Item)
            item.attrs = attributes = LimitedSizeDict()
            for name, typed in msgspec.msgpack.decode(value).items():
                dict.__setitem__(attributes, name, _typed(typed))
            item.hash_key = attributes[table.hash_key_attr]
            item.range_key = attributes[table.range_key_attr] if table.range_key_attr else None
            _put(table, item)


def _canonical(key: Any) -> tuple[str, str | bytes]:
    """Return a key's type and value; numbers that are equal are alike."""
    if key.type != "N":
        return key.type, key.value
    try:
        return key.type, str(Decimal(key.value).normalize())
    except InvalidOperation:
        return key.type, key.value


def _plain(typed: Any) -> Any:
    return {typed.type: typed.value}


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)


def _typed(plain: dict[str, Any]) -> Any:
    """Return moto's value; its constructor would look at everything inside twice."""
    from moto.dynamodb.models.dynamo_type import DynamoType

    ((kind, value),) = plain.items()
    typed: Any = DynamoType.__new__(DynamoType)
    typed.type = kind
    if kind == "L":
        value = [_typed(each) for each in value]
    elif kind == "M":
        value = {name: _typed(each) for name, each in value.items()}
    typed.value = value
    return typed


def _items(table: Any) -> Iterable[Any]:
    for found in table.items.values():
        if table.has_range_key:
            yield from found.values()
        else:
            yield found


def _reduce_table(table: Any) -> Any:
    """Pickle a table without its items, which are rows; a backup's copy with them."""
    from moto.dynamodb.models import dynamodb_backends

    backends: Any = dynamodb_backends
    rows = getattr(table, "kept", None)
    is_live = backends[table.account_id][table.region_name].tables.get(table.name) is table
    if rows is None or not is_live:
        return pickles.without(table, kept=None)
    pickles.found(rows)
    state = {k: v for k, v in vars(table).items() if k not in ("kept", "items")}
    return empty_table, (type(table), rows.id), state


def empty_table(kind: type, rows_id: int) -> Any:
    """Return a table whose attributes and rows are still to come."""
    make: Any = kind.__new__
    table: Any = make(kind)
    rows = pickles.rows_with_id(TableRows, rows_id)
    assert isinstance(rows, TableRows)
    table.kept, rows.table, table.items = rows, table, defaultdict(dict)
    return table


def _kept(init: Any) -> Any:
    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.kept = TableRows()
        self.kept.table = self

    return with_rows


# --- one item -------------------------------------------------------------------------------------


def _sized(init: Any) -> Any:
    from moto.dynamodb.exceptions import ItemSizeTooLarge

    @functools.wraps(init)
    def with_size(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        if self.size() > MOST_ITEM_BYTES:
            raise ItemSizeTooLarge

    return with_size


def _put(table: Any, item: Any) -> None:
    if item.range_key is not None:
        table.items[item.hash_key][item.range_key] = item
    else:
        table.items[item.hash_key] = item


def _get_item(
    table: Any, hash_key: Any, range_key: Any = None, projection_expression: Any = None
) -> Any:
    from moto.dynamodb.exceptions import MockValidationException

    if table.has_range_key and not range_key:
        raise MockValidationException("The provided key element does not match the schema")
    # Not `items[hash_key]`, which makes a place for what is not there.
    found = table.items.get(hash_key)
    if found is not None and range_key:
        found = found.get(range_key) if table.has_range_key else None
    if found is not None and projection_expression:
        return found.project(projection_expression)
    return found


def _note(table: Any, hash_key: Any, range_key: Any) -> None:
    if table.kept is not None:
        UNDO.note(table, hash_key, range_key)
        TOUCHED.row(table.kept, (hash_key, range_key))


def _noted_put(put: Any) -> Any:
    @functools.wraps(put)
    def put_item(self: Any, item_attrs: dict[str, Any], *args: Any, **named: Any) -> Any:
        # Before, for a transaction to find what was there.
        if self.table_key_attrs and all(name in item_attrs for name in self.table_key_attrs):
            _note(self, *_key_of(self, item_attrs))
        return put(self, item_attrs, *args, **named)

    return put_item


def _key_of(table: Any, attributes: dict[str, Any]) -> tuple[Any, Any]:
    from moto.dynamodb.models.dynamo_type import DynamoType

    range_name = table.range_key_attr
    return (
        DynamoType(attributes[table.hash_key_attr]),
        DynamoType(attributes[range_name]) if range_name else None,
    )


def _whole_key(_: Any, table: Any, keys: dict[str, Any]) -> tuple[Any, Any]:
    """Return the key that a request names. Raises AWS's ValidationException when it does not fit the table."""
    from moto.dynamodb.exceptions import ProvidedKeyDoesNotExist

    if any(name not in keys for name in table.table_key_attrs):
        raise ProvidedKeyDoesNotExist
    hash_key, range_key = _key_of(table, keys)
    if hash_key.type != table.hash_key_type:
        raise ProvidedKeyDoesNotExist
    if range_key is not None and range_key.type != table.range_key_type:
        raise ProvidedKeyDoesNotExist
    return hash_key, range_key


def _delete_item(table: Any, hash_key: Any, range_key: Any) -> Any:
    item = _get_item(table, hash_key, range_key)
    if item is None:
        return None
    _note(table, hash_key, range_key)
    _remove(table, hash_key, range_key)
    if table.stream_shard is not None:
        table.stream_shard.add(item, None)
    return item


def _remove(table: Any, hash_key: Any, range_key: Any) -> None:
    if table.has_range_key:
        partition = table.items[hash_key]
        partition.pop(range_key, None)
        if not partition:
            del table.items[hash_key]
    else:
        table.items.pop(hash_key, None)


def _update_item(
    backend: Any,
    table_name: str,
    key: dict[str, Any],
    update_expression: str,
    expression_attribute_names: dict[str, Any],
    expression_attribute_values: dict[str, Any],
    attribute_updates: dict[str, Any] | None = None,
    expected: dict[str, Any] | None = None,
    condition_expression: str | None = None,
    return_values_on_condition_check_failure: str | None = None,
) -> Any:
    """Update a copy, and put it in the item's place when all went well."""
    from moto.dynamodb.comparisons import create_condition_expression_parser
    from moto.dynamodb.exceptions import ConditionalCheckFailed, ProvidedKeyDoesNotExist
    from moto.dynamodb.models.dynamo_type import Item

    table = backend.get_table(table_name)
    if set(key) != set(table.table_key_attrs):
        raise ProvidedKeyDoesNotExist
    hash_key, range_key = _whole_key(backend, table, key)
    current: Any = table.get_item(hash_key, range_key)
    names, values = expression_attribute_names, expression_attribute_values
    condition = create_condition_expression_parser(condition_expression, names, values).parse()
    if (expected and not legacy.holds(expected, None, current)) or not condition.expr(current):
        wants_old = return_values_on_condition_check_failure == "ALL_OLD" and current is not None
        raise ConditionalCheckFailed(item=_attributes(current) if wants_old else None)
    if current is None:
        table._validate_item_types(key)
        table._validate_key_sizes(key)
        item = Item(hash_key, range_key, key)
    else:
        item = copy.deepcopy(current)
    if update_expression:
        _run_expression(table, item, update_expression, names, values)
    elif attribute_updates:
        legacy.apply_updates(item, attribute_updates, table.table_key_attrs)
    _check_update(table, item, current)
    _note(table, hash_key, range_key)
    _put(table, item)
    if table.stream_shard is not None:
        table.stream_shard.add(current, item)
    return item


def _attributes(item: Any) -> dict[str, Any]:
    return item.to_json()["Attributes"]


def _run_expression(table: Any, item: Any, expression: str, names: Any, values: Any) -> None:
    from moto.dynamodb.parsing.executors import UpdateExpressionExecutor
    from moto.dynamodb.parsing.expressions import UpdateExpressionParser
    from moto.dynamodb.parsing.validators import UpdateExpressionValidator

    parser: Any = UpdateExpressionParser
    valid = UpdateExpressionValidator(
        parser.make(expression),
        expression_attribute_names=names,
        expression_attribute_values=values,
        item=item,
        table=table,
    ).validate()
    valid.normalize()
    UpdateExpressionExecutor(valid, item, names).execute()


def _check_update(table: Any, item: Any, current: Any) -> None:
    from moto.dynamodb.exceptions import ItemSizeToUpdateTooLarge

    if item.size() > MOST_ITEM_BYTES:
        raise ItemSizeToUpdateTooLarge()
    item.validate_no_empty_key_values(
        {
            name: {"Value": {value.type: value.value}}
            for name, value in item.attrs.items()
            if current is None or current.attrs.get(name) is not value
        },
        table.attribute_keys,
    )


class _OnePartition:
    """A table of which `all_items` are those of one partition."""

    def __init__(self, table: Any, hash_key: Any) -> None:
        self._table = table
        self._hash_key = hash_key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def all_items(self) -> list[Any]:
        """Return the partition's items, by range key."""
        found = self._table.items.get(self._hash_key)
        if found is None:
            return []
        if not self._table.has_range_key:
            return [found]
        return sorted(found.values(), key=lambda item: item.range_key)


def _of_one_partition(query: Any) -> Any:
    @functools.wraps(query)
    def quick(
        self: Any, hash_key: Any, *args: Any, index_name: str | None = None, **named: Any
    ) -> Any:
        # `index_name` is moto's eighth; it is passed by position.
        by_index = index_name or (len(args) > 6 and args[6])
        of = self if by_index or hash_key is None else _OnePartition(self, hash_key)
        if index_name is not None:
            named["index_name"] = index_name
        return query(of, hash_key, *args, **named)

    return quick


# --- transactions ---------------------------------------------------------------------------------


class _Undo:
    """What was there before each write of the transaction under way. Not thread-safe: `MOTO_LOCK`."""

    def __init__(self) -> None:
        self._noted: list[tuple[Any, Any, Any, Any]] | None = None
        self._streams: dict[Any, int] = {}

    def begin(self) -> None:
        self._noted, self._streams = [], {}

    def note(self, table: Any, hash_key: Any, range_key: Any) -> None:
        if self._noted is None:
            return
        before = _get_item(table, hash_key, range_key)
        self._noted.append((table, hash_key, range_key, before))
        if table.stream_shard is not None:
            self._streams.setdefault(table.stream_shard, table.stream_shard.kept.next)

    def end(self) -> None:
        self._noted, self._streams = None, {}

    def undo(self) -> None:
        noted, streams = self._noted or [], self._streams
        self.end()
        for table, hash_key, range_key, before in reversed(noted):
            if before is None:
                _remove(table, hash_key, range_key)
            else:
                _put(table, before)
        for shard, following in streams.items():
            shard.kept.cut(following)


UNDO = _Undo()


class _Copies:
    """`copy` as moto's transactions use it: of a table nothing is copied, since `UNDO` knows what to put back."""

    @staticmethod
    def deepcopy(value: Any) -> Any:
        """Return a copy; of a table, the table itself."""
        from moto.dynamodb.models.table import Table

        return value if isinstance(value, Table) else copy.deepcopy(value)


def _undone_if_cancelled(transact: Any) -> Any:
    @functools.wraps(transact)
    def write(self: Any, transact_items: list[dict[str, Any]]) -> None:
        UNDO.begin()
        try:
            transact(self, transact_items)
        except BaseException:
            UNDO.undo()
            raise
        UNDO.end()

    return write


# --- requests -------------------------------------------------------------------------------------


def _with_legacy(action: Any) -> Any:
    @functools.wraps(action)
    def checked(self: Any) -> Any:
        from moto.dynamodb.exceptions import ConditionalCheckFailed

        body = self.body
        legacy.check_expected(body)
        if body.get("AttributeUpdates"):
            legacy.check_updates(body["AttributeUpdates"])
        expected, operator = body.pop("Expected", None), body.pop("ConditionalOperator", None)
        if expected:
            table = self.dynamodb_backend.get_table(body["TableName"])
            attributes = body.get("Key") or body.get("Item") or {}
            # Without a whole key the operation itself says what is wrong.
            if all(name in attributes for name in table.table_key_attrs):
                current = table.get_item(*_key_of(table, attributes))
                if not legacy.holds(expected, operator, current):
                    raise ConditionalCheckFailed
        return action(self)

    return checked
