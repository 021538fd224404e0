"""The destination Splunk: its configuration, its batches, its error lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from headrace.services.firehose.destinations import common, splunk_hec
from headrace.services.firehose.destinations.base import Attempt, Outcome
from headrace.services.firehose.destinations.exchange import Stopped
from headrace.services.firehose.destinations.outcome import DeliveryRefusal
from headrace.services.firehose.destinations.retries import compute_backoff_s
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.failures import FailedRecord, common_members
from headrace.services.firehose.output import find_delimiter
from headrace.services.firehose.transform import Stopping

RULES = common.KindRules(
    most_mib=5,
    backup_modes=("FailedEventsOnly", "AllEvents"),
    most_interval_s=60,
    default_interval_s=60,
)
DEFAULT_ACK_S = 180
_SECRET_MEMBER = "hec_token"
_PATHS = {"Raw": splunk_hec.RAW, "Event": splunk_hec.EVENT}


class SplunkDestination:
    """See `Destination`. At least once: HEC does not recognize repeated batches, and an acknowledgement may be lost."""

    kind = "Splunk"
    error_type = "splunk-failed"
    metrics = "DeliveryToSplunk"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.checked`."""
        checked = common.check_configuration(configuration, RULES)
        parts = urlsplit(str(checked["HECEndpoint"]))
        if (
            parts.scheme not in ("https", "http")
            or not parts.hostname
            or parts.path not in ("", "/")
        ):
            # Observed by others: github.com/hashicorp/terraform-provider-aws/issues/6541.
            raise invalid(
                "Invalid HECEndpoint. Supported endpoint format is https://<domain>:<port>."
            )
        checked.setdefault("HECAcknowledgmentTimeoutInSeconds", DEFAULT_ACK_S)
        common.check_secret(checked, "HECToken", is_needed=True)
        return checked

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.updated`."""
        merged = self.check(common.merge_update(present, update))
        common.check_backup_stays(present, merged, RULES)
        return merged

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.described`. AWS shows the token too."""
        return {"SplunkDestinationDescription": common.describe_configuration(configuration)}

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`."""
        return common.retry_s(configuration)

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`. AWS documents none for Splunk: assumed as for HTTP endpoints."""
        return compute_backoff_s(attempts, ids_random)

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`."""
        stream, outcome = attempt.stream, Outcome()
        if not attempt.records:
            return outcome
        configuration = stream.destination
        try:
            secret = common.read_secret(configuration, attempt.ports, stream)
        except common.SecretMissing as error:
            refused = DeliveryRefusal("Splunk.SecretsManagerFailure", str(error))  # code assumed
            common.take(outcome, attempt, attempt.records, refused)
            return outcome
        token = configuration.get("HECToken") if secret is None else secret.get(_SECRET_MEMBER)
        collector = splunk_hec.Collector(
            endpoint=str(configuration["HECEndpoint"]),
            path=_PATHS[configuration["HECEndpointType"]],
            token=str(token or ""),
            channel=common.build_stable_id(stream, "channel"),
            ack_within_s=float(configuration["HECAcknowledgmentTimeoutInSeconds"]),
            clock=attempt.ports.clock,
            stopping=attempt.ports.stopping,
        )
        delimiter = find_delimiter(configuration)
        began_s = attempt.ports.clock.monotonic_s()
        try:
            refused = collector.deliver([record.data + delimiter for record in attempt.records])
        except Stopped as error:
            raise Stopping(str(error)) from error
        if refused is None:
            # This includes the request's own time, which AWS's approximate metric may leave out.
            took_s = attempt.ports.clock.monotonic_s() - began_s
            outcome.measured.append(("DeliveryToSplunk.DataAckLatency", took_s, "Seconds"))
        common.take(outcome, attempt, attempt.records, refused)
        return outcome

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`. Source: basic-deliver.html (documented)."""
        now_ms = attempt.ports.clock.now_ms()
        return {
            **common_members(failure, now_ms, failure.record.data),
            "errorCode": failure.code,
            "errorMessage": failure.message,
            "EventId": failure.record.record_id,
        }
