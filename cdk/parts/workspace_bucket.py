"""A private bucket that is deleted with its stack."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk.parts.checks import check_between

MAX_DAYS = 36_500


class WorkspaceBucket(Construct):
    """A bucket for reproducible data: `cdk destroy` empties and deletes it.

    Objects older than `expire_days` are deleted; None keeps them.

    Attributes:
        bucket: the bucket.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, expire_days: int | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        if expire_days is not None:
            check_between("An object's life", expire_days, 1, MAX_DAYS, "days")
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
            auto_delete_objects=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                    expiration=None if expire_days is None else Duration.days(expire_days),
                )
            ],
        )
