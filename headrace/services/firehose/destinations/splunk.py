"""The destination Splunk: its configuration, its batches, its error lines.

Splunk's HTTP event collector (HEC): sends a batch, which is delivered once the indexers acknowledge it.

Source of the requests and of the answers' codes: docs.splunk.com, "HTTP Event Collector REST API endpoints" and
"About HTTP Event Collector Indexer Acknowledgment"; of the errors:
docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-logs.html (documented).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from headrace.core.clock import Clock
from headrace.core.values import parse_json
from headrace.services.firehose.destinations import common
from headrace.services.firehose.destinations import exchange as wire
from headrace.services.firehose.destinations.common import (
    Attempt,
    DeliveryRefusal,
    Outcome,
    compute_backoff_s,
)
from headrace.services.firehose.destinations.exchange import Stopped
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.output import find_delimiter
from headrace.services.firehose.records import FailedRecord, common_members
from headrace.services.firehose.transform import Stopping

RAW = "/services/collector/raw"
EVENT = "/services/collector/event"
ACK = "/services/collector/ack"
MOST_ANSWER_BYTES = 1024 * 1024
# The time limit of a request, without the wait for the acknowledgement; AWS's limit is unknown, this one is assumed.
ANSWER_WITHIN_S = 180.0
POLL_EVERY_S = 1.0

_MESSAGES = {
    "Splunk.ProxyWithoutStickySessions": "If you have a proxy (ELB or other) between Kinesis Data Firehose and the HEC"
    " node, you must enable sticky sessions to support HEC ACKs.",
    "Splunk.DisabledToken": "The HEC token is disabled. Enable the token to allow data delivery to Splunk.",
    "Splunk.InvalidToken": "The HEC token is invalid. Update Kinesis Data Firehose with a valid HEC token.",
    "Splunk.InvalidDataFormat": "The data is not formatted correctly. To see how to properly format data for Raw or"
    " Event HEC endpoints, see Splunk Event Data.",
    "Splunk.InvalidIndex": "The HEC token or input is configured with an invalid index. Check your index configuration"
    " and try again.",
    "Splunk.ServerError": "Data delivery to Splunk failed due to a server error from the HEC node. Kinesis Data"
    " Firehose will retry sending the data if the retry duration in your Kinesis Data Firehose is greater than 0. If"
    " all the retries fail, Kinesis Data Firehose backs up the data to Amazon S3.",
    "Splunk.DisabledAck": "Indexer acknowledgement is disabled for the HEC token. Enable indexer acknowledgement and"
    " try again. For more info, see Enable indexer acknowledgement.",
    "Splunk.AckTimeout": "Did not receive an acknowledgement from HEC before the HEC acknowledgement timeout expired."
    " Despite the acknowledgement timeout, it's possible the data was indexed successfully in Splunk. Kinesis Data"
    " Firehose backs up in Amazon S3 data for which the acknowledgement timeout expired.",
    "Splunk.ConnectionTimeout": "The connection to Splunk timed out. This might be a transient error and the request"
    " will be retried. Kinesis Data Firehose backs up the data to Amazon S3 if all retries fail.",
    "Splunk.InvalidEndpoint": "Could not connect to the HEC endpoint. Make sure that the HEC endpoint URL is valid and"
    " reachable from Kinesis Data Firehose.",
    "Splunk.ConnectionClosed": "Unable to send data to Splunk due to a connection failure. This might be a transient"
    " error. Increasing the retry duration in your Kinesis Data Firehose configuration might guard against such"
    " transient failures.",
    "Splunk.SSLUnverified": "Could not connect to the HEC endpoint. The host does not match the certificate provided by"
    " the peer. Make sure that the certificate and the host are valid.",
    "Splunk.SSLHandshake": "Could not connect to the HEC endpoint. Make sure that the certificate and the host are"
    " valid.",
}
# The meaning of HEC's code in the body of a refusal.
_OF_CODE = {
    1: "Splunk.DisabledToken",
    2: "Splunk.InvalidToken",
    3: "Splunk.InvalidToken",
    4: "Splunk.InvalidToken",
    5: "Splunk.InvalidDataFormat",
    6: "Splunk.InvalidDataFormat",
    7: "Splunk.InvalidIndex",
    8: "Splunk.ServerError",
    9: "Splunk.ServerError",
    12: "Splunk.InvalidDataFormat",
    13: "Splunk.InvalidDataFormat",
    14: "Splunk.DisabledAck",
    15: "Splunk.InvalidDataFormat",
}


def build_refusal(code: str) -> DeliveryRefusal:
    """Return a refusal with AWS's sentence."""
    return DeliveryRefusal(code, _MESSAGES[code])


