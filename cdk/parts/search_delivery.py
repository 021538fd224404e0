"""A Firehose delivery stream from a Kinesis stream to an index of an OpenSearch domain."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_opensearchservice as opensearch
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk.parts.checks import check_name
from cdk.parts.stream_delivery import Buffering, StreamDelivery

# Source: API_AmazonopensearchserviceDestinationConfiguration; OpenSearch's own rules for an index's name.
INDEX_PATTERN = r"[^-_+A-Z\s\\/*?\"<>|,#:][^A-Z\s\\/*?\"<>|,#:]{0,79}"
ROTATIONS = ("NoRotation", "OneHour", "OneDay", "OneWeek", "OneMonth")
MOST_MIB = 100


class SearchDelivery(StreamDelivery):
    """Indexes the records of `source`, each a JSON object, under ids that make retries idempotent."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        source: kinesis.IStream,
        bucket: s3.IBucket,
        error_prefix: str,
        domain: opensearch.IDomain,
        index_name: str,
        rotation: str = "OneDay",
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
            domain: the domain with the index.
            index_name: the index's name, before the suffix of the rotation.
            rotation: one of `ROTATIONS`.
            buffering: up to 100 MiB.
        """
        buffering = buffering or Buffering()
        buffering.check_size(MOST_MIB)
        check_name("An index's name", index_name, INDEX_PATTERN)
        if rotation not in ROTATIONS:
            raise ValueError(f"A rotation must be one of {', '.join(ROTATIONS)}, not {rotation!r}.")
        super().__init__(
            scope,
            construct_id,
            name=name,
            source=source,
            bucket=bucket,
            error_prefix=error_prefix,
        )
        stream = firehose.CfnDeliveryStream
        # Source: "Grant Firehose access to an OpenSearch Service destination" (documented).
        statements = [
            iam.PolicyStatement(
                actions=[
                    "es:DescribeDomain",
                    "es:DescribeDomains",
                    "es:DescribeDomainConfig",
                    "es:ESHttpPost",
                    "es:ESHttpPut",
                ],
                resources=[domain.domain_arn, f"{domain.domain_arn}/*"],
            ),
            iam.PolicyStatement(
                actions=["es:ESHttpGet"],
                resources=[
                    f"{domain.domain_arn}/{path}"
                    for path in (
                        "_all/_settings",
                        "_cluster/stats",
                        f"{index_name}*/_mapping/*",
                        "_nodes",
                        "_nodes/stats",
                        "_nodes/*/stats",
                        "_stats",
                        f"{index_name}*/_stats",
                    )
                ],
            ),
        ]
        self.finish(
            statements,
            amazonopensearchservice_destination_configuration=(
                stream.AmazonopensearchserviceDestinationConfigurationProperty(
                    domain_arn=domain.domain_arn,
                    index_name=index_name,
                    index_rotation_period=rotation,
                    document_id_options=stream.DocumentIdOptionsProperty(
                        default_document_id_format="FIREHOSE_DEFAULT"
                    ),
                    buffering_hints=stream.AmazonopensearchserviceBufferingHintsProperty(
                        size_in_m_bs=buffering.size_mib, interval_in_seconds=buffering.interval_s
                    ),
                    retry_options=stream.AmazonopensearchserviceRetryOptionsProperty(
                        duration_in_seconds=buffering.retry_s
                    ),
                    role_arn=self.role.role_arn,
                    s3_backup_mode="FailedDocumentsOnly",
                    s3_configuration=self.errors,
                    cloud_watch_logging_options=self.logging,
                )
            ),
        )
