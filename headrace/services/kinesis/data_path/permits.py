"""Checks that a caller may put to or read from a stream, and that the stream's KMS key can be used."""

from __future__ import annotations

import functools

from headrace.aws.calls.permits import Permit
from headrace.core.arn import make_arn
from headrace.services.kinesis.data_path.keys import StreamKeys
from headrace.services.kinesis.state import Stream

_ACTIONS = {name: f"kinesis:{name}" for name in ("PutRecord", "PutRecords", "GetRecords")}
# The permission on a customer managed key that a caller needs for each operation on the stream.
# Source: docs.aws.amazon.com/streams/latest/dev/permissions-user-key-KMS.html (documented).
_KEY_ACTIONS = {
    "PutRecord": "kms:GenerateDataKey",
    "PutRecords": "kms:GenerateDataKey",
    "GetRecords": "kms:Decrypt",
}


def ask(permit: Permit | None, stream: Stream, operation: str, keys: StreamKeys) -> None:
    """Record that the caller uses PutRecord, PutRecords or GetRecords, and check that it may. Raises AwsError.

    `permit` is None for the account itself: it needs no permission, but it does need a key that can be used.
    """
    arn = _arn(stream.region, stream.account, stream.name)
    if permit is not None:
        permit.ask_for("kinesis", _ACTIONS[operation], arn)
    if stream.key_id:
        key = keys.usable(stream.key_id, stream.account, stream.region)
        if key and permit is not None:
            permit.ask_for("kinesis", _KEY_ACTIONS[operation], key, arn)


@functools.lru_cache(maxsize=4096)
def _arn(region: str, account: str, name: str) -> str:
    """Return a stream's ARN. Cached: making the ARN takes longer than the rest of the check."""
    return make_arn("kinesis", region, account, f"stream/{name}")
