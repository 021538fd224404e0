"""Reads, puts, updates and deletes an item of a DynamoDB table, each atomically; and runs transactions.

Before each write the old item is noted, so that a cancelled transaction can be undone.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import copy
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES
from headrace.services.dynamodb import expressions as legacy
from headrace.services.dynamodb.expressions import plain_assignments
from headrace.services.dynamodb.stream_consumers import destinations_of, tell

# Documented: 400 KB, names and values.
MOST_ITEM_BYTES = 400 * 1024


def check_size(init: Any) -> Any:
    """Return the constructor of an item, which raises AWS's error for one that is too large."""
    from moto.dynamodb.exceptions import ItemSizeTooLarge

    @functools.wraps(init)
    def with_size(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        if self.size() > MOST_ITEM_BYTES:
            raise ItemSizeTooLarge

    return with_size


def items_of(table: Any) -> Iterator[Any]:
    """Yield the items of a table."""
    for partition in table.items.values():
        if table.has_range_key:
            yield from partition.values()
        else:
            yield partition


def place(table: Any, item: Any) -> None:
    """Put an item at its key, without stream records or notes."""
    if item.range_key is not None:
        table.items[item.hash_key][item.range_key] = item
    else:
        table.items[item.hash_key] = item


def get_item(
    table: Any, hash_key: Any, range_key: Any = None, projection_expression: Any = None
) -> Any:
    """Return an item, or the requested attributes of it; None when it does not exist."""
    from moto.dynamodb.exceptions import MockValidationException

    if table.has_range_key and not range_key:
        raise MockValidationException("The provided key element does not match the schema")
    # Not `items[hash_key]`, which would create an entry.
    item = table.items.get(hash_key)
    if item is not None and range_key:
        item = item.get(range_key) if table.has_range_key else None
    if item is not None and projection_expression:
        return item.project(projection_expression)
    return item


def _note(table: Any, hash_key: Any, range_key: Any) -> None:
    if table.kept is not None:
        UNDO.note(table, hash_key, range_key)
        CHANGES.row(table.kept, (hash_key, range_key))


def _tell(table: Any, old: Any, new: Any) -> None:
    """Count a change, and send it to the table's Kinesis streams, once it is certain."""
    UNDO.after(lambda: CURRENT.handled.add(table.table_arn))
    if destinations_of(table):
        UNDO.after(lambda: tell(table, old, new))


def note_put(put: Any) -> Any:
    """Return a table's put_item, which first notes the old item."""

    @functools.wraps(put)
    def put_item(self: Any, item_attrs: dict[str, Any], *args: Any, **named: Any) -> Any:
        before = None
        # Before the put, so that a transaction can restore the old item.
        if self.table_key_attrs and all(name in item_attrs for name in self.table_key_attrs):
            key = key_of(self, item_attrs)
            _note(self, *key)
            before = get_item(self, *key) if destinations_of(self) else None
        item = put(self, item_attrs, *args, **named)
        _tell(self, before, item)
        return item

    return put_item


def change_to(table: Any, current: Any, item: Any) -> None:
    """Put an item in place of `current`: both have the same key, and None stands for no item."""
    _note(table, item.hash_key, item.range_key)
    place(table, item)
    if table.stream_shard is not None:
        table.stream_shard.add(current, item)
    _tell(table, current, item)


def key_of(table: Any, attributes: dict[str, Any]) -> tuple[Any, Any]:
    """Return an item's key as moto's values; None for the range key of a table without one."""
    from moto.dynamodb.models.dynamo_type import DynamoType

    range_name = table.range_key_attr
    return (
        DynamoType(attributes[table.hash_key_attr]),
        DynamoType(attributes[range_name]) if range_name else None,
    )


def whole_key(_: Any, table: Any, keys: dict[str, Any]) -> tuple[Any, Any]:
    """Return the key in a request. Raises AWS's ValidationException when it does not fit the table."""
    from moto.dynamodb.exceptions import ProvidedKeyDoesNotExist

    if any(name not in keys for name in table.table_key_attrs):
        raise ProvidedKeyDoesNotExist
    hash_key, range_key = key_of(table, keys)
    if hash_key.type != table.hash_key_type:
        raise ProvidedKeyDoesNotExist
    if range_key is not None and range_key.type != table.range_key_type:
        raise ProvidedKeyDoesNotExist
    return hash_key, range_key


def delete_item(table: Any, hash_key: Any, range_key: Any) -> Any:
    """Delete an item, and return it; None when it did not exist."""
    item = get_item(table, hash_key, range_key)
    if item is None:
        return None
    _note(table, hash_key, range_key)
    remove(table, hash_key, range_key)
    if table.stream_shard is not None:
        table.stream_shard.add(item, None)
    _tell(table, item, None)
    return item


def remove(table: Any, hash_key: Any, range_key: Any) -> None:
    """Remove an item from its table, without stream records or notes."""
    if table.has_range_key:
        partition = table.items[hash_key]
        partition.pop(range_key, None)
        if not partition:
            del table.items[hash_key]
    else:
        table.items.pop(hash_key, None)


def update_item(
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
    """Update a copy of an item, which replaces the item when everything succeeds."""
    from moto.dynamodb.comparisons import create_condition_expression_parser
    from moto.dynamodb.exceptions import ConditionalCheckFailed, ProvidedKeyDoesNotExist
    from moto.dynamodb.models.dynamo_type import Item

    table = backend.get_table(table_name)
    if set(key) != set(table.table_key_attrs):
        raise ProvidedKeyDoesNotExist
    hash_key, range_key = whole_key(backend, table, key)
    current: Any = table.get_item(hash_key, range_key)
    names, values = expression_attribute_names, expression_attribute_values
    _check_values(table, values or {})
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
    change_to(table, current, item)
    return item


def _check_values(table: Any, values: Mapping[str, Any]) -> None:
    """Refuse values that PutItem refuses, in AWS's words for those of an expression (dynalite's tests, on AWS)."""
    from moto.dynamodb.exceptions import MockValidationException, ValidationException
    from moto.dynamodb.responses import validate_put_has_empty_attrs

    for name, value in values.items():
        try:
            table._validate_item_types({name: value})
            validate_put_has_empty_attrs({name: value}, table)
        except (MockValidationException, ValidationException) as error:
            why = str(error.message).removeprefix("1 validation error detected: ")
            raise MockValidationException(
                f"ExpressionAttributeValues contains invalid value: {why} for key {name}"
            ) from error


def _attributes(item: Any) -> dict[str, Any]:
    return item.to_json()["Attributes"]


def _run_expression(table: Any, item: Any, expression: str, names: Any, values: Any) -> None:
    from moto.dynamodb.parsing.executors import UpdateExpressionExecutor
    from moto.dynamodb.parsing.expressions import UpdateExpressionParser
    from moto.dynamodb.parsing.validators import UpdateExpressionValidator

    plain = _plain_values(table, expression, names or {}, values or {})
    if plain is not None:
        item.attrs.update(plain)
        return
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


def _plain_values(table: Any, expression: str, names: Any, values: Any) -> dict[str, Any] | None:
    """Return the attributes that an expression of plain assignments sets; None when moto must look at it.

    moto validates in ten visits of a tree. A property test holds both ways equal (tests/unit/dynamodb).
    """
    from moto.dynamodb.models.dynamo_type import DynamoType

    assignments = plain_assignments(expression)
    if assignments is None:
        return None
    keys = {*table.attribute_keys, *(attribute["AttributeName"] for attribute in table.attr)}
    attributes: dict[str, Any] = {}
    for name, value_name in assignments:
        attribute = names.get(name) if name.startswith("#") else name
        if attribute is None or attribute in keys or attribute in attributes:
            return None
        if value_name not in values or "." in attribute or "[" in attribute:
            return None
        attributes[attribute] = DynamoType(values[value_name])
    return attributes


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
    """A table whose `all_items` returns the items of one partition."""

    def __init__(self, table: Any, hash_key: Any) -> None:
        self._table = table
        self._hash_key = hash_key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def all_items(self) -> list[Any]:
        """Return the partition's items, by range key."""
        partition = self._table.items.get(self._hash_key)
        if partition is None:
            return []
        if not self._table.has_range_key:
            return [partition]
        return sorted(partition.values(), key=lambda item: item.range_key)


def of_one_partition(query: Any) -> Any:
    """Return a table's query method, restricted to the items of one partition."""

    @functools.wraps(query)
    def quick(
        self: Any, hash_key: Any, *args: Any, index_name: str | None = None, **named: Any
    ) -> Any:
        # `index_name` is the eighth parameter in moto; it is passed by position.
        by_index = index_name or (len(args) > 6 and args[6])
        of = self if by_index or hash_key is None else _OnePartition(self, hash_key)
        if index_name is not None:
            named["index_name"] = index_name
        return query(of, hash_key, *args, **named)

    return quick


# --- transactions ---------------------------------------------------------------------------------


class _Undo:
    """The old items of the current transaction's writes. Not thread-safe: `MOTO_LOCK`."""

    def __init__(self) -> None:
        self._noted: list[tuple[Any, Any, Any, Any]] | None = None
        self._streams: dict[Any, int] = {}
        self._after: list[Callable[[], None]] = []

    def begin(self) -> None:
        self._noted, self._streams, self._after = [], {}, []

    def after(self, act: Callable[[], None]) -> None:
        """Call `act` when the transaction has succeeded; at once without a transaction."""
        if self._noted is None:
            act()
        else:
            self._after.append(act)

    def note(self, table: Any, hash_key: Any, range_key: Any) -> None:
        if self._noted is None:
            return
        before = get_item(table, hash_key, range_key)
        self._noted.append((table, hash_key, range_key, before))
        if table.stream_shard is not None:
            self._streams.setdefault(table.stream_shard, table.stream_shard.kept.next)

    def end(self) -> list[Callable[[], None]]:
        """Forget the transaction; return the calls to make after its success."""
        self._noted, self._streams = None, {}
        acts, self._after = self._after, []
        return acts

    def undo(self) -> None:
        noted, streams = self._noted or [], self._streams
        self.end()
        for table, hash_key, range_key, before in reversed(noted):
            if before is None:
                remove(table, hash_key, range_key)
            else:
                place(table, before)
        for shard, following in streams.items():
            shard.kept.cut(following)


UNDO = _Undo()


class Copies:
    """Replaces `copy` in moto's transactions: tables are not copied, since `UNDO` can restore them."""

    @staticmethod
    def deepcopy(value: Any) -> Any:
        """Return a copy; for a table, the table itself."""
        from moto.dynamodb.models.table import Table

        return value if isinstance(value, Table) else copy.deepcopy(value)


class NoCopies:
    """Replaces `copy` in moto's UpdateItem: an update replaces the item, so the old one stays as it is."""

    @staticmethod
    def deepcopy(value: Any) -> Any:
        """Return the value itself."""
        return value


def undone_if_cancelled(transact: Any) -> Any:
    """Return transact_write_items, which undoes every write when it fails."""

    @functools.wraps(transact)
    def write(self: Any, transact_items: list[dict[str, Any]]) -> None:
        UNDO.begin()
        try:
            transact(self, transact_items)
        except BaseException:
            UNDO.undo()
            raise
        for act in UNDO.end():
            act()

    return write


# Documented: API_TransactWriteItems; an account's region keeps so many (assumed).
_TOKEN_MS = 10 * 60 * 1000
_MOST_TOKENS = 10_000
TOKENS = "request_tokens"


def once_per_token(call: Any) -> Any:
    """Return a call of moto's handler that happens once for a ClientRequestToken, ten minutes long.

    SDKs send one with each TransactWriteItems and repeat it when an answer does not come. Tokens are in memory: a
    request that is repeated after a kill happens again.
    """

    @functools.wraps(call)
    def answer(self: Any) -> Any:
        token = self.body.get("ClientRequestToken")
        if not token:
            return call(self)
        tokens: dict[str, tuple[str, int, Any]] = vars(self.dynamodb_backend).setdefault(TOKENS, {})
        now_ms = CURRENT.clock.now_ms()
        while tokens:
            oldest = next(iter(tokens))
            if tokens[oldest][1] > now_ms - _TOKEN_MS and len(tokens) < _MOST_TOKENS:
                break
            del tokens[oldest]
        items = [self.body.get(name) for name in ("TransactItems", "TransactStatements")]
        asked = hashlib.sha256(json.dumps(items, sort_keys=True, default=repr).encode()).hexdigest()
        if token not in tokens:
            result = call(self)
            tokens[token] = (asked, now_ms, result)
        elif tokens[token][0] != asked:
            raise _mismatch()
        return tokens[token][2]

    return answer


def _mismatch() -> Exception:
    from moto.dynamodb.exceptions import DynamodbException

    # The sentence is assumed.
    return DynamodbException(
        "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException",
        "The request uses the same client token as a previous, but non-identical request.",
    )
