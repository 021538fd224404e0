"""Deliveries to OpenSearch's domains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ids import Ids
from headrace.core.ports.messages import SearchDomainNotFound, SearchServer
from headrace.services.opensearch.rest import SearchRequest, SearchRestApi
from headrace.services.opensearch.store import Store
from tests.support.clock import FakeClock
from tests.support.endpoint import Endpoint, json_answer
from tests.unit.firehose.destinations.helpers import DestinationLab
from tests.unit.firehose.destinations.test_deliveries import DOMAIN
from tests.unit.firehose.destinations.test_deliveries import server as server  # a fixture


class Domains:
    """`SearchDomains` with an index for one domain, which may be away."""

    def __init__(self, tmp_path: Path, clock: FakeClock) -> None:
        self.rest = SearchRestApi(Store(tmp_path / "search.sqlite"), clock, Ids(3))
        self.is_away = False
        self.asked = 0

    def of_domain(self, name: str, *, account: str, region: str) -> SearchServer | str:
        if name != "flights":
            raise SearchDomainNotFound(f"There is no domain {name}.")
        return self

    def of_endpoint(self, url: str, *, account: str, region: str) -> SearchServer | str:
        return self if url == "https://flights" else url

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked += 1
        if self.is_away:
            return 503, b"away"
        reply = self.rest.answer(SearchRequest("d", method, path.strip("/").split("/"), {}, body))
        return reply.status, json.dumps(reply.body).encode()

    def found(self, path: str = "_search") -> list[dict[str, Any]]:
        body = b'{"sort": ["_id"], "size": 100}'
        return self.rest.answer(SearchRequest("d", "POST", path.split("/"), {}, body)).body["hits"][
            "hits"
        ]


@pytest.fixture
def domains(tmp_path: Path) -> Domains:
    return Domains(tmp_path, FakeClock())


def search(
    tmp_path: Path, domains: Domains, kind: str = "Amazonopensearchservice", **given: Any
) -> DestinationLab:
    if not {"DomainARN", "ClusterEndpoint", "CollectionEndpoint"} & set(given):
        given["DomainARN"] = DOMAIN
    return DestinationLab(tmp_path, kind, search=domains, **{"IndexName": "f", **given})


def test_documents_are_indexed_by_day_under_stable_ids(tmp_path: Path, domains: Domains):
    lab = search(tmp_path, domains)
    lab.put(b'{"delay": 1}\n', b'{"delay": 2}')
    lab.deliver()
    hits = domains.found()
    numbers = [lab.number(0), lab.number(1)]
    assert [(hit["_index"], hit["_id"]) for hit in hits] == [
        ("f-2023-11-14", f"{number}.0") for number in numbers
    ]
    assert [hit["_source"]["delay"] for hit in hits] == [1, 2]


@pytest.mark.parametrize("fate", ["die before", "die after"])
def test_a_kill_leaves_each_document_once(tmp_path: Path, domains: Domains, fate: str):
    lab = search(tmp_path, domains, S3BackupMode="AllDocuments", IndexRotationPeriod="NoRotation")
    lab.objects.fates = [fate]
    lab.put(b'{"a": 1}', b'{"a": 2}')
    lab.settle()
    lab.clock.advance(60)
    lab.settle_through_kills()
    assert domains.asked == 2
    assert len(domains.found("f/_search")) == 2


def test_without_document_ids_a_repeated_request_repeats_documents(
    tmp_path: Path, domains: Domains
):
    options = {"DefaultDocumentIdFormat": "NO_DOCUMENT_ID"}
    lab = search(tmp_path, domains, S3BackupMode="AllDocuments", DocumentIdOptions=options)
    lab.objects.fates = ["die before"]
    lab.put(b'{"a": 1}')
    lab.settle()
    lab.clock.advance(60)
    lab.settle_through_kills()
    assert len(domains.found()) == 2


def test_only_what_was_refused_is_tried_again_after_five_minutes(tmp_path: Path, domains: Domains):
    lab = search(tmp_path, domains, IndexRotationPeriod="NoRotation")
    lab.put(b'{"n": 1}', b'{"n": "many"}', b"not\njson")
    arrived_ms = lab.clock.now_ms()
    lab.deliver()
    assert len(domains.found("f/_search")) == 1
    assert lab.settle_until(lambda: lab.is_drained) == 300
    refused_for_good, refused = lab.errors("AmazonOpenSearchService-failed")
    assert refused_for_good["rawData"] == b"not\njson"
    assert refused["attemptsMade"] == 2
    assert refused["errorCode"] == "400"
    assert json.loads(refused["errorMessage"])["type"] == "mapper_parsing_exception"
    number = lab.number(1)
    assert {name: refused[name] for name in refused if name.startswith("es")} == {
        "esDocumentId": f"{number}.0",
        "esIndexName": "f",
        "esTypeName": "",
    }
    assert refused["arrivalTimestamp"] == arrived_ms


def test_a_domain_that_comes_back_has_everything(tmp_path: Path, domains: Domains):
    domains.is_away = True
    lab = search(tmp_path, domains, RetryOptions={"DurationInSeconds": 7200})
    lab.put(b'{"a": 1}')
    lab.deliver()
    assert lab.codes[0] == "503"
    domains.is_away = False
    lab.settle_until(lambda: lab.is_drained)
    assert len(domains.found()) == 1
    assert lab.objects.objects == {}


def test_a_domain_that_is_not_there_is_no_success(tmp_path: Path, domains: Domains):
    lab = search(tmp_path, domains, DomainARN=DOMAIN.replace("flights", "nobody"))
    lab.put(b'{"a": 1}')
    lab.deliver()
    lab.settle_until(lambda: lab.is_drained)
    (line,) = lab.errors("AmazonOpenSearchService-failed")
    assert "nobody" in line["errorMessage"]


def test_a_real_server_by_its_endpoint(tmp_path: Path, domains: Domains, server: Endpoint):
    server.usual = lambda _: json_answer(
        200, {"errors": False, "items": [{"index": {"status": 201}}]}
    )
    url = server.url.replace("http://", "http://me:pass@") + "/prefix/"
    lab = search(tmp_path, domains, ClusterEndpoint=url)
    lab.put(b'{"a": 1}')
    lab.deliver()
    (request,) = server.requests
    assert request.path == "/prefix/_bulk"
    assert request.headers["authorization"] == "Basic bWU6cGFzcw=="
    assert request.headers["content-type"] == "application/x-ndjson"


def test_elasticsearch_has_types_and_serverless_other_names(tmp_path: Path, domains: Domains):
    lab = search(tmp_path, domains, "Elasticsearch", TypeName="t", IndexRotationPeriod="NoRotation")
    lab.put(b"[]")
    lab.deliver()
    lab.settle_until(lambda: lab.is_drained)
    (line,) = lab.errors("elasticsearch-failed")
    assert line["esTypeName"] == "t"
    other = tmp_path / "other"
    other.mkdir()
    kind = "AmazonOpenSearchServerless"
    lab = search(other, domains, kind, CollectionEndpoint="https://flights")
    lab.put(b'{"a": 1}', b"[]")
    lab.deliver()
    lab.settle_until(lambda: lab.is_drained)
    (line,) = lab.errors("AmazonOpenSearchServerless-failed")
    assert {"osDocumentId", "osIndexName"} <= set(line)
    assert [hit["_index"] for hit in domains.found()] == [
        "f"
    ]  # a collection's index does not rotate
