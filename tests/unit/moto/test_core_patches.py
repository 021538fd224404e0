"""What the patches of moto's core answer is what moto's own methods answer."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from botocore import xform_name
from botocore.session import Session
from hypothesis import example, given, settings
from hypothesis import strategies as st
from moto.core import utils
from moto.core.errors import get_error_model
from moto.core.exceptions import ServiceException
from moto.core.request import Request
from moto.core.responses import BaseResponse
from moto.core.serialize import (
    JSONSerializer,
    QuerySerializer,
    ResponseSerializer,
    RestJSONSerializer,
    XFormedAttributePicker,
)
from moto.core.utils import get_service_model

from headrace.aws.protocols.codec_moto import moto_request
from headrace.moto.patches import core

core.patch()

OPERATIONS = (
    ("dynamodb", "GetItem", JSONSerializer),
    ("dynamodb", "DescribeTable", JSONSerializer),
    ("sqs", "ReceiveMessage", JSONSerializer),
    ("rds", "CreateDBInstance", QuerySerializer),
    ("iam", "GetRole", QuerySerializer),
    ("lambda", "GetFunction", RestJSONSerializer),
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=4) | st.none(),
    "integer": st.integers(0, 9),
    "long": st.integers(0, 9),
    "boolean": st.booleans(),
    "double": st.floats(0, 1),
    "blob": st.binary(max_size=3),
    "timestamp": st.datetimes(),
}


class _Aliased:
    class Meta:
        serialization_aliases: ClassVar = {"Arn": "arn_of_it"}


def _names(shape: Any, member: str) -> list[str]:
    """Return names under which moto finds a member, and one under which it does not."""
    short = member.removeprefix(shape.name) or member
    return [member, xform_name(member), short, xform_name(short), f"no{member}"]


@st.composite
def _values(draw: Any, shape: Any, depth: int = 0) -> Any:
    kind = shape.type_name
    if kind == "structure":
        held: dict[str, Any] = {}
        for member, member_shape in shape.members.items():
            if depth < 4 and draw(st.integers(0, 3)) == 0:
                name = draw(st.sampled_from(_names(shape, member)))
                held[name] = draw(_values(member_shape, depth + 1))
        return draw(st.sampled_from(_WRAPPERS))(held)
    if kind == "list":
        return draw(st.lists(_values(shape.member, depth + 1), max_size=2 if depth < 4 else 0))
    if kind == "map":
        keys = st.text("ab.", min_size=1, max_size=2)
        values = _values(shape.value, depth + 1)
        return draw(st.dictionaries(keys, values, max_size=2 if depth < 4 else 0))
    return draw(SCALARS.get(kind, st.just("x")))


def _object(held: dict[str, Any]) -> Any:
    return SimpleNamespace(**held)


def _aliased(held: dict[str, Any]) -> Any:
    made = _Aliased()
    made.__dict__.update(held, arn_of_it="arn:aws:x")
    return made


_WRAPPERS = (dict, OrderedDict, _object, _aliased)


def _serialized(operation: Any, kind: Any, value: Any, transformers: dict[str, Any] | None) -> Any:
    picker = XFormedAttributePicker(response_transformers=transformers)
    try:
        return kind(operation_model=operation, value_picker=picker).serialize(value)
    except Exception as error:  # noqa: BLE001 - both ways must fail alike
        return type(error), str(error)


@pytest.mark.parametrize(("service", "name", "kind"), OPERATIONS)
@given(data=st.data())
def test_answers_are_written_as_moto_writes_them(
    service: str, name: str, kind: Any, data: st.DataObject
) -> None:
    operation = get_service_model(service).operation_model(name)
    value = data.draw(_values(operation.output_shape))
    transformers = data.draw(st.sampled_from([None, {"Arn": str, "Name": repr}]))
    quick = _serialized(operation, kind, value, transformers)
    patched: Any = ResponseSerializer
    methods = {n: getattr(patched, n) for n in ("get_value", "_serialize_type_structure")}
    for method, replaced in methods.items():
        setattr(patched, method, replaced.__wrapped__)
    try:
        assert quick == _serialized(operation, kind, value, transformers)
    finally:
        for method, replaced in methods.items():
            setattr(patched, method, replaced)


@pytest.mark.parametrize(
    "netloc", ["127.0.0.1:4566", "localhost:80", "xn--e1afmkfd.test", "[::1]:1"]
)
@pytest.mark.parametrize(
    "content_type",
    [None, "application/x-amz-json-1.0", "application/x-www-form-urlencoded", "text/xml",
     "multipart/form-data; boundary=b"],
)  # fmt: skip
@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_a_request_reads_as_if_werkzeug_had_parsed_it(
    netloc: str, content_type: str | None, encoding: str | None
) -> None:
    body = b"Action=Do&a=%20b"
    if content_type and content_type.startswith("multipart"):
        body = b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--b--\r\n'
    headers = {"x-amz-target": "A.b"}
    headers |= {"content-type": content_type} if content_type else {}
    headers |= {"content-encoding": encoding} if encoding else {}

    def request() -> Any:
        return moto_request("POST", netloc, "/a%2Fb/", "c=d", headers, body)

    quick = request()
    plain = Request(request().environ, populate_request=False)
    for name in ("raw_url", "url_root", "host", "data", "path"):
        assert getattr(quick, name) == getattr(plain, name), name
    assert json.dumps(quick.form) == json.dumps(plain.form)
    assert list(quick.files) == list(plain.files)


class _Handler(BaseResponse):
    """A service's, as far as each request sets it up."""

    def __init__(self, *, parses: bool) -> None:
        super().__init__(service_name="dynamodb")
        self.automated_parameter_parsing = parses


