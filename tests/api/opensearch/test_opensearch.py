"""OpenSearch domains: their endpoint answers, what was put there lasts, and goes with the domain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import InProcessCloud

HEADERS = {"host": "127.0.0.1:4566", "content-type": "application/json"}


@pytest.fixture
def cloud(data_dir: Path) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir) as cloud:
        yield cloud


def endpoint(cloud: InProcessCloud, name: str = "flights") -> str:
    """Return the path of a domain's endpoint."""
    status = cloud.client("opensearch").describe_domain(DomainName=name)["DomainStatus"]
    host, _, path = status["Endpoint"].partition("/")
    assert host == "127.0.0.1:4566"
    return f"/{path}"


def ask(cloud: InProcessCloud, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    path, _, query = path.partition("?")
    data = b"" if body is None else json.dumps(body).encode()
    answer = cloud.handle(HttpRequest(method, path, query, dict(HEADERS), data))
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body) if answer.body else None


def test_a_domain_answers_at_its_endpoint_and_after_a_restart(data_dir: Path):
    with InProcessCloud(data_dir) as cloud:
        cloud.client("opensearch").create_domain(DomainName="flights")
        at = endpoint(cloud)
        assert at == "/_headrace/opensearch/000000000000/us-east-1/flights"
        assert ask(cloud, "PUT", f"{at}/f/_doc/a%2Fb", {"delay": 5})[0] == 201
        assert ask(cloud, "GET", f"{at}/f/_doc/a%2Fb")[1]["_source"] == {"delay": 5}
    with InProcessCloud(data_dir) as cloud:
        query = {"query": {"range": {"delay": {"gte": 5}}}}
        found = ask(cloud, "POST", f"{endpoint(cloud)}/_search", query)[1]
        assert [hit["_id"] for hit in found["hits"]["hits"]] == ["a/b"]
        assert ask(cloud, "HEAD", f"{at}/f") == (200, None)
        assert ask(cloud, "GET", f"{at}/_cat/indices?format=json")[1][0]["docs.count"] == "1"


def test_a_domain_that_is_not_there_answers_404(cloud: InProcessCloud):
    at = "/_headrace/opensearch/000000000000/us-east-1/nobody"
    status, body = ask(cloud, "GET", f"{at}/_search")
    assert (status, body["error"]["type"]) == (404, "resource_not_found_exception")
    assert ask(cloud, "GET", "/_headrace/opensearch/x")[0] == 404
    assert not (cloud.cloud.config.data_dir / "opensearch.sqlite").exists()


def test_documents_go_with_their_domain(cloud: InProcessCloud):
    client = cloud.client("opensearch")
    client.create_domain(DomainName="flights")
    at = endpoint(cloud)
    ask(cloud, "PUT", f"{at}/f/_doc/1", {"a": 1})
    client.delete_domain(DomainName="flights")
    client.create_domain(DomainName="flights")
    assert ask(cloud, "GET", f"{at}/_cat/indices?format=json")[1] == []


def test_a_real_server_is_the_endpoint(data_dir: Path):
    with InProcessCloud(data_dir, opensearch_url="https://me:pass@search.example:9200/x/") as cloud:
        client = cloud.client("opensearch")
        client.create_domain(DomainName="flights")
        status = client.describe_domain(DomainName="flights")["DomainStatus"]
        assert status["Endpoint"] == "search.example:9200/x"
        at = "/_headrace/opensearch/000000000000/us-east-1/flights"
        status, body = ask(cloud, "GET", f"{at}/_search")
        assert status == 404
        assert "search.example:9200" in body["error"]["reason"]
        assert "pass" not in body["error"]["reason"]
