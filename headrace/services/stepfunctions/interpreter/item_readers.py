"""Reads the items of a distributed Map from objects in S3, and bounds the memory that they take.

AWS reads objects of gigabytes and starts an execution for each item elsewhere; here all items are in this process.
Documented: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html. Assumed: the sentences of
failures, and how values of Parquet are JSON.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import sys
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, cast

from headrace.core.evaluation import (
    POOL,
    Engine,
    Ledger,
    TooMuch,
    bound_parsed_bytes,
    text_size,
)
from headrace.services.stepfunctions.definition_checks import CSV_DELIMITERS
from headrace.services.stepfunctions.interpreter.service_calls import Client, client_of_cloud
from headrace.services.stepfunctions.jsonata_expressions import unpack

READER_ERROR = "States.ItemReaderFailed"
# The items of one Map, and of all together, about as they are in memory. An execution's history ends it before.
ITEMS = Ledger(one=256 * 1024 * 1024, all_together=512 * 1024 * 1024)
# An object of a row, and one field of it, beside their texts.
_ROW_BYTES, _FIELD_BYTES = 600, 120
# An object of a listing.
_LISTED_BYTES, _MOST_LISTED_BYTES = 900, 256 * 1024 * 1024
_MOST_INFLATED_BYTES = 256 * 1024 * 1024
_LINES_AT_ONCE = 10_000
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET = Engine(Path(__file__).with_name("parquet_child.py"))


@dataclass(frozen=True, slots=True)
class _Request:
    """What a reader asks S3, and by which client."""

    client: Client
    operation: str
    params: dict[str, Any]

    def get(self, bucket: str, key: str) -> bytes:
        return _body_of(self.client.call("GetObject", Bucket=bucket, Key=key))


class _Items:
    """The items of one Map as they are read: no more than it takes, and no more memory than headrace keeps."""

    def __init__(self, env: Any, most: int | None) -> None:
        self._most, self.values = most, list[Any]()
        self._holder = env.items_holder = str(uuid.uuid4())

    @property
    def room(self) -> int:
        """How many more items the Map takes."""
        return sys.maxsize if self._most is None else self._most - len(self.values)

    def hold(self, size: int) -> None:
        """Note that the next items take `size` bytes. Raises TooMuch."""
        try:
            ITEMS.take(self._holder, size)
        except TooMuch:
            raise TooMuch("The file has more items than headrace keeps in memory") from None

    def add(self, values: Iterable[Any]) -> None:
        self.values += islice(values, self.room)


class _Unreadable(Exception):
    """An object is not what the reader's configuration says; the text says why."""


def read_items(self: Any, env: Any) -> None:
    """Read a Map's items, in place of moto's function, which reads JSON and CSV alone."""
    config, most = dict[str, Any](), None
    if self.reader_config:
        config = self.reader_config.input_type.config
        self.reader_config.eval(env=env)
        most = env.stack.pop()["MaxItemsValue"]
    if self.parargs:
        self.parargs.eval(env=env)
    else:
        env.stack.append({})
    self.resource_eval.eval_resource(env=env)
    request, items = cast("_Request", env.stack.pop()), _Items(env, most)
    has_read = False
    try:
        _read(request, config, items)
        has_read = True
    except (TooMuch, _Unreadable) as error:
        raise map_failure(env, READER_ERROR, f"{error}.") from error
    except (ValueError, RecursionError, csv.Error, zlib.error) as error:
        kind = config.get("InputType", "object of the type that its reader names")
        what = (
            "A line of the file is no JSON value" if kind == "JSONL" else f"The file is no {kind}"
        )
        raise map_failure(env, READER_ERROR, f"{what}: {error}") from error
    finally:
        # Also when S3 refuses one of several objects.
        if not has_read:
            give_back(env)
    env.stack.append(items.values)


def _read(request: _Request, config: dict[str, Any], items: _Items) -> None:
    if request.operation == "ListObjectsV2":
        is_flat = config.get("Transformation") == "LOAD_AND_FLATTEN"
        listed = _list_objects(request, None if is_flat else items)
        bucket: str = request.params["Bucket"]
        if is_flat:
            _read_all(request, [(bucket, entry["Key"]) for entry in listed], config, items)
        return
    body = _body_of(request.client.call("GetObject", **request.params))
    if config.get("ManifestType") == "ATHENA_DATA":
        _read_all(request, _split_uris(_inflate(body).decode()), config, items)
    elif config.get("ManifestType") == "S3_INVENTORY" or config.get("InputType") == "MANIFEST":
        _read_inventory(request, _inflate(body), items)
    else:
        _FORMATS[_input_type(config)](body, config, items)


