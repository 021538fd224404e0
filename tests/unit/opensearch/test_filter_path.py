"""`filter_path`, by the examples of OpenSearch's documentation of common REST parameters (documented)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.opensearch.rest import filter_answer
from tests.support.search_lab import Lab, put_flights

HITS = [{"_id": "1", "_source": {"a": {"b": 1}}}, {"_id": "2", "none": None}]
ANSWER = {"took": 1, "hits": {"total": 2, "hits": HITS}}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ("took", {"took": 1}),
        ("took,hits.total", {"took": 1, "hits": {"total": 2}}),
        ("hits.hits._id", {"hits": {"hits": [{"_id": "1"}, {"_id": "2"}]}}),
        ("hits.hits._s*", {"hits": {"hits": [{"_source": {"a": {"b": 1}}}]}}),
        ("**.b", {"hits": {"hits": [{"_source": {"a": {"b": 1}}}]}}),
        ("**._id", {"hits": {"hits": [{"_id": "1"}, {"_id": "2"}]}}),
        ("hits.**", {"hits": ANSWER["hits"]}),
        ("hits.hits.none", {"hits": {"hits": [{"none": None}]}}),
        ("nothing", {}),
        ("-hits", {"took": 1}),
        ("hits,-hits.hits", {"hits": {"total": 2}}),
        ("-**.a,-**.none", {"took": 1, "hits": {"total": 2, "hits": [{"_id": "1", "_source": {}}, {"_id": "2"}]}}),
        ("", ANSWER),
    ],
)  # fmt: skip
def test_parts_of_an_answer(paths: str, expected: Any):
    assert filter_answer(ANSWER, paths) == expected


def test_answers_and_errors_are_filtered(lab: Lab):
    put_flights(lab)
    asked = "/f/_search?size=1&filter_path=hits.hits._id"
    assert lab.ask("GET", asked).body == {"hits": {"hits": [{"_id": "1"}]}}
    missing = lab.ask("GET", "/nowhere/_search?filter_path=error.type,status")
    assert missing.body == {"error": {"type": "index_not_found_exception"}, "status": 404}
