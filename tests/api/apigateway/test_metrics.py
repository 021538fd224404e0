"""What requests to APIs send to CloudWatch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.aws.calls.http import HttpRequest
from tests.support.clock import HandClock
from tests.support.cloud import REGION, InProcessCloud
from tests.support.server import wait_until


def make_rest_api(cloud: InProcessCloud) -> str:
    """Return an API whose root answers 200 to GET and 500 to POST."""
    apis = cloud.client("apigateway")
    api = apis.create_rest_api(name="rest")["id"]
    (root,) = apis.get_resources(restApiId=api)["items"]
    for method, status in (("GET", "200"), ("POST", "500")):
        place = {"restApiId": api, "resourceId": root["id"], "httpMethod": method}
        apis.put_method(**place, authorizationType="NONE")
        template = {"application/json": f'{{"statusCode": {status}}}'}
        apis.put_integration(**place, type="MOCK", requestTemplates=template)
        apis.put_method_response(**place, statusCode=status)
        pattern = {"selectionPattern": status} if status != "200" else {}
        apis.put_integration_response(**place, statusCode=status, **pattern)
    apis.create_deployment(restApiId=api, stageName="prod")
    return api


def sums(cloud: InProcessCloud, clock: HandClock) -> dict[tuple[str, ...], list[float]]:
    """Return the sample count and the sum of each metric, by its name and its dimensions' values."""
    watch = cloud.client("cloudwatch")
    found: dict[tuple[str, ...], list[float]] = {}
    for one in watch.list_metrics(Namespace="AWS/ApiGateway")["Metrics"]:
        (point,) = watch.get_metric_statistics(
            Namespace="AWS/ApiGateway", MetricName=one["MetricName"], Period=3600,
            Dimensions=one["Dimensions"], Statistics=["Sum", "SampleCount"],
            StartTime=(clock.now_ms() - 3_600_000) / 1000, EndTime=clock.now_ms() / 1000 + 60,
        )["Datapoints"]  # fmt: skip
        where = [dimension["Value"] for dimension in one["Dimensions"]]
        found[one["MetricName"], *where] = [point["SampleCount"], point["Sum"]]
    return found


def test_requests_and_errors_are_counted_for_apis_and_stages(tmp_path: Path):
    clock = HandClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        rest = make_rest_api(cloud)
        http = cloud.client("apigatewayv2").create_api(Name="h", ProtocolType="HTTP")["ApiId"]
        cloud.client("apigatewayv2").create_stage(ApiId=http, StageName="$default")
        statuses = [
            cloud.handle(
                HttpRequest(
                    method, path, "", {"host": f"{api}.execute-api.{REGION}.localhost:4566"}, b""
                )
            ).status
            for api, method, path in (
                (rest, "GET", "/prod/"),
                (rest, "GET", "/prod/"),
                (rest, "POST", "/prod/"),
                (rest, "GET", "/none/"),
                (http, "GET", "/nothing"),
            )
        ]
        assert statuses == [200, 200, 500, 403, 404]

        def is_measured() -> bool:
            clock.advance(1)
            found: dict[Any, Any] = sums(cloud, clock)
            return (
                found.items()
                >= {
                    ("Count", "rest"): [4.0, 4.0],
                    ("Count", "rest", "prod"): [3.0, 3.0],
                    ("5XXError", "rest", "prod"): [3.0, 1.0],
                    ("4XXError", "rest", "prod"): [3.0, 0.0],
                    ("4XXError", "rest"): [4.0, 1.0],
                    ("Latency", "rest", "prod"): [3.0, 0.0],
                    ("Count", http): [1.0, 1.0],
                    ("4xx", http, "$default"): [1.0, 1.0],
                    ("5xx", http, "$default"): [1.0, 0.0],
                }.items()
            )

        wait_until(is_measured, within_s=30, what="the metrics")
