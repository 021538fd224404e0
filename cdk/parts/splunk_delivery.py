"""A Firehose delivery stream from a Kinesis stream to Splunk's HTTP event collector."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.checks import check_between, check_name
from cdk.parts.stream_delivery import Buffering, StreamDelivery

# Source: API_SplunkDestinationConfiguration, API_SplunkBufferingHints.
MOST_MIB = 5
MOST_INTERVAL_S = 60
ACK_S = (180, 600)
ENDPOINT_TYPES = ("Raw", "Event")


class SplunkDelivery(StreamDelivery):
    """Sends the records of `source` to a collector and waits for its acknowledgement."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        source: kinesis.IStream,
        bucket: s3.IBucket,
        error_prefix: str,
        hec_endpoint: str,
        hec_token: secretsmanager.ISecret,
        endpoint_type: str = "Event",
        acknowledged_within_s: int = 180,
        buffering: Buffering | None = None,
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            name: see `StreamDelivery`.
            source: see `StreamDelivery`.
            bucket: see `StreamDelivery`.
            error_prefix: see `StreamDelivery`.
            hec_endpoint: the collector's URL, without the path of its API.
            hec_token: a secret `{"hec_token": "..."}`; the token needs indexer acknowledgement.
            endpoint_type: `Raw` or `Event`.
            acknowledged_within_s: how long Firehose waits for the acknowledgement.
            buffering: up to 5 MiB and 60 seconds.
        """
        buffering = buffering or Buffering()
        buffering.check_size(MOST_MIB)
        check_between("A buffering interval", buffering.interval_s, 0, MOST_INTERVAL_S, "seconds")
        check_between("The wait for an acknowledgement", acknowledged_within_s, *ACK_S, "seconds")
        check_name("A collector's URL", hec_endpoint, r"https?://\S{1,2040}")
        if endpoint_type not in ENDPOINT_TYPES:
            raise ValueError(f"An endpoint's type must be Raw or Event, not {endpoint_type!r}.")
        super().__init__(
            scope,
            construct_id,
            name=name,
            source=source,
            bucket=bucket,
            error_prefix=error_prefix,
        )
        stream = firehose.CfnDeliveryStream
        statement = iam.PolicyStatement(
            actions=["secretsmanager:GetSecretValue"], resources=[hec_token.secret_arn]
        )
        self.finish(
            [statement],
            splunk_destination_configuration=stream.SplunkDestinationConfigurationProperty(
                hec_endpoint=hec_endpoint,
                hec_endpoint_type=endpoint_type,
                hec_acknowledgment_timeout_in_seconds=acknowledged_within_s,
                buffering_hints=stream.SplunkBufferingHintsProperty(
                    size_in_m_bs=buffering.size_mib, interval_in_seconds=buffering.interval_s
                ),
                retry_options=stream.SplunkRetryOptionsProperty(
                    duration_in_seconds=buffering.retry_s
                ),
                s3_backup_mode="FailedEventsOnly",
                s3_configuration=self.errors,
                cloud_watch_logging_options=self.logging,
                secrets_manager_configuration=stream.SecretsManagerConfigurationProperty(
                    enabled=True, secret_arn=hec_token.secret_arn, role_arn=self.role.role_arn
                ),
            ),
        )
