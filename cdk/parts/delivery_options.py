"""What all deliveries of a Kinesis stream have in common, whatever their destination."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from aws_cdk import Token
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3

from cdk.parts.checks import check_between, check_name

# Source: API_CreateDeliveryStream, API_BufferingHints; API_HttpEndpointRetryOptions and similar pages.
NAME_PATTERN = r"[a-zA-Z0-9_.-]{1,64}"
INTERVAL_S = (0, 900)
RETRY_S = (0, 7200)
_Hints = TypeVar("_Hints")
_ERROR_TYPE = "!{firehose:error-output-type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """The options of a delivery. Raises ValueError for values that no destination takes.

    Attributes:
        name: the delivery stream's name.
        source: the stream that it reads.
        bucket: takes the records that cannot be delivered.
        error_prefix: the prefix of the objects' keys there, with `!{firehose:error-output-type}`.
        size_mib, interval_s: the buffer is delivered when either is reached; a destination has its own limits.
        retry_s: how long Firehose retries, then the records go to the error prefix; None for the construct's default.
    """

    name: str
    source: kinesis.IStream
    bucket: s3.IBucket
    error_prefix: str
    size_mib: int = 5
    interval_s: int = 60
    retry_s: int | None = None

    def __post_init__(self) -> None:
        check_name("A delivery stream's name", self.name, NAME_PATTERN)
        check_between("A buffering interval", self.interval_s, *INTERVAL_S, "seconds")
        if self.retry_s is not None:
            check_between("A retry duration", self.retry_s, *RETRY_S, "seconds")
        if not Token.is_unresolved(self.error_prefix) and _ERROR_TYPE not in self.error_prefix:
            raise ValueError(f"The error prefix must hold {_ERROR_TYPE}.")

    def buffering(self, kind: Callable[..., _Hints]) -> _Hints:
        """Return when a buffer is delivered, as the destination's `kind` of property."""
        return kind(size_in_m_bs=self.size_mib, interval_in_seconds=self.interval_s)
