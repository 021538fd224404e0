"""What there is in an account of a cloud in process, as paths and values: of moto's services and of headrace's.

Two pictures of an account in which nothing was made, changed or lost are equal: times, counters and what is only
remembered are left out.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from headrace.cloud import Cloud

Picture = dict[str, Any]

# Attributes that say when or how often something was done, or that hold what the service itself is made of.
_LEFT_OUT = re.compile(
    r"time|date\b|_date|Date|timestamp|last_|_at$|events$|lock|logger|model_instances|backend|amis$|ami_tagging"
    r"|instance_types|offerings|aws_managed_policies|event_queue|_cache|execution|response_metadata|paginator"
    r"|revision_?id|policy_revision|last_?modified|closed_ms|transition$|_current_version|version_id|^version$|etag|updated_ms"
    r"|callbacks|activities|history|creation_token|seen|access_keys$|moto_|client_token|url_map|schema$|quotas",
    re.IGNORECASE,
)
_ADDRESSES = (IPv4Address, IPv4Network, IPv6Address, IPv6Network)
_DEEPEST = 25
# What each account is born with, tens of thousands of values.
_STOCK = {("ec2", "snapshots")}
# Tables of the database that are CloudFormation's own, moto's, or logs.
_TABLES_LEFT_OUT = re.compile(
    r"^(doc_cfn_|cfn_|fallback_|sqlite_|headrace_|doc_shard_log|lambda_trace|doc_lambda_checkpoints|doc_firehose_progress"
    r"|doc_lambda_async|doc_lambda_layer_counters|pipe_positions)"
)


def picture_of(cloud: Cloud, account: str) -> Picture:
    """Return what the account has."""
    found: Picture = {}
    for path, value in (*_of_moto(account), *_of_database(cloud, account)):
        found[path] = value
    return found


def lost(before: Picture, after: Picture) -> dict[str, Any]:
    """Return what was there and is not any more, or is something else now."""
    return {
        path: (value, after.get(path, "gone"))
        for path, value in before.items()
        if path not in after or after[path] != value
    }


def gained(before: Picture, after: Picture) -> dict[str, Any]:
    """Return what was not there and is."""
    return {path: value for path, value in after.items() if path not in before}


def _of_moto(account: str) -> Iterator[tuple[str, Any]]:
    from moto.core.base_backend import BackendDict

    for each in list(BackendDict._instances):
        service = each.service_name
        if account not in each:
            continue
        for region, backend in list(each[account].items()):
            state = {k: v for k, v in vars(backend).items() if (service, k) not in _STOCK}
            yield from _walk(state, f"{service}/{region}", frozenset(), 0)


def _walk(value: Any, path: str, above: frozenset[int], depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float | str):
        # What is not set and what is empty are the same.
        yield path, None if value == "" else value
    elif isinstance(value, bytes):
        yield path, value[:200]
    elif isinstance(value, _ADDRESSES):
        # A network is iterable: it would be a value for each of its addresses.
        yield path, str(value)
    elif not (_says_nothing(value) or _has_ended(value) or id(value) in above or depth > _DEEPEST):
        yield from _inside(value, path, above | {id(value)}, depth + 1)


def _has_ended(value: Any) -> bool:
    """Whether a service only still shows that something was there."""
    ended = ("INACTIVE", "deleted")
    return (
        any(vars(value).get(name) in ended for name in ("status", "state"))
        if _plain(value)
        else False
    )


def _plain(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, type)


def _says_nothing(value: Any) -> bool:
    return isinstance(value, datetime | type | types.ModuleType | re.Pattern) or callable(value)


def _inside(value: Any, path: str, above: frozenset[int], depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) or _is_mapping(value):
        yield path, "{}"
        for key, item in list(value.items()):
            if _LEFT_OUT.search(str(key)) or "iam::aws:policy" in str(key):
                continue
            yield from _walk(item, f"{path}/{key}", above, depth)
    elif isinstance(value, list | tuple | set | frozenset) or hasattr(value, "__iter__"):
        yield path, "[]"
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
        for at, item in enumerate(items):
            yield from _walk(item, f"{path}/{at}", above, depth)
    else:
        yield path, type(value).__name__
        for key, item in _attributes(value):
            if not _LEFT_OUT.search(key):
                yield from _walk(item, f"{path}/.{key}", above, depth)


def _is_mapping(value: Any) -> bool:
    # Of a type that tells its attributes' names, not one that makes attributes up.
    return callable(getattr(type(value), "items", None))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "__dict__"):
        yield from list(vars(value).items())
    for name in getattr(type(value), "__slots__", ()):
        if hasattr(value, name):
            yield name, getattr(value, name)


def _of_database(cloud: Cloud, account: str) -> Iterator[tuple[str, Any]]:
    database: Any = cloud.database
    for (table,) in database.query("SELECT name FROM sqlite_master WHERE type = 'table'"):
        if _TABLES_LEFT_OUT.search(table):
            continue
        columns = [row[1] for row in database.query(f"PRAGMA table_info({table})")]
        for row in database.query(f"SELECT * FROM {table}"):
            key, values = str(row[0]), dict(zip(columns[1:], row[1:], strict=True))
            text = json.dumps(row, default=str)
            if account not in text:
                continue
            yield f"database/{table}/{key}", "row"
            for column, value in values.items():
                yield from _walk(_read(value), f"database/{table}/{key}/{column}", frozenset(), 0)


def _read(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
