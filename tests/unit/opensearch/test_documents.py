"""Updates and reads of many documents; the answers are OpenSearch's (documented, and its sources' sentences)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.opensearch import rest_parts
from tests.support.search_lab import Lab, put_flights


def test_an_update_merges_objects_and_replaces_all_else(lab: Lab):
    lab.ask("PUT", "/i/_doc/1", {"a": {"b": 1, "c": [1, 2]}, "d": "x"})
    change = {"doc": {"a": {"c": [3], "e": None}, "f": True}}
    updated = lab.ask("POST", "/i/_update/1?refresh=true&retry_on_conflict=3&_source=true", change)
    assert (updated.status, updated.body["result"], updated.body["_version"]) == (200, "updated", 2)
    merged = {"a": {"b": 1, "c": [3], "e": None}, "d": "x", "f": True}
    assert updated.body["get"]["_source"] == merged
    assert lab.ask("GET", "/i/_doc/1").body["_source"] == merged
    assert lab.ask("POST", "/i/_count", {"query": {"term": {"a.c": 3}}}).body["count"] == 1
    assert lab.ask("POST", "/i/_count", {"query": {"term": {"a.c": 1}}}).body["count"] == 0


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({"doc": {"n": 1}}, "noop"),
        ({"doc": {"n": 1}, "detect_noop": False}, "updated"),
        ({"doc": {"n": 1.0}}, "updated"),
        ({"doc": {"n": True}}, "updated"),
        ({"doc": {"m": None}}, "updated"),
        ({"doc": {}}, "noop"),
    ],
)
def test_an_update_that_changes_nothing_writes_nothing(lab: Lab, change: Any, result: str):
    seq_no = lab.ask("PUT", "/i/_doc/1", {"n": 1}).body["_seq_no"]
    answer = lab.ask("POST", "/i/_update/1", change)
    if change["doc"].get("n") is True:
        assert answer.body["error"]["type"] == "mapper_parsing_exception"
        return
    assert (answer.status, answer.body["result"]) == (200, result)
    is_noop = result == "noop"
    assert answer.body["_version"] == (1 if is_noop else 2)
    assert answer.body["_shards"]["total"] == (0 if is_noop else 1)
    assert (answer.body["_seq_no"] == seq_no) is is_noop


def test_an_upsert_is_written_if_the_document_is_missing(lab: Lab):
    both = {"doc": {"n": 2}, "upsert": {"n": 1}}
    for status, n in ((201, 1), (200, 2)):
        assert lab.ask("POST", "/i/_update/1", both).status == status
        assert lab.ask("GET", "/i/_doc/1").body["_source"] == {"n": n}
    as_upsert = {"doc": {"n": 3}, "doc_as_upsert": True}
    assert lab.ask("POST", "/i/_update/2", as_upsert).body["result"] == "created"
    assert lab.ask("GET", "/i/_doc/2").body["_source"] == {"n": 3}


@pytest.mark.parametrize(
    ("change", "status", "kind", "says"),
    [
        ({"doc": {}}, 404, "document_missing_exception", "[1]: document missing"),
        ({}, 400, "action_request_validation_exception", "Validation Failed: 1: script or doc is missing;"),
        ({"upsert": {}}, 400, "action_request_validation_exception", "1: script or doc is missing;"),
        ({"doc_as_upsert": True}, 400, "action_request_validation_exception", "2: doc must be specified if doc_as_up"),
        ({"hop": 1}, 400, "x_content_parse_exception", "[UpdateRequest] unknown field [hop]"),
        ({"doc": 1}, 400, "x_content_parse_exception", "doc doesn't support values of this type"),
        ({"doc": {}, "detect_noop": "x"}, 400, "x_content_parse_exception", "failed to parse field [detect_noop]"),
        ({"script": "x", "doc": {}}, 400, "not_supported_by_headrace", "[script] of an update"),
    ],
)  # fmt: skip
def test_an_update_that_is_refused(lab: Lab, change: Any, status: int, kind: str, says: str):
    refused = lab.refused("POST", "/i/_update/1", change)
    assert refused[:2] == (status, kind)
    assert says in refused[2]
    assert lab.ask("GET", "/_search").body["hits"]["total"]["value"] == 0


def test_updates_in_a_bulk(lab: Lab):
    reply = lab.bulk(
        {"index": {"_id": "1"}}, {"n": 1, "m": 1},
        {"update": {"_id": "1", "retry_on_conflict": 3}}, {"doc": {"n": 2}},
        {"update": {"_id": "1"}}, {"doc": {"n": 2}},
        {"update": {"_id": "2"}}, {"doc": {"n": 2}},
        {"update": {"_id": "3"}}, {"doc": {"n": 3}, "doc_as_upsert": True},
        path="/i/_bulk",
    ).body  # fmt: skip
    items = [next(iter(item.values())) for item in reply["items"]]
    assert [item.get("result") for item in items] == ["created", "updated", "noop", None, "created"]
    assert [item["status"] for item in items] == [201, 200, 200, 404, 201]
    assert items[3]["error"]["type"] == "document_missing_exception"
    assert lab.ask("GET", "/i/_doc/1").body["_source"] == {"n": 2, "m": 1}


def test_many_documents_are_read_at_once(lab: Lab):
    put_flights(lab)
    lab.ask("PUT", "/g/_doc/a%20b", {"x": {"y": 1, "z": 2}})
    asked = {
        "docs": [
            {"_index": "f", "_id": "1", "_source": ["carrier"]},
            {"_id": "2", "_source": False},
            {"_id": "nobody"},
            {"_index": "nowhere", "_id": "1"},
            {"_index": "g", "_id": "a%20b", "_source": "x.z"},
        ]
    }
    docs = lab.ask("POST", "/f/_mget", asked).body["docs"]
    assert [doc.get("found") for doc in docs] == [True, True, False, None, True]
    assert (docs[0]["_source"], docs[0]["_version"]) == ({"carrier": "AA"}, 1)
    assert "_source" not in docs[1]
    assert docs[3]["error"]["type"] == "index_not_found_exception"
    assert docs[3]["error"]["root_cause"][0]["reason"] == "no such index [nowhere]"
    assert docs[4]["_source"] == {"x": {"z": 2}}
    by_ids = lab.ask("GET", "/f/_mget?_source=delay", {"ids": ["3", "2"]}).body["docs"]
    assert [doc["_source"] for doc in by_ids] == [{"delay": -3}, {"delay": 50}]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/f/_mget", {}, "1: no documents to get;"),
        ("/f/_mget", {"ids": []}, "1: no documents to get;"),
        ("/_mget", {"ids": ["1"]}, "1: index is missing for doc 0;"),
        ("/f/_mget", {"docs": [{"_id": "1"}, {}]}, "1: id is missing for doc 1;"),
        ("/f/_mget", {"docs": [3]}, "docs array element should include an object"),
        ("/f/_mget", {"hop": []}, "unknown key [hop]"),
        ("/f/_mget", {"docs": [{"_id": "1", "routing": "x"}]}, "[routing] of a document of _mget"),
    ],
)
def test_a_bad_mget_is_refused(lab: Lab, path: str, body: Any, says: str):
    status, _, reason = lab.refused("POST", path, body)
    assert status == 400
    assert says in reason


def test_no_answer_takes_more_memory_than_its_bound(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rest_parts, "MOST_BYTES", 100_000)
    for doc_id in ("1", "2"):
        lab.ask("PUT", f"/i/_doc/{doc_id}", {"text": "x" * 40_000})
    assert len(lab.ask("POST", "/i/_mget", {"ids": ["1", "2"]}).body["docs"]) == 2
    lines = b'{}\n{"size":1}\n' * 3
    answers = lab.ask("POST", "/i/_msearch", lines).body["responses"]
    assert [answer["status"] for answer in answers] == [200, 200, 429]
    lab.ask("PUT", "/i/_doc/3", {"text": "x" * 40_000})
    for path, body in (
        ("/i/_mget", {"ids": ["1", "2", "1"]}),
        ("/i/_mget", {"ids": ["nobody"] * 300}),
        ("/nowhere/_mget", {"ids": ["nobody"] * 300}),
        ("/i/_search", {}),
        ("/i/_search?scroll=1m", {}),
    ):
        status, kind, reason = lab.refused("POST", path, body)
        assert (status, kind) == (429, "circuit_breaking_exception")
        assert "which is larger than the limit of [100000/100000b]" in reason