@dataclass(frozen=True, slots=True)
class Collector:
    """One HEC. Thread-safe; it holds no connection.

    Attributes:
        endpoint: the URL, without the path of the API.
        path: `RAW` or `EVENT`.
        channel: the GUID for acknowledgements.
        ack_within_s: HECAcknowledgmentTimeoutInSeconds.
        stopping: set before the cloud stops.
    """

    endpoint: str
    path: str
    token: str
    channel: str
    ack_within_s: float
    clock: Clock
    stopping: threading.Event
    answer_within_s: float = ANSWER_WITHIN_S

    def deliver(self, datas: Sequence[bytes]) -> DeliveryRefusal | None:
        """Send a batch and wait for its acknowledgement; return why it is not delivered, else None.

        The wait uses the cloud's clock. Raises exchange.Stopped.
        """
        sent = self._send(b"".join(datas))
        if isinstance(sent, DeliveryRefusal):
            return sent
        deadline_s = self.clock.monotonic_s() + self.ack_within_s
        while True:
            is_acknowledged = self._is_acknowledged(sent)
            if is_acknowledged is True:
                return None
            if isinstance(is_acknowledged, DeliveryRefusal) and not is_acknowledged.is_retryable:
                return is_acknowledged
            left_s = deadline_s - self.clock.monotonic_s()
            if left_s <= 0:
                return build_refusal("Splunk.AckTimeout")
            if self.clock.wait(self.stopping, min(POLL_EVERY_S, left_s)):
                raise wire.Stopped("The cloud stops.")

    def _send(self, data: bytes) -> int | DeliveryRefusal:
        """Send data; return the id of its acknowledgement."""
        answer = self._ask(self.path, data)
        if isinstance(answer, DeliveryRefusal):
            return answer
        ack_id = _parse_object(answer.body).get("ackId")
        if isinstance(ack_id, bool) or not isinstance(ack_id, int):
            return build_refusal("Splunk.DisabledAck")
        return ack_id

    def _is_acknowledged(self, ack_id: int) -> bool | DeliveryRefusal:
        """Return whether the indexers have acknowledged the data. A refusal that is not retryable ends the wait."""
        answer = self._ask(ACK, json.dumps({"acks": [ack_id]}).encode())
        if isinstance(answer, DeliveryRefusal):
            # Another node behind a proxy does not know the channel.
            if answer.code in ("Splunk.InvalidDataFormat", _CHANNEL):
                code = "Splunk.ProxyWithoutStickySessions"
                return DeliveryRefusal(code, _MESSAGES[code], is_retryable=False)
            return answer
        acks: Any = _parse_object(answer.body).get("acks")
        if not isinstance(acks, dict):
            return False
        return cast("dict[str, Any]", acks).get(str(ack_id)) is True

    def _ask(self, path: str, body: bytes) -> wire.Answer | DeliveryRefusal:
        headers = {
            "Authorization": f"Splunk {self.token}",
            "X-Splunk-Request-Channel": self.channel,
            "Content-Type": "application/json" if path != RAW else "text/plain",
        }
        # The channel is in the query too, where a proxy with sticky sessions reads it.
        url = f"{_find_base_url(self.endpoint)}{path}?channel={self.channel}"
        limits = wire.Limits(self.answer_within_s, MOST_ANSWER_BYTES, self.stopping)
        try:
            answer = wire.exchange("POST", url, headers, body, limits)
        except wire.Stopped:
            raise
        except wire.ExchangeFailed as error:
            return build_refusal(_find_failure_code(error))
        if answer.status == 200:
            return answer
        return _read_status_refusal(answer)


_CHANNEL = "Headrace.Channel"


def _find_base_url(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _read_status_refusal(answer: wire.Answer) -> DeliveryRefusal:
    number = _parse_object(answer.body).get("code")
    if number in (10, 11):
        return DeliveryRefusal(_CHANNEL, _MESSAGES["Splunk.InvalidDataFormat"])
    code = _OF_CODE.get(number) if isinstance(number, int) else None
    if code is None:
        code = {401: "Splunk.InvalidToken", 403: "Splunk.InvalidToken"}.get(answer.status)
    if code is None:
        code = "Splunk.InvalidDataFormat" if answer.status == 400 else "Splunk.ServerError"
    return build_refusal(code)


def _find_failure_code(error: wire.ExchangeFailed) -> str:
    match error:
        case wire.TimedOut():
            return "Splunk.ConnectionTimeout"
        case wire.ConnectFailed():
            return "Splunk.InvalidEndpoint"
        case wire.HandshakeFailed():
            return "Splunk.SSLUnverified" if error.is_unverified else "Splunk.SSLHandshake"
        case wire.ConnectionLost():
            return "Splunk.ConnectionClosed"
        case _:
            return "Splunk.ServerError"


def _parse_object(body: bytes) -> Mapping[str, Any]:
    try:
        document = parse_json(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


RULES = common.KindRules(
    most_mib=5,
    backup_modes=("FailedEventsOnly", "AllEvents"),
    most_interval_s=60,
    default_interval_s=60,
)
DEFAULT_ACK_S = 180
_SECRET_MEMBER = "hec_token"
_PATHS = {"Raw": RAW, "Event": EVENT}


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
        collector = Collector(
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
