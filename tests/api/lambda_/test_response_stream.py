"""InvokeWithResponseStream and streaming function URLs: parts arrive while the function still runs."""

from __future__ import annotations

import json
import shutil
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.core.ports import InvokeResult
from headrace.services.lambda_.invocations.dispatcher import AnswerStream, Part
from headrace.services.lambda_.names import FunctionRef
from tests.support.lambda_lab import LambdaLab, zipped
from tests.support.server import ServerProcess

node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

# Writes, waits until it is told to go on, and writes again.
TWO_PARTS = """
const fs = require('node:fs');
exports.handler = awslambda.streamifyResponse(async (event, stream, context) => {
  stream.write('first ');
  while (event.go && !fs.existsSync(event.go)) await new Promise((resolve) => setTimeout(resolve, 5));
  stream.write(`second ${context.awsRequestId.length}`);
  stream.end();
});
"""
FAILS = """
exports.handler = awslambda.streamifyResponse(async (event, stream) => {
  if (event.after) stream.write('begun');
  throw new RangeError('broke off');
});
"""
PAGE = """
exports.handler = awslambda.streamifyResponse(async (event, stream) => {
  stream = awslambda.HttpResponseStream.from(stream, {
    statusCode: 201, headers: { 'Content-Type': 'text/html', 'X-Mine': '1' }, cookies: ['a=1'] });
  stream.write('<p>'); stream.write('page'); stream.end();
});
"""
BOOTSTRAP = r"""#!/bin/sh
exec python3 - <<'END'
import os, http.client
api = os.environ['AWS_LAMBDA_RUNTIME_API']
while True:
    c = http.client.HTTPConnection(api)
    c.request('GET', '/2018-06-01/runtime/invocation/next')
    r = c.getresponse(); r.read(); i = r.headers['Lambda-Runtime-Aws-Request-Id']
    c.close()
    c = http.client.HTTPConnection(api)
    c.request('POST', f'/2018-06-01/runtime/invocation/{i}/response', iter([b'one ', b'two']),
              headers={'Lambda-Runtime-Function-Response-Mode': 'streaming', 'Transfer-Encoding': 'chunked'},
              encode_chunked=True)
    c.getresponse().read(); c.close()
END
"""


def create_node(lab: LambdaLab, name: str, source: str) -> None:
    lab.create(name, "", Runtime="nodejs22.x", Code={"ZipFile": zipped({"app.js": source})})


def invoke(lab: LambdaLab, name: str, event: Any = None, **headers: str) -> HttpResponse:
    path = f"/2021-11-15/functions/{name}/response-streaming-invocations"
    credential = "000000000000/20260101/us-east-1/lambda/aws4_request"
    named = {
        "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, Signature=x",
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }
    return lab.handle(HttpRequest("POST", path, "", named, json.dumps(event).encode()))


