"""Measures the requests to APIs for CloudWatch, for an API and for each of its stages.

Documented: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-metrics-and-dimensions.html,
http-api-metrics.html and apigateway-websocket-api-logging.html there. Not sent: the metrics of single methods and
routes, of caches, and IntegrationLatency.
"""

from __future__ import annotations

from typing import Protocol

from headrace.aws.calls.http import HttpResponse
from headrace.core.ports import Metric, MetricSink
from headrace.services.apigateway.invocation.apis import HttpApi, RestApi

NAMESPACE = "AWS/ApiGateway"


class Served(Protocol):
    """A request that an API has answered."""

    @property
    def api(self) -> RestApi | HttpApi:
        """The API."""
        ...

    stage: str
    now_ms: int


class Connection(Protocol):
    """A WebSocket API's connection."""

    api_id: str
    account: str
    region: str
    stage: str


def send_metrics(sink: MetricSink, served: Served, answer: HttpResponse, latency_ms: int) -> None:
    """Send the metrics of one request, which came at `served.now_ms`."""
    api, status = served.api, answer.status
    is_rest = isinstance(api, RestApi)
    of_client, of_server = ("4XXError", "5XXError") if is_rest else ("4xx", "5xx")
    values = [
        # The average of errors is their share of the requests.
        (of_client, float(400 <= status < 500), "Count"),
        (of_server, float(status >= 500), "Count"),
        ("Count", 1.0, "Count"),
        ("Latency", float(latency_ms), "Milliseconds"),
    ]
    if not is_rest and isinstance(answer.body, bytes):
        values.append(("DataProcessed", float(len(answer.body)), "Bytes"))
    of_api = ("ApiName", api.name) if isinstance(api, RestApi) else ("ApiId", api.id)
    of_stage = ((of_api, ("Stage", served.stage)),) if served.stage in api.stages else ()
    sink.put(
        [
            Metric(NAMESPACE, name, value, unit, dimensions, served.now_ms)
            for dimensions in ((of_api,), *of_stage)
            for name, value, unit in values
        ],
        account=api.account,
        region=api.region,
    )


def count_event(sink: MetricSink, connection: Connection, name: str, now_ms: int) -> None:
    """Count a connection, a message or an error of a WebSocket API."""
    of_api = (("ApiId", connection.api_id),)
    sink.put(
        [
            Metric(NAMESPACE, name, 1.0, "Count", dimensions, now_ms)
            for dimensions in (of_api, (*of_api, ("Stage", connection.stage)))
        ],
        account=connection.account,
        region=connection.region,
    )
