"""Converts GetRecords' answers to Arrow. Separate from the client, which imports boto3: tasks rarely call Kinesis.

Parsing an answer takes several times as long as fetching it, and a Python process parses one at a time. The planner,
which reads every shard, needs only the number of records, the last record and the next iterator. It finds these in the
bytes, and the tasks parse the rest.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from typing import Any

from headrace.spark.columns import columns
from headrace.spark.untyped import Records, pa, pc

# The columns of a GetRecords page and a spooled file; the other two columns are the same in every row.
PAGE_SCHEMA = pa.schema(
    [
        pa.field("data", pa.binary()),
        pa.field("partitionKey", pa.string()),
        pa.field("sequenceNumber", pa.string()),
        pa.field("approximateArrivalTimestamp", pa.timestamp("us", tz="UTC")),
    ]
)

# Quotes inside a JSON string are escaped, so a name with its quotes and colon is a member, not part of a string.
_NUMBER = re.compile(rb'"SequenceNumber":"(\d+)"')
_ARRIVAL = re.compile(rb'"ApproximateArrivalTimestamp":([0-9.eE+]+)')
_NEXT = re.compile(rb'"NextShardIterator":("[^"\\]*"|null)')
_BEHIND = re.compile(rb'"MillisBehindLatest":(\d+)')
# The size of a record in an answer without its data: names, quotes, a sequence number and a short key.
_RECORD_FRAME_BYTES = 140


class ExpiredIterator(Exception):
    """The shard iterator is older than five minutes; get another one."""


class Page:
    """One answer of GetRecords.

    Attributes:
        rows: how many records it has.
        last: the last record's sequence number, and its arrival in epoch milliseconds; None without records.
        next_iterator: None at the end of a closed shard.
        millis_behind_latest: the page's lag behind the shard's end.
        body: the answer, until it is parsed.
    """

    def __init__(
        self, records: Records, next_iterator: str | None, millis_behind_latest: int
    ) -> None:
        self._records: Records | None = records
        self.body: bytes | None = None
        self.rows: int = records.num_rows
        self.last = last_of(records) if self.rows else None
        self.next_iterator = next_iterator
        self.millis_behind_latest = millis_behind_latest

    @classmethod
    def unparsed(
        cls,
        body: bytes,
        rows: int,
        last: tuple[str, int],
        next_iterator: str | None,
        millis_behind_latest: int,
    ) -> Page:
        """Return the page of an answer that is parsed at the first use of its records."""
        page = cls.__new__(cls)
        page._records = None  # noqa: SLF001 - of its own class
        page.body, page.rows, page.last = body, rows, last
        page.next_iterator, page.millis_behind_latest = next_iterator, millis_behind_latest
        return page

    @property
    def records(self) -> Records:
        """The records."""
        if self._records is None:
            assert self.body is not None
            self._records = parse_records(self.body)
        return self._records

    @property
    def data_bytes(self) -> int:
        """The bytes of data; approximate for an unparsed answer."""
        if self._records is None and self.body is not None:
            return max(0, len(self.body) - self.rows * _RECORD_FRAME_BYTES) * 3 // 4
        return data_bytes(self._records)


def parse_page(body: bytes) -> Page:
    """Return the page in an answer's JSON body, unparsed if it has the services' usual layout."""
    rows = body.count(b'"SequenceNumber":')
    if not rows:
        return _parsed(body)
    number = _NUMBER.match(body, body.rfind(b'"SequenceNumber":'))
    arrival = _ARRIVAL.match(body, max(0, body.rfind(b'"ApproximateArrivalTimestamp":')))
    behind = _BEHIND.match(body, max(0, body.rfind(b'"MillisBehindLatest":')))
    next_at = body.rfind(b'"NextShardIterator":')
    following = _NEXT.match(body, max(0, next_at))
    if not (number and arrival and behind and (following or next_at < 0)):
        return _parsed(body)
    return Page.unparsed(
        body,
        rows,
        (number[1].decode(), round(float(arrival[1]) * 1000)),
        json.loads(following[1]) if following else None,
        int(behind[1]),
    )


def _parsed(body: bytes) -> Page:
    answer = json.loads(body)
    return Page(
        _batch(answer["Records"]),
        answer.get("NextShardIterator"),
        int(answer.get("MillisBehindLatest") or 0),
    )


def parse_records(body: bytes) -> Records:
    """Return the records in an answer's JSON body."""
    batch = columns(body, PAGE_SCHEMA)
    return _batch(json.loads(body)["Records"]) if batch is None else batch


def _batch(records: list[dict[str, Any]]) -> Records:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([a2b_base64(record["Data"]) for record in records], pa.binary()),
            pa.array([record.get("PartitionKey") for record in records], pa.string()),
            pa.array([record["SequenceNumber"] for record in records], pa.string()),
            pa.array(
                [round(record["ApproximateArrivalTimestamp"] * 1000) * 1000 for record in records],
                pa.timestamp("us", tz="UTC"),
            ),
        ],
        schema=PAGE_SCHEMA,
    )


def last_of(records: Records) -> tuple[str, int]:
    """Return the last record's sequence number, and its arrival in epoch milliseconds."""
    return row_of(records, records.num_rows - 1)


def row_of(records: Records, row: int) -> tuple[str, int]:
    """Return a record's sequence number, and its arrival in epoch milliseconds."""
    arrival_us = int(records.column("approximateArrivalTimestamp")[row].value)
    return str(records.column("sequenceNumber")[row].as_py()), arrival_us // 1000


def data_bytes(records: Records) -> int:
    """Return the bytes of data in a batch."""
    return int(pc.sum(pc.binary_length(records.column("data"))).as_py() or 0)
