"""The data lake, and the delivery that fills it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct

from cdk.constructs.delivery_config import load_delivery
from cdk.constructs.parquet_delivery import ParquetDelivery
from cdk.constructs.workspace_bucket import WorkspaceBucket

CONFIG = Path(__file__).resolve().parents[2] / "firehose" / "flights" / "delivery.json"


class DeliveryStack(Stack):
    """Enriched flights as Parquet.

    Outputs: LakeBucketName, LakePrefix, LakeErrorPrefix, DeliveryStreamName, GlueDatabaseName, GlueTableName.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, enriched: kinesis.IStream, **kwargs: Any
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        config = load_delivery(CONFIG)
        lake = WorkspaceBucket(self, "Lake").bucket
        delivery = ParquetDelivery(self, "Flights", config=config, source=enriched, bucket=lake)
        CfnOutput(self, "LakeBucketName", value=lake.bucket_name)
        CfnOutput(self, "LakePrefix", value=config.table_location)
        CfnOutput(self, "LakeErrorPrefix", value=config.error_prefix.partition("!")[0])
        CfnOutput(self, "DeliveryStreamName", value=delivery.delivery.ref)
        CfnOutput(self, "GlueDatabaseName", value=delivery.database.ref)
        CfnOutput(self, "GlueTableName", value=delivery.table.ref)
