"""Checks that a delivery stream's customer-managed KMS key exists, is enabled and is not pending deletion.

Source of the error and of its four causes: firehose/latest/APIReference/API_StartDeliveryStreamEncryption.html and
API_PutRecord.html; of the metrics: firehose/latest/dev/monitoring-with-cloudwatch-metrics.html (documented). The
sentences are KMS'. Assumed: Firehose repeats them, and CreateDeliveryStream fails with this error at once instead of
creating a delivery stream that becomes CREATING_FAILED.
"""

from __future__ import annotations

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import AnyKeys, KeyStates
from headrace.services.firehose.state import DeliveryStream


class KeyUnusable(Exception):
    """A customer-managed key cannot be used now.

    Attributes:
        code: KMS' code, such as `DisabledException`.
        message: its sentence.
        metric: the CloudWatch metric that counts it.
    """

    def __init__(self, code: str, message: str, metric: str) -> None:
        super().__init__(message)
        self.code, self.message, self.metric = code, message, metric


class StreamKeys:
    """Checks delivery streams' keys. Thread-safe.

    Args:
        keys: KMS.
    """

    def __init__(self, keys: KeyStates | None = None) -> None:
        self._keys = keys or AnyKeys()

    def check(self, stream: DeliveryStream, arn: str | None = None) -> None:
        """Raise KeyUnusable unless a stream's key, or the key of this ARN, can be used; AWS-owned keys always can."""
        key_arn = arn or str(stream.encryption.get("KeyARN") or "")
        if not key_arn:
            return
        key_found, state = self._keys.state_of_key(key_arn, stream.account, stream.region)
        if not key_found or key_arn.split(":", 5)[3] != stream.region:
            raise KeyUnusable(
                "NotFoundException", f"Key '{key_arn}' does not exist", "KMSKeyNotFound"
            )
        if state == "Disabled":
            raise KeyUnusable("DisabledException", f"{key_found} is disabled.", "KMSKeyDisabled")
        if state != "Enabled":
            words = "pending deletion" if state == "PendingDeletion" else f"in the state {state}"
            raise KeyUnusable(
                "InvalidStateException", f"{key_found} is {words}.", "KMSKeyInvalidState"
            )

    def require(self, stream: DeliveryStream, arn: str | None = None) -> None:
        """Do `check` for a request. Raises AwsError InvalidKMSResourceException."""
        try:
            self.check(stream, arn)
        except KeyUnusable as error:
            raise AwsError(
                "InvalidKMSResourceException", error.message, members={"code": error.code}
            ) from error
