"""The base of deliveries from a Kinesis stream to destinations other than S3: a role, a log, a bucket for errors."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk.parts.checks import check_between, check_name
from cdk.parts.delivery_config import INTERVAL_S, NAME_PATTERN
from cdk.parts.delivery_log import DeliveryLog

# Source: API_HttpEndpointRetryOptions and similar pages.
RETRY_S = (0, 7200)
_ERROR_TYPE = "!{firehose:error-output-type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffering:
    """When Firehose delivers a buffer, and how long it retries. Raises ValueError for values that AWS would refuse.

    Attributes:
        size_mib, interval_s: the buffer is delivered when either is reached.
        retry_s: how long Firehose retries; then the records go to the error prefix.
    """

    size_mib: int = 5
    interval_s: int = 60
    retry_s: int = 300

    def __post_init__(self) -> None:
        check_between("A buffering interval", self.interval_s, *INTERVAL_S, "seconds")
        check_between("A retry duration", self.retry_s, *RETRY_S, "seconds")

    def check_size(self, most_mib: int) -> None:
        """Raise ValueError for a buffer larger than a destination allows."""
        check_between("A buffer", self.size_mib, 1, most_mib, "MiB")


class StreamDelivery(Construct):
    """The parts around a delivery stream. A subclass chooses the destination and calls `finish`.

    Attributes:
        role: the role of the delivery stream.
        delivery: the delivery stream; set by `finish`.
    """

    delivery: firehose.CfnDeliveryStream

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        source: kinesis.IStream,
        bucket: s3.IBucket,
        error_prefix: str,
    ) -> None:
        """Create them.

        Args:
            scope: the parent construct.
            construct_id: their id in the parent.
            name: the delivery stream's name.
            source: the stream that it reads.
            bucket: takes the records that cannot be delivered.
            error_prefix: the prefix of the objects' keys there, with `!{firehose:error-output-type}`.
        """
        super().__init__(scope, construct_id)
        check_name("A delivery stream's name", name, NAME_PATTERN)
        if not Token.is_unresolved(error_prefix) and _ERROR_TYPE not in error_prefix:
            raise ValueError(f"The error prefix must hold {_ERROR_TYPE}.")
        self._name, self._source, self._bucket = name, source, bucket
        self._error_prefix = error_prefix
        self._log = DeliveryLog(self, name)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("firehose.amazonaws.com").with_conditions(
                {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
        )

    @property
    def logging(self) -> firehose.CfnDeliveryStream.CloudWatchLoggingOptionsProperty:
        """The CloudWatch logging options."""
        return self._log.options

    @property
    def errors(self) -> firehose.CfnDeliveryStream.S3DestinationConfigurationProperty:
        """The S3 destination of records that cannot be delivered."""
        return firehose.CfnDeliveryStream.S3DestinationConfigurationProperty(
            bucket_arn=self._bucket.bucket_arn,
            role_arn=self.role.role_arn,
            error_output_prefix=self._error_prefix,
        )

    def finish(
        self, statements: Sequence[iam.PolicyStatement], **destination: object
    ) -> firehose.CfnDeliveryStream:
        """Create the delivery stream, after the policy that it needs.

        Args:
            statements: the destination's permissions, beside those for the stream, the bucket and the log.
            destination: the destination's property of CfnDeliveryStream.
        """
        policy = iam.Policy(
            self, "Policy", roles=[self.role], statements=[*self._statements(), *statements]
        )
        stream = firehose.CfnDeliveryStream
        self.delivery = stream(
            self,
            "Delivery",
            delivery_stream_name=self._name,
            delivery_stream_type="KinesisStreamAsSource",
            kinesis_stream_source_configuration=stream.KinesisStreamSourceConfigurationProperty(
                kinesis_stream_arn=self._source.stream_arn, role_arn=self.role.role_arn
            ),
            **destination,
        )
        # Firehose checks at creation whether it may read the stream.
        self.delivery.node.add_dependency(policy)
        return self.delivery

    def _statements(self) -> list[iam.PolicyStatement]:
        return [
            iam.PolicyStatement(
                actions=[
                    "kinesis:DescribeStream",
                    "kinesis:GetShardIterator",
                    "kinesis:GetRecords",
                    "kinesis:ListShards",
                ],
                resources=[self._source.stream_arn],
            ),
            iam.PolicyStatement(
                actions=["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
                resources=[self._bucket.bucket_arn],
            ),
            iam.PolicyStatement(
                actions=["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
                resources=[
                    self._bucket.arn_for_objects(f"{self._error_prefix.partition('!')[0]}*")
                ],
            ),
            iam.PolicyStatement(actions=["logs:PutLogEvents"], resources=[self._log.group_arn]),
        ]
