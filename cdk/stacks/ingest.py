"""The two streams: `flights` for raw events, and `flights-enriched` for the output of the function `enrich`."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from constructs import Construct

from cdk.parts.event_stream import EventStream


class IngestStack(Stack):
    """Both streams. Outputs: FlightsStreamName, EnrichedStreamName.

    Attributes:
        flights: 4 shards; the partition key is the carrier.
        enriched: 2 shards; also keyed by the carrier, so that a carrier's flights stay in order.
    """

    def __init__(self, scope: Construct, construct_id: str, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        flights = EventStream(self, "Flights", name="flights", shard_count=4)
        enriched = EventStream(self, "Enriched", name="flights-enriched", shard_count=2)
        flights.output("FlightsStreamName", "put flights here")
        enriched.output("EnrichedStreamName", "enriched flights come out here")
        self.flights = flights.stream
        self.enriched = enriched.stream
