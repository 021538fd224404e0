"""The resources of every delivery from a Kinesis stream: its role, the role's permissions, and the delivery stream."""

# jsii names the parameters of its interfaces unlike those of its classes, so that no class fits its interface.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cdk.parts.delivery_options import DeliveryOptions

Stream = firehose.CfnDeliveryStream


def create_role(scope: Construct) -> iam.Role:
    """Create the role that Firehose takes, for this account only."""
    return iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("firehose.amazonaws.com").with_conditions(
            {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        ),
    )


def create_delivery(
    scope: Construct,
    options: DeliveryOptions,
    role: iam.Role,
    statements: Sequence[iam.PolicyStatement],
    **destination: object,
) -> firehose.CfnDeliveryStream:
    """Create the role's policy and then the delivery stream.

    Args:
        scope: the parent construct.
        options: the delivery's options.
        role: the delivery stream's role.
        statements: what the role may do, beside reading the source and finding the bucket.
        destination: the destination's property of CfnDeliveryStream.
    """
    allowed = [*_source_statements(options), *statements]
    policy = iam.Policy(scope, "Policy", roles=[role], statements=allowed)
    delivery = Stream(
        scope,
        "Delivery",
        delivery_stream_name=options.name,
        delivery_stream_type="KinesisStreamAsSource",
        kinesis_stream_source_configuration=Stream.KinesisStreamSourceConfigurationProperty(
            kinesis_stream_arn=options.source.stream_arn, role_arn=role.role_arn
        ),
        **destination,
    )
    # Firehose checks at creation whether it may read the stream.
    delivery.node.add_dependency(policy)
    return delivery


def _source_statements(options: DeliveryOptions) -> list[iam.PolicyStatement]:
    return [
        iam.PolicyStatement(
            actions=[
                "kinesis:DescribeStream",
                "kinesis:GetShardIterator",
                "kinesis:GetRecords",
                "kinesis:ListShards",
            ],
            resources=[options.source.stream_arn],
        ),
        iam.PolicyStatement(
            actions=["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
            resources=[options.bucket.bucket_arn],
        ),
    ]


def may_write(bucket: s3.IBucket, *prefixes: str) -> iam.PolicyStatement:
    """Return the permission to write objects under each prefix, up to its first expression."""
    return iam.PolicyStatement(
        actions=["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
        resources=[bucket.arn_for_objects(f"{prefix.partition('!')[0]}*") for prefix in prefixes],
    )


def may_log(group_arn: str) -> iam.PolicyStatement:
    """Return the permission to write the log of errors."""
    return iam.PolicyStatement(actions=["logs:PutLogEvents"], resources=[group_arn])


def may_read(secret: secretsmanager.ISecret) -> iam.PolicyStatement:
    """Return the permission to read a secret."""
    return iam.PolicyStatement(
        actions=["secretsmanager:GetSecretValue"], resources=[secret.secret_arn]
    )