def _input_type(config: dict[str, Any]) -> str:
    kind = config.get("InputType")
    if kind not in _FORMATS:
        raise _Unreadable(f"The InputType of the ReaderConfig must be one of {', '.join(_FORMATS)}")
    return str(kind)


def _read_all(
    request: _Request, places: Iterable[tuple[str, str]], config: dict[str, Any], items: _Items
) -> None:
    read = _FORMATS[_input_type(config)]
    for bucket, key in places:
        if items.room <= 0:
            return
        # This bounds how many objects without items are read, too.
        items.hold(_LISTED_BYTES)
        # An object that only marks a folder holds no items.
        if not key.endswith("/"):
            read(request.get(bucket, key), config, items)


def _split_uris(manifest: str) -> Iterator[tuple[str, str]]:
    for line in filter(None, map(str.strip, io.StringIO(manifest))):
        bucket, _, key = line.removeprefix("s3://").partition("/")
        if not line.startswith("s3://") or not key:
            raise _Unreadable(f"The manifest has a line that is no address in S3: {line[:200]}")
        yield bucket, key


def _read_inventory(request: _Request, body: bytes, items: _Items) -> None:
    """Read the rows of an inventory's files, whose columns and places its manifest names.

    Documented: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html.
    """
    text = body.decode()
    items.hold(bound_parsed_bytes(text))
    manifest: Any = json.loads(text)
    try:
        kind, columns = manifest["fileFormat"], str(manifest["fileSchema"]).split(",")
        bucket = str(manifest["destinationBucket"]).rpartition(":")[2]
        keys = [str(file["key"]) for file in manifest["files"]]
    except (KeyError, TypeError) as error:
        raise _Unreadable("The file is no manifest of an inventory of S3") from error
    if kind != "CSV":
        raise _Unreadable(f"An inventory's files must be CSV, and not {kind}")
    config = {"CSVHeaderLocation": "GIVEN", "CSVHeaders": [name.strip() for name in columns]}
    _read_all(request, [(bucket, key) for key in keys], {"InputType": "CSV", **config}, items)


def _read_json(body: bytes, config: dict[str, Any], items: _Items) -> None:
    text = _inflate(body).decode()
    items.hold(bound_parsed_bytes(text))
    value = _point(json.loads(text), str(config.get("ItemsPointer", "")))
    if not isinstance(value, list):
        # The sentence: moto's, from a recording of AWS.
        raise _Unreadable("Attempting to map over non-iterable node")
    items.add(cast("list[Any]", value))


def _point(value: Any, pointer: str) -> Any:
    """Return what a JSON pointer (RFC 6901) names in a value."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = cast("dict[str, Any]", value)[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(cast("Any", value)):
            value = cast("list[Any]", value)[int(name)]
        else:
            raise _Unreadable(f"The ItemsPointer {pointer} names nothing in the file")
    return value


def _read_lines(body: bytes, _: dict[str, Any], items: _Items) -> None:
    text = _inflate(body).decode()
    lines = filter(None, map(str.strip, io.StringIO(text)))
    while some := list(islice(lines, min(items.room, _LINES_AT_ONCE))):
        items.hold(sum(map(bound_parsed_bytes, some)))
        items.add(map(json.loads, some))


def _read_csv(body: bytes, config: dict[str, Any], items: _Items) -> None:
    text = _inflate(body).decode()
    rows = csv.reader(
        io.StringIO(text), delimiter=CSV_DELIMITERS[config.get("CSVDelimiter", "COMMA")]
    )
    is_given = config.get("CSVHeaderLocation") == "GIVEN"
    headers: list[str] = config.get("CSVHeaders", []) if is_given else next(rows, [])
    if len(set(headers)) < len(headers):
        raise _Unreadable("CSV headers cannot contain duplicates")
    # Every row has all columns.
    count = min(text.count("\n") + 1, items.room)
    items.hold(text_size(text) + count * (_ROW_BYTES + len(headers) * _FIELD_BYTES))
    # AWS orders the members so (moto, from a recording).
    names = sorted(enumerate(headers), key=lambda header: (header[1].isalpha(), header[1]))
    items.add(
        {name: row[place] if place < len(row) else "" for place, name in names} for row in rows
    )


def _read_parquet(body: bytes, _: dict[str, Any], items: _Items) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise _Unreadable("To read Parquet, install pyarrow: pip install 'pyarrow>=21'")
    start = 0
    while items.room > 0:
        asked = json.dumps({"start": start, "most": min(items.room, 1_000_000)}).encode()
        text = POOL.ask(_PARQUET, asked + b"\n" + body, caller="stepfunctions", topic="items")
        items.hold(bound_parsed_bytes(text.decode()))
        answer = json.loads(text)
        if "problem" in answer:
            raise _Unreadable(answer["problem"])
        items.add(answer["rows"])
        start += len(answer["rows"])
        if not answer["rows"] or start >= answer["total"]:
            return


_FORMATS: dict[str, Callable[[bytes, dict[str, Any], _Items], None]] = {
    "JSON": _read_json,
    "JSONL": _read_lines,
    "CSV": _read_csv,
    "PARQUET": _read_parquet,
}


def _body_of(answer: dict[str, Any]) -> bytes:
    """Return an object's content. Raises TooMuch before it is read."""
    if answer["ContentLength"] > _MOST_INFLATED_BYTES:
        raise TooMuch("The file is larger than headrace keeps in memory")
    return answer["Body"].read()


