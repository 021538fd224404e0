"""Asks whether a caller may put into a stream or read from it, and use the key that encrypts it."""

from __future__ import annotations

import functools

from headrace.aws.permits import Permit
from headrace.core.arn import make_arn
from headrace.services.kinesis.state import Stream

_ACTIONS = {name: f"kinesis:{name}" for name in ("PutRecord", "PutRecords", "GetRecords")}
# What a caller needs of a key of the account's own, by what he does with the stream.
# Source: docs.aws.amazon.com/streams/latest/dev/permissions-user-key-KMS.html (documented).
_KEY_ACTIONS = {
    "PutRecord": "kms:GenerateDataKey",
    "PutRecords": "kms:GenerateDataKey",
    "GetRecords": "kms:Decrypt",
}


def ask(permit: Permit, stream: Stream, operation: str) -> None:
    """Note PutRecord, PutRecords or GetRecords on a stream, or refuse it. Raises AwsError."""
    arn = _arn(stream.region, stream.account, stream.name)
    permit.ask_for("kinesis", _ACTIONS[operation], arn)
    if stream.key_id:
        key = key_arn(stream)
        if key:
            permit.ask_for("kinesis", _KEY_ACTIONS[operation], key)


@functools.lru_cache(maxsize=4096)
def _arn(region: str, account: str, name: str) -> str:
    """Return a stream's ARN, which takes longer to make than all the rest of the question."""
    return make_arn("kinesis", region, account, f"stream/{name}")


def key_arn(stream: Stream) -> str:
    """Return the ARN of the key that encrypts a stream; empty for AWS's own, for which nobody needs a permission."""
    key = stream.key_id or ""
    if not key or "alias/" in key:
        return ""
    if key.startswith("arn:"):
        return key
    return f"arn:aws:kms:{stream.region}:{stream.account}:key/{key}"
