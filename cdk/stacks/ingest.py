"""The two streams: `flights` for raw events, and `flights-enriched` for the output of the function `enrich`."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from constructs import Construct

from cdk.parts.elastic_stream import ElasticStream
from cdk.parts.event_stream import EventStream

# A shard for each carrier at most: a carrier's flights are in one shard.
CARRIERS = 16


class IngestStack(Stack):
    """Both streams. Outputs: FlightsStreamName, EnrichedStreamName.

    With `elastic_period_s`, the shards of `flights` follow its load, looked at so often.

    Attributes:
        flights: 4 shards, or 1 to 16; the partition key is the carrier.
        enriched: 2 shards; also keyed by the carrier, so that a carrier's flights stay in order.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        elastic_period_s: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        if elastic_period_s is None:
            flights = EventStream(self, "Flights", name="flights", shard_count=4)
        else:
            flights = ElasticStream(
                self,
                "Flights",
                name="flights",
                min_shards=1,
                max_shards=CARRIERS,
                period_s=elastic_period_s,
                # Ten looks, whatever their pace.
                cold_for_s=10 * elastic_period_s,
                sample_s=min(2, elastic_period_s),
            )
        enriched = EventStream(self, "Enriched", name="flights-enriched", shard_count=2)
        flights.output("FlightsStreamName", "put flights here")
        enriched.output("EnrichedStreamName", "enriched flights come out here")
        self.flights = flights.stream
        self.enriched = enriched.stream
