"""Converts GetRecords' answers to Arrow. Separate from the client, which imports boto3: tasks rarely call Kinesis.

Parsing an answer takes several times as long as fetching it, and a Python process parses one at a time. The planner,
which reads every shard, needs only the number of records, the last record and the next iterator. It finds these in the
bytes, and the tasks parse the rest.

Extracts Arrow columns from a GetRecords answer by the positions of its quotes, instead of parsing each record.

Services write all records of an answer alike: the same members in the same order, without blanks. The positions of the
quotes then form a table with a row for each record, and an Arrow column is extracted from it at once, including base64
decoding. The JSON parser handles any other answer; the result is the same, only slower. Without numpy, the JSON parser
handles all answers.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from typing import Any

from headrace.spark.arrays import binary_array, integer_array, string_array, words_array
from headrace.spark.untyped import Records, pa, pc, untyped

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
        return _parse_page(body)
    number = _NUMBER.match(body, body.rfind(b'"SequenceNumber":'))
    arrival = _ARRIVAL.match(body, max(0, body.rfind(b'"ApproximateArrivalTimestamp":')))
    behind = _BEHIND.match(body, max(0, body.rfind(b'"MillisBehindLatest":')))
    next_at = body.rfind(b'"NextShardIterator":')
    following = _NEXT.match(body, max(0, next_at))
    if not (number and arrival and behind and (following or next_at < 0)):
        return _parse_page(body)
    return Page.unparsed(
        body,
        rows,
        (number[1].decode(), round(float(arrival[1]) * 1000)),
        json.loads(following[1]) if following else None,
        int(behind[1]),
    )


def _parse_page(body: bytes) -> Page:
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
            binary_array([a2b_base64(record["Data"]) for record in records]),
            string_array([record.get("PartitionKey") for record in records]),
            string_array([record["SequenceNumber"] for record in records]),
            integer_array(
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


# The members of a record; the length and the first letter identify each.
_NAMES = frozenset(
    (
        b"SequenceNumber",
        b"ApproximateArrivalTimestamp",
        b"Data",
        b"PartitionKey",
        b"EncryptionType",
    )
)
_COLUMNS = (b"Data", b"PartitionKey", b"SequenceNumber", b"ApproximateArrivalTimestamp")
_RECORDS = b'"Records":['
_QUOTE, _COLON, _COMMA, _OPEN, _CLOSE, _END, _NEWLINE = b'":,{}]\n'
_NO_LETTER = 0xFFFF


def columns(body: bytes, schema: Any) -> Records | None:
    """Return the records of an answer with the columns of `schema`; None if the JSON parser must handle it.

    Args:
        body: the answer: `{"Records":[{...},...],...}`.
        schema: data, partitionKey, sequenceNumber, approximateArrivalTimestamp.
    """
    # An escape may contain a quote.
    if np is None or b"\\" in body:
        return None
    text = np.frombuffer(body, np.uint8)
    quotes = np.flatnonzero(text == _QUOTE)
    places = _places(body, text, quotes)
    if places is None:
        return None
    cut = {name: _cut(body, *places[name]) for name in _COLUMNS}
    data = _from_base64(cut[b"Data"])
    if data is None:
        return None
    try:
        cut[b"PartitionKey"].validate(full=True)
        seconds = cut[b"ApproximateArrivalTimestamp"].cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    arrivals_s = np.frombuffer(seconds.buffers()[1], np.float64, len(seconds))
    arrivals_us = np.rint(arrivals_s * 1000).astype(np.int64) * 1000
    timestamps = words_array(arrivals_us, schema.field("approximateArrivalTimestamp").type)
    arrays = [data, cut[b"PartitionKey"], cut[b"SequenceNumber"], timestamps]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _places(body: bytes, text: Any, quotes: Any) -> dict[bytes, tuple[Any, Any]] | None:
    """Return the positions of each member's values in the answer; None if its records are not all alike."""
    begin = body.find(_RECORDS) + len(_RECORDS)
    first = int(np.searchsorted(quotes, begin))
    members = _members(body, quotes[first : first + 4 * len(_NAMES)].tolist())
    if begin < len(_RECORDS) or members is None or not set(_COLUMNS) <= members.keys():
        return None
    width = 2 * sum(2 if is_string else 1 for is_string in members.values())
    rows = body.count(b'"SequenceNumber":')
    table = quotes[first : first + rows * width]
    if rows == 0 or len(table) != rows * width:
        return None
    table = table.reshape(rows, width)
    bounds: dict[bytes, tuple[Any, Any]] = {}
    # The text before a record's first name is checked at the end of the record before.
    good = text[table[0, 0] - 1] == _OPEN
    column = 0
    for name, is_string in members.items():
        opened, closed = table[:, column], table[:, column + 1]
        good &= bool((closed - opened == len(name) + 1).all())
        good &= bool((text[opened + 1] == name[0]).all()) and bool(
            (text[closed + 1] == _COLON).all()
        )
        column += 4 if is_string else 2
        if is_string:
            begins, ends = table[:, column - 2] + 1, table[:, column - 1]
            good &= bool((begins == closed + 3).all())
            after = ends + 1
        else:
            # A number, up to the comma before the next name; the last member is a string.
            begins, ends = closed + 2, table[:, column] - 1
            after = ends
        good &= _goes_on(text, after, table, column)
        bounds[name] = (begins, ends)
    return bounds if good else None


