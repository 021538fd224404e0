"""Records by a pasted schema: Avro and Protobuf, bounded, with a sentence for what does not fit."""

from __future__ import annotations

import base64
import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.dashboard import records
from tests.support.cloud import InProcessCloud

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "prices", "type": {"type": "map", "values": "double"}},
        {"name": "parent", "type": ["null", "Order"]},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
    ],
}
# 64, "hé", L, two tags (one block with its size), one price, no parent, two bytes: by the specification.
RECORD = b"".join(
    (
        b"\x80\x01",
        b"\x02\x06h\xc3\xa9",
        b"\x02",
        b"\x03\x08\x02a\x02b\x00",
        b"\x02\x02p\x00\x00\x00\x00\x00\x00\xf8\x3f\x00",
        b"\x00",
        b"\xff\x01",
    )
)
VALUE = {
    "id": 64,
    "note": "hé",
    "size": "L",
    "tags": ["a", "b"],
    "prices": {"p": 1.5},
    "parent": None,
    "raw": "\xff\x01",
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("decode") / "data", limits="off") as cloud:
        yield cloud


def decode(cloud: InProcessCloud, data: bytes, schema: Any, **more: str) -> tuple[int, Any]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    value = {"format": "avro", "schema": text, "encoding": "base64", **more}
    value["data"] = base64.b64encode(data).decode()
    body = json.dumps(value).encode()
    answer = cloud.handle(HttpRequest("POST", "/_headrace/api/decode", "", {}, body))
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"", "no header"),
        (b"\xc3\x01" + b"f" * 8, "Avro's single-object header"),
        (b"\x00\x00\x00\x00\x07", "Confluent's header"),
        (b"\x03\x00" + b"u" * 16, "Glue's header"),
    ],
)
def test_avro_with_and_without_a_registry_s_header(
    cloud: InProcessCloud, header: bytes, name: str
) -> None:
    status, answer = decode(cloud, header + RECORD, ORDER)
    assert status == 200, answer
    assert (json.loads(answer["text"]), answer["header"]) == (VALUE, name)


def test_a_text_is_decoded_by_a_primitive_schema(cloud: InProcessCloud) -> None:
    assert json.loads(decode(cloud, b"\x08pear", "string")[1]["text"]) == "pear"
    assert json.loads(decode(cloud, b"\x08pear", '"string"')[1]["text"]) == "pear"


def deep(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"null"' + "}" * depth


@pytest.mark.parametrize(
    ("data", "schema", "sentence"),
    [
        (RECORD + b"x", ORDER, "1 bytes follow it"),
        (RECORD[:-1], ORDER, "ends too soon"),
        (b"\x02" * 30, ORDER, "does not fit"),
        (b"\xff" * 30, "long", "a number is too long"),
        (b"", "{", "schema cannot be read"),
        (b"", '{"type": "record", "name": "A"}', "does not fit"),
        (b"", '{"type": "thing"}', "has no type thing"),
        (b"", '{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}', "too deeply"),
        (b"", deep(200), "too deeply"),
        (b"", deep(9_000), "schema cannot be read"),
        # 2**40 items that need no byte.
        (b"\x80\x80\x80\x80\x80\x80\x01\x00", deep(1), "too many values"),
        # A text of 2**40 bytes.
        (b"\x80\x80\x80\x80\x80\x80\x01a", "string", "ends too soon"),
        (b"\x02\xff", "string", "utf-8"),
        (b"", "x" * 300_000, "at most 256 KiB"),
    ],
)
def test_what_does_not_fit_is_said(
    cloud: InProcessCloud, data: bytes, schema: Any, sentence: str
) -> None:
    status, answer = decode(cloud, data, schema)
    assert (status, sentence in answer["message"]) == (400, True), answer


def order_type() -> tuple[str, Any]:
    """Return a descriptor set as protoc writes it, and the message's class."""
    pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    pool = pytest.importorskip("google.protobuf.descriptor_pool").DescriptorPool()
    factory = pytest.importorskip("google.protobuf.message_factory")
    file = pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="order_id", number=1, type=3, label=1)
    message.field.add(name="note", number=2, type=9, label=1)
    message.field.add(name="next", number=3, type=11, label=1, type_name=".shop.Order")
    pool.Add(file)
    files = base64.b64encode(pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()
    return files, factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_by_its_descriptors(cloud: InProcessCloud) -> None:
    files, order = order_type()
    data = order(order_id=7, note="fig", next=order(order_id=8)).SerializeToString()
    kind = {"format": "protobuf", "message": "shop.Order"}
    status, answer = decode(cloud, data, files, **kind)
    assert status == 200, answer
    value = {"order_id": "7", "note": "fig", "next": {"order_id": "8"}}
    assert json.loads(answer["text"]) == value
    assert "does not fit" in decode(cloud, b"\xff\xff", files, **kind)[1]["message"]
    nested = b""
    for _ in range(300):
        nested = b"\x1a" + encode_length(len(nested)) + nested
    assert "does not fit" in decode(cloud, nested, files, **kind)[1]["message"]
    kind["message"] = "shop.None"
    assert "schema cannot be read" in decode(cloud, data, files, **kind)[1]["message"]
    assert "schema cannot be read" in decode(cloud, data, "no base64", **kind)[1]["message"]


def encode_length(length: int) -> bytes:
    return bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])


def test_without_protobuf_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    program = Path(records.__file__).with_name("decode_child.py")
    asked = {"format": "protobuf", "schema": "", "message": "A", "data": ""}
    answer = runpy.run_path(str(program))["answer"](json.dumps(asked).encode())
    assert json.loads(answer) == {
        "problem": "To decode Protobuf records, install protobuf: pip install 'protobuf>=5.28'."
    }


def test_a_question_must_be_texts(cloud: InProcessCloud) -> None:
    for value in ({"format": 3}, {"format": "xml"}, {"format": "avro", "schema": []}):
        body = json.dumps(value).encode()
        answer = cloud.handle(HttpRequest("POST", "/_headrace/api/decode", "", {}, body))
        assert answer.status == 400
