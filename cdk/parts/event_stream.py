"""A provisioned Kinesis stream."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration, RemovalPolicy
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct

from cdk.parts.checks import check_between, check_name

# Source: API_CreateStream; 500 shards is the default quota of the large regions.
NAME_PATTERN = r"[a-zA-Z0-9_.-]{1,128}"
MAX_SHARDS = 500
RETENTION_HOURS = (24, 8760)


class EventStream(Construct):
    """A stream with a fixed number of shards, encrypted with AWS's own key; deleted with its stack.

    Attributes:
        stream: the stream, for grants and readers.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        shard_count: int,
        retention_hours: int = 24,
    ) -> None:
        super().__init__(scope, construct_id)
        check_name("A stream's name", name, NAME_PATTERN)
        check_between("A stream's shard count", shard_count, 1, MAX_SHARDS)
        check_between("A stream's retention", retention_hours, *RETENTION_HOURS, "hours")
        self.stream = kinesis.Stream(
            self,
            "Stream",
            stream_name=name,
            stream_mode=kinesis.StreamMode.PROVISIONED,
            shard_count=shard_count,
            retention_period=Duration.hours(retention_hours),
            encryption=kinesis.StreamEncryption.MANAGED,
            removal_policy=RemovalPolicy.DESTROY,
        )

    def output(self, name: str, description: str) -> None:
        """Add the stream's name to the stack's outputs."""
        output = CfnOutput(self, name, value=self.stream.stream_name, description=description)
        output.override_logical_id(name)
