"""A cloud whose clusters are in the tests' one PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[InProcessCloud]:
    folder: Path = tmp_path_factory.mktemp("redshift") / "data"
    with InProcessCloud(folder, redshift_url=postgres_url) as cloud:
        cloud.client("redshift").create_cluster(
            ClusterIdentifier="flights",
            NodeType="ra3.large",
            MasterUsername="admin",
            MasterUserPassword="Secret123",
            # A database of the module's own, on the server of all modules.
            DBName=f"db_{folder.parent.name.replace('-', '_')}",
        )
        cloud.client("s3").create_bucket(Bucket="lake")
        yield cloud


@pytest.fixture(scope="module")
def database(cloud: InProcessCloud) -> str:
    (cluster,) = cloud.client("redshift").describe_clusters()["Clusters"]
    return str(cluster["DBName"])


@pytest.fixture(scope="module")
def run(cloud: InProcessCloud, database: str) -> Run:
    """Runs a statement to its end and returns its description."""
    data = cloud.client("redshift-data")

    def run(sql: str, **given: Any) -> dict[str, Any]:
        begun = data.execute_statement(
            ClusterIdentifier="flights", Database=database, Sql=sql, **given
        )
        return data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)

    return run


@pytest.fixture(scope="module")
def rows(cloud: InProcessCloud, run: Run) -> Callable[[str], list[list[Any]]]:
    """Runs a query and returns its values."""

    def rows(sql: str) -> list[list[Any]]:
        described = run(sql)
        assert described["Status"] == "FINISHED", described["Error"]
        result = cloud.client("redshift-data").get_statement_result(Id=described["Id"])
        return [
            [None if "isNull" in field else next(iter(field.values())) for field in row]
            for row in result["Records"]
        ]

    return rows
