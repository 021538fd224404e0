"""Checks that a caller may put to or read from a stream, and that the stream's KMS key can be used.

Checks the KMS keys of streams: a key must exist, be enabled, and not be pending deletion.

Source of the error codes: kinesis/latest/APIReference/API_PutRecord.html, API_GetRecords.html and
API_StartStreamEncryption.html. The messages are KMS' own, which S3's users see; that Kinesis returns them is assumed.
"""

from __future__ import annotations

import functools

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Permit
from headrace.core.arn import make_arn
from headrace.core.ports import KeyStates
from headrace.services.kinesis.state import Stream

# The AWS managed key for Kinesis, which everybody may use and nobody can disable.
_OWN = "alias/aws/kinesis"
_MOST_KEPT = 10_000


class StreamKeys:
    """Finds the KMS keys of streams. Thread-safe; caches answers until a key changes.

    Args:
        keys: KMS.
    """

    def __init__(self, keys: KeyStates) -> None:
        self._keys = keys
        self._kept: dict[tuple[str, str, str], tuple[int, str, str]] = {}

    def usable(self, key_id: str, account: str, region: str) -> str:
        """Return the ARN of a key, or "" for the AWS managed key. Raises AwsError when the key cannot be used."""
        if key_id.endswith(_OWN):
            return ""
        arn, state = self._found(key_id, account, region)
        if state == "Enabled":
            return arn
        raise _refusal(_named(key_id, account, region), arn, state)

    def arn_of(self, key_id: str, account: str, region: str) -> str:
        """Return the ARN of a key in any state, or "" for the AWS managed key and for a key that does not exist."""
        return "" if key_id.endswith(_OWN) else self._found(key_id, account, region)[0]

    def _found(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        version, name = self._keys.keys_version, (key_id, account, region)
        kept = self._kept.get(name)
        if kept is None or kept[0] != version:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            kept = self._kept[name] = (version, *self._keys.state_of_key(key_id, account, region))
        return kept[1], kept[2]


def _named(key_id: str, account: str, region: str) -> str:
    if key_id.startswith("arn:"):
        return key_id
    return make_arn("kms", region, account, key_id if "alias/" in key_id else f"key/{key_id}")


def _refusal(named: str, arn: str, state: str) -> AwsError:
    if not arn:
        is_alias = ":alias/" in named
        sentence = f"Alias {named} is not found." if is_alias else f"Key '{named}' does not exist"
        return AwsError("KMSNotFoundException", sentence)
    if state == "Disabled":
        return AwsError("KMSDisabledException", f"{arn} is disabled.")
    if state == "PendingDeletion":
        return AwsError("KMSInvalidStateException", f"{arn} is pending deletion.")
    return AwsError("KMSInvalidStateException", f"{arn} is in the state {state}.")


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
