"""JSON and CBOR bodies: types, and the round trip through botocore's own client codecs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st

from headrace.aws import codec_json
from headrace.aws.codec_json import CBOR_1_1, JSON_1_1
from headrace.aws.errors import AwsError
from headrace.aws.model import operation_model


def decode(operation: str, body: Any) -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return codec_json.decode_input("kinesis", operation, data, JSON_1_1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", ""),
        (b"\xff", ""),
        (b"[]", "Unexpected value type in payload"),
        ({"StreamName": 5}, "NUMBER_VALUE can not be converted to a String"),
        ({"StreamName": True}, "TRUE_VALUE can not be converted to a String"),
        ({"StreamName": []}, "Start of list found where not expected"),
        ({"StreamName": {}}, "Start of structure or map found where not expected."),
        ({"ShardCount": "1"}, "STRING_VALUE can not be converted to an Integer"),
        ({"Tags": []}, "Start of list found where not expected"),
        ({"StreamModeDetails": "x"}, "STRING_VALUE can not be converted to a Structure"),
    ],
)
def test_a_body_of_the_wrong_type_is_a_serialization_exception(body: Any, message: str):
    with pytest.raises(AwsError) as caught:
        decode("CreateStream", body)
    assert (caught.value.code, caught.value.status) == ("SerializationException", 400)
    assert caught.value.message == message


def test_data_that_is_not_base64_is_refused():
    with pytest.raises(AwsError, match="SerializationException"):
        decode("PutRecord", {"StreamName": "s", "PartitionKey": "k", "Data": "a"})


def test_unknown_members_are_dropped_and_nulls_are_absent():
    body = {"StreamName": "s", "New": 1, "ShardCount": None}
    assert decode("CreateStream", body) == {"StreamName": "s"}


def test_deep_nesting_is_refused_not_fatal():
    with pytest.raises(AwsError, match="SerializationException"):
        decode("CreateStream", b'{"Tags":' + b"[" * 100_000)


RECORDS = st.lists(
    st.builds(
        lambda data, key, ms: {
            "Data": data,
            "PartitionKey": key,
            "SequenceNumber": "1",
            "ApproximateArrivalTimestamp": datetime.fromtimestamp(ms // 1000, UTC).replace(
                microsecond=ms % 1000 * 1000
            ),
        },
        st.binary(max_size=50),
        st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()),
        st.integers(0, 4_000_000_000_000),
    ),
    max_size=5,
)


@given(records=RECORDS, content_type=st.sampled_from([JSON_1_1, CBOR_1_1]))
def test_an_output_reads_the_same_in_botocores_client(records: Any, content_type: str):
    output = {"Records": records, "MillisBehindLatest": 7}
    body = codec_json.encode_output("kinesis", "GetRecords", output, content_type)
    if content_type == CBOR_1_1:
        again = codec_json.decode_body(body, content_type)
        assert again == output
        return
    parser = create_parser("json")
    shape = operation_model("kinesis", "GetRecords").output_shape
    parsed = parser.parse({"status_code": 200, "headers": {}, "body": body}, shape)
    assert parsed["MillisBehindLatest"] == 7
    assert [r["Data"] for r in parsed["Records"]] == [r["Data"] for r in records]
    assert [r["ApproximateArrivalTimestamp"] for r in parsed["Records"]] == [
        r["ApproximateArrivalTimestamp"] for r in records
    ]
