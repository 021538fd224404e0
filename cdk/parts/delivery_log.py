"""The log of a delivery stream's errors: a log group with a week's retention, and its log stream."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_logs as logs
from constructs import Construct


class DeliveryLog:
    """The log group and its stream, as a child of the delivery stream's construct.

    Attributes:
        group_arn: the log group, which the delivery stream's role must be allowed to write to.
    """

    def __init__(self, scope: Construct, name: str) -> None:
        """Create both in `scope`, for the delivery stream with this name."""
        self._group = logs.LogGroup(
            scope,
            "Logs",
            log_group_name=f"/aws/kinesisfirehose/{name}",
            retention=logs.RetentionDays.ONE_WEEK,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self._stream = logs.LogStream(
            scope,
            "LogStream",
            log_group=self._group,
            log_stream_name="DestinationDelivery",
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.group_arn = self._group.log_group_arn

    @property
    def options(self) -> firehose.CfnDeliveryStream.CloudWatchLoggingOptionsProperty:
        """The delivery stream's CloudWatch logging options."""
        return firehose.CfnDeliveryStream.CloudWatchLoggingOptionsProperty(
            enabled=True,
            log_group_name=self._group.log_group_name,
            log_stream_name=self._stream.log_stream_name,
        )
