"""Reads the items of a distributed Map from an object in S3, and bounds the memory that they take.

AWS reads objects of gigabytes and starts an execution for each item elsewhere; here all items are in this process.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# moto has no public attributes for these patches.

from __future__ import annotations

import csv
import io
import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, cast

from headrace.core.evaluation import Ledger, TooMuch, bound_parsed_bytes, text_size
from headrace.services.stepfunctions.interpreter.client import client_of_cloud
from headrace.services.stepfunctions.interpreter.map_failures import map_failure

READER_ERROR = "States.ItemReaderFailed"
# The items of one Map, and of all together, about as they are in memory. An execution's history ends it before.
ITEMS = Ledger(one=256 * 1024 * 1024, all_together=512 * 1024 * 1024)
# An object of a row, and one field of it, beside their texts: moto sorts each row's fields.
_ROW_BYTES, _FIELD_BYTES = 600, 120
# An object of a listing.
_LISTED_BYTES, _MOST_LISTED_BYTES = 900, 256 * 1024 * 1024


def read_items(self: Any, env: Any) -> None:
    """Read a Map's items, in place of moto's function; it does not read JSON Lines, which Firehose writes."""
    config, is_lines = None, False
    if self.reader_config:
        is_lines = getattr(self.reader_config.input_type, "is_lines", False)
        self.reader_config.eval(env=env)
        config = env.stack.pop()
    if self.parargs:
        self.parargs.eval(env=env)
    else:
        env.stack.append({})
    try:
        self.resource_eval.eval_resource(env=env)
        if config is None:
            return
        text: Any = env.stack.pop()
        if isinstance(text, list):
            # A listing needs no reading of a file.
            env.stack.append(cast("list[Any]", text)[: config["MaxItemsValue"]])
            return
        if is_lines:
            text = "".join(itertools.islice(_lines(text), config["MaxItemsValue"]))
        _hold(env, _count_bytes(text, config))
        if is_lines:
            env.stack.append([json.loads(line) for line in io.StringIO(text)])
            return
        env.stack += [text, config]
        self.resource_output_transformer.eval(env=env)
    except TooMuch as error:
        raise map_failure(env, READER_ERROR, f"{error}.") from error
    except (ValueError, RecursionError, csv.Error) as error:
        give_back(env)
        kind = self.reader_config.input_type.input_type_value.value
        what = "A line of the file is no JSON value" if is_lines else f"The file is no {kind}"
        raise map_failure(env, READER_ERROR, f"{what}: {error}") from error


def list_objects(env: Any, part: Any, credentials: Any) -> None:
    """List a bucket's objects as a Map's items, all pages, in place of moto's function, which fails at an empty one.

    Documented: docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html (the members' names).
    """
    client, request = client_of_cloud(part.region, "s3", credentials), dict(env.stack.pop())
    items = list[dict[str, Any]]()
    size = 0
    while True:
        page = client.call("ListObjectsV2", **request)
        for entry in page.get("Contents", ()):
            at = datetime.fromisoformat(entry["LastModified"])
            members = {
                name: entry[name] for name in ("Key", "Size", "StorageClass") if name in entry
            }
            items.append({"Etag": entry["ETag"], "LastModified": int(at.timestamp()), **members})
            size += _LISTED_BYTES + len(entry["Key"])
        if size > _MOST_LISTED_BYTES:
            raise TooMuch("The bucket has more objects than headrace keeps in memory")
        if not page.get("IsTruncated"):
            break
        request["ContinuationToken"] = page["NextContinuationToken"]
    _hold(env, size)
    env.stack.append(items)


def give_back(env: Any) -> None:
    """Note that the items of a Map are in memory no more."""
    ITEMS.give_back(getattr(env, "items_holder", ""))


def _hold(env: Any, size: int) -> None:
    env.items_holder = str(uuid.uuid4())
    try:
        ITEMS.take(env.items_holder, size)
    except TooMuch:
        raise TooMuch("The file has more items than headrace keeps in memory") from None


def _lines(text: str) -> Iterator[str]:
    return (f"{line.strip()}\n" for line in io.StringIO(text) if line.strip())


def _count_bytes(text: str, config: Any) -> int:
    """Return the bytes that the items of a file take in memory, at most."""
    if "CSVHeaderLocation" not in config:
        return bound_parsed_bytes(text)
    headers = config.get("CSVHeaders") or next(csv.reader(io.StringIO(text)), [])
    # Every row has all columns.
    rows = min(text.count("\n") + 1, config["MaxItemsValue"])
    return text_size(text) + rows * (_ROW_BYTES + len(headers) * _FIELD_BYTES)


def take_lines(take: Callable[..., None]) -> Callable[..., None]:
    """Let the type of a reader's input be JSON Lines too."""

    def take_input_type(self: Any, input_type: str) -> None:
        self.is_lines = input_type == "JSONL"
        take(self, "JSON" if self.is_lines else input_type)

    return take_input_type
