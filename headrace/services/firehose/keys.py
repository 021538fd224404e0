"""Says whether the customer's KMS key of a delivery stream can be used: it is there, enabled, not about to be deleted.

Source of the error and of its four causes: firehose/latest/APIReference/API_StartDeliveryStreamEncryption.html and
API_PutRecord.html; of the metrics: firehose/latest/dev/monitoring-with-cloudwatch-metrics.html (documented). The
sentences are KMS' own; that Firehose repeats them is assumed, and so is that CreateDeliveryStream answers at once with
this error, and does not make a delivery stream that is CREATING_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.aws.errors import AwsError
from headrace.services.firehose.state import DeliveryStream

# Gives ARN and state (`Enabled`, ...) of the key of an ARN, in an account and a region; "" and "" for none.
StateOf = Callable[[str, str, str], tuple[str, str]]


class KeyUnusable(Exception):
    """A key of the customer's cannot be used now.

    Attributes:
        code: KMS' code, such as `DisabledException`.
        message: its sentence.
        metric: which of CloudWatch's metrics counts it.
    """

    def __init__(self, code: str, message: str, metric: str) -> None:
        super().__init__(message)
        self.code, self.message, self.metric = code, message, metric


class StreamKeys:
    """Finds delivery streams' keys. Thread-safe.

    Attributes:
        state_of: who knows keys; without KMS all are there and enabled.
    """

    def __init__(self) -> None:
        self.state_of: StateOf = _any_key

    def check(self, stream: DeliveryStream, arn: str | None = None) -> None:
        """Raise KeyUnusable unless a stream's key, or the one of this ARN, can be used; AWS's own always can."""
        wanted = arn or str(stream.encryption.get("KeyARN") or "")
        if not wanted:
            return
        found, state = self.state_of(wanted, stream.account, stream.region)
        if not found or wanted.split(":", 5)[3] != stream.region:
            raise KeyUnusable(
                "NotFoundException", f"Key '{wanted}' does not exist", "KMSKeyNotFound"
            )
        if state == "Disabled":
            raise KeyUnusable("DisabledException", f"{found} is disabled.", "KMSKeyDisabled")
        if state != "Enabled":
            words = "pending deletion" if state == "PendingDeletion" else f"in the state {state}"
            raise KeyUnusable("InvalidStateException", f"{found} is {words}.", "KMSKeyInvalidState")

    def require(self, stream: DeliveryStream, arn: str | None = None) -> None:
        """Do as `check`, for a request. Raises AwsError InvalidKMSResourceException."""
        try:
            self.check(stream, arn)
        except KeyUnusable as error:
            raise AwsError(
                "InvalidKMSResourceException", error.message, members={"code": error.code}
            ) from error


def _any_key(arn: str, account: str, region: str) -> tuple[str, str]:
    return arn, "Enabled"
