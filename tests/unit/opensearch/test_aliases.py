"""Aliases; the answers are OpenSearch's (documented, and its sources' sentences)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.search_lab import Lab


def act(lab: Lab, *actions: Any) -> None:
    reply = lab.ask("POST", "/_aliases", {"actions": list(actions)})
    assert (reply.status, reply.body) == (200, {"acknowledged": True})


def put(lab: Lab, name: str, doc_id: str) -> str:
    """Write a document and return the index that has it."""
    reply = lab.ask("PUT", f"/{name}/_doc/{doc_id}", {"id": doc_id})
    assert reply.status in (200, 201), reply.body
    return reply.body["_index"]


def ids_in(lab: Lab, names: str) -> list[str]:
    hits = lab.ask("POST", f"/{names}/_search", {"sort": "_id"}).body["hits"]["hits"]
    return [hit["_id"] for hit in hits]


def test_an_alias_stands_for_its_index(lab: Lab):
    put(lab, "i-1", "1")
    assert lab.ask("PUT", "/i-1/_alias/a").status == 200
    assert put(lab, "a", "2") == "i-1"
    assert ids_in(lab, "a") == ids_in(lab, "i-1") == ["1", "2"]
    assert lab.ask("GET", "/a/_doc/2").body["_index"] == "i-1"
    assert lab.ask("POST", "/a/_update/2", {"doc": {"n": 1}}).body["_index"] == "i-1"
    assert lab.ask("POST", "/a/_mget", {"ids": ["2"]}).body["docs"][0]["_source"]["n"] == 1
    assert lab.bulk({"delete": {"_index": "a", "_id": "2"}}).body["errors"] is False
    assert lab.ask("DELETE", "/a/_doc/1").body["result"] == "deleted"
    assert lab.ask("POST", "/a/_count").body["count"] == 0
    assert lab.ask("HEAD", "/a").status == 200
    assert lab.ask("GET", "/a").body["i-1"]["aliases"] == {"a": {}}
    assert list(lab.ask("GET", "/a/_mapping").body) == ["i-1"]


def test_an_alias_is_moved_in_one_step_and_lasts(lab: Lab):
    put(lab, "i-1", "1")
    put(lab, "i-2", "2")
    act(lab, {"add": {"index": "i-1", "alias": "now"}})
    move = [{"remove": {"index": "i-1", "alias": "now"}}, {"add": {"index": "i-2", "alias": "now"}}]
    act(lab, *move)
    lab.stop()
    lab.start()
    assert ids_in(lab, "now") == ["2"]
    broken = [{"remove": {"index": "i-2", "alias": "now"}}, {"add": {"index": "nowhere", "alias": "now"}}]  # fmt: skip
    assert lab.ask("POST", "/_aliases", {"actions": broken}).status == 404
    assert ids_in(lab, "now") == ["2"]
    act(lab, {"remove_index": {"index": "i-2"}})
    assert lab.ask("GET", "/_alias/now").status == 404


def test_the_write_index_takes_the_writes(lab: Lab):
    for name in ("i-1", "i-2"):
        put(lab, name, name)
    act(lab, {"add": {"indices": ["i-1", "i-2"], "alias": "a"}})
    assert ids_in(lab, "a") == ["i-1", "i-2"]
    status, kind, reason = lab.refused("PUT", "/a/_doc/3", {})
    assert (status, kind) == (400, "illegal_argument_exception")
    assert reason.startswith("no write index is defined for alias [a]. The write index may be")
    assert lab.refused("GET", "/a/_doc/3")[2] == (
        "alias [a] has more than one index associated with it [i-1, i-2], can't execute a single index op"
    )
    act(lab, {"add": {"index": "i-2", "alias": "a", "is_write_index": True}})
    assert put(lab, "a", "3") == "i-2"
    shown = lab.ask("GET", "/i-*/_alias/a").body
    assert shown == {"i-1": {"aliases": {"a": {}}}, "i-2": {"aliases": {"a": {"is_write_index": True}}}}  # fmt: skip
    second = {"actions": [{"add": {"index": "i-1", "alias": "a", "is_write_index": True}}]}
    assert lab.refused("POST", "/_aliases", second) == (
        500,
        "illegal_state_exception",
        "alias [a] has more than one write index [i-1,i-2]",
    )
    act(lab, {"remove": {"index": "i-2", "alias": "a"}})
    assert put(lab, "a", "4") == "i-1"
    act(lab, {"add": {"index": "i-1", "alias": "a", "is_write_index": False}})
    assert lab.refused("PUT", "/a/_doc/5", {})[2].startswith("no write index is defined")


def test_aliases_are_listed(lab: Lab):
    body = {"aliases": {"a": {}, "b": {"is_write_index": True}}}
    assert lab.ask("PUT", "/i-1", body).status == 200
    lab.ask("PUT", "/i-2", {})
    every = {"a": {}, "b": {"is_write_index": True}}
    assert lab.ask("GET", "/_alias").body == {"i-1": {"aliases": every}, "i-2": {"aliases": {}}}
    assert lab.ask("GET", "/i-2/_alias").body == {"i-2": {"aliases": {}}}
    assert lab.ask("GET", "/_alias/b*").body == {
        "i-1": {"aliases": {"b": {"is_write_index": True}}}
    }
    missing = lab.ask("GET", "/_alias/a,nobody")
    assert (missing.status, missing.body["error"]) == (404, "alias [nobody] missing")
    assert missing.body["i-1"] == {"aliases": {"a": {}}}
    assert lab.ask("HEAD", "/_alias/a").status == 200
    assert lab.ask("HEAD", "/_alias/nobody").status == 404
    assert lab.ask("GET", "/_cat/aliases").body == "a i-1 - - - -\nb i-1 - - - true\n"
    assert lab.ask("GET", "/_cat/aliases/a?format=json").body[0]["index"] == "i-1"
    assert lab.ask("DELETE", "/i-1/_alias/a").status == 200
    assert lab.refused("DELETE", "/i-1/_alias/a") == (
        404,
        "aliases_not_found_exception",
        "aliases [a] missing",
    )
    act(lab, {"remove": {"index": "i-1", "alias": "a", "must_exist": False}})


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        (("PUT", "/a", {}), "invalid_index_name_exception", "Invalid index name [a], already exists as alias"),
        (("PUT", "/i/_alias/i", {}), "invalid_alias_name_exception", "an index exists with the same name as the alias"),
        (("PUT", "/i/_alias/A", {}), "invalid_alias_name_exception", "must be lowercase"),
        (("DELETE", "/a"), "illegal_argument_exception", "[a] matches an alias, specify the"),
        (("PUT", "/a/_alias/b", {}), "illegal_argument_exception", "[a] matches an alias"),
        (("POST", "/_aliases", {}), "action_request_validation_exception", "Must specify at least one alias action"),
        (("POST", "/_aliases", {"actions": [{"hop": {}}]}), "parsing_exception", "unknown field [hop]"),
        (("POST", "/_aliases", {"actions": [{"add": {"index": "i"}}]}), "illegal_argument_exception", "One of [alias]"),
        (("POST", "/_aliases", {"actions": [{"add": {"index": "i", "alias": "c", "routing": "1"}}]}),
         "not_supported_by_headrace", "[routing] of an alias"),
        (("PUT", "/i/_alias/c", {"is_write_index": "x"}), "parsing_exception", "no boolean"),
    ],
)  # fmt: skip
def test_what_aliases_cannot(lab: Lab, asked: Any, kind: str, says: str):
    lab.ask("PUT", "/i", {"aliases": {"a": {}}})
    status, type_, reason = lab.refused(*asked)
    assert (status, type_) == (400, kind)
    assert says in reason
    assert lab.ask("GET", "/_alias").body == {"i": {"aliases": {"a": {}}}}


def test_a_pattern_deletes_indexes_and_no_aliases_of_others(lab: Lab):
    lab.ask("PUT", "/i", {"aliases": {"x-a": {}}})
    lab.ask("PUT", "/x-1", {})
    assert lab.ask("DELETE", "/x-*").status == 200
    assert list(lab.ask("GET", "/_all").body) == ["i"]


def test_names_that_may_be_missing(lab: Lab):
    put(lab, "i", "1")
    assert lab.refused("POST", "/i,nowhere/_count")[:2] == (404, "index_not_found_exception")
    assert lab.ask("POST", "/i,nowhere/_count?ignore_unavailable=true").body["count"] == 1
    assert lab.ask("DELETE", "/nowhere?ignore_unavailable=true").status == 200
    assert lab.ask("POST", "/no*/_count").body["count"] == 0
    assert lab.refused("POST", "/no*/_count?allow_no_indices=false")[0] == 404
    assert lab.refused("POST", "/i/_count?ignore_unavailable=maybe")[0] == 400


def test_aliases_go_with_their_domain(lab: Lab):
    lab.ask("PUT", "/i", {"aliases": {"a": {}}})
    assert lab.ask("GET", "/_alias", domain="other").body == {}
    assert lab.refused("POST", "/a/_search", None, "other")[0] == 404
    lab.rest.forget("d")
    assert lab.ask("GET", "/_alias").body == {}
    assert lab.ask("PUT", "/a", {}).status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/_refresh", "/_flush"])
def test_refreshes_and_flushes_by_both_methods(lab: Lab, method: str, path: str):
    lab.ask("PUT", "/i", {"aliases": {"a": {}}})
    for names in ("", "/i", "/a", "/i*"):
        assert lab.ask(method, f"{names}{path}").status == 200
    assert lab.refused(method, f"/nowhere{path}")[0] == 404


def test_merges_and_caches(lab: Lab):
    lab.ask("PUT", "/i", {})
    for path in ("/_forcemerge?max_num_segments=1", "/i/_forcemerge", "/_cache/clear"):
        assert lab.ask("POST", path).status == 200
