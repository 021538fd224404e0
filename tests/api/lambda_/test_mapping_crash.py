"""A mapping's cloud is killed at several points: no record is skipped, and order is kept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lambda_lab import json_lines
from tests.support.server import wait_until

RECORDS = 400

# The same stream each time, as a durable one would be; the mapping is made by the first run only.
CLOUD = """
import sys, threading
from pathlib import Path
from tests.support.lambda_lab import LambdaLab
from tests.support.streams import STREAM_ARN
root = Path(sys.argv[1])
lab = LambdaLab(root / "data")
lab.streams.put(*(str(n).encode() for n in range(int(sys.argv[2]))))
lab.start()
if not (root / "made").exists():
    lab.create("collect", '''
import base64, json, os
def handler(event, context):
    seen = [int(base64.b64decode(r["kinesis"]["data"])) for r in event["Records"]]
    out = os.open(os.environ["OUT_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, (json.dumps(seen) + "\\\\n").encode())
    os.close(out)
''', Environment={"Variables": {"OUT_FILE": str(root / "seen")}})
    lab.client().create_event_source_mapping(
        EventSourceArn=STREAM_ARN, FunctionName="collect",
        StartingPosition="TRIM_HORIZON", BatchSize=3)
    (root / "made").touch()
threading.Event().wait()
"""


@pytest.mark.crash
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_cloud_goes_on_from_its_checkpoints(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    out = tmp_path / "seen"

    def batches() -> list[list[int]]:
        return json_lines(out)

    def reached(record: int) -> bool:
        return any(record in batch for batch in batches())

    kills = [*sorted(draw.sample(range(1, RECORDS - 60), 3)), RECORDS - 1]
    for record in kills:
        with (tmp_path / "log").open("ab") as log:
            cloud = subprocess.Popen(
                [sys.executable, "-c", CLOUD, str(tmp_path), str(RECORDS)],
                cwd=Path(__file__).parents[3],
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: (tmp_path / "made").exists(), what=(tmp_path / "log").read_text())
            wait_until(lambda wanted=record: reached(wanted), what=f"record {record}")
        finally:
            os.kill(cloud.pid, signal.SIGKILL)
            cloud.wait()
    newest = -1
    for batch in batches():
        assert batch == list(range(batch[0], batch[-1] + 1))
        assert batch[0] <= newest + 1, "a record was skipped"
        newest = max(newest, batch[-1])
    assert newest == RECORDS - 1
    # Each kill repeats at most the batch that was running.
    assert len(batches()) <= RECORDS / 3 + len(kills) + 1
