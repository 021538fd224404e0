"""GetShardIterator, all five types."""

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import GetShardIteratorInput, GetShardIteratorOutput
from headrace.services.kinesis.errors import check_dry_run, invalid_argument, shard_not_found
from headrace.services.kinesis.service import Kinesis
from headrace.services.kinesis.state import Shard, Stream, shard_id_of
from headrace.store import sequence


@operation("GetShardIterator")
def get_shard_iterator(
    kinesis: Kinesis, call: Call, request: GetShardIteratorInput
) -> GetShardIteratorOutput:
    """Return an iterator, good for five minutes. Source: API_GetShardIterator."""
    stream = kinesis.find(call.account, call.region, request)
    shard = stream.shard(request["ShardId"])
    if shard is None or shard.log is None:
        raise shard_not_found(request["ShardId"], stream.name, stream.account)
    index = _index(stream, shard, request, call.now_ms)
    check_dry_run(request)
    return {
        "ShardIterator": kinesis.iterators.seal(stream.stream_id, shard.number, index, call.now_ms)
    }


def _index(stream: Stream, shard: Shard, request: GetShardIteratorInput, now_ms: int) -> int:
    log = shard.log
    assert log is not None
    kind = request["ShardIteratorType"]
    number = request.get("StartingSequenceNumber")
    timestamp = request.get("Timestamp")
    if kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        if number is None:
            raise invalid_argument(
                "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or"
                " (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber."
                f" Request specified {kind} and no StartingSequenceNumber."
            )
        index = _index_of_number(stream, shard, number, now_ms)
        if kind == "AFTER_SEQUENCE_NUMBER":
            index += 1
        # A closed shard's ending number is above every record: its iterator is at the end.
        return min(index, log.next_index)
    if kind == "AT_TIMESTAMP":
        if timestamp is None:
            raise invalid_argument(
                "Must specify timestamp parameter for iterator of type AT_TIMESTAMP."
                " Current request has no timestamp parameter."
            )
        timestamp_ms = int(timestamp.timestamp() * 1000)
        if timestamp_ms > now_ms:
            raise invalid_argument(
                "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."
                f" timestampInMillis: {timestamp_ms}, currentTimestampInMillis: {now_ms}"
            )
        return log.index_at(timestamp_ms)
    if number is not None:
        raise invalid_argument(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or"
            " (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber."
            f" Request specified {kind} and also a StartingSequenceNumber."
        )
    return log.first_index if kind == "TRIM_HORIZON" else log.next_index


def _index_of_number(stream: Stream, shard: Shard, text: str, now_ms: int) -> int:
    try:
        number = sequence.parse(text)
    except sequence.InvalidSequence:
        number = None
    if number is None or number.base.created_s > now_ms // 1000 + 3600:
        raise invalid_argument(
            f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard.shard_id} in stream"
            f" {stream.name} under account {stream.account} is invalid."
        )
    if number.base.shard_number != shard.number:
        raise invalid_argument(
            f"Invalid StartingSequenceNumber. It encodes {shard_id_of(number.base.shard_number)},"
            f" while it was used in a call to a shard with {shard.shard_id}"
        )
    if number.base != shard.base:
        raise invalid_argument(
            f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard.shard_id} in stream"
            f" {stream.name} under account {stream.account} is invalid because it did not come from this stream."
        )
    return number.index
