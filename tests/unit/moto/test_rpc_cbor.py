"""Smithy RPC v2 CBOR, which the newest SDKs speak to CloudWatch: the same answers as in JSON, the same refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
import pytest
from botocore import parsers
from botocore.serialize import create_serializer

from headrace.aws.calls.http import HttpRequest
from tests.support.moto_lab import MotoLab

MODEL: Any = botocore.session.get_session().get_service_model("cloudwatch")
SERVICE = "GraniteServiceVersion20100801"
SCOPE = "000000000000/20260101/us-east-1/monitoring/aws4_request"
HEADERS = {
    "smithy-protocol": "rpc-v2-cbor",
    "content-type": "application/cbor",
    "authorization": f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host, Signature=0",
}


def send(lab: MotoLab, operation: str, body: bytes) -> tuple[int, dict[str, Any]]:
    path = f"/service/{SERVICE}/operation/{operation}"
    answer = lab.handle(HttpRequest("POST", path, "", HEADERS, body))
    headers = {name.lower(): value for name, value in answer.headers}
    assert headers["smithy-protocol"] == "rpc-v2-cbor"
    assert headers["content-type"] == "application/cbor"
    known = operation in MODEL.operation_names
    shape = MODEL.operation_model(operation).output_shape if known else None
    given = {"status_code": answer.status, "headers": headers, "body": answer.body}
    parser: Any = parsers.create_parser("smithy-rpc-v2-cbor")
    return answer.status, parser.parse(given, shape)


def call(lab: MotoLab, operation: str, **params: Any) -> tuple[int, dict[str, Any]]:
    serializer: Any = create_serializer("smithy-rpc-v2-cbor", include_validation=False)
    made = serializer.serialize_to_request(params, MODEL.operation_model(operation))
    assert made["url_path"] == f"/service/{SERVICE}/operation/{operation}"
    return send(lab, operation, made["body"])


def test_metrics_are_put_and_read(lab: MotoLab):
    at = datetime.fromtimestamp(lab.clock.now_ms() / 1000, UTC)
    datum = {"MetricName": "m", "Value": 1.5, "Timestamp": at, "Unit": "Count"}
    assert call(lab, "PutMetricData", Namespace="n", MetricData=[datum])[0] == 200
    _, found = call(
        lab,
        "GetMetricStatistics",
        Namespace="n", MetricName="m", Period=60, Statistics=["Sum"],
        StartTime=at - timedelta(hours=1), EndTime=at + timedelta(hours=1),
    )  # fmt: skip
    in_json = lab.client("cloudwatch").list_metrics(Namespace="n")["Metrics"]
    assert call(lab, "ListMetrics", Namespace="n")[1]["Metrics"] == in_json
    assert found["Datapoints"][0]["Sum"] == 1.5
    assert abs((found["Datapoints"][0]["Timestamp"] - at).total_seconds()) < 60


@pytest.mark.parametrize(
    ("operation", "body", "code"),
    [
        ("DeleteAlarms", b"\xa0", "ValidationError"),
        ("Nope", b"\xa0", "UnknownOperationException"),
        ("DescribeAlarms", b"\xff\x00", "SerializationException"),
        ("DescribeAlarms", b"\xa1\x01\x02", "SerializationException"),
        ("DescribeAlarms", b"\xa1aa\xd8\x1c\x81\x01", "SerializationException"),  # a shared value
        ("PutMetricData", b"\xa1iNamespace\x05", "SerializationException"),
        ("PutMetricData", b"\xa1iNamespace\xfb\x7f\xf0\0\0\0\0\0\0", "SerializationException"),
    ],
)
def test_refusals_are_cbor_too(lab: MotoLab, operation: str, body: bytes, code: str):
    status, answer = send(lab, operation, body)
    assert (status, answer["Error"]["Code"]) == (400, code)
    assert answer["Error"]["Message"]


def test_an_error_of_the_service_keeps_its_name_of_the_query_protocol(lab: MotoLab):
    status, answer = call(lab, "GetDashboard", DashboardName="none")
    assert (status, answer["Error"]["QueryErrorCode"]) == (404, "ResourceNotFound")