_HEADERS = {
    "content-type": st.sampled_from(
        ["application/x-amz-json-1.0", "application/x-www-form-urlencoded", "text/plain", ""]
    ),
    "x-amz-target": st.sampled_from(["DynamoDB_20120810.GetItem", "DynamoDB_20120810.PutItem"]),
    "authorization": st.sampled_from(
        [
            f"AWS4-HMAC-SHA256 Credential={key}/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host"
            for key in ("test", "AKIAIOSFODNN7EXAMPLE")
        ]
    ),
    "user-agent": st.sampled_from(["Boto3/1.40", "aws region/ap-south-1"]),
    "x-moto-account-id": st.just("123456789012"),
    "host": st.sampled_from(["127.0.0.1:4566", "dynamodb.cn-north-1.amazonaws.com"]),
}
_BODIES = st.dictionaries(
    st.sampled_from(["TableName", "Key", "ReturnValues"]),
    st.sampled_from(["t", "a=b&Action=DeleteTable", "&AWSAccessKeyId=AKIA", "é"]),
).map(lambda body: json.dumps(body, ensure_ascii=False).encode())


@given(
    st.fixed_dictionaries({}, optional=_HEADERS),
    _BODIES | st.sampled_from([b"", b"{}", b"\xff", b"Action=ListTables&Version=1"]),
    st.sampled_from(["", "X-Amz-Date=1"]),
    st.booleans(),
    st.booleans(),
)
@example(
    {"x-amz-target": "DynamoDB_20120810.GetItem", "authorization": "AWS4 Credential=test/"},
    b'{"Key": "&AWSAccessKeyId=AKIA&"}',
    "",
    False,
    False,
)
@settings(max_examples=300)
def test_a_plain_request_is_set_up_as_every_other(
    headers: dict[str, str], body: bytes, query: str, parses: bool, is_raw: bool
):
    """The short way of `setup_class`, with and without it."""

    def set_up(handler: BaseResponse) -> Any:
        request = moto_request("POST", headers.get("host", "h"), "/", query, headers, body)
        try:
            handler.setup_class(request, request.raw_url, request.headers, use_raw_body=is_raw)
        except Exception as error:  # noqa: BLE001 - both ways must fail alike
            return type(error), str(error)
        state = dict(vars(handler))
        state["headers"] = dict(state["headers"])
        del state["normalized_request"], state["response_headers"]["date"]
        return state

    short = set_up(_Handler(parses=parses))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(core, "_is_plain", lambda _: False)
        long = set_up(_Handler(parses=parses))
    assert short == long


def test_request_ids_have_awss_form():
    ids = {core.new_request_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch("[A-Z2-7]{52}", each) for each in ids)


def test_an_error_of_another_service_keeps_its_code():
    # moto warns of it, and warnings are errors in these tests, as in those of some users.
    kind = type("InvalidSubnetIdError", (ServiceException,), {"__module__": "moto.ec2.exceptions"})
    error = kind("InvalidSubnetID.NotFound", "The subnet ID 'subnet-1' does not exist")
    shown = get_error_model(error, get_service_model("autoscaling"))
    assert shown.error_code == "InvalidSubnetID.NotFound"


NAMES = st.sampled_from(["x-amz-meta-a_b", "x-amz-meta-b-c", "user-agent", "content-encoding"])
TYPES = st.sampled_from(["application/json", "application/x-www-form-urlencoded", "", "text/ü"])


@given(
    st.sampled_from(["GET", "POST"]),
    st.lists(st.sampled_from(["a", "%2F", "%C3%BC", "%FF", "+", "b c", "@:,"]), max_size=3),
    st.sampled_from(["", "a=1", "a=1&a=2&b=%20+", "uploads", "a=%FF"]),
    st.dictionaries(NAMES, st.sampled_from(["a", "gzip", "ü"]), max_size=3),
    TYPES,
    st.sampled_from([b"", b"{}", b"A=1&B=%C3%BC&A=2", b"\xff"]),
)
def test_a_request_for_moto_s_parsers_is_what_moto_s_builder_makes(
    method: str,
    parts: list[str],
    query: str,
    headers: dict[str, str],
    content_type: str,
    body: bytes,
):
    path = "/" + "/".join(parts)
    headers = {
        "host": "localhost",
        **headers,
        **({"content-type": content_type} if content_type else {}),
    }
    url = f"http://localhost{path}" + (f"?{query}" if query else "")
    usual = Request.from_primitives(method, url, headers, body)
    ours = moto_request(method, "localhost", path, query, headers, body)
    for name in ("method", "path", "query_string", "data", "raw_path", "mimetype"):
        assert getattr(ours, name) == getattr(usual, name), name
    assert ours.values.to_dict(flat=False) == usual.values.to_dict(flat=False)
    assert dict(ours.headers) == dict(usual.headers)


def test_a_package_is_the_service_that_moto_finds() -> None:
    known = {name.replace("-", ""): name for name in Session().get_available_services()}
    for package in ("iotdata", "iam", "elbv2", "resourcegroupstaggingapi", "nothing", *known):
        assert utils.service_name_from_moto_package_name(package) == known.get(package, package)
