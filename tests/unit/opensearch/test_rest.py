"""The small OpenSearch, asked as OpenSearch is; its answers are opensearch.org/docs/latest's (documented)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.opensearch import searching
from headrace.services.opensearch.fields import date_math_ms, date_ms
from headrace.store import database
from tests.support.search_lab import Lab, put_flights


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Four flights that no test changes."""
    lab = Lab(tmp_path_factory.mktemp("search"))
    put_flights(lab)
    yield lab
    lab.stop()


# --- documents --------------------------------------------------------------------------------


def test_a_document_is_written_read_replaced_and_deleted(lab: Lab):
    first = lab.ask("PUT", "/i/_doc/1", {"a": 1})
    assert (first.status, first.body["result"], first.body["_version"]) == (201, "created", 1)
    second = lab.ask("PUT", "/i/_doc/1", {"a": 2})
    assert (second.status, second.body["result"], second.body["_version"]) == (200, "updated", 2)
    read = lab.ask("GET", "/i/_doc/1")
    assert (read.status, read.body["_source"], read.body["_version"]) == (200, {"a": 2}, 2)
    assert lab.ask("POST", "/i/_count").body["count"] == 1
    assert lab.ask("DELETE", "/i/_doc/1").body["result"] == "deleted"
    assert lab.ask("DELETE", "/i/_doc/1").status == 404
    assert lab.ask("GET", "/i/_doc/1").body == {"_index": "i", "_id": "1", "found": False}
    assert lab.ask("POST", "/i/_count", {"query": {"range": {"a": {"gte": 0}}}}).body["count"] == 0


def test_a_document_without_an_id_gets_one(lab: Lab):
    made = lab.ask("POST", "/i/_doc", {"a": 1}).body["_id"]
    assert lab.ask("GET", f"/i/_doc/{made}").body["_source"] == {"a": 1}


def test_everything_is_there_after_a_restart(lab: Lab):
    put_flights(lab)
    lab.stop()
    lab.start()
    assert lab.found({"match": {"note": "gate"}}) == ["4", "1"]
    assert (
        lab.bulk({"index": {"_index": "f", "_id": "5"}}, {"note": "gate"}).body["errors"] is False
    )
    assert len(lab.found({"match_all": {}})) == 5


def test_bulk_answers_for_each_item(lab: Lab):
    reply = lab.bulk(
        {"index": {"_id": "1"}},
        {"n": 1},
        {"create": {"_id": "1"}},
        {"n": 2},
        {"index": {"_index": "Upper", "_id": "1"}},
        {"n": 3},
        {"index": {"_id": "2"}},
        {"n": "many"},
        {"delete": {"_id": "1"}},
        {"delete": {"_id": "1"}},
        path="/i/_bulk",
    ).body
    items = [next(iter(item.items())) for item in reply["items"]]
    assert reply["errors"] is True
    assert [(action, item["status"]) for action, item in items] == [
        ("index", 201),
        ("create", 409),
        ("index", 400),
        ("index", 400),
        ("delete", 200),
        ("delete", 404),
    ]
    types = [item["error"]["type"] for _, item in items if "error" in item]
    assert types == [
        "version_conflict_engine_exception",
        "invalid_index_name_exception",
        "mapper_parsing_exception",
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"index":{}}\n{}', "must be terminated by a newline"),
        (b'{"hop":{}}\n{}\n', "Malformed action/metadata line [1]"),
        (b"nonsense\n", "no JSON"),
        (b'{"update":{"_id":"1"}}\n{}\n', "script or doc is missing"),
        (b'{"update":{"_id":"1"}}\n{"script":"x"}\n', "does not support [script] of an update"),
    ],
)
def test_a_malformed_bulk_writes_nothing(lab: Lab, body: bytes, says: str):
    whole = b'{"index":{"_index":"i","_id":"1"}}\n{}\n' + body
    status, _, reason = lab.refused("POST", "/_bulk", body if b"newline" in body else whole)
    assert status == 400
    assert says.replace("[1]", "[3]") in reason
    assert lab.ask("HEAD", "/i").status == 404


