"""What the patches of moto's core answer is what moto's own methods answer."""

from __future__ import annotations

import json
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from botocore import xform_name
from hypothesis import given
from hypothesis import strategies as st
from moto.core.errors import get_error_model
from moto.core.exceptions import ServiceException
from moto.core.request import Request
from moto.core.serialize import (
    JSONSerializer,
    QuerySerializer,
    ResponseSerializer,
    RestJSONSerializer,
    XFormedAttributePicker,
)
from moto.core.utils import get_service_model

from headrace.moto.patches import core
from headrace.moto.requests.conversion import moto_request

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


def test_an_error_of_another_service_keeps_its_code():
    # moto warns of it, and warnings are errors in these tests, as in those of some users.
    kind = type("InvalidSubnetIdError", (ServiceException,), {"__module__": "moto.ec2.exceptions"})
    error = kind("InvalidSubnetID.NotFound", "The subnet ID 'subnet-1' does not exist")
    shown = get_error_model(error, get_service_model("autoscaling"))
    assert shown.error_code == "InvalidSubnetID.NotFound"
