"""Asks whether a caller may put into a stream or read from it, and whether the key that encrypts it can be used."""

from __future__ import annotations

import functools

from headrace.aws.permits import Permit
from headrace.core.arn import make_arn
from headrace.services.kinesis.data_path.keys import StreamKeys
from headrace.services.kinesis.state import Stream

_ACTIONS = {name: f"kinesis:{name}" for name in ("PutRecord", "PutRecords", "GetRecords")}
# What a caller needs of a key of the account's own, by what he does with the stream.
# Source: docs.aws.amazon.com/streams/latest/dev/permissions-user-key-KMS.html (documented).
_KEY_ACTIONS = {
    "PutRecord": "kms:GenerateDataKey",
    "PutRecords": "kms:GenerateDataKey",
    "GetRecords": "kms:Decrypt",
}


def ask(permit: Permit | None, stream: Stream, operation: str, keys: StreamKeys) -> None:
    """Note PutRecord, PutRecords or GetRecords on a stream, or refuse it. Raises AwsError.

    `permit` is None for the account itself, which needs no leave, but a key that works.
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
    """Return a stream's ARN, which takes longer to make than all the rest of the question."""
    return make_arn("kinesis", region, account, f"stream/{name}")
