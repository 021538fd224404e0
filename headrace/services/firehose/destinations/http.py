"""The destination HttpEndpoint: its configuration, its batches, its error lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from headrace.core.values import get_list, get_mapping
from headrace.services.firehose.destinations import common, http_endpoint
from headrace.services.firehose.destinations.base import Attempt, Outcome
from headrace.services.firehose.destinations.exchange import Stopped
from headrace.services.firehose.destinations.outcome import DeliveryRefusal
from headrace.services.firehose.destinations.retries import compute_backoff_s
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.failures import FailedRecord, common_members
from headrace.services.firehose.transform import Stopping

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
        client = http_endpoint.HttpEndpoint(
            configuration,
            stream_arn=stream.arn,
            access_key=str(key),
            stopping=attempt.ports.stopping,
        )
        for batch in http_endpoint.cut([len(record.data) for record in attempt.records]):
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
