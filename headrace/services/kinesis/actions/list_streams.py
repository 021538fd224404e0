"""ListStreams."""

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.kinesis import ListStreamsInput, ListStreamsOutput
from headrace.services.kinesis.actions.describe_stream import created
from headrace.services.kinesis.backend import Kinesis
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import LIST_STREAMS_DEFAULT


@operation("ListStreams")
def list_streams(kinesis: Kinesis, call: Call, request: ListStreamsInput) -> ListStreamsOutput:
    """Return a page of the account's streams, sorted by name. Source: API_ListStreams."""
    kinesis.remove_deleted()
    after = request.get("ExclusiveStartStreamName", "")
    token = request.get("NextToken")
    if token is not None:
        if after:
            raise invalid_argument(
                "NextToken and ExclusiveStartStreamName cannot be provided together."
            )
        after = kinesis.tokens.open("ListStreams", token, call.now_ms)["after"]
    limit = min(request.get("Limit", LIST_STREAMS_DEFAULT), LIST_STREAMS_DEFAULT)
    streams = sorted(
        (
            stream
            for (account, region, name), stream in list(kinesis.streams.items())
            if (account, region) == (call.account, call.region) and name > after
        ),
        key=lambda stream: stream.name,
    )
    page = streams[:limit]
    answer: ListStreamsOutput = {
        "StreamNames": [stream.name for stream in page],
        "HasMoreStreams": len(streams) > limit,
        "StreamSummaries": [
            {
                "StreamName": stream.name,
                "StreamARN": stream.arn,
                "StreamStatus": stream.status(call.now_ms),
                "StreamModeDetails": {"StreamMode": stream.mode},
                "StreamCreationTimestamp": created(stream),
            }
            for stream in page
        ],
    }
    if len(streams) > limit:
        value = {"after": page[-1].name}
        answer["NextToken"] = kinesis.tokens.seal("ListStreams", value, call.now_ms)
    return answer
