"""OpenSearch's own clients, for JavaScript and for Python, on a domain's endpoint."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from opensearchpy import OpenSearch
from opensearchpy.exceptions import NotFoundError
from opensearchpy.helpers import bulk, scan

from tests.support.server import ServerProcess

FOLDER = Path(__file__).parent / "js"


def domain_url(server: ServerProcess, name: str) -> str:
    status = server.client("opensearch").create_domain(DomainName=name)["DomainStatus"]
    return f"http://{status['Endpoint']}"


def test_the_client_for_javascript(server: ServerProcess, node: str):
    done = subprocess.run(
        [node, "opensearch.mjs", domain_url(server, "by-javascript")],
        cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["bulkErrors"] is False
    assert [seen[name] for name in ("refreshed", "refreshedIndex", "flushed")] == [200, 200, 200]
    assert seen["updated"] == ["updated", "flights-1"]
    assert seen["many"] == [True, False]
    assert seen["statuses"] == [200, 404]
    assert seen["scrolled"] == list(range(7))
    assert (seen["helperBulk"]["successful"], seen["helperBulk"]["failed"]) == (2, 0)
    assert seen["aliasExists"] is True
    assert seen["count"] == 9
    assert seen["error"] == ["ResponseError", 404, "index_not_found_exception"]


def test_the_client_for_python(server: ServerProcess):
    client = OpenSearch(domain_url(server, "by-python"))
    documents: list[dict[str, Any]] = [
        {"_index": "i", "_id": str(n), "_source": {"n": n}} for n in range(25)
    ]
    assert bulk(client, documents, refresh=True) == (25, [])
    change = {"_op_type": "update", "_index": "i", "_id": "1", "doc": {"late": True}}
    assert bulk(client, [change]) == (1, [])
    client.indices.refresh(index="i")
    client.indices.put_alias(index="i", name="a")
    assert client.mget(body={"ids": ["1"]}, index="a")["docs"][0]["_source"] == {
        "n": 1,
        "late": True,
    }
    assert sorted(hit["_source"]["n"] for hit in scan(client, index="a", size=10)) == list(
        range(25)
    )
    assert client.update(index="a", id="1", body={"doc": {"late": True}})["result"] == "noop"
    (first,) = client.msearch(body=[{"index": "a"}, {"size": 0}])["responses"]
    assert first["hits"]["total"]["value"] == 25
    assert client.indices.get_alias(name="a") == {"i": {"aliases": {"a": {}}}}
    with pytest.raises(NotFoundError) as caught:
        client.update(index="a", id="nobody", body={"doc": {}})
    assert caught.value.error == "document_missing_exception"
