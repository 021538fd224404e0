"""GetRecords for requests that `data_path/json_wire.py` and `cbor_wire.py` do not answer themselves."""

import base64
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import GetRecordsInput, GetRecordsOutput, Record
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.data_path.get import ExpiredIterator
from headrace.services.kinesis.errors import check_dry_run, invalid_argument
from headrace.services.kinesis.limits import GET_RECORDS_COUNT


@operation("GetRecords")
def get_records(kinesis: Kinesis, call: Call, request: GetRecordsInput) -> GetRecordsOutput:
    """Read records from a shard iterator. Source: API_GetRecords."""
    _check_stream(kinesis, call, request)
    limit = request.get("Limit", GET_RECORDS_COUNT)
    got = kinesis.iterators.get(request["ShardIterator"], limit, call)
    check_dry_run(request)
    answer: GetRecordsOutput = {
        "Records": [record for payload in got.payloads for record in _records(payload)],
        "MillisBehindLatest": got.behind_ms,
    }
    if got.next_iterator is not None:
        answer["NextShardIterator"] = got.next_iterator
    if got.children:
        answer["ChildShards"] = got.children
    return answer


def _check_stream(kinesis: Kinesis, call: Call, request: GetRecordsInput) -> None:
    """Raise AwsError when the request names a stream that does not exist, or is not the iterator's."""
    if "StreamARN" not in request and "StreamId" not in request:
        return
    stream = kinesis.find(call.account, call.region, request)
    try:
        iterator = kinesis.iterators.open(request["ShardIterator"], call.now_ms)
    except ExpiredIterator:
        return  # The read that follows raises the error for an invalid iterator.
    if iterator.stream_name != stream.name:
        raise invalid_argument("ShardIterator was not given for the stream that is named.")


def _records(payload: bytes | memoryview) -> list[Record]:
    records: list[Any] = msgspec.json.decode(b"".join((b"[", payload, b"]")))
    for record in records:
        milliseconds = round(record["ApproximateArrivalTimestamp"] * 1000)
        record["ApproximateArrivalTimestamp"] = datetime.fromtimestamp(
            milliseconds // 1000, UTC
        ).replace(microsecond=milliseconds % 1000 * 1000)
        record["Data"] = base64.b64decode(record["Data"])
    return records