def _goes_on(text: Any, after: Any, table: Any, column: int) -> bool:
    """Return whether the next name, or the next record, directly follows each value."""
    if column < table.shape[1]:
        return bool((text[after] == _COMMA).all() and (table[:, column] == after + 1).all())
    last, others, following = after[-1], after[:-1], table[1:, 0]
    gaps = following - others
    # headrace sometimes starts a new line where a stored batch begins.
    alike = (gaps == 3) | ((gaps == 4) & (text[others + 2] == _NEWLINE))
    return bool(
        alike.all()
        and (text[others] == _CLOSE).all()
        and (text[others + 1] == _COMMA).all()
        and (text[following - 1] == _OPEN).all()
        and text[last : last + 2].tolist() == [_CLOSE, _END]
    )


def _members(body: bytes, quotes: list[int]) -> dict[bytes, bool] | None:
    """Return the first record's members in order, and whether each is a string; None if they are unexpected."""
    members: dict[bytes, bool] = {}
    at = 0
    while at + 2 < len(quotes):
        name = body[quotes[at] + 1 : quotes[at + 1]]
        is_string = body[quotes[at + 1] + 2] == _QUOTE
        if name not in _NAMES or name in members or is_string == (name == _COLUMNS[-1]):
            return None
        members[name] = is_string
        at += 4 if is_string else 2
        if is_string and at <= len(quotes) and body[quotes[at - 1] + 1] == _CLOSE:
            return members
    return None


def _cut(body: bytes, begins: Any, ends: Any) -> Any:
    """Return the parts of `body` between two arrays of positions, copied to an Arrow array of strings."""
    return _every_other(pa.py_buffer(body), begins, ends, pa.string())


def _every_other(buffer: Any, begins: Any, ends: Any, kind: Any) -> Any:
    # One array of the values and the parts between them; every second element is a value.
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[0::2] = begins
    offsets[1::2] = ends
    pieces = untyped(pa.Array).from_buffers(
        kind, len(offsets) - 1, [None, pa.py_buffer(offsets), buffer]
    )
    every_other = np.arange(0, len(offsets) - 1, 2, np.int64)
    return pieces.take(words_array(every_other, pa.int64()))


def _from_base64(texts: Any) -> Any:
    """Decode an array of base64; return None if an element is not base64."""
    _, offsets_buffer, letters_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(texts) + 1, texts.offset * 4)
    if offsets[0] != 0 or (offsets % 4).any():
        return None
    if offsets[-1] == 0:
        return texts.cast(pa.binary())
    letters = np.frombuffer(letters_buffer, np.uint8)[: offsets[-1]]
    begins, ends = offsets[:-1], offsets[1:]
    # Positions before the first letter belong to empty values and do not count.
    one = (ends > begins) & (letters[ends - 1] == _PAD)
    two = one & (letters[ends - 2] == _PAD)
    pads = one.astype(np.int32) + two
    plain = _decode_letters(letters, int(pads.sum()))
    if plain is None:
        return None
    kept = (begins // 4 * 3, ends // 4 * 3 - pads)
    return _every_other(pa.py_buffer(plain), *kept, pa.binary())


def _decode_letters(letters: Any, pads: int) -> Any:
    """Decode base64 letters, with zeros for padding; return None for other letters or padding other than `pads`."""
    plain = np.empty(len(letters) // 4 * 3, np.uint8)
    padding = 0
    for start in range(0, len(letters), _AT_ONCE):
        some = letters[start : start + _AT_ONCE]
        padding += int(np.count_nonzero(some == _PAD))
        pairs = _LETTERS.take(some.view("<u2"))
        if pairs.max() == _NO_LETTER:
            return None
        words = pairs[0::2].astype(np.uint32)
        words <<= 12
        words |= pairs[1::2]
        out = plain[start // 4 * 3 : (start + len(some)) // 4 * 3]
        out[0::3] = words >> 16
        out[1::3] = words >> 8
        out[2::3] = words
    return plain if padding == pads else None


_PAD = ord("=")
# How many letters are decoded at once: the results stay in the processor's cache.
_AT_ONCE = 1 << 17


def _two_letters() -> Any:
    """Return a table of the twelve bits of each pair of base64 letters (the first in the low byte)."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    one = np.full(256, -1, np.int32)
    one[np.frombuffer(alphabet, np.uint8)] = np.arange(64)
    one[_PAD] = 0
    both = (one[None, :] << 6) | one[:, None]
    both[(one[None, :] < 0) | (one[:, None] < 0)] = _NO_LETTER
    return both.astype(np.uint16).ravel()


try:
    import numpy

    np: Any = numpy
except ImportError:  # The JSON parser needs none.
    np: Any = None
_LETTERS: Any = None if np is None else _two_letters()
