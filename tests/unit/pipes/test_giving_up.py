"""What a pipe of a stream gives up does not hold up, or take with it, the records that follow."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import AfterSequence, ReadResult, StreamRecord
from headrace.services.pipes.pipes import Pipe, PipeWorker
from tests.support.clock import FakeClock

WHERE = "us-east-1:000000000000"
START_MS = 1_700_000_000_000


class Function:
    """A function that fails each batch with a record `bad`."""

    def __init__(self) -> None:
        self.took: list[list[bytes]] = []

    def call(self, service: str, operation: str, params: dict[str, Any], **_: Any) -> Any:
        batch = [base64.b64decode(one["data"]) for one in json.loads(params["Payload"])]
        if b"bad" in batch:
            raise AwsError("InvalidRequestContentException", "I take no bad ones")
        self.took.append(batch)
        return {"StatusCode": 200, "Payload": b"null"}


class Stream:
    """A stream of one shard."""

    def __init__(self, *records: tuple[bytes, int]) -> None:
        self.records = [
            StreamRecord(str(number), "k", data, arrival_ms)
            for number, (data, arrival_ms) in enumerate(records, 1)
        ]

    def shards(self, _: str) -> list[Any]:
        return [SimpleNamespace(shard_id="shardId-000000000000", parent_ids=())]

    def subscribe(self, *_: Any) -> Any:
        return lambda: None

    def read(self, _source: str, _shard: str, position: Any, **_: Any) -> ReadResult:
        after = int(getattr(position, "sequence_number", 0))
        left = self.records[after:]
        return ReadResult(left, AfterSequence(str(after + len(left))), 0)


def test_an_old_record_without_a_dead_letter_queue_does_not_take_later_ones_with_it():
    function, clock = Function(), FakeClock(START_MS + 61_000)
    # Only the first is over its age: it is dropped, and the others come through.
    stream = Stream((b"bad", START_MS), (b"good", START_MS + 30_000), (b"fine", START_MS + 30_000))
    kept: dict[str, str] = {"shardId-000000000000": "0"}
    positions = SimpleNamespace(
        of=lambda _, shard: kept.get(shard), put=lambda _, shard, value: kept.update({shard: value})
    )
    source = f"arn:aws:kinesis:{WHERE}:stream/s"
    settings = {"MaximumRecordAgeInSeconds": 60, "StartingPosition": "TRIM_HORIZON"}
    pipe = Pipe(
        f"arn:aws:pipes:{WHERE}:pipe/p", source, f"arn:aws:lambda:{WHERE}:function:f", "", "",
        {"KinesisStreamParameters": settings}, {}, {}, {},
    )  # fmt: skip
    parts: Any = SimpleNamespace(
        clock=clock, control=function, streams=stream, positions=positions, supervisor=None
    )
    worker = PipeWorker(pipe, parts)
    for _ in range(3):
        worker.step()
    assert function.took == [[b"good", b"fine"]]
    assert kept["shardId-000000000000"] == "3"
