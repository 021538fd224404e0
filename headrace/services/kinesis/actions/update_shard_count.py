"""UpdateShardCount: uniform scaling by splits and merges."""

from headrace.aws.errors import validation_error
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.kinesis import UpdateShardCountInput, UpdateShardCountOutput
from headrace.services.kinesis.actions.create_stream import check_shard_quota
from headrace.services.kinesis.errors import invalid_argument
from headrace.services.kinesis.limits import HASH_KEYS
from headrace.services.kinesis.service import Kinesis, ReshardStep

Range = tuple[int, int]

# Boundaries that differ by rounding only are the same boundary: no shard is split off for a few hash keys.
_SAME_BOUNDARY = HASH_KEYS >> 24


@operation("UpdateShardCount")
def update_shard_count(
    kinesis: Kinesis, call: Call, request: UpdateShardCountInput
) -> UpdateShardCountOutput:
    """Scale to a number of equal shards. Source: API_UpdateShardCount."""
    target = request["TargetShardCount"]
    with kinesis.lock:
        stream = kinesis.find(call.account, call.region, request)
        if stream.mode == "ON_DEMAND":
            raise validation_error(
                f"Request is invalid. Stream {stream.name} under account {stream.account} is in On-Demand mode."
            )
        current = len(stream.open_shards)
        if target > current * 2:
            raise invalid_argument(
                "UpdateShardCount cannot scale up over double your current open shard count."
                f" Current open shard count: {current} Target shard count: {target}"
            )
        if target < current / 2:
            raise invalid_argument(
                "UpdateShardCount cannot scale down below half your current open shard count."
                f" Current open shard count: {current} Target shard count: {target}"
            )
        check_shard_quota(kinesis, call, max(0, target - current))
        ranges = [(shard.starting_hash_key, shard.ending_hash_key) for shard in stream.open_shards]
        kinesis.reshard(stream, plan(ranges, target), call.now_ms)
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardCount": current,
        "TargetShardCount": target,
    }


def plan(ranges: list[Range], target: int) -> list[ReshardStep]:
    """Return steps (ranges to close, ranges to open) that lead to `target` equal ranges.

    First every range is split at each target boundary inside it, in two at a time; then neighbours that
    share a target range are merged, two at a time: every child has one parent, or two adjacent ones, as
    consumers rely on.
    """
    known = [start for start, _ in ranges]
    cuts: list[int] = []
    for i in range(1, target):
        wanted = i * (HASH_KEYS // target)
        near = min(known, key=lambda boundary: abs(boundary - wanted))
        cuts.append(near if abs(near - wanted) < _SAME_BOUNDARY else wanted)
    steps: list[ReshardStep] = []
    pieces: list[Range] = []
    for start, end in ranges:
        rest = start
        for cut in cuts:
            if rest < cut <= end:
                steps.append(([(rest, end)], [(rest, cut - 1), (cut, end)]))
                pieces.append((rest, cut - 1))
                rest = cut
        pieces.append((rest, end))
    starts = {0, *cuts}
    merged = pieces[0]
    for piece in pieces[1:]:
        if piece[0] in starts:
            merged = piece
            continue
        whole = (merged[0], piece[1])
        steps.append(([merged, piece], [whole]))
        merged = whole
    return steps