@pytest.mark.parametrize(
    "source", [b"[]", b"1", b"{", b"[" * 10_000, b"", b'{"": 1}', b'{"a..b": 1}']
)
def test_what_is_no_document_is_refused(lab: Lab, source: bytes):
    status, kind, _ = lab.refused("PUT", "/i/_doc/1", source)
    assert (status, kind) == (400, "mapper_parsing_exception")


# --- mappings ---------------------------------------------------------------------------------


def test_the_mapping_is_guessed(flights: Lab):
    mapping = flights.ask("GET", "/f/_mapping").body["f"]["mappings"]["properties"]
    keyword = {"keyword": {"type": "keyword", "ignore_above": 256}}
    assert mapping["carrier"] == {"type": "text", "fields": keyword}
    kinds = {name: mapping[name]["type"] for name in ("delay", "at", "ok")}
    assert kinds == {"delay": "long", "at": "date", "ok": "boolean"}


def test_objects_and_dots_are_the_same(lab: Lab):
    lab.bulk({"index": {"_index": "f"}}, {"a": {"b": 1}}, {"index": {"_index": "f"}}, {"a.b": 2})
    assert lab.ask("GET", "/f/_mapping").body["f"]["mappings"] == {
        "properties": {"a": {"properties": {"b": {"type": "long"}}}}
    }
    assert len(lab.found({"range": {"a.b": {"gte": 1}}})) == 2


def test_a_document_that_is_refused_leaves_the_mapping(lab: Lab):
    lab.ask("PUT", "/i/_doc/1", {"n": 1})
    assert lab.refused("PUT", "/i/_doc/2", {"new": 1, "n": "x"})[1] == "mapper_parsing_exception"
    assert list(lab.ask("GET", "/i/_mapping").body["i"]["mappings"]["properties"]) == ["n"]
    assert lab.refused("PUT", "/i/_doc/2", {"n": {"x": 1}})[0] == 400
    lab.ask("PUT", "/i/_doc/3", {"o": {"x": 1}})
    assert "tried to parse field [o] as object" in lab.refused("PUT", "/i/_doc/2", {"o": 1})[2]


def test_an_explicit_mapping_is_kept_and_held(lab: Lab):
    mapping = {"properties": {"when": {"type": "date"}, "code": {"type": "keyword"}}}
    assert lab.ask("PUT", "/f", {"mappings": mapping}).body["acknowledged"] is True
    assert lab.refused("PUT", "/f", {})[1] == "resource_already_exists_exception"
    assert lab.refused("PUT", "/f/_doc/1", {"when": "soon"})[1] == "mapper_parsing_exception"
    lab.ask("PUT", "/f/_doc/1", {"when": 1_767_225_600_000, "code": "A b"})
    assert lab.found({"term": {"code": "A b"}}) == ["1"]
    assert lab.found({"range": {"when": {"gte": "2026-01-01", "lt": "2026-01-02"}}}) == ["1"]
    changed = lab.refused("PUT", "/f/_mapping", {"properties": {"code": {"type": "long"}}})
    assert "cannot be changed from type [keyword] to [long]" in changed[2]
    assert lab.ask("PUT", "/f/_mapping", {"properties": {"n": {"type": "long"}}}).status == 200
    assert (
        "[geo_point]"
        in lab.refused("PUT", "/g", {"mappings": {"properties": {"p": {"type": "geo_point"}}}})[2]
    )


def test_an_index_has_a_thousand_fields_at_most(lab: Lab):
    assert lab.ask("PUT", "/i/_doc/1", {f"f{n}": 1 for n in range(1000)}).status == 201
    assert "Limit of total fields [1000]" in lab.refused("PUT", "/i/_doc/2", {"more": 1})[2]


@pytest.mark.parametrize("name", ["Upper", "-x", "a b", "a#b", "x" * 256, "a:b"])
def test_bad_names_of_indexes(lab: Lab, name: str):
    assert lab.refused("PUT", f"/{name}", {})[1] == "invalid_index_name_exception"


