"""GetCredentials and GetClusterCredentials: a client logs in by what it gives, and sees the Data API's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.cloud import InProcessCloud


@pytest.mark.slow
def test_a_client_logs_in_and_reads(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        serverless: Any = cloud.client("redshift-serverless")
        serverless.create_namespace(namespaceName="lake", dbName="flights")
        serverless.create_workgroup(workgroupName="lake", namespaceName="lake", port=25700)
        data: Any = cloud.client("redshift-data")
        made = data.execute_statement(
            WorkgroupName="lake", Database="flights", Sql="create table t as select 7 as n"
        )
        assert data.describe_statement(Id=made["Id"], WaitTimeSeconds=30)["Status"] == "FINISHED"
        given = serverless.get_credentials(workgroupName="lake", durationSeconds=1800)
        assert given["dbUser"] == "IAM:root"
        at = serverless.get_workgroup(workgroupName="lake")["workgroup"]["endpoint"]
        with psycopg.connect(
            host=at["address"],
            port=at["port"],
            user=given["dbUser"],
            password=given["dbPassword"],
            dbname="flights",
        ) as connection:
            assert connection.execute("select n from t").fetchone() == (7,)
            connection.execute("create table theirs (n int)")
        # What the client makes is the administrator's, too.
        said = data.execute_statement(
            WorkgroupName="lake", Database="flights", Sql="select count(*) from theirs"
        )
        assert data.describe_statement(Id=said["Id"], WaitTimeSeconds=30)["Status"] == "FINISHED"


@pytest.mark.slow
def test_a_client_logs_in_to_a_cluster_as_a_user_of_its(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        redshift: Any = cloud.client("redshift")
        redshift.create_cluster(
            ClusterIdentifier="c",
            NodeType="ra3.large",
            MasterUsername="boss",
            MasterUserPassword="Secret123",
            Port=25710,
        )
        at = redshift.describe_clusters()["Clusters"][0]["Endpoint"]

        def asked(user: str, **given: Any) -> Any:
            login = redshift.get_cluster_credentials(
                ClusterIdentifier="c", DbUser=user, DbName="dev", **given
            )
            with psycopg.connect(
                host=at["Address"],
                port=at["Port"],
                user=login["DbUser"],
                password=login["DbPassword"],
                dbname="dev",
            ) as connection:
                return connection.execute("select current_user").fetchone()

        assert asked("boss") == ("boss",)
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            asked("reader")
        assert asked("reader", AutoCreate=True) == ("reader",)
        assert asked("reader") == ("reader",)
