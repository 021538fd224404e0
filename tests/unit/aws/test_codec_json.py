"""JSON and CBOR bodies: types, and the round trip through botocore's own client codecs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st

from headrace.aws.calls.errors import AwsError, serialization_error
from headrace.aws.calls.operation import operation_model
from headrace.aws.protocols import codec_json
from headrace.aws.protocols.codec_json import CBOR_1_1, JSON_1_1


def decode(operation: str, body: Any) -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return codec_json.decode_input("kinesis", operation, data, JSON_1_1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", ""),
        (b"\xff", ""),
        (b"", ""),
        (b"5", ""),
        (b'"text"', ""),
        (b"null", ""),
        (b"[]", "Start of list found where not expected"),
        ({"StreamName": 5}, "NUMBER_VALUE can not be converted to a String"),
        ({"StreamName": True}, "TRUE_VALUE can not be converted to a String"),
        ({"StreamName": []}, "Start of list found where not expected"),
        ({"StreamName": {}}, "Start of structure or map found where not expected."),
        ({"ShardCount": "1"}, "STRING_VALUE can not be converted to an Integer"),
        ({"Tags": []}, "Start of list found where not expected"),
        ({"StreamModeDetails": "x"}, "Expected null"),
        ({"StreamModeDetails": []}, "Start of list found where not expected"),
        ({"Tags": 5}, "Expected map or null"),
        ({"ShardCount": True}, "TRUE_VALUE can not be converted to an Integer"),
        ({"ShardCount": False}, "FALSE_VALUE can not be converted to an Integer"),
    ],
)
def test_a_body_of_the_wrong_type_is_a_serialization_exception(body: Any, message: str):
    with pytest.raises(AwsError) as caught:
        decode("CreateStream", body)
    assert (caught.value.code, caught.value.status) == ("SerializationException", 400)
    assert caught.value.message == message


# Recorded from AWS by kinesalite (test/helpers.js, assertType), AWS's spelling included.
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (23, "NUMBER_VALUE can not be converted to a Blob"),
        (True, "TRUE_VALUE can not be converted to a Blob"),
        ([], "Start of list found where not expected"),
        ({}, "Start of structure or map found where not expected."),
        (
            "23456",
            (
                "'23456' can not be converted to a Blob:"
                " Base64 encoded length is expected a multiple of 4 bytes but found: 5"
            ),
        ),
        ("=+/=", "'=+/=' can not be converted to a Blob: Invalid Base64 character: '='"),
        ("+$+=", "'+$+=' can not be converted to a Blob: Invalid Base64 character: '$'"),
        (
            "+/+=",
            "'+/+=' can not be converted to a Blob: Invalid last non-pad Base64 character dectected",
        ),
    ],
)
def test_data_that_is_not_base64_is_refused_in_awss_words(data: Any, message: str):
    with pytest.raises(AwsError) as caught:
        decode("PutRecord", {"StreamName": "s", "PartitionKey": "k", "Data": data})
    assert (caught.value.code, caught.value.message) == ("SerializationException", message)


@pytest.mark.parametrize(
    ("timestamp", "kind"), [("2026-01-01T00:00:00Z", "STRING"), (True, "TRUE"), (1e300, "NUMBER")]
)
def test_a_time_that_is_no_number_is_refused(timestamp: Any, kind: str):
    with pytest.raises(AwsError) as caught:
        decode("GetShardIterator", {"Timestamp": timestamp})
    assert caught.value.message == f"{kind}_VALUE can not be converted to milliseconds since epoch"


@pytest.mark.parametrize("body", [b"", b"\xff", b"\x81"])
def test_cbor_that_cannot_be_read_is_a_serialization_exception(body: bytes):
    with pytest.raises(AwsError) as caught:
        codec_json.decode_input("kinesis", "CreateStream", body, CBOR_1_1)
    assert caught.value.code == "SerializationException"


def test_the_sentence_stands_where_aws_puts_it():
    told = codec_json.encode_error(serialization_error("sentence"), JSON_1_1)
    assert json.loads(told) == {"__type": "SerializationException", "Message": "sentence"}
    bare = codec_json.encode_error(serialization_error(), JSON_1_1)
    assert json.loads(bare) == {"__type": "SerializationException"}


def test_lambda_says_otherwise_that_a_body_is_no_json():
    with pytest.raises(AwsError) as caught:
        codec_json.decode_rest_json("lambda", "CreateFunction", b"{nonsense")
    assert caught.value.code == "InvalidRequestContentException"
    assert caught.value.message.startswith(
        "Could not parse request body into json: Unexpected character ('n' (code 110))"
    )
    with pytest.raises(AwsError, match="STRING_VALUE can not be converted to an Integer"):
        codec_json.decode_rest_json("lambda", "CreateFunction", b'{"MemorySize": "x"}')


def test_members_come_with_the_names_of_rest_json_at_any_depth():
    body = b'{"provisioned": {"rebalancing": {"status": "ACTIVE"}}, "clusterName": "c"}'
    assert codec_json.decode_rest_json("kafka", "CreateClusterV2", body) == {
        "Provisioned": {"Rebalancing": {"Status": "ACTIVE"}},
        "ClusterName": "c",
    }


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
