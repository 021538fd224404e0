"""Small bodies that would become gigabytes, or exhaust the stack: each service refuses them, and logs no traceback."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.cloud import InProcessCloud

DEEP = 20_000
FORM = "application/x-www-form-urlencoded"
LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a0 "ha">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
    + b"]><Delete><Object><Key>&a11;</Key></Object></Delete>"
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("swelling") / "data") as running:
        running.client("s3").create_bucket(Bucket="bucket")
        yield running


@pytest.fixture(scope="module")
def bomb() -> bytes:
    return gzip.compress(bytes(32 << 20), 9)


def ask(
    cloud: InProcessCloud,
    service: str,
    body: bytes,
    path: str = "/",
    method: str = "POST",
    **more: str,
) -> HttpResponse:
    scope = f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request"
    headers = {"host": "localhost", "authorization": f"{scope}, SignedHeaders=host, Signature=x"}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    path, _, query = path.partition("?")
    return cloud.handle(HttpRequest(method, path, query, headers, body))


JSON_SERVICES = [
    ("kinesis", "Kinesis_20131202.PutRecord"),
    ("firehose", "Firehose_20150804.PutRecord"),
    ("elasticmapreduce", "ElasticMapReduce.RunJobFlow"),
    ("dynamodb", "DynamoDB_20120810.PutItem"),
    ("logs", "Logs_20140328.PutLogEvents"),
    ("sqs", "AmazonSQS.SendMessage"),
    ("ssm", "AmazonSSM.PutParameter"),
    ("glue", "AWSGlue.CreateTable"),
    ("events", "AWSEvents.PutRule"),
    ("kms", "TrentService.Encrypt"),
    ("monitoring", "GraniteServiceVersion20100801.PutMetricData"),
]


@pytest.mark.parametrize(("service", "target"), JSON_SERVICES)
@pytest.mark.parametrize(
    "body", [b"[" * DEEP, b'{"a":' * DEEP, b'{"Item":' + b'{"M":' * 450 + b"1" + b"}" * 451]
)
def test_depth_of_json(
    cloud: InProcessCloud, service: str, target: str, body: bytes, caplog: pytest.LogCaptureFixture
):
    answer = ask(
        cloud, service, body, x_amz_target=target, content_type="application/x-amz-json-1.1"
    )
    assert answer.status == 400
    error = json.loads(answer.body)
    if body.endswith(b"}}"):
        assert error["__type"] in ("SerializationException", "ValidationException")
    else:
        assert error["__type"] == "SerializationException"
    assert caplog.records == []


@pytest.mark.parametrize(
    ("service", "path", "method"),
    [
        ("lambda", "/2015-03-31/functions", "POST"),
        ("emr-serverless", "/applications", "POST"),
        ("s3", "/bucket?policy", "PUT"),
    ],
)
def test_depth_of_json_where_the_path_names_the_operation(
    cloud: InProcessCloud, service: str, path: str, method: str, caplog: pytest.LogCaptureFixture
):
    answer = ask(cloud, service, b'{"a":' * DEEP + b"1" + b"}" * DEEP, path, method)
    assert answer.status == 400
    assert caplog.records == []


@pytest.mark.parametrize(
    ("service", "path", "method"),
    [
        ("s3", "/bucket?delete", "POST"),
        ("s3", "/bucket?tagging", "PUT"),
        ("s3", "/bucket?lifecycle", "PUT"),
        ("route53", "/2013-04-01/hostedzone", "POST"),
        ("cloudfront", "/2020-05-31/distribution", "POST"),
    ],
)
@pytest.mark.parametrize("body", [LAUGHS, b"<a>" * DEEP + b"</a>" * DEEP], ids=["laughs", "depth"])
def test_xml(
    cloud: InProcessCloud,
    service: str,
    path: str,
    method: str,
    body: bytes,
    caplog: pytest.LogCaptureFixture,
):
    answer = ask(cloud, service, body, path, method, content_type="application/xml")
    assert answer.status == 400
    assert b"MalformedXML" in answer.body
    assert caplog.records == []


@pytest.mark.parametrize(
    ("service", "more"),
    [
        *((name, {"x_amz_target": target}) for name, target in JSON_SERVICES[3:]),
        ("sns", {"content_type": FORM}),
        ("iam", {"content_type": FORM}),
    ],
)
def test_gzip(
    cloud: InProcessCloud,
    service: str,
    more: dict[str, str],
    bomb: bytes,
    caplog: pytest.LogCaptureFixture,
):
    """moto unpacks every service's bodies, all of them at once, and used to keep what it had unpacked."""
    answer = ask(cloud, service, bomb, content_encoding="gzip", **more)
    assert answer.status == 413
    assert b"RequestEntityTooLargeException" in answer.body
    assert caplog.records == []


def test_metrics_that_an_sdk_has_packed_arrive(cloud: InProcessCloud):
    datum = {"MetricName": "m" * 200, "Value": 1.0, "Dimensions": [{"Name": "d", "Value": "v"}]}
    body = json.dumps({"Namespace": "packed", "MetricData": [datum] * 200}).encode()
    answer = ask(
        cloud, "monitoring", gzip.compress(body), content_encoding="gzip",
        x_amz_target="GraniteServiceVersion20100801.PutMetricData",
        content_type="application/x-amz-json-1.0",
    )  # fmt: skip
    assert answer.status == 200
    metrics = cloud.client("cloudwatch").list_metrics(Namespace="packed")["Metrics"]
    assert metrics[0]["MetricName"] == "m" * 200


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_code_of_functions(cloud: InProcessCloud, kind: int, caplog: pytest.LogCaptureFixture):
    """Zip's other kinds of compression, which zipfile unpacks whatever size comes of it."""
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w", kind) as archive:
        archive.writestr("app.py", bytes(8 << 20))
    client = cloud.client("lambda")
    with pytest.raises(ClientError) as refused:
        client.create_function(
            FunctionName="bomb", Role="arn:aws:iam::000000000000:role/r", Runtime="python3.13",
            Handler="app.handler", Code={"ZipFile": package.getvalue()},
        )  # fmt: skip
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValueException"
    assert "Could not unzip uploaded file" in refused.value.response["Error"]["Message"]
    assert caplog.records == []


@pytest.mark.parametrize("service", ["cloudformation", "iam", "sns", "sts"])
def test_a_form_of_many_parameters(
    cloud: InProcessCloud, service: str, caplog: pytest.LogCaptureFixture
):
    body = b"Action=CreateStack&" + b"&".join(b"P%d=1" % n for n in range(20_000))
    answer = ask(cloud, service, body, content_type=FORM)
    assert answer.status == 400
    assert b"MalformedQueryString" in answer.body
    assert caplog.records == []


def test_a_body_over_sixteen_megabytes_is_not_dropped_in_silence(
    cloud: InProcessCloud, tmp_path: Path
):
    """It is a file; moto would take the request for one without a body."""
    file = tmp_path / "body"
    file.write_bytes(b"{}")
    scope = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request"
    headers = {"authorization": scope, "x-amz-target": "AmazonSQS.ListQueues"}
    answer = cloud.handle(HttpRequest("POST", "/", "", headers, body_file=file))
    assert answer.status == 413
