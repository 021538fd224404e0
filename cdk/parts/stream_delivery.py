"""The base of deliveries from a Kinesis stream to destinations other than S3: a role, a log, a bucket for errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.checks import check_between
from cdk.parts.delivery_log import DeliveryLog
from cdk.parts.delivery_options import DeliveryOptions
from cdk.parts.delivery_resources import Stream, create_delivery, create_role, may_log, may_write

_Hints = TypeVar("_Hints")
_Retry = TypeVar("_Retry")


class StreamDelivery(Construct):
    """The parts around a delivery stream. A subclass chooses the destination and calls `finish`.

    Attributes:
        MOST_MIB: the largest buffer that the destination takes.
        DEFAULT_RETRY_S: how long Firehose retries, if the options do not say it.
        options: what the delivery shares with all others.
        role: the role of the delivery stream.
        delivery: the delivery stream; set by `finish`.
    """

    MOST_MIB: ClassVar[int] = 128
    DEFAULT_RETRY_S: ClassVar[int] = 300
    delivery: firehose.CfnDeliveryStream

    def __init__(self, scope: Construct, construct_id: str, options: DeliveryOptions) -> None:
        """Create the role and the log. Raises ValueError for a buffer larger than the destination's."""
        check_between("A buffer", options.size_mib, 1, self.MOST_MIB, "MiB")
        super().__init__(scope, construct_id)
        self.options = options
        self._log = DeliveryLog(self, options.name)
        self.role = create_role(self)

    def retries(self, kind: Callable[..., _Retry]) -> _Retry:
        """Return how long Firehose retries, as the destination's `kind` of property."""
        retry_s = self.options.retry_s
        return kind(duration_in_seconds=self.DEFAULT_RETRY_S if retry_s is None else retry_s)

    @property
    def logging(self) -> Stream.CloudWatchLoggingOptionsProperty:
        """The CloudWatch logging options."""
        return self._log.options

    def backup(
        self, mode: str, hints: Callable[..., _Hints], retry: Callable[..., _Retry]
    ) -> dict[str, Any]:
        """Return the properties that all destinations but Redshift share: buffer, retries, log, and what fails.

        Args:
            mode: the destination's word for a bucket that takes only what cannot be delivered.
            hints: the destination's kind of buffering hints.
            retry: the destination's kind of retry options.
        """
        errors = Stream.S3DestinationConfigurationProperty(
            bucket_arn=self.options.bucket.bucket_arn,
            role_arn=self.role.role_arn,
            error_output_prefix=self.options.error_prefix,
        )
        return {
            "buffering_hints": self.options.buffering(hints),
            "retry_options": self.retries(retry),
            "s3_backup_mode": mode,
            "s3_configuration": errors,
            "cloud_watch_logging_options": self.logging,
        }

    def login(self, secret: secretsmanager.ISecret) -> Stream.SecretsManagerConfigurationProperty:
        """Return the property that makes Firehose read the destination's secret."""
        return Stream.SecretsManagerConfigurationProperty(
            enabled=True, secret_arn=secret.secret_arn, role_arn=self.role.role_arn
        )

    def finish(self, statements: Sequence[iam.PolicyStatement], **destination: object) -> None:
        """Create the delivery stream, after the policy that it needs.

        Args:
            statements: the destination's permissions, beside those for the stream, the bucket and the log.
            destination: the destination's property of CfnDeliveryStream.
        """
        shared = [
            may_write(self.options.bucket, self.options.error_prefix),
            may_log(self._log.group_arn),
        ]
        self.delivery = create_delivery(
            self, self.options, self.role, [*shared, *statements], **destination
        )
