"""Every `-c delivery=...` of the CDK app, one deployed over the other by the CDK CLI: records arrive at each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import pytest
from pyiceberg.catalog.glue import GlueCatalog

from scripts.pipeline.run import ACCOUNT, REGION, ROOT, Run, command
from tests.pipeline.conftest import CDK
from tests.support.endpoint import endpoint
from tests.support.server import ServerProcess, wait_until
from tests.unit.firehose.destinations.test_deliveries import sound

pytestmark = pytest.mark.slow
# The stack's buffers are due after ten seconds.
WITHIN_S = 60.0


class App:
    """The app without the stages that nothing here needs, deployed again and again."""

    def __init__(self, server: ServerProcess, run: Run) -> None:
        self.server, self.run = server, run
        self.put = 0

    def deploy(self, *context: str) -> dict[str, str]:
        """Deploy with these context options; return the delivery stack's outputs."""
        given = ("leave_out=processing,analytics", *context)
        options = [word for option in given for word in ("-c", option)]
        outputs, made = self.run.data_dir / "outputs.json", self.run.data_dir / "cdk.out"
        command(
            [str(CDK), "deploy", "--all", "--require-approval", "never", "--output", str(made),
             "--outputs-file", str(outputs), *options],
            self.run, cwd=ROOT / "cdk",
        )  # fmt: skip
        return json.loads(outputs.read_text())["headrace-delivery"]

    def fly(self) -> str:
        """Put an enriched flight; return its id."""
        self.put += 1
        flight = {
            "event_id": f"e{self.put}",
            "event_time": "2026-01-01T00:00:00Z",
            "carrier": "UA",
            "flight": self.put,
            "cancelled": False,
        }
        self.server.client("kinesis").put_record(
            StreamName="flights-enriched", PartitionKey="k", Data=json.dumps(flight).encode()
        )
        return str(flight["event_id"])

    def keys(self, outputs: dict[str, str], prefix: str) -> list[str]:
        found = self.server.client("s3").list_objects_v2(
            Bucket=outputs["LakeBucketName"], Prefix=prefix
        )
        return [item["Key"] for item in found.get("Contents", [])]

    def arrives(self, outputs: dict[str, str], ids: Callable[[], list[str]]) -> None:
        """Put a flight, and wait until it is the only one that a destination has, and no error output is there."""
        expected = self.fly()
        wait_until(lambda: ids() != [], within_s=WITHIN_S)
        assert ids() == [expected]
        assert self.keys(outputs, outputs["LakeErrorPrefix"]) == []


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder: Path = tmp_path_factory.mktemp("deliveries")
    with ServerProcess(folder / "data") as server:
        run = Run(server.endpoint_url, folder)
        command([str(CDK), "bootstrap", f"aws://{ACCOUNT}/{REGION}"], run, cwd=folder)
        yield App(server, run)


def iceberg_ids(app: App, outputs: dict[str, str]) -> list[str]:
    given: dict[str, Any] = {"region": REGION, "access-key-id": "a", "secret-access-key": "b"}
    options = {f"{of}.{name}": value for of in ("glue", "s3") for name, value in given.items()}
    for of in ("glue", "s3"):
        options[f"{of}.endpoint"] = app.server.endpoint_url
    table = GlueCatalog("glue", **options).load_table(
        (outputs["GlueDatabaseName"], outputs["GlueTableName"])
    )
    return table.scan().to_arrow()["event_id"].to_pylist()


def search_ids(outputs: dict[str, str]) -> list[str]:
    request = HttpRequest(f"http://{outputs['DomainEndpoint']}/_search", b"{}", method="POST")
    request.add_header("content-type", "application/json")
    with urlopen(request) as answer:
        return [hit["_source"]["event_id"] for hit in json.load(answer)["hits"]["hits"]]


def rows(app: App, outputs: dict[str, str], sql: str) -> list[str]:
    data = app.server.client("redshift-data")
    begun = data.execute_statement(
        ClusterIdentifier=outputs["ClusterIdentifier"], Database=outputs["DatabaseName"], Sql=sql
    )
    ended = data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)
    assert ended["Status"] == "FINISHED", ended
    if not ended["HasResultSet"]:
        return []
    records = data.get_statement_result(Id=begun["Id"])["Records"]
    return [str(record[0].get("stringValue")) for record in records]


def test_each_delivery_is_deployed_over_the_one_before(app: App):
    made = app.deploy("delivery=iceberg")
    app.arrives(made, lambda: iceberg_ids(app, made))
    found = app.deploy("delivery=opensearch")
    app.arrives(found, lambda: search_ids(found))
    loaded = app.deploy("delivery=redshift")
    rows(app, loaded, loaded["CreateTable"])
    app.arrives(loaded, lambda: rows(app, loaded, "select event_id from flights"))
    with endpoint(sound) as server:
        posted = app.deploy("delivery=http", f"delivery_url={server.url}/in")
        app.arrives(posted, lambda: [f"e{app.put}" for _ in server.requests])
    lake = app.deploy("delivery=parquet")
    app.arrives(lake, lambda: [f"e{app.put}" for _ in app.keys(lake, lake["LakePrefix"])])
