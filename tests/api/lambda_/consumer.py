"""A function that is mapped to the stream in memory, writes down its batches, and fails as its records say."""

from __future__ import annotations

import json
from typing import Any

from tests.support.lambda_lab import QUEUE, LambdaLab, json_lines
from tests.support.server import wait_until
from tests.support.streams import STREAM_ARN

# Writes each batch as a line to a file, and fails as the records tell it to.
CONSUMER = """
import base64, json, os, pathlib
def handler(event, context):
    records = event["Records"]
    data = [base64.b64decode(r["kinesis"]["data"]).decode() for r in records]
    with open(os.environ["OUT_FILE"], "a") as out:
        out.write(json.dumps(data) + "\\n")
    if not pathlib.Path(os.environ["OUT_FILE"] + ".healed").exists():
        if "crash" in data:
            raise ValueError("poison")
        return {"batchItemFailures": [{"itemIdentifier": r["kinesis"]["sequenceNumber"]}
                                      for r, d in zip(records, data) if d == "poison"]}
"""


class Consumer:
    """A function mapped to the stream, and what it has seen."""

    def __init__(self, lab: LambdaLab) -> None:
        self.lab = lab
        self.out = lab.place / "seen"
        lab.create("consume", CONSUMER, Environment={"Variables": {"OUT_FILE": str(self.out)}})

    def map(self, **members: Any) -> dict[str, Any]:
        return self.lab.client().create_event_source_mapping(
            **{
                "EventSourceArn": STREAM_ARN,
                "FunctionName": "consume",
                "StartingPosition": "TRIM_HORIZON",
                **members,
            }
        )

    def batches(self) -> list[list[str]]:
        return json_lines(self.out)

    def seen(self) -> list[str]:
        return [record for batch in self.batches() for record in batch]

    def wait_for(self, *records: str) -> None:
        wait_until(lambda: set(records) <= set(self.seen()), what=f"{records} in {self.seen()}")

    def heal(self) -> None:
        self.out.with_suffix(".healed").touch()

    def documents(self, queue: str = QUEUE) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.lab.box.messages[queue]]


def get(lab: LambdaLab, uuid: str) -> dict[str, Any]:
    return lab.client().get_event_source_mapping(UUID=uuid)
