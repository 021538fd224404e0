"""S3, as moto's services see it: headrace's buckets exist."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT


def _has_bucket(account: str, region: str, name: str) -> bool:
    """Whether a bucket exists; S3 is headrace's own, and moto's has no buckets."""
    if CURRENT.control is None:
        return True
    region = "us-east-1" if region == "aws" else region
    try:
        CURRENT.control.call("s3", "HeadBucket", {"Bucket": name}, account=account, region=region)
    except AwsError:
        return False
    return True


class _Elsewhere:
    """Stands for one of headrace's S3 buckets: moto's services may check that it exists, and nothing more."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        from moto.core.exceptions import JsonRESTError

        raise JsonRESTError(
            "NotImplementedException",
            f"headrace's {self._name} cannot be written to by this service",
        )


def find_own_buckets(module: Any) -> None:
    """Make moto's services find headrace's buckets."""
    get_bucket = module.S3Backend.get_bucket

    @functools.wraps(get_bucket)
    def find(self: Any, bucket_name: str) -> Any:
        known = bucket_name in self.buckets
        if not known and _has_bucket(self.account_id, self.region_name, bucket_name):
            return _Elsewhere(bucket_name)
        return get_bucket(self, bucket_name)

    module.S3Backend.get_bucket = find
