"""While the autoscaler splits and merges, a Lambda trigger and a consumer group read each key's records in order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.client import ConsumerGroup, MemoryLeaseStore
from tests.support.elastic import MOST_SHARDS, ElasticLab, disorder, number_of
from tests.support.lambda_lab import json_lines, zipped
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.slow
STREAM = "flights"
TRIGGER = """
import base64, json, os

def handler(event, context):
    lines = [
        json.dumps([r["kinesis"]["partitionKey"], int(base64.b64decode(r["kinesis"]["data"]).partition(b" ")[0])])
        for r in event["Records"]
    ]
    with open(os.environ["LOG"], "a") as log:
        log.write("\\n".join(lines) + "\\n")
"""


def test_order_per_key_over_splits_and_merges(tmp_path: Path) -> None:
    log = tmp_path / "trigger.log"
    with ServerProcess(tmp_path / "data", "--limits", "aws") as server:
        lab = ElasticLab(server, STREAM, tmp_path / "packed")
        (tmp_path / "packed").mkdir()
        lab.add_function("trigger", zipped({"handler.py": TRIGGER}), {"LOG": str(log)})
        arn = lab.kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"][
            "StreamARN"
        ]
        lab.functions.create_event_source_mapping(
            EventSourceArn=arn,
            FunctionName="trigger",
            StartingPosition="TRIM_HORIZON",
            BatchSize=200,
        )
        seen: list[tuple[str, int]] = []
        group = ConsumerGroup(
            "app", STREAM, store=MemoryLeaseStore(), failover_s=3, **lab.options()
        )

        def consume() -> None:
            for batch in group:
                seen.extend((record.key, number_of(record.data)) for record in batch)

        consumer = threading.Thread(target=consume)
        with lab:
            consumer.start()
            try:
                lab.grow_and_shrink()
                total = sum(lab.counts.values())
                wait_until(
                    lambda: len(set(seen)) == total, within_s=60, what="the group", most_pause_s=0.5
                )
                wait_until(
                    lambda: len(set(map(tuple, json_lines(log)))) == total,
                    within_s=60,
                    what="the trigger",
                    most_pause_s=0.5,
                )
            finally:
                group.close()
                consumer.join()
        assert lab.most_shards == MOST_SHARDS
        assert disorder(seen, lab.counts) == []
        assert disorder([(key, number) for key, number in json_lines(log)], lab.counts) == []
