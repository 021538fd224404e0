"""Answers plain requests for items from a table's state, without moto's handlers (see `headrace.moto.requests.quick`).

Plain is a request whose members are those below, on a table that is named, with values of numbers, texts, truth values,
lists and maps, and no other outcome than success.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from headrace.moto.requests.quick import NotPlain, QuickCall, QuickRequest, reader_of
from headrace.services.dynamodb.expressions import plain_assignments, plain_conditions
from headrace.services.dynamodb.items import change_to, delete_item, get_item
from headrace.services.dynamodb.metrics import note_read

_Typed = dict[str, Any]
# Far within DynamoDB's 38 digits and its bounds.
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,10})?", re.ASCII)
# Deeper values are moto's to look at; AWS allows 32 levels.
_MOST_LEVELS = 8
# A key's limits are 2,048 and 1,024 bytes; a character has at most four.
_LONGEST_KEY = 256
# Of an item that is updated: at four bytes a character, and with the request's body, it stays below 400 KB.
_MOST_ITEM_CHARACTERS = 80 * 1024
# Of an answer: larger ones take long. A page of a Query ends at a megabyte of items.
_MOST_ANSWER_CHARACTERS = 256 * 1024
# What a value, whatever its length, takes as long as.
_CHARACTERS_OF_A_VALUE = 32
_MOST_PAGE_ITEMS = 200


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    TableName: str
    ReturnConsumedCapacity: Literal["NONE"] = "NONE"


class _Get(_Request, kw_only=True):
    Key: dict[str, _Typed]
    ConsistentRead: bool = False


class _Put(_Request, kw_only=True):
    Item: dict[str, _Typed]
    ReturnValues: Literal["NONE"] = "NONE"


class _Delete(_Request, kw_only=True):
    Key: dict[str, _Typed]
    ReturnValues: Literal["NONE"] = "NONE"


class _Expressions(_Request, kw_only=True):
    ExpressionAttributeNames: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    ExpressionAttributeValues: dict[str, _Typed]


class _Update(_Expressions, kw_only=True):
    Key: dict[str, _Typed]
    UpdateExpression: str
    ConditionExpression: str | msgspec.UnsetType = msgspec.UNSET
    ReturnValues: Literal["NONE"] = "NONE"


class _Assignment(msgspec.Struct, forbid_unknown_fields=True):
    Value: _Typed
    Action: Literal["PUT"]


class _Equality(msgspec.Struct, forbid_unknown_fields=True):
    Value: _Typed


class _LegacyUpdate(_Request, kw_only=True):
    """What the Kinesis Client Library sends to renew a lease."""

    Key: dict[str, _Typed]
    AttributeUpdates: dict[str, _Assignment]
    Expected: dict[str, _Equality] = {}
    ReturnValues: Literal["NONE"] = "NONE"


class _Query(_Expressions, kw_only=True):
    KeyConditionExpression: str
    ConsistentRead: bool = False
    ScanIndexForward: bool = True


def _table_of(request: QuickRequest, name: str) -> Any:
    """Return a table by its name."""
    table = request.backend.tables.get(name)
    if table is None:
        raise NotPlain
    return table


# --- values ---------------------------------------------------------------------------------------


def _value(typed: Any, levels: int = _MOST_LEVELS) -> Any:
    """Return moto's value of a plain one."""
    from moto.dynamodb.models.dynamo_type import DynamoType

    if type(typed) is not dict or len(typed) != 1 or not levels:
        raise NotPlain
    ((kind, value),) = typed.items()
    if kind == "N":
        is_plain = type(value) is str and _NUMBER.fullmatch(value) is not None
    elif kind == "M" and type(value) is dict:
        is_plain = "" not in value
        value = {name: _value(part, levels - 1) for name, part in value.items()}
    elif kind == "L" and type(value) is list:
        is_plain = True
        value = [_value(part, levels - 1) for part in value]
    else:
        is_plain = type(value) is {"S": str, "BOOL": bool}.get(kind)
    if not is_plain:
        raise NotPlain
    # Not by moto's constructor, which builds what is inside once more.
    plain: Any = DynamoType.__new__(DynamoType)
    plain.type, plain.value = kind, value
    return plain


