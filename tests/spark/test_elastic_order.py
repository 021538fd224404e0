"""While the autoscaler splits and merges, a Spark query reads each key's records in order, and all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.spark.versions import HAS_DATA_SOURCES
from tests.support.elastic import MOST_SHARDS, ElasticLab, disorder, number_of
from tests.support.server import REGION, ServerProcess, wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_DATA_SOURCES, reason="the source of Spark 4"),
]
STREAM = "flights"


def test_order_per_key_over_splits_and_merges(spark: Any, tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def note(frame: Any, _: int) -> None:
        rows = frame.select("partitionKey", "data").collect()
        seen.extend((row[0], number_of(bytes(row[1]))) for row in rows)

    with ServerProcess(tmp_path / "data", "--limits", "aws") as server:
        (tmp_path / "packed").mkdir()
        lab = ElasticLab(server, STREAM, tmp_path / "packed")
        options = {
            "kinesis.streamName": STREAM,
            "kinesis.region": REGION,
            "kinesis.endpointUrl": server.endpoint_url,
            "kinesis.startingposition": "TRIM_HORIZON",
        }
        query = (
            spark.readStream.format("kinesis")
            .options(**options)
            .load()
            .writeStream.foreachBatch(note)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )
        try:
            with lab:
                lab.grow_and_shrink()
                total = sum(lab.counts.values())
                wait_until(
                    lambda: len(seen) >= total or query.exception() is not None,
                    within_s=90,
                    what="the query",
                    most_pause_s=0.5,
                )
            assert query.exception() is None
        finally:
            query.stop()
        assert lab.most_shards == MOST_SHARDS
        # Exactly once, too: nothing failed.
        assert len(seen) == len(set(seen)) == total
        assert disorder(seen, lab.counts) == []
