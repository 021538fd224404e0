"""Kill -9 a cloud whose channels deliver: each record that was acknowledged is in the bucket and in the table, once."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.testing.clock import MovableClock
from tests.api.kinesis.channels.lab import AT, BUCKET, TABLES_ARN, TablesLab
from tests.support.cloud import InProcessCloud
from tests.support.tables import read_rows, read_table, scan_with_duckdb

pytestmark = pytest.mark.crash

# Each life of a cloud is three seconds of a processor.
KILLS = 1
NIGHTLY_KILLS = 4
_BATCH = 20


def feed(folder: str, begin: str) -> None:
    """Put records for ever, and let the data freshness pass again and again; say each batch that is acknowledged.

    The channel's time is this process's own: the shortest data freshness is five minutes.
    """
    clock = MovableClock()
    with InProcessCloud(Path(folder), clock=clock) as cloud:
        lab = TablesLab(cloud, clock)
        if begin == "0":
            lab.build()
            lab.channel(kind="STRING")
            lab.create()
        number = int(begin)
        while True:
            sys.stdout.write(f"asked {number}\n")
            sys.stdout.flush()
            rows = (f'{{"id": {one}, "at": "{AT}"}}' for one in range(number, number + _BATCH))
            lab.put(*(row.encode() for row in rows))
            sys.stdout.write(f"acknowledged {number}\n")
            sys.stdout.flush()
            number += _BATCH
            clock.advance(100)
            if number % (3 * _BATCH) == 0:
                # So that kills come during deliveries and after some, however quick the puts are.
                lab.deliver()


def run_until_killed(folder: Path, begin: int, batches: int) -> tuple[set[int], set[int]]:
    """Return the batches that were asked for, and those that were acknowledged, before the process was killed."""
    command = f"from tests.crash.test_channel_kills import feed; feed({str(folder)!r}, '{begin}')"
    said: dict[str, set[int]] = {"asked": set(), "acknowledged": set()}
    with subprocess.Popen(
        [sys.executable, "-c", command], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            word, number = line.split()
            said[word].add(int(number))
            if len(said["acknowledged"]) == batches:
                process.kill()
                # What it said meanwhile counts too.
                batches = -1
    return said["asked"], said["acknowledged"]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 4))]
)
def test_each_acknowledged_record_is_delivered_once(tmp_path: Path, seed: int, nightly: bool):
    chosen = random.Random(seed)
    folder, begin = tmp_path / "data", 0
    asked, acknowledged = set[int](), set[int]()
    for _ in range(NIGHTLY_KILLS if nightly else KILLS):
        more, told = run_until_killed(folder, begin, chosen.randrange(1, 12))
        asked |= more
        acknowledged |= told
        begin = max(asked) + _BATCH
    clock = MovableClock()
    with InProcessCloud(folder, clock=clock) as cloud:
        lab = TablesLab(cloud, clock)
        lab.deliver()
        assert len(lab.keys(BUCKET)) > 1
        counts = Counter(int(n) for n in re.findall(rb'"id": (\d+)', b"".join(lab.bodies(BUCKET))))
        table = read_table(cloud, TABLES_ARN, "air", "flights")
        rows = read_rows(table)
        tables_bucket = table.location().removeprefix("s3://")
        scanned = scan_with_duckdb(tmp_path, folder / "s3" / tables_bucket, table)
    assert scanned is None or Counter(row["id"] for row in scanned) == counts
    assert Counter(row["id"] for row in rows) == counts
    assert not [number for number, count in counts.items() if count > 1]
    expected = {one for batch in acknowledged for one in range(batch, batch + _BATCH)}
    assert expected <= set(counts)
    assert set(counts) <= {one for batch in asked for one in range(batch, batch + _BATCH)}