# --- queries ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"match_all": {}}, ["1", "2", "3", "4"]),
        ({"match_none": {}}, []),
        ({"match": {"note": "LATE"}}, ["2", "1"]),
        ({"match": {"note": {"query": "gate late", "operator": "and"}}}, ["1"]),
        ({"match": {"delay": 5}}, ["1"]),
        ({"match_phrase": {"note": "gate changed"}}, ["1"]),
        ({"match_phrase": {"note": "changed gate"}}, []),
        ({"match": {"note": '"" OR *'}}, []),
        ({"term": {"carrier.keyword": "AA"}}, ["1", "3"]),
        ({"term": {"carrier.keyword": {"value": "UA"}}}, ["2"]),
        ({"term": {"carrier": "AA"}}, []),  # a term is not analyzed
        ({"term": {"carrier": "aa"}}, ["1", "3"]),
        ({"terms": {"carrier.keyword": ["UA", "DL"]}}, ["2", "4"]),
        ({"terms": {"carrier.keyword": []}}, []),
        ({"term": {"ok": True}}, ["4"]),
        ({"term": {"at": "2026-02-01T00:00:00Z"}}, ["4"]),
        ({"term": {"nothing": 1}}, []),
        ({"range": {"delay": {"gt": 5}}}, ["2", "4"]),
        ({"range": {"delay": {"gte": 5, "lt": 7.5}}}, ["1", "4"]),  # 7.9 is 7 in a field of longs
        ({"range": {"at": {"gte": "2026-01-01||/M", "lt": "2026-02-01"}}}, ["1", "2", "3"]),
        ({"range": {"at": {"gte": "2026-01-02T00:00:00+01:00"}}}, ["2", "3", "4"]),
        ({"range": {"carrier.keyword": {"gte": "B"}}}, ["2", "4"]),
        ({"exists": {"field": "ok"}}, ["4"]),
        ({"prefix": {"carrier.keyword": "A"}}, ["1", "3"]),
        ({"prefix": {"note": "cha"}}, ["1"]),
        ({"ids": {"values": ["2", "9"]}}, ["2"]),
        ({"bool": {}}, ["1", "2", "3", "4"]),
        (
            {
                "bool": {
                    "filter": {"term": {"carrier.keyword": "AA"}},
                    "must_not": [{"range": {"delay": {"lt": 0}}}],
                }
            },
            ["1"],
        ),
        (
            {"bool": {"should": [{"ids": {"values": ["1"]}}, {"ids": {"values": ["3"]}}]}},
            ["1", "3"],
        ),
        (
            {"bool": {"must": [{"match_all": {}}], "should": [{"ids": {"values": ["3"]}}]}},
            ["3", "1", "2", "4"],
        ),
        (
            {
                "bool": {
                    "should": [{"match": {"note": "gate"}}, {"match": {"note": "late"}}],
                    "minimum_should_match": 2,
                }
            },
            ["1"],
        ),
    ],
)
def test_queries(flights: Lab, query: Any, expected: list[str]):
    assert flights.found(query) == expected
    count = flights.ask("POST", "/f/_count", {"query": query}).body["count"]
    assert count == len(expected)


def test_what_matches_better_comes_first_and_says_by_how_much(flights: Lab):
    hits = flights.ask("POST", "/f/_search", {"query": {"match": {"note": "late"}}}).body["hits"]
    scores = [hit["_score"] for hit in hits["hits"]]
    assert scores[0] > scores[1] > 0
    assert hits["max_score"] == scores[0]


