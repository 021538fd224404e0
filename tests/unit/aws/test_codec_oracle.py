"""moto's codecs, held against botocore's: what botocore's client writes we read, what we write it reads.

For every operation of the services that go through headrace.aws.protocols.codec_moto, one generated input and output.
The exceptions are the raw bodies, which the services handle by hand, and are listed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import service_model
from headrace.aws.protocols import codec_moto

SCALARS: dict[str, Any] = {
    "string": "text",
    "character": "c",
    "integer": 3,
    "long": 4,
    "float": 1.5,
    "double": 2.5,
    "boolean": True,
    "blob": b"blob",
    "timestamp": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
}
# Bodies that are an object's bytes or an event stream, and shapes that S3's model binds oddly.
BY_HAND = {
    "lambda": {
        "Invoke",
        "InvokeAsync",
        "InvokeWithResponseStream",
        "DeleteFunction",  # its StatusCode is the HTTP status itself
        "ListDurableExecutionsByFunction",  # a timestamp in the query; not built
    },
    "cloudformation": set[str](),
}


def example(shape: Shape, depth: int = 0) -> Any:
    if isinstance(shape, StructureShape):
        if depth > 8:
            return {}
        return {name: example(member, depth + 1) for name, member in shape.members.items()}
    if isinstance(shape, ListShape):
        return [example(shape.member, depth + 1)] if depth < 8 else []
    if isinstance(shape, MapShape):
        return {"key": example(shape.value, depth + 1)}
    if shape.type_name == "string" and shape.metadata.get("enum"):
        return shape.metadata["enum"][0]
    return SCALARS[shape.type_name]


def cases(service: str) -> list[str]:
    return [name for name in service_model(service).operation_names if name not in BY_HAND[service]]


def same(left: Any, right: Any) -> bool:
    """Equal, but for empty containers, which the protocols cannot always tell from absent ones."""
    if isinstance(left, dict) and isinstance(right, dict):
        names = {*left, *right} - {"ResponseMetadata"}
        return all(same(left.get(name), right.get(name)) for name in names)
    if left in (None, {}, []) and right in (None, {}, []):
        return True
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@pytest.mark.parametrize("service", ["lambda", "cloudformation"])
def test_inputs_that_botocore_writes_are_read(service: str):
    model = service_model(service)
    serializer = create_serializer(model.metadata["protocol"], include_validation=False)
    wrong: list[str] = []
    for name in cases(service):
        operation = model.operation_model(name)
        given = example(operation.input_shape) if operation.input_shape else {}
        request = serializer.serialize_to_request(given, operation)
        body = request["body"]
        if isinstance(body, dict):
            body = urlencode(body).encode()
        path, _, fixed = request["url_path"].partition("?")
        query = request["query_string"]
        query = urlencode(query, doseq=True) if isinstance(query, dict) else query
        headers = {key.lower(): str(value) for key, value in request["headers"].items()}
        read = codec_moto.parse_request(
            service,
            HttpRequest(
                request["method"],
                path,
                "&".join(part for part in (fixed, query) if part),
                headers,
                body if isinstance(body, bytes) else str(body).encode(),
            ),
        )
        if read[0] != name or not same(read[1], given):
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("service", ["lambda", "cloudformation"])
def test_outputs_are_read_by_botocore(service: str):
    model = service_model(service)
    parser = create_parser(model.metadata["protocol"])
    wrong: list[str] = []
    for name in cases(service):
        operation = model.operation_model(name)
        if operation.output_shape is None:
            continue
        given = example(operation.output_shape)
        answer = codec_moto.serialize_output(service, name, given, "id")
        response = {
            "status_code": answer.status,
            "headers": {key.lower(): value for key, value in answer.headers},
            "body": answer.body,
        }
        parsed = parser.parse(response, operation.output_shape)
        if not same(given, parsed):
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("service", ["lambda", "cloudformation", "s3"])
def test_errors_are_read_by_botocore(service: str):
    from headrace.aws.calls.errors import AwsError

    model = service_model(service)
    parser = create_parser(model.metadata["protocol"])
    answer = codec_moto.serialize_error(service, None, AwsError("Oops", "a <b> & c", 409), "id")
    response = {
        "status_code": answer.status,
        "headers": {key.lower(): value for key, value in answer.headers},
        "body": answer.body,
    }
    shape = model.operation_model(model.operation_names[0]).output_shape
    parsed = parser.parse(response, shape)
    assert answer.status == 409
    assert (parsed["Error"]["Code"], parsed["Error"]["Message"]) == ("Oops", "a <b> & c")


def test_a_date_beyond_all_dates_is_a_bad_request():
    from headrace.aws.calls.errors import AwsError

    headers = {"if-modified-since": "9" * 64}
    with pytest.raises(AwsError, match="SerializationException"):
        codec_moto.parse_request("s3", HttpRequest("GET", "/bucket/key", "", headers))


def test_control_characters_do_not_break_xml():
    answer = codec_moto.serialize_output(
        "cloudformation", "GetStackPolicy", {"StackPolicyBody": "a\x00b\tc"}, "id"
    )
    model = service_model("cloudformation").operation_model("GetStackPolicy")
    read = create_parser("query").parse(
        {"body": answer.body, "headers": {}, "status_code": 200}, model.output_shape
    )
    assert read["StackPolicyBody"] == "a?b\tc"
