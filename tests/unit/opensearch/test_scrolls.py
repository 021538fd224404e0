"""Scrolls and many searches at once; the answers are OpenSearch's (documented, and its sources' sentences)."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import pytest

from headrace.services.opensearch import searches
from tests.support.search_lab import Lab, put_flights


def put_numbers(lab: Lab, count: int) -> None:
    lines = [line for n in range(count) for line in ({"index": {"_id": str(n)}}, {"n": n})]
    assert lab.bulk(*lines, path="/i/_bulk").body["errors"] is False


def started(lab: Lab, size: int = 2, **more: Any) -> Any:
    return lab.ask("POST", "/i/_search?scroll=1m", {"size": size, "sort": "n", **more}).body


def numbers(page: Any) -> list[int]:
    return [hit["_source"]["n"] for hit in page["hits"]["hits"]]


def next_page(lab: Lab, page: Any, keep: str = "1m") -> Any:
    reply = lab.ask("POST", "/_search/scroll", {"scroll_id": page["_scroll_id"], "scroll": keep})
    assert reply.status == 200, reply.body
    return reply.body


def test_a_scroll_gives_every_document_once_as_it_was(lab: Lab):
    put_numbers(lab, 5)
    page = started(lab, aggs={"most": {"max": {"field": "n"}}})
    assert page["aggregations"]["most"]["value"] == 4
    lab.ask("DELETE", "/i/_doc/3")
    lab.ask("PUT", "/i/_doc/4", {"n": 40})
    lab.ask("PUT", "/i/_doc/2b", {"n": 2})
    pages = [numbers(page)]
    while page["hits"]["hits"]:
        page = next_page(lab, page)
        pages.append(numbers(page))
        assert page["hits"]["total"] == {"value": 5, "relation": "eq"}
    assert pages == [[0, 1], [2, 3], [4], []]
    assert numbers(next_page(lab, page)) == []
    assert numbers(started(lab, size=9)) == [0, 1, 2, 2, 40]


def test_a_scroll_of_an_index_that_is_dropped_meanwhile(lab: Lab):
    put_numbers(lab, 3)
    page = started(lab)
    lab.ask("DELETE", "/i")
    assert numbers(next_page(lab, page)) == [2]


def test_scored_searches_scroll_in_the_order_of_their_scores(lab: Lab):
    put_flights(lab)
    asked = {"query": {"match": {"note": "late gate"}}, "size": 1}
    whole = lab.ask("POST", "/f/_search", {**asked, "size": 9}).body["hits"]["hits"]
    page = lab.ask("POST", "/f/_search?scroll=1m", asked).body
    scrolled: list[Any] = []
    while page["hits"]["hits"]:
        scrolled += page["hits"]["hits"]
        page = next_page(lab, page)
    assert scrolled == whole
    assert len(whole) == 3


def test_every_way_to_name_a_scroll(lab: Lab):
    put_numbers(lab, 9)
    page = started(lab)
    id_ = page["_scroll_id"]
    assert numbers(lab.ask("GET", f"/_search/scroll/{id_}?scroll=1m").body) == [2, 3]
    assert numbers(lab.ask("GET", f"/_search/scroll?scroll_id={id_}").body) == [4, 5]
    assert numbers(lab.ask("POST", "/_search/scroll", {"scroll_id": id_}).body) == [6, 7]
    assert lab.ask("DELETE", "/_search/scroll", {"scroll_id": [id_]}).body == {
        "succeeded": True,
        "num_freed": 1,
    }
    assert lab.ask("DELETE", f"/_search/scroll/{id_}").status == 404
    started(lab)
    other = started(lab)["_scroll_id"]
    assert lab.ask("DELETE", f"/_search/scroll/{other}").body["num_freed"] == 1
    assert lab.ask("DELETE", "/_search/scroll/_all", domain="other").body["num_freed"] == 0
    assert lab.ask("DELETE", "/_search/scroll/_all").body["num_freed"] == 1


def test_a_scroll_ends_with_its_time(lab: Lab):
    put_numbers(lab, 9)
    page = started(lab)
    lab.clock.advance(50)
    page = next_page(lab, page, "2m")
    lab.clock.advance(119)
    assert numbers(next_page(lab, page, "1s")) == [4, 5]
    lab.clock.advance(1)
    reply = lab.ask("POST", "/_search/scroll", {"scroll_id": page["_scroll_id"]})
    assert reply.status == 404
    error = reply.body["error"]
    assert error["type"] == "search_phase_execution_exception"
    assert error["root_cause"][0]["type"] == "search_context_missing_exception"
    assert error["root_cause"][0]["reason"].startswith("No search context found for id [")
    assert lab.rest._scrolls._open == {}


def test_a_scroll_belongs_to_its_domain_and_goes_with_it(lab: Lab):
    put_numbers(lab, 9)
    id_ = started(lab)["_scroll_id"]
    assert lab.ask("POST", "/_search/scroll", {"scroll_id": id_}, domain="other").status == 404
    assert lab.ask("POST", "/_search/scroll", {"scroll_id": id_}).status == 200
    lab.rest.forget("d")
    assert lab.ask("POST", "/_search/scroll", {"scroll_id": id_}).status == 404


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/i/_search?scroll=1m", {"from": 1}, "1: using [from] is not allowed in a scroll context;"),
        ("/i/_search?scroll=1m", {"size": 0}, "1: [size] cannot be [0] in a scroll context;"),
        ("/i/_search?scroll=1m", {"size": 10_001}, "Batch size is too large, size must be less than or equal to: [10"),
        ("/i/_search?scroll=2d", {}, "Keep alive for request (2d) is too large. It must be less than (1d)."),
        ("/i/_search?scroll=soon", {}, "failed to parse setting [scroll] with value [soon] as a time value"),
        ("/_search/scroll", {"scroll_id": "nonsense"}, "Cannot parse scroll id"),
        ("/_search/scroll", {}, "1: scrollId is missing;"),
        ("/_search/scroll", {"hop": 1}, "Unknown parameter [hop]"),
    ],
)  # fmt: skip
def test_a_bad_scroll_is_refused(lab: Lab, path: str, body: Any, says: str):
    put_numbers(lab, 1)
    status, _, reason = lab.refused("POST", path, body)
    assert status == 400
    assert says in reason
    assert lab.rest._scrolls._open == {}


def test_only_so_many_scrolls_are_open(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searches, "MOST_SCROLLS", 2)
    put_numbers(lab, 3)
    started(lab)
    last = started(lab)
    status, _, reason = lab.refused("POST", "/i/_search?scroll=1m", {})
    assert status == 429
    assert "too many scroll contexts. Must be less than or equal to: [2]" in reason
    lab.ask("DELETE", f"/_search/scroll/{last['_scroll_id']}")
    assert numbers(started(lab)) == [0, 1]


def test_a_refused_scroll_ends_its_search_before_its_snapshot(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    monkeypatch.setattr(searches, "MOST_SCROLLS", 0)
    put_numbers(lab, 3)
    status, _, _ = lab.refused("POST", "/i/_search?scroll=1m", {"size": 2})
    gc.collect()
    assert status == 429
    assert not unraisable


# --- many searches ----------------------------------------------------------------------------


def search_many(lab: Lab, *lines: Any, path: str = "/_msearch") -> Any:
    return lab.ask("POST", path, "".join(json.dumps(line) + "\n" for line in lines).encode()).body


def test_many_searches_answer_one_by_one(lab: Lab):
    put_flights(lab)
    responses = search_many(
        lab,
        {"index": "f"}, {"query": {"term": {"carrier.keyword": "AA"}}, "size": 1},
        {"index": "nowhere"}, {},
        {}, {"query": {"hop": {}}},
        {"index": ["f", "nowhere"], "ignore_unavailable": True}, {"size": 0},
    )["responses"]  # fmt: skip
    assert [response["status"] for response in responses] == [200, 404, 400, 200]
    assert responses[0]["hits"]["total"]["value"] == 2
    assert responses[1]["error"]["type"] == "index_not_found_exception"
    assert responses[2]["error"]["root_cause"][0]["type"] == "not_supported_by_headrace"
    assert responses[3]["hits"]["total"]["value"] == 4
    (one,) = search_many(lab, {}, {"size": 0}, path="/f/_msearch")["responses"]
    assert one["hits"]["total"]["value"] == 4


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "1: no requests added;"),
        (b"{}\n{}", "must be terminated by a newline"),
        (b"{}\n[]\n", "no JSON object"),
    ],
)
def test_a_bad_msearch_is_refused(lab: Lab, body: bytes, says: str):
    status, _, reason = lab.refused("POST", "/_msearch", body)
    assert status == 400
    assert says in reason