def test_pages_sorts_and_sources(flights: Lab):
    everything = {"match_all": {}}
    assert flights.found(everything, sort=[{"delay": "desc"}]) == ["2", "4", "1", "3"]
    assert flights.found(everything, sort=["carrier.keyword", {"at": {"order": "desc"}}]) == [
        "3", "1", "4", "2",
    ]  # fmt: skip
    assert flights.found(everything, sort=["ok"]) == ["4", "1", "2", "3"]  # what lacks it is last
    assert flights.found(everything, sort="delay", **{"from": 1, "size": 2}) == ["1", "4"]
    reply = flights.ask("POST", "/f/_search?size=1", {"_source": ["delay"], "sort": ["at"]}).body
    assert reply["hits"]["hits"] == [
        {
            "_index": "f",
            "_id": "1",
            "_score": None,
            "_source": {"delay": 5},
            "sort": [1767261600000],
        }
    ]
    assert reply["hits"]["total"] == {"value": 4, "relation": "eq"}
    assert (
        "_source"
        not in flights.ask("POST", "/f/_search", {"_source": False}).body["hits"]["hits"][0]
    )


def test_patterns_of_indexes_and_domains(lab: Lab):
    put_flights(lab)
    lab.bulk({"index": {"_index": "f-2", "_id": "9"}}, {"x": 1})
    assert lab.ask("POST", "/f*/_count").body["count"] == 5
    assert lab.ask("POST", "/_search").body["hits"]["total"]["value"] == 5
    assert lab.ask("POST", "/f,f-2/_count").body["count"] == 5
    assert lab.ask("POST", "/nobody*/_count").body["count"] == 0
    assert lab.refused("POST", "/nobody/_search")[:2] == (404, "index_not_found_exception")
    assert lab.ask("POST", "/_search", domain="other").body["hits"]["total"]["value"] == 0
    assert lab.ask("DELETE", "/f").status == 200
    assert lab.ask("HEAD", "/f").status == 404
    assert lab.ask("POST", "/f-2/_count").body["count"] == 1


@pytest.mark.parametrize(
    ("sort", "ids"),
    [("delay:desc", "2413"), ("carrier.keyword,delay", "3142"), ("_id:desc", "4321")],
)
def test_parameters_of_a_search(flights: Lab, sort: str, ids: str):
    hits = flights.ask("GET", f"/f/_search?sort={sort}&_source=delay").body["hits"]["hits"]
    assert "".join(hit["_id"] for hit in hits) == ids
    assert all(list(hit["_source"]) == ["delay"] for hit in hits)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("POST", "/f/_search", {"query": {"fuzzy": {"a": "b"}}}), "the query [fuzzy]"),
        (("POST", "/f/_search", {"highlight": {}}), "[highlight] of a search"),
        (
            ("POST", "/f/_search", {"query": {"match": {"note": {"query": "x", "fuzziness": 1}}}}),
            "[fuzziness]",
        ),
        (
            ("POST", "/f/_search", {"aggs": {"p": {"percentiles": {"field": "delay"}}}}),
            "[percentiles]",
        ),
        (("GET", "/_nodes"), "GET /_nodes"),
        (("PUT", "/_index_template/t", {}), "_index_template"),
        (("POST", "/f/_update/1", {"script": "ctx._source.n = 1"}), "[script] of an update"),
        (("POST", "/f/_update_by_query", {}), "POST /f/_update_by_query"),
        (("PUT", "/f/_alias/a", {"filter": {"term": {"carrier": "AA"}}}), "[filter] of an alias"),
        (("GET", "/f/_search?q=a"), "[q]"),
        (("GET", "/f/_search?routing=a"), "[routing]"),
    ],
)
def test_what_it_cannot_is_refused_by_name(flights: Lab, asked: Any, says: str):
    status, kind, reason = flights.refused(*asked)
    assert (status, kind) == (400, "not_supported_by_headrace")
    assert says in reason
    assert "--opensearch URL" in reason


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", {"query": []}, {"query": {"match": {}}}, {"query": {"term": {"a": 1, "b": 2}}}, {"size": -1},
        {"size": True}, {"size": 10_000, "from": 1}, {"sort": ["note"]}, {"sort": ["nothing"]}, {"sort": [3]},
        {"aggs": {"t": {"terms": {"field": "note"}}}}, {"aggs": []}, {"aggs": {"a": {}}},
        {"aggs": {"h": {"date_histogram": {"field": "at", "fixed_interval": "0s"}}}},
        {"aggs": {"h": {"date_histogram": {"field": "at"}}}},
        {"aggs": {"h": {"date_histogram": {"field": "at", "fixed_interval": "1ms"}}}},
        {"query": {"range": {"at": {"gte": "yesterday"}}}}, {"query": {"range": {"delay": {"gte": "x"}}}},
        {"query": {"bool": {"should": [{"match_all": {}}] * 2000}}}, {"query": {"bool": {"hop": []}}},
    ],
)  # fmt: skip
def test_a_bad_search_is_a_400(flights: Lab, body: Any):
    assert flights.refused("POST", "/f/_search", body)[0] == 400


