"""Amazon Resource Names, `arn:partition:service:region:account:resource`, and the account ids in them."""

from __future__ import annotations

from dataclasses import dataclass


class InvalidArn(ValueError):
    """The text is not an ARN."""


def is_account_id(text: str) -> bool:
    """Whether a text is the id of an account: twelve of the digits 0 to 9."""
    return len(text) == 12 and text.isascii() and text.isdigit()


@dataclass(frozen=True, slots=True)
class Arn:
    """The six parts of an ARN; `resource` keeps its own colons and slashes."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    @staticmethod
    def parse(text: str) -> Arn:
        """Return the parts of `text`. Raises InvalidArn."""
        parts = text.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn" or not parts[1] or not parts[2] or not parts[5]:
            raise InvalidArn(text)
        return Arn(*parts[1:])

    @property
    def name(self) -> str:
        """The resource's last part: `stream/flights` gives `flights`, `function:f` gives `f`."""
        return self.resource.rsplit("/", 1)[-1].rsplit(":", 1)[-1]

    def __str__(self) -> str:
        return f"arn:{self.partition}:{self.service}:{self.region}:{self.account}:{self.resource}"


# Documented: the regions of each partition begin so (docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "us-isof-": "aws-iso-f",
    "eu-isoe-": "aws-iso-e",
    "eusc-": "aws-eusc",
}
# How the host names of a partition's services end.
URL_SUFFIXES = {
    "aws": "amazonaws.com",
    "aws-us-gov": "amazonaws.com",
    "aws-cn": "amazonaws.com.cn",
    "aws-iso": "c2s.ic.gov",
    "aws-iso-b": "sc2s.sgov.gov",
    "aws-iso-f": "csp.hci.ic.gov",
    "aws-iso-e": "cloud.adc-e.uk",
    "aws-eusc": "amazonaws.eu",
}


def partition_of(region: str) -> str:
    """Return the partition of a region; `aws` for one that no other partition has, and for none."""
    for prefix, partition in _PARTITIONS.items():
        if region.startswith(prefix):
            return partition
    return "aws"


def make_arn(service: str, region: str, account: str, resource: str) -> str:
    """Return an ARN in the region's partition."""
    return f"arn:{partition_of(region)}:{service}:{region}:{account}:{resource}"


def bucket_arn(region: str, path: str) -> str:
    """Return the ARN of a bucket, or of an object (`bucket/key`), in the region's partition."""
    return f"arn:{partition_of(region)}:s3:::{path}"


def s3_path_of(arn: str) -> str:
    """Return the `bucket` or `bucket/key` of an ARN of S3, in any partition; empty for any other text."""
    parts = arn.split(":", 5)
    return parts[5] if len(parts) == 6 and parts[2:5] == ["s3", "", ""] else ""