def events(response: HttpResponse) -> list[tuple[str, bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(response.body)
    return [(event.headers[":event-type"], event.payload) for event in buffer]


@node
def test_parts_are_chunks_and_the_end_is_an_event(lab: LambdaLab) -> None:
    create_node(lab, "two", TWO_PARTS)
    for _ in range(2):
        response = invoke(lab, "two", {}, x_amz_log_type="Tail")
        assert dict(response.headers)["X-Amz-Executed-Version"] == "$LATEST"
        *chunks, (last, complete) = events(response)
        assert {name for name, _ in chunks} == {"PayloadChunk"}
        assert b"".join(data for _, data in chunks) == b"first second 36"
        assert last == "InvokeComplete"
        assert list(json.loads(complete)) == ["LogResult"]


@node
def test_a_part_arrives_while_the_function_runs(lab: LambdaLab) -> None:
    create_node(lab, "waits", TWO_PARTS)
    go = lab.place / "go"
    stream = AnswerStream(
        lab.lambda_.dispatcher,
        FunctionRef("000000000000", "us-east-1", "waits"),
        json.dumps({"go": str(go)}).encode(),
    )
    assert stream.start() == "$LATEST"
    items = stream.items()
    part = next(item for item in items if isinstance(item, Part) and item.data)
    assert part.data == b"first "
    go.touch()
    *_, result = items
    assert isinstance(result, InvokeResult)
    assert result.function_error is None


@node
@pytest.mark.parametrize(("after", "chunks"), [(False, []), (True, [b"begun"])])
def test_a_failure_is_told_in_the_last_event(
    lab: LambdaLab, after: bool, chunks: list[bytes]
) -> None:
    create_node(lab, "fails", FAILS)
    *parts, (last, complete) = events(invoke(lab, "fails", {"after": after}))
    assert [data for _, data in parts] == chunks
    assert last == "InvokeComplete"
    told = json.loads(complete)
    assert told["ErrorCode"] == "RangeError"
    assert json.loads(told["ErrorDetails"])["errorMessage"] == "broke off"


def test_a_function_that_does_not_stream_answers_in_one_chunk(lab: LambdaLab) -> None:
    lab.create("plain", "def handler(event, context):\n    return event\n")
    assert events(invoke(lab, "plain", {"a": 1})) == [
        ("PayloadChunk", b'{"a": 1}'),
        ("InvokeComplete", b"{}"),
    ]


def test_a_bootstrap_streams(lab: LambdaLab) -> None:
    package = lab.data_dir / "bootstrap.zip"
    with zipfile.ZipFile(package, "w") as archive:
        info = zipfile.ZipInfo("bootstrap")
        info.external_attr = 0o100755 << 16
        archive.writestr(info, BOOTSTRAP)
    lab.create("own", "", Runtime="provided.al2023", Code={"ZipFile": package.read_bytes()})
    *parts, _ = events(invoke(lab, "own"))
    assert b"".join(data for _, data in parts) == b"one two"
    # Who did not ask for a stream gets it whole.
    assert lab.lambda_.invoker.invoke("own", b"{}").payload == b"one two"


@node
def test_plain_invoke_gathers_a_stream(lab: LambdaLab) -> None:
    create_node(lab, "two", TWO_PARTS)
    assert lab.lambda_.invoker.invoke("two", b"{}").payload == b"first second 36"


@pytest.mark.parametrize(
    ("name", "headers", "code"),
    [
        ("missing", {}, "ResourceNotFoundException"),
        ("plain", {"x_amz_invocation_type": "Event"}, "ValidationException"),
        ("plain", {"x_amz_client_context": "?"}, "InvalidRequestContentException"),
    ],
)
def test_bad_streaming_invocations_are_refused_before_a_stream_begins(
    lab: LambdaLab, name: str, headers: dict[str, str], code: str
) -> None:
    lab.create("plain", "def handler(event, context):\n    return event\n")
    assert dict(invoke(lab, name, **headers).headers)["x-amzn-ErrorType"] == code


def test_a_throttled_streaming_invocation_is_an_error(lab: LambdaLab) -> None:
    lab.create("none", "def handler(event, context):\n    return event\n")
    lab.client().put_function_concurrency(FunctionName="none", ReservedConcurrentExecutions=0)
    assert invoke(lab, "none").status == 429


@node
def test_a_streaming_url_begins_with_status_headers_and_cookies(lab: LambdaLab) -> None:
    create_node(lab, "page", PAGE)
    client = lab.client()
    made = client.create_function_url_config(
        FunctionName="page", AuthType="NONE", InvokeMode="RESPONSE_STREAM"
    )
    client.add_permission(
        FunctionName="page",
        StatementId="url",
        Action="lambda:InvokeFunctionUrl",
        Principal="*",
        FunctionUrlAuthType="NONE",
    )
    path = made["FunctionUrl"].partition(":4566")[2]
    answer = lab.handle(HttpRequest("GET", path, "", {"host": "127.0.0.1:4566"}))
    assert (answer.status, answer.body) == (201, b"<p>page")
    assert dict(answer.headers)["x-mine"] == "1"
    assert dict(answer.headers)["Set-Cookie"] == "a=1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cloud")) as server:
        yield server


def _create(server: ServerProcess, name: str, source: str) -> Any:
    client = boto3.client(
        "lambda",
        region_name="us-east-1",
        endpoint_url=server.endpoint_url,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )
    client.create_function(
        FunctionName=name,
        Runtime="nodejs22.x",
        Role="arn:aws:iam::000000000000:role/r",
        Handler="app.handler",
        Code={"ZipFile": zipped({"app.js": source})},
    )
    return client


@node
def test_boto3_reads_the_stream_of_a_running_cloud(server: ServerProcess, tmp_path: Path) -> None:
    client = _create(server, "live", TWO_PARTS)
    go = tmp_path / "go"
    payload = json.dumps({"go": str(go)})
    answer = client.invoke_with_response_stream(FunctionName="live", Payload=payload)
    stream = iter(answer["EventStream"])
    assert next(stream)["PayloadChunk"]["Payload"] == b"first "
    go.touch()
    rest = list(stream)
    assert rest[0]["PayloadChunk"]["Payload"] == b"second 36"
    assert "InvokeComplete" in rest[-1]
    with pytest.raises(ClientError):
        client.invoke_with_response_stream(FunctionName="missing")


@node
def test_a_url_of_a_running_cloud_answers_http(server: ServerProcess) -> None:
    client = _create(server, "site", PAGE)
    made = client.create_function_url_config(
        FunctionName="site", AuthType="NONE", InvokeMode="RESPONSE_STREAM"
    )
    client.add_permission(
        FunctionName="site",
        StatementId="url",
        Action="lambda:InvokeFunctionUrl",
        Principal="*",
        FunctionUrlAuthType="NONE",
    )
    with urllib.request.urlopen(made["FunctionUrl"], timeout=20) as page:
        assert (page.status, page.read()) == (201, b"<p>page")