# --- aggregations -----------------------------------------------------------------------------


def aggregated(lab: Lab, asked: Any, **more: Any) -> Any:
    return lab.ask("POST", "/f/_search", {"size": 0, "aggs": {"a": asked}, **more}).body[
        "aggregations"
    ]["a"]


def test_buckets_of_terms(flights: Lab):
    found = aggregated(
        flights,
        {"terms": {"field": "carrier.keyword"}, "aggs": {"mean": {"avg": {"field": "delay"}}}},
    )
    assert found["buckets"] == [
        {"key": "AA", "doc_count": 2, "mean": {"value": 1.0}},
        {"key": "DL", "doc_count": 1, "mean": {"value": 7.0}},
        {"key": "UA", "doc_count": 1, "mean": {"value": 50.0}},
    ]
    first = aggregated(flights, {"terms": {"field": "carrier.keyword", "size": 1}})
    assert first["sum_other_doc_count"] == 2
    by_key = {"terms": {"field": "delay", "order": {"_key": "desc"}}}
    assert [b["key"] for b in aggregated(flights, by_key)["buckets"]] == [50, 7, 5, -3]
    only = aggregated(flights, by_key, query={"match": {"note": "gate"}})
    assert [b["key"] for b in only["buckets"]] == [7, 5]


def test_buckets_of_dates_with_the_empty_ones_between(flights: Lab):
    days = {"date_histogram": {"field": "at", "calendar_interval": "day"}}
    buckets = aggregated(flights, days)["buckets"]
    assert len(buckets) == 32
    assert [bucket["doc_count"] for bucket in buckets[:3]] == [2, 0, 1]
    assert buckets[0]["key_as_string"] == "2026-01-01T00:00:00.000Z"
    months = {
        "date_histogram": {"field": "at", "calendar_interval": "1M", "min_doc_count": 1},
        "aggs": {"by": {"terms": {"field": "carrier.keyword"}}},
    }
    found = aggregated(flights, months)["buckets"]
    assert [bucket["doc_count"] for bucket in found] == [3, 1]
    assert [b["key"] for b in found[0]["by"]["buckets"]] == ["AA", "UA"]
    hours = {"date_histogram": {"field": "at", "fixed_interval": "12h", "min_doc_count": 1}}
    assert [b["doc_count"] for b in aggregated(flights, hours)["buckets"]] == [1, 1, 1, 1]


def test_metrics(flights: Lab):
    asked = {"stats": {"field": "delay"}}
    assert aggregated(flights, asked) == {"count": 4, "min": -3, "max": 50, "avg": 14.75, "sum": 59}
    assert aggregated(flights, {"cardinality": {"field": "carrier.keyword"}}) == {"value": 3}
    assert aggregated(flights, {"max": {"field": "nothing"}}) == {"value": None}


# --- what is shown ----------------------------------------------------------------------------


def test_the_table_of_indexes(flights: Lab):
    (row,) = flights.ask("GET", "/_cat/indices?format=json").body
    assert (row["index"], row["docs.count"], row["health"]) == ("f", "4", "green")
    table = flights.ask("GET", "/_cat/indices?v").body
    assert table.splitlines()[0].startswith("health status index")
    assert flights.ask("GET", "/").body["version"]["distribution"] == "opensearch"
    assert flights.ask("GET", "/_cluster/health").body["status"] == "green"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01", 1_767_225_600_000),
        ("2026-01-01T00:00:00.5+02:00", 1_767_218_400_500),
        ("2026-02-30", None),
        ("2026-01-01T25:00:00Z", None),
        ("20260101", None),
    ],
)
def test_dates(text: str, expected: int | None):
    assert date_ms(text) == expected


