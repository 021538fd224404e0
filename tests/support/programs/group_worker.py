"""A worker of a consumer group in a process of its own, which a test kills.

Arguments: application, stream, endpoint, log file. The log has a line for each record, before it is checkpointed, and
one for each checkpoint, after it is written: nanoseconds, kind, shard, sequence number, sub-sequence number, key, data.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import boto3

from headrace.client import ConsumerGroup, DynamoDbLeaseStore
from headrace.client.access import AwsAccess


def main(application: str, stream: str, endpoint_url: str, log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(*values: Any) -> None:
        os.write(file, ("\t".join(map(str, (time.monotonic_ns(), *values))) + "\n").encode())

    session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test")
    where: dict[str, Any] = {
        "session": session,
        "region": "us-east-1",
        "endpoint_url": endpoint_url,
    }

    class NotedStore(DynamoDbLeaseStore):
        def write(self, old: Any, new: Any) -> bool:
            done = super().write(old, new)
            if done and new.checkpoint != old.checkpoint and new.checkpoint.is_number:
                note("checkpoint", new.key, *new.checkpoint, "", "")
            return done

    store = NotedStore(application, access=AwsAccess(**where))
    with ConsumerGroup(
        application,
        stream,
        store=store,
        failover_s=5.0,
        checkpoint_every_s=0.3,
        idle_s=0.05,
        **where,
    ) as group:
        for batch in group:
            for record in batch:
                number, sub = record.sequence_number, record.sub_sequence_number
                note("record", batch.shard_id, number, sub, record.key, record.data.decode())
            # Work that takes a while: so that kills meet it.
            time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:5])