def _check_key(value: Any, kind: str) -> None:
    """Raise NotPlain unless a value may be a key's: of its type, and neither an empty text nor a long one."""
    if value.type != kind or kind not in ("N", "S"):
        raise NotPlain
    if kind == "S" and not 0 < len(value.value) <= _LONGEST_KEY:
        raise NotPlain


def _key_of(table: Any, attributes: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the key of moto's values; None for the range key of a table without one."""
    hash_key = attributes.get(table.hash_key_attr)
    range_key = attributes.get(table.range_key_attr) if table.range_key_attr else None
    if hash_key is None or (range_key is None and table.range_key_attr):
        raise NotPlain
    _check_key(hash_key, table.hash_key_type)
    if range_key is not None:
        _check_key(range_key, table.range_key_type)
    return hash_key, range_key


def _whole_key(table: Any, typed: Mapping[str, _Typed]) -> tuple[Any, Any]:
    if len(typed) != len(table.table_key_attrs):
        raise NotPlain
    return _key_of(table, {name: _value(value) for name, value in typed.items()})


_ENCODE = msgspec.json.Encoder(enc_hook=lambda typed: {typed.type: typed.value}).encode


# --- operations -----------------------------------------------------------------------------------


def _get(request: QuickRequest, asked: _Get) -> bytes:
    table = _table_of(request, asked.TableName)
    item = get_item(table, *_whole_key(table, asked.Key))
    answer = b"{}" if item is None else _ENCODE({"Item": _show_items([item])[0]})
    note_read(table, len(answer), is_consistent=asked.ConsistentRead)
    return answer


def _show_items(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Return items' attributes. Raises NotPlain if they are large."""
    shown = [item.attrs for item in items]
    _take(_MOST_ANSWER_CHARACTERS, shown)
    return shown


def _take(left: int, part: Any) -> int:
    """Return how many of `left` characters stay after a part of an item.

    Raises NotPlain if it has more; and for an empty name, which AWS refuses, and moto shows oddly.
    """
    part = getattr(part, "value", part)
    left -= _CHARACTERS_OF_A_VALUE
    if isinstance(part, str | bytes):
        left -= len(part)
    elif isinstance(part, dict):
        if "" in part:
            raise NotPlain
        for name, inner in part.items():
            left = _take(left - len(name), inner)
    elif isinstance(part, (list, set)):
        for inner in part:
            left = _take(left, inner)
    if left < 0:
        raise NotPlain
    return left


def _put(request: QuickRequest, asked: _Put) -> bytes:
    table = _table_of(request, asked.TableName)
    attributes = {name: _value(typed) for name, typed in asked.Item.items()}
    key = _key_of(table, attributes)
    if "" in attributes:
        raise NotPlain
    if table.indexes or table.global_indexes:
        for name in table.attribute_keys:
            if name in attributes:
                _check_key(attributes[name], attributes[name].type)
    change_to(table, get_item(table, *key), _item(key, attributes))
    return b"{}"


def _item(key: tuple[Any, Any], attributes: Mapping[str, Any]) -> Any:
    from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict

    item: Any = Item.__new__(Item)
    item.hash_key, item.range_key = key
    # Not by moto's constructor, which builds each value once more.
    item.attrs = LimitedSizeDict.__new__(LimitedSizeDict)
    dict.update(item.attrs, attributes)
    return item


def _delete(request: QuickRequest, asked: _Delete) -> bytes:
    table = _table_of(request, asked.TableName)
    delete_item(table, *_whole_key(table, asked.Key))
    return b"{}"


def _update(request: QuickRequest, asked: _Update | _LegacyUpdate) -> bytes:
    table = _table_of(request, asked.TableName)
    key = _whole_key(table, asked.Key)
    current = get_item(table, *key)
    if current is not None:
        _take(_MOST_ITEM_CHARACTERS, current.attrs)
    is_legacy = isinstance(asked, _LegacyUpdate)
    changed, expected = _by_members(asked) if is_legacy else _by_expressions(asked)
    keys = {*table.attribute_keys, *(attribute["AttributeName"] for attribute in table.attr)}
    if not changed or "" in changed or not keys.isdisjoint(changed):
        raise NotPlain
    for name, value in expected:
        held = None if current is None else current.attrs.get(name)
        if held is None or (value is not None and held != value):
            raise NotPlain
    parts = {table.hash_key_attr: key[0], table.range_key_attr: key[1]}
    before = {name: parts[name] for name in asked.Key} if current is None else current.attrs
    # A number may be written in several ways; the item keeps its key's.
    kept = key if current is None else (current.hash_key, current.range_key)
    change_to(table, current, _item(kept, {**before, **changed}))
    return b"{}"


# The attributes that an update sets, and what others must be before; None stands for any value.
_Change = tuple[dict[str, Any], Sequence[tuple[str, Any]]]


def _by_members(asked: _LegacyUpdate) -> _Change:
    changed = {name: _value(one.Value) for name, one in asked.AttributeUpdates.items()}
    return changed, [(name, _value(one.Value)) for name, one in asked.Expected.items()]


def _by_expressions(asked: _Update) -> _Change:
    condition = asked.ConditionExpression or ""
    if condition == "" and asked.ConditionExpression is not msgspec.UNSET:
        raise NotPlain
    assignments, conditions = _resolve_names(
        asked, plain_assignments(asked.UpdateExpression), plain_conditions(condition)
    )
    values = _values(asked, (*assignments, *conditions))
    changed = {name: values[value] for name, value in assignments}
    if len(changed) < len(assignments):
        raise NotPlain
    return changed, [(name, values[value] if value else None) for name, value in conditions]


# (name, value's name) of the parts of an expression.
_Parts = tuple[tuple[str, str], ...]


def _resolve_names(asked: _Expressions, *expressions: _Parts | None) -> list[_Parts]:
    """Return the parts of plain expressions with the attributes' own names, all of which the expressions use."""
    names = asked.ExpressionAttributeNames
    parts = [part for expression in expressions for part in expression or ()]
    used = {name for name, _ in parts if name.startswith("#")}
    is_used = not used if names is msgspec.UNSET else used and used == names.keys()
    if None in expressions or not is_used:
        raise NotPlain
    own: Mapping[str, str] = names or {}
    if any(not name or not {".", "["}.isdisjoint(name) for name in own.values()):
        raise NotPlain
    return [
        tuple((own.get(name, name), value) for name, value in expression or ())
        for expression in expressions
    ]


def _values(asked: _Expressions, parts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the values in a request, all of which the parts of its expressions use."""
    values = asked.ExpressionAttributeValues
    if {value for _, value in parts if value} != values.keys():
        raise NotPlain
    return {name: _value(typed) for name, typed in values.items()}


def _query(request: QuickRequest, asked: _Query) -> bytes:
    table = _table_of(request, asked.TableName)
    (conditions,) = _resolve_names(asked, plain_conditions(asked.KeyConditionExpression))
    values = _values(asked, conditions)
    if len(conditions) != 1 or conditions[0][0] != table.hash_key_attr or not conditions[0][1]:
        raise NotPlain
    hash_key = values[conditions[0][1]]
    _check_key(hash_key, table.hash_key_type)
    held = table.items.get(hash_key)
    if held is not None and table.has_range_key and len(held) > _MOST_PAGE_ITEMS:
        raise NotPlain
    items = [] if held is None else list(held.values()) if table.has_range_key else [held]
    if table.has_range_key:
        items.sort(key=lambda item: item.range_key, reverse=not asked.ScanIndexForward)
    answer = _ENCODE({"Items": _show_items(items), "Count": len(items), "ScannedCount": len(items)})
    note_read(table, len(answer), is_consistent=asked.ConsistentRead)
    return answer


def _call(
    operation: str,
    answer: Callable[[QuickRequest, Any], bytes],
    *forms: type[_Request],
    frees: bool = False,
) -> QuickCall:
    read = reader_of(answer, *forms)
    name = f"DynamoDB_20120810.{operation}"
    return QuickCall(name, "dynamodb", read, frees=frees, has_checksum=True)


QUICK_CALLS = (
    _call("GetItem", _get, _Get),
    _call("PutItem", _put, _Put),
    _call("DeleteItem", _delete, _Delete, frees=True),
    _call("UpdateItem", _update, _Update, _LegacyUpdate),
    _call("Query", _query, _Query),
)
