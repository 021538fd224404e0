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
    if token is not None and after:
        raise invalid_argument(
            "NextToken and ExclusiveStartStreamName cannot be provided together."
        )
    page, next_token = kinesis.tokens.cut_page(
        "ListStreams",
        [
            stream
            for (account, region, _), stream in list(kinesis.streams.items())
            if (account, region) == (call.account, call.region)
        ],
        lambda stream: stream.name,
        token=token,
        limit=min(request.get("Limit", LIST_STREAMS_DEFAULT), LIST_STREAMS_DEFAULT),
        now_ms=call.now_ms,
        after=after,
    )
    answer: ListStreamsOutput = {
        "StreamNames": [stream.name for stream in page],
        "HasMoreStreams": next_token is not None,
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
    if next_token is not None:
        answer["NextToken"] = next_token
    return answer