def test_date_math():
    now_ms = date_ms("2026-03-31T12:34:56Z")
    assert now_ms is not None
    assert date_math_ms("now", now_ms) == now_ms
    assert date_math_ms("now-1M/d", now_ms) == date_ms("2026-02-28")
    assert date_math_ms("now/M", now_ms, up=True) == date_ms("2026-03-31T23:59:59.999Z")
    assert date_math_ms("2024-02-29||+1y", now_ms) == date_ms("2025-02-28")
    assert date_math_ms("now-999999y", now_ms) is None
    assert date_math_ms("now-1x", now_ms) is None


# --- large searches -----------------------------------------------------------------------------

CLAUSES = {
    "term": {"term": {"carrier.keyword": "AA"}},
    "match": {"match": {"note": "late"}},
    "range": {"range": {"delay": {"gte": 0}}},
    "bool": {"bool": {"must_not": [{"match_none": {}}]}},
    "ids": {"ids": {"values": ["1"]}},
}


@pytest.mark.parametrize("kind", CLAUSES)
@pytest.mark.parametrize("way", ["should", "must", "filter", "must_not"])
def test_as_many_clauses_as_opensearch_takes(
    flights: Lab, way: str, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(searching, "MOST_CPU_S", 600.0)
    # Each match beyond the tables looks through its words for every document.
    count = {"bool": 511, "match": 300}.get(kind, 1023)
    many = {"bool": {way: [CLAUSES[kind]] * count}}
    assert sorted(flights.found(many)) == sorted(flights.found({"bool": {way: [CLAUSES[kind]]}}))


@pytest.mark.parametrize("kind", CLAUSES)
def test_more_clauses_are_refused(flights: Lab, kind: str):
    query = {"query": {"bool": {"should": [CLAUSES[kind]] * 1024}}}
    assert flights.refused("POST", "/f/_search", query)[:2] == (400, "too_many_clauses")
    assert flights.refused("POST", "/f/_count", query)[:2] == (400, "too_many_clauses")


def test_a_query_that_nests_is_refused(flights: Lab):
    query: Any = {"match_all": {}}
    for _ in range(40):
        query = {"bool": {"must": [query]}}
    asked = ("POST", "/f/_search", {"query": query})
    assert flights.refused(*asked)[:2] == (400, "too_many_clauses")


def test_words_are_clauses(flights: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "MOST_CPU_S", 600.0)
    words = " ".join(f"w{number}" for number in range(1000))
    assert flights.found({"match": {"note": f"{words} open"}}) == ["4"]
    asked = ("POST", "/f/_search", {"query": {"match": {"note": f"{words} {words}"}}})
    assert flights.refused(*asked)[:2] == (400, "too_many_clauses")


def test_terms_may_be_thousands(flights: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "MOST_CPU_S", 600.0)
    values = [f"C{number}" for number in range(60_000)]
    assert flights.found({"terms": {"carrier.keyword": [*values, "DL"]}}) == ["4"]
    assert flights.found({"terms": {"delay": [*range(1000, 50_000), 7]}}) == ["4"]
    assert flights.found({"ids": {"values": [*values, "2"]}}) == ["2"]
    asked = ("POST", "/f/_search", {"query": {"terms": {"carrier.keyword": values * 2}}})
    assert flights.refused(*asked)[:2] == (400, "illegal_argument_exception")


def test_a_search_that_takes_too_long_ends(flights: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "MOST_CPU_S", 0.0)
    monkeypatch.setattr(database, "_INSTRUCTIONS_BETWEEN_LOOKS", 10)
    asked = ("POST", "/f/_search", {"query": CLAUSES["range"]})
    assert flights.refused(*asked)[:2] == (400, "task_cancelled_exception")
