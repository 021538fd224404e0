"""What the planner finds in an answer's bytes is what parsing it gives."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.get_records import last_of, parse_page, parse_records

NASTY = st.sampled_from(
    ["SequenceNumber", '"SequenceNumber":"7"', '"NextShardIterator":null', '","Data":"', "é\\"]
)
KEYS = st.one_of(NASTY, st.text(min_size=1, max_size=20))
RECORDS = st.lists(
    st.tuples(KEYS, st.binary(max_size=50), st.from_regex(r"\A[0-9]{56}\Z"), st.integers(0, 2**42)),
    max_size=5,
)


def answer(records: list[tuple[str, bytes, str, int]], following: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "Records": [
            {
                "SequenceNumber": number,
                "ApproximateArrivalTimestamp": arrival_ms / 1000,
                "Data": b64encode(data).decode(),
                "PartitionKey": key,
            }
            for key, data, number, arrival_ms in records
        ],
        "MillisBehindLatest": 12,
    }
    return found if following is None else found | {"NextShardIterator": following}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize("escaped", [True, False])
@given(records=RECORDS, following=st.one_of(st.none(), st.just("AAA+/="), st.just('a"b')))
def test_a_page_is_what_the_answer_says_whatever_its_layout(
    separators: tuple[str, str],
    escaped: bool,
    records: list[tuple[str, bytes, str, int]],
    following: str | None,
) -> None:
    text = json.dumps(answer(records, following), separators=separators, ensure_ascii=escaped)
    page = parse_page(text.encode())
    assert page.rows == len(records)
    assert page.next_iterator == following
    assert page.millis_behind_latest == 12
    assert page.last == ((records[-1][2], records[-1][3]) if records else None)
    assert page.records.column("partitionKey").to_pylist() == [key for key, *_ in records]
    assert page.records.column("data").to_pylist() == [data for _, data, *_ in records]
    if records:
        assert last_of(page.records) == page.last


def test_the_planner_does_not_parse_a_compact_answer() -> None:
    body = json.dumps(answer([("k", b"x", "1" * 56, 5)], "i"), separators=(",", ":")).encode()
    assert parse_page(body).body == body
    assert parse_records(body).num_rows == 1


def test_what_is_read_imports_no_pandas() -> None:
    program = """
import json, sys
from base64 import b64encode
from headrace.spark.arrays import integer
from headrace.spark.get_records import parse_page
from headrace.spark.reading import MAGIC, with_constants
for separators in ((",", ":"), (", ", ": ")):
    for texts in ([], [b"x"], [MAGIC + b"no aggregate"]):
        record = {"SequenceNumber": "1", "ApproximateArrivalTimestamp": 1.5, "PartitionKey": "k"}
        records = [record | {"Data": b64encode(text).decode()} for text in texts]
        body = json.dumps({"Records": records, "MillisBehindLatest": 0}, separators=separators)
        rows = with_constants(parse_page(body.encode()).records, "stream", "shard")
        assert rows.column("data").to_pylist() == texts
assert integer(1).as_py() == 1
assert "pyarrow" in sys.modules
assert "pandas" not in sys.modules
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