def _inflate(body: bytes) -> bytes:
    """Return an object's content, which may be compressed by GZIP, as inventories and Athena's files are."""
    if not body.startswith(_GZIP_MAGIC):
        return body
    try:
        # Several files, one after the other, are one too: RFC 1952, 2.2.
        content = gzip.GzipFile(fileobj=io.BytesIO(body)).read(_MOST_INFLATED_BYTES + 1)
    except (EOFError, gzip.BadGzipFile) as error:
        raise zlib.error(str(error)) from error
    if len(content) > _MOST_INFLATED_BYTES:
        raise TooMuch("The file has more items than headrace keeps in memory")
    return content


def take_request(operation: str) -> Callable[[Any, Any, Any], None]:
    """Return what stands in place of moto's call of S3: it gives the request to `read_items`."""

    def take(env: Any, part: Any, credentials: Any) -> None:
        client = client_of_cloud(part.region, "s3", credentials)
        env.stack.append(_Request(client, operation, dict(env.stack.pop())))

    return take


def _list_objects(request: _Request, items: _Items | None) -> list[dict[str, Any]]:
    """List a bucket's objects, all pages; they are the Map's items, or the objects that hold them (`items` is None)."""
    params, listed, size = dict(request.params), list[dict[str, Any]](), 0
    while True:
        page = request.client.call("ListObjectsV2", **params)
        for entry in page.get("Contents", ()):
            at = datetime.fromisoformat(entry["LastModified"])
            members = {
                name: entry[name] for name in ("Key", "Size", "StorageClass") if name in entry
            }
            listed.append({"Etag": entry["ETag"], "LastModified": int(at.timestamp()), **members})
            size += _LISTED_BYTES + len(entry["Key"])
        if size > _MOST_LISTED_BYTES:
            raise TooMuch("The bucket has more objects than headrace keeps in memory")
        if not page.get("IsTruncated"):
            break
        params["ContinuationToken"] = page["NextContinuationToken"]
    if items is not None:
        items.hold(size)
        items.add(listed)
    return listed


def give_back(env: Any) -> None:
    """Note that the items of a Map are in memory no more."""
    ITEMS.give_back(getattr(env, "items_holder", ""))


def take_config(take: Callable[..., None]) -> Callable[..., None]:
    """Let the type of a reader's input carry the whole ReaderConfig."""

    def take_input_type(self: Any, input_type: str) -> None:
        self.config = unpack(input_type)
        take(self, "JSON")

    return take_input_type


def map_failure(env: Any, error: str, cause: str) -> Exception:
    """Return the exception with which a Map ends in moto's interpreter."""
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    details: Any = {"error": error, "cause": cause}
    details_of: Any = EventDetails
    kind: Any = HistoryEventType.MapRunFailed
    name: Any = type("MapErrorName", (ErrorName,), {})
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=name(error),
            event_type=kind,
            event_details=details_of(mapRunFailedEventDetails=details),
        )
    )
