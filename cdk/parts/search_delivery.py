"""A Firehose delivery stream from a Kinesis stream to an index of an OpenSearch domain."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_opensearchservice as opensearch
from constructs import Construct

from cdk.parts.checks import check_name
from cdk.parts.delivery_options import DeliveryOptions
from cdk.parts.delivery_resources import Stream
from cdk.parts.stream_delivery import StreamDelivery

# Source: API_AmazonopensearchserviceDestinationConfiguration; OpenSearch's own rules for an index's name.
INDEX_PATTERN = r"[^-_+A-Z\s\\/*?\"<>|,#:][^A-Z\s\\/*?\"<>|,#:]{0,79}"
ROTATIONS = ("NoRotation", "OneHour", "OneDay", "OneWeek", "OneMonth")


class SearchDelivery(StreamDelivery):
    """Indexes the records of `source`, each a JSON object, under ids that make retries idempotent."""

    MOST_MIB = 100

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        options: DeliveryOptions,
        *,
        domain: opensearch.IDomain,
        index_name: str,
        rotation: str = "OneDay",
    ) -> None:
        """Create it. Raises ValueError for arguments that AWS would refuse.

        Args:
            scope: the parent construct.
            construct_id: its id in the parent.
            options: what all deliveries have; the buffer has up to 100 MiB.
            domain: the domain with the index.
            index_name: the index's name, before the suffix of the rotation.
            rotation: one of `ROTATIONS`.
        """
        check_name("An index's name", index_name, INDEX_PATTERN)
        if rotation not in ROTATIONS:
            raise ValueError(f"A rotation must be one of {', '.join(ROTATIONS)}, not {rotation!r}.")
        super().__init__(scope, construct_id, options)
        self.finish(
            _needs(domain.domain_arn, index_name),
            amazonopensearchservice_destination_configuration=(
                Stream.AmazonopensearchserviceDestinationConfigurationProperty(
                    domain_arn=domain.domain_arn,
                    index_name=index_name,
                    index_rotation_period=rotation,
                    document_id_options=Stream.DocumentIdOptionsProperty(
                        default_document_id_format="FIREHOSE_DEFAULT"
                    ),
                    role_arn=self.role.role_arn,
                    **self.backup(
                        "FailedDocumentsOnly",
                        Stream.AmazonopensearchserviceBufferingHintsProperty,
                        Stream.AmazonopensearchserviceRetryOptionsProperty,
                    ),
                )
            ),
        )


def _needs(domain_arn: str, index_name: str) -> list[iam.PolicyStatement]:
    """Return the role's permissions. Source: "Grant Firehose access to an OpenSearch Service destination"."""
    return [
        iam.PolicyStatement(
            actions=[
                "es:DescribeDomain",
                "es:DescribeDomains",
                "es:DescribeDomainConfig",
                "es:ESHttpPost",
                "es:ESHttpPut",
            ],
            resources=[domain_arn, f"{domain_arn}/*"],
        ),
        iam.PolicyStatement(
            actions=["es:ESHttpGet"],
            resources=[
                f"{domain_arn}/{path}"
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
