"""Delivers enriched flights to Parquet or Iceberg in a data lake, OpenSearch, Redshift, or an HTTP endpoint."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_opensearchservice as opensearch
from aws_cdk import aws_redshift as redshift
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.delivery_config import DeliveryConfig, load_delivery
from cdk.parts.http_delivery import HttpDelivery
from cdk.parts.iceberg_delivery import IcebergDelivery
from cdk.parts.parquet_delivery import ParquetDelivery
from cdk.parts.redshift_delivery import RedshiftDelivery
from cdk.parts.search_delivery import SearchDelivery
from cdk.parts.workspace_bucket import WorkspaceBucket

# Not Redshift's default port, 5439, which attackers try first.
PORT = 5440
ADMIN = "flights_admin"
DATABASE = "flights"
SEARCH_NAME = "flights-to-search"
_TYPES = {"string": "varchar(256)"}
CONFIG = Path(__file__).resolve().parents[2] / "firehose" / "flights" / "delivery.json"
DESTINATIONS = ("parquet", "iceberg", "opensearch", "redshift", "http")


class DeliveryStack(Stack):
    """The delivery of enriched flights.

    Outputs: LakeBucketName, LakeErrorPrefix, DeliveryStreamName; of Parquet and Iceberg also LakePrefix,
    GlueDatabaseName and GlueTableName; of OpenSearch DomainEndpoint; of Redshift ClusterIdentifier, DatabaseName, and
    CreateTable, the statement that creates the table: run it yourself; until then Firehose retries COPY.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        enriched: kinesis.IStream,
        destination: str = "parquet",
        url: str = "",
        **kwargs: Any,
    ) -> None:
        """Create it. Raises ValueError for an unknown destination.

        Args:
            scope: the app.
            construct_id: its id there.
            enriched: the stream of enriched flights.
            destination: one of `DESTINATIONS`.
            url: the endpoint's URL, for `http`.
            kwargs: the arguments of every stack.
        """
        super().__init__(scope, construct_id, **kwargs)
        if destination not in DESTINATIONS:
            raise ValueError(
                f"A delivery must be one of {', '.join(DESTINATIONS)}, not {destination!r}."
            )
        if destination == "http" and not url:
            raise ValueError("A delivery to http needs its endpoint: -c delivery_url=https://...")
        config = load_delivery(CONFIG)
        lake = WorkspaceBucket(self, "Lake").bucket
        CfnOutput(self, "LakeBucketName", value=lake.bucket_name)
        CfnOutput(self, "LakeErrorPrefix", value=config.error_prefix.partition("!")[0])
        if destination == "opensearch":
            name = self._to_opensearch(config, enriched, lake)
        elif destination == "iceberg":
            name = self._to_iceberg(config, enriched, lake)
        elif destination == "redshift":
            name = self._to_redshift(config, enriched, lake)
        elif destination == "http":
            options = config.options(enriched, lake)
            name = HttpDelivery(self, "Flights", options, url=url).delivery.ref
        else:
            name = self._to_parquet(config, enriched, lake)
        CfnOutput(self, "DeliveryStreamName", value=name)

    def _to_parquet(
        self, config: DeliveryConfig, enriched: kinesis.IStream, lake: s3.IBucket
    ) -> str:
        delivery = ParquetDelivery(self, "Flights", config=config, source=enriched, bucket=lake)
        CfnOutput(self, "LakePrefix", value=config.table_location)
        CfnOutput(self, "GlueDatabaseName", value=delivery.database.ref)
        CfnOutput(self, "GlueTableName", value=delivery.table.ref)
        return delivery.delivery.ref

    def _to_iceberg(
        self, config: DeliveryConfig, enriched: kinesis.IStream, lake: s3.IBucket
    ) -> str:
        # Another name than the Parquet table's: a deployed stack that changes between them creates the new table first.
        location = f"{config.table_location.rstrip('/')}-iceberg/"
        delivery = IcebergDelivery(
            self,
            "Flights",
            config.options(enriched, lake),
            database=config.database,
            table=f"{config.table}_iceberg",
            location=location,
            columns=config.columns,
        )
        CfnOutput(self, "LakePrefix", value=location)
        CfnOutput(self, "GlueDatabaseName", value=delivery.database.ref)
        CfnOutput(self, "GlueTableName", value=delivery.table.ref)
        return delivery.delivery.ref

    def _to_opensearch(
        self, config: DeliveryConfig, enriched: kinesis.IStream, lake: s3.IBucket
    ) -> str:
        domain = opensearch.Domain(
            self,
            "Domain",
            version=opensearch.EngineVersion.OPENSEARCH_2_19,
            capacity=opensearch.CapacityConfig(
                data_nodes=1,
                data_node_instance_type="t3.small.search",
                multi_az_with_standby_enabled=False,
            ),
            ebs=opensearch.EbsOptions(volume_size=10, volume_type=ec2.EbsDeviceVolumeType.GP3),
            encryption_at_rest=opensearch.EncryptionAtRestOptions(enabled=True),
            node_to_node_encryption=True,
            enforce_https=True,
            removal_policy=RemovalPolicy.DESTROY,
        )
        CfnOutput(self, "DomainEndpoint", value=domain.domain_endpoint)
        # Another name: Firehose cannot change a delivery stream to OpenSearch or from it, so CloudFormation must
        # create another one (API_UpdateDestination).
        options = replace(config.options(enriched, lake), name=SEARCH_NAME)
        delivery = SearchDelivery(self, "Flights", options, domain=domain, index_name="flights")
        return delivery.delivery.ref

    def _to_redshift(
        self, config: DeliveryConfig, enriched: kinesis.IStream, lake: s3.IBucket
    ) -> str:
        login = secretsmanager.Secret(
            self,
            "Login",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=json.dumps({"username": ADMIN}),
                generate_string_key="password",
                exclude_punctuation=True,
                password_length=32,
            ),
        )
        cluster = redshift.CfnCluster(
            self,
            "Cluster",
            cluster_type="single-node",
            node_type="ra3.large",
            db_name=DATABASE,
            master_username=ADMIN,
            # A dynamic reference, which CloudFormation resolves: the template does not contain the password.
            master_user_password=login.secret_value_from_json("password").unsafe_unwrap(),
            encrypted=True,
            enhanced_vpc_routing=True,
            publicly_accessible=True,
            port=PORT,
        )
        cluster.apply_removal_policy(RemovalPolicy.DESTROY)
        CfnOutput(self, "ClusterIdentifier", value=cluster.ref)
        CfnOutput(self, "DatabaseName", value=DATABASE)
        CfnOutput(self, "CreateTable", value=_create_table(config))
        delivery = RedshiftDelivery(
            self,
            "Flights",
            config.options(enriched, lake),
            jdbc_url=f"jdbc:redshift://{cluster.attr_endpoint_address}:{cluster.attr_endpoint_port}/{DATABASE}",
            login=login,
            table=config.table,
        )
        return delivery.delivery.ref


def _create_table(config: DeliveryConfig) -> str:
    columns = ", ".join(f"{one.name} {_TYPES.get(one.type, one.type)}" for one in config.columns)
    return f"create table {config.table} ({columns}) sortkey (event_time)"
