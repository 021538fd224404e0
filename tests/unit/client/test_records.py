"""Answers of GetRecords, with msgspec and without."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.client import records
from headrace.client.quick_pages import rows_of
from headrace.client.records import Record, Unpacker, columns_of, page_of

ROW = {
    "SequenceNumber": "7",
    "PartitionKey": "k",
    "Data": "YWJj",
    "ApproximateArrivalTimestamp": 1.5e9,
}
CHILD = {
    "ShardId": "c",
    "ParentShards": ["p"],
    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "1"},
}
ANSWERS: list[dict[str, Any]] = [
    {"Records": [], "NextShardIterator": "i", "MillisBehindLatest": 0},
    {
        "Records": [ROW, {**ROW, "EncryptionType": "KMS", "PartitionKey": "Straße"}],
        "NextShardIterator": "i",
    },
    {"Records": [{k: v for k, v in ROW.items() if k != "PartitionKey"}], "NextShardIterator": None},
    {"Records": [], "NextShardIterator": None, "MillisBehindLatest": 5, "ChildShards": [CHILD]},
]


def by_json(body: bytes) -> Any:
    answer = json.loads(body)
    return answer, columns_of(answer["Records"])


@pytest.mark.parametrize("answer", ANSWERS)
def test_both_ways_read_the_same(answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    body = json.dumps(answer).encode()
    pages = []
    for rows in (rows_of, by_json):
        monkeypatch.setattr(records, "_rows_of", rows)
        pages.append(page_of(body, Unpacker(None, None)))
    assert pages[0] == pages[1]


def test_a_record_is_what_was_put():
    page = page_of(json.dumps(ANSWERS[1]).encode(), Unpacker(None, None))
    assert page.records[0] == Record(b"abc", "k", "7", 0, 1.5e9)
    assert (page.last, page.next_iterator, page.children) == ("7", "i", [])


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"Records":[{"Data":"?"}]}'])
def test_what_is_no_answer_is_told(body: bytes, monkeypatch: pytest.MonkeyPatch):
    for rows in (rows_of, by_json):
        monkeypatch.setattr(records, "_rows_of", rows)
        with pytest.raises((ValueError, KeyError, TypeError)):
            page_of(body, Unpacker(None, None))
