"""The destination HttpEndpoint: its configuration, its batches, its error lines.

Delivers batches to an HTTP endpoint with AWS's request format, and checks answers as AWS does.

Source: docs.aws.amazon.com/firehose/latest/dev/httpdeliveryrequestresponse.html and http_troubleshooting.html there
(documented). AWS accepts only https on port 443; headrace also accepts http to this machine, and any port.
"""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from headrace.core.values import get_list, get_mapping, parse_json
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
from headrace.services.firehose.records import FailedRecord, common_members
from headrace.services.firehose.transform import Stopping

MOST_RECORDS = 10_000
MOST_BODY_BYTES = 64 * 1024 * 1024
MOST_ANSWER_BYTES = 1024 * 1024
ANSWER_WITHIN_S = 180.0
# How much of an answer is shown: AWS's limit for errorMessage.
SHOWN_CHARS = 8192
# The size of a record in the request besides its Base64: `{"data":""},`.
_AROUND_BYTES = 12

_CODES: tuple[tuple[type[wire.ExchangeFailed], str, str], ...] = (
    (
        wire.TimedOut,
        "HttpEndpoint.RequestTimeout",
        (
            "The delivery timed out before a response was received and will be retried. If this error persists, contact"
            " the AWS Firehose service team."
        ),
    ),
    (
        wire.AnswerTooLarge,
        "HttpEndpoint.ResponseTooLarge",
        (
            "The response received from the endpoint is too large. Contact the owner of the endpoint to resolve this"
            " issue."
        ),
    ),
    (
        wire.HandshakeFailed,
        "HttpEndpoint.SSLHandshakeFailure",
        (
            "Unable to complete an SSL Handshake with the endpoint. Contact the owner of the endpoint to resolve this"
            " issue."
        ),
    ),
    (
        wire.ConnectFailed,
        "HttpEndpoint.ConnectionFailed",
        "Unable to connect to the destination endpoint. Contact the owner of the endpoint to resolve this issue.",
    ),
    (
        wire.ConnectionLost,
        "HttpEndpoint.ConnectionReset",
        "Unable to maintain connection with the endpoint. Contact the owner of the endpoint to resolve this issue.",
    ),
)
_INVALID_CODE = "HttpEndpoint.InvalidResponseFromDestination"
_INVALID = (
    "The response received from the specified endpoint is invalid. Contact the owner of the endpoint to resolve the"
    " issue."
)


class HttpEndpoint:
    """Posts batches to one URL. It keeps no connection and no state. Thread-safe."""

    def __init__(
        self,
        configuration: Mapping[str, Any],
        *,
        stream_arn: str,
        access_key: str,
        stopping: threading.Event,
        within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        """Prepare to post.

        Args:
            configuration: the delivery stream's destination, with its defaults.
            stream_arn: the delivery stream's ARN.
            access_key: empty for none.
            stopping: set before the cloud stops.
            within_s: how long to wait for an answer.
        """
        self._url = str(configuration["EndpointConfiguration"]["Url"])
        self._request = get_mapping(configuration, "RequestConfiguration")
        self._stream_arn = stream_arn
        self._access_key = access_key
        self._limits = wire.Limits(within_s, MOST_ANSWER_BYTES, stopping)

    def post(self, datas: Sequence[bytes], request_id: str, now_ms: int) -> DeliveryRefusal | None:
        """Post one batch, which an endpoint accepts or refuses as a whole; return why it was refused, else None.

        Args:
            datas: records, at most as many as `cut` allows.
            request_id: the same for every try of this batch.
            now_ms: the request's timestamp.

        Raises:
            exchange.Stopped: the cloud stops.
        """
        body = _build_body(datas, request_id, now_ms)
        headers = self._build_headers(request_id)
        if self._request.get("ContentEncoding") == "GZIP":
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, compresslevel=5, mtime=0)
        try:
            answer = wire.exchange("POST", self._url, headers, body, self._limits)
        except wire.Stopped:
            raise
        except wire.ExchangeFailed as error:
            return _build_refusal(error, request_id)
        return _read_refusal(answer, request_id)

    def _build_headers(self, request_id: str) -> dict[str, str]:
        headers = {
            "X-Amz-Firehose-Protocol-Version": "1.0",
            "X-Amz-Firehose-Request-Id": request_id,
            "X-Amz-Firehose-Source-Arn": self._stream_arn,
            "Content-Type": "application/json",
            "User-Agent": "Amazon Kinesis Data Firehose Agent/1.0",
        }
        if self._access_key:
            headers["X-Amz-Firehose-Access-Key"] = self._access_key
        attributes = {
            item["AttributeName"]: item["AttributeValue"]
            for item in get_list(self._request, "CommonAttributes")
        }
        if attributes:
            headers["X-Amz-Firehose-Common-Attributes"] = json.dumps(
                {"commonAttributes": attributes}
            )
        return headers


def cut(sizes: Sequence[int]) -> list[range]:
    """Split records of these sizes into requests of at most 10,000 records and 64 MiB of body."""
    batches: list[range] = []
    start, body_bytes = 0, 0
    for index, size_bytes in enumerate(sizes):
        more = (size_bytes + 2) // 3 * 4 + _AROUND_BYTES
        is_full = index - start == MOST_RECORDS or body_bytes + more > MOST_BODY_BYTES - 1024
        if index > start and is_full:
            batches.append(range(start, index))
            start, body_bytes = index, 0
        body_bytes += more
    if start < len(sizes):
        batches.append(range(start, len(sizes)))
    return batches


def _build_body(datas: Sequence[bytes], request_id: str, now_ms: int) -> bytes:
    records = ",".join([f'{{"data":"{base64.b64encode(d).decode("ascii")}"}}' for d in datas])
    text = f'{{"requestId":"{request_id}","timestamp":{now_ms},"records":[{records}]}}'
    return text.encode("ascii")


def _build_refusal(error: wire.ExchangeFailed, request_id: str) -> DeliveryRefusal:
    for kind, code, message in _CODES:
        if isinstance(error, kind):
            return DeliveryRefusal(code, message)
    return DeliveryRefusal(_INVALID_CODE, f"{_INVALID} Request {request_id}: {error}")


def _read_refusal(answer: wire.Answer, request_id: str) -> DeliveryRefusal | None:
    shown = answer.body.decode("utf-8", "replace")[:SHOWN_CHARS]
    if answer.status != 200:
        return DeliveryRefusal(
            "HttpEndpoint.DestinationException",
            # Observed in 2025: github.com/elastic/integrations/issues/15811. The guide has an older sentence.
            "Delivery to the endpoint was unsuccessful. See Troubleshooting HTTP Endpoints in the Firehose"
            f" documentation for more information. Response received with status code. {answer.status}: {shown}",
            is_retryable=answer.status != 413,
            is_dropped=answer.status == 413,
        )
    fault = _find_fault(answer, request_id)
    if not fault:
        return None
    return DeliveryRefusal(
        _INVALID_CODE,
        f"{_INVALID} Response for request {request_id} {fault}. Raw response received: {answer.status} {shown}",
    )


def _find_fault(answer: wire.Answer, request_id: str) -> str:
    """Return what is wrong with an answer of status 200, empty for a valid one.

    The first sentence is AWS's (documented); the others describe faults in AWS's list of common ones (words assumed).
    """
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != (
        "application/json"
    ):
        return "must contain a 'content-type: application/json' header"
    unreadable = "is not recognized as valid JSON or has unexpected fields"
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        return unreadable
    try:
        document = parse_json(answer.body)
    except ValueError:
        return unreadable
    if not isinstance(document, dict):
        return unreadable
    return _find_member_fault(cast("dict[str, Any]", document), request_id)


def _find_member_fault(document: dict[str, Any], request_id: str) -> str:
    unreadable = "is not recognized as valid JSON or has unexpected fields"
    if set(document) - {"requestId", "timestamp", "errorMessage"}:
        return unreadable
    answered_id, time_ms, message = (
        document.get(n, "") for n in ("requestId", "timestamp", "errorMessage")
    )
    if (
        answered_id is None
        or not isinstance(answered_id, str)
        or not isinstance(message, str | None)
    ):
        return unreadable
    if not answered_id:
        return "does not contain a requestId"
    if answered_id != request_id:
        return "has a requestId that does not match the request's"
    if "timestamp" not in document:
        return "does not contain a timestamp"
    if isinstance(time_ms, bool) or not isinstance(time_ms, int):
        return unreadable
    return ""


RULES = common.KindRules(most_mib=64, backup_modes=("FailedDataOnly", "AllData"))
_SECRET_MEMBER = "api_key"


class HttpEndpointDestination:
    """See `Destination`. A batch keeps its request id over retries and kills: endpoints can detect repeats."""

    kind = "HttpEndpoint"
    error_type = "http-endpoint-failed"
    metrics = "DeliveryToHttpEndpoint"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.checked`."""
        checked = common.check_configuration(configuration, RULES)
        endpoint = get_mapping(checked, "EndpointConfiguration")
        parts = urlsplit(str(endpoint["Url"]))
        if not parts.hostname or parts.username is not None:
            raise invalid(f"Invalid URL: {endpoint['Url']}")  # assumed
        request: dict[str, Any] = {
            "ContentEncoding": "NONE",
            **get_mapping(checked, "RequestConfiguration"),
        }
        names = [item["AttributeName"] for item in get_list(request, "CommonAttributes")]
        if len(set(names)) != len(names):
            raise invalid("Common attribute names must be unique.")  # assumed
        checked["RequestConfiguration"] = request
        common.check_secret(endpoint | checked, "AccessKey", is_needed=False)
        return checked

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.updated`. An update of the endpoint without an access key keeps the current key."""
        merged = common.merge_update(present, update)
        if "EndpointConfiguration" in update:
            merged["EndpointConfiguration"] = {
                **get_mapping(present, "EndpointConfiguration"),
                **update["EndpointConfiguration"],
            }
        return self.check(merged)

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """See `Destination.described`."""
        shown = common.describe_configuration(configuration)
        endpoint = get_mapping(shown, "EndpointConfiguration")
        endpoint.pop("AccessKey", None)
        return {"HttpEndpointDestinationDescription": {**shown, "EndpointConfiguration": endpoint}}

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`."""
        return common.retry_s(configuration)

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`."""
        return compute_backoff_s(attempts, ids_random)

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. At least once: after a lost answer the same request is sent again."""
        stream, outcome = attempt.stream, Outcome()
        configuration = stream.destination
        try:
            secret = common.read_secret(configuration, attempt.ports, stream)
        except common.SecretMissing as error:
            refused = DeliveryRefusal(
                "HttpEndpoint.SecretsManagerFailure", str(error)
            )  # code assumed
            common.take(outcome, attempt, attempt.records, refused)
            return outcome
        endpoint = get_mapping(configuration, "EndpointConfiguration")
        key = endpoint.get("AccessKey", "") if secret is None else secret.get(_SECRET_MEMBER, "")
        client = HttpEndpoint(
            configuration,
            stream_arn=stream.arn,
            access_key=str(key),
            stopping=attempt.ports.stopping,
        )
        for batch in cut([len(record.data) for record in attempt.records]):
            records = attempt.records[batch.start : batch.stop]
            request_id = common.batch_id(stream, records)
            datas = [record.data for record in records]
            try:
                refused = client.post(datas, request_id, attempt.ports.clock.now_ms())
            except Stopped as error:
                raise Stopping(str(error)) from error
            common.take(outcome, attempt, records, refused)
            outcome.measured.append((f"{self.metrics}.ProcessedRecords", len(records), "Count"))
            size_bytes = sum(map(len, datas))
            outcome.measured.append((f"{self.metrics}.ProcessedBytes", size_bytes, "Bytes"))
        return outcome

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`. Source: basic-deliver.html (documented)."""
        now_ms = attempt.ports.clock.now_ms()
        return {
            **common_members(failure, now_ms, failure.record.data),
            "errorCode": failure.code,
            "errorMessage": failure.message,
            "subsequenceNumber": failure.record.sub,
            "dataId": failure.record.record_id,
        }
