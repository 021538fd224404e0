"""Any run of kills and failures: documents are there once, requests can be told apart, and nothing is lost.

OpenSearch takes each record once, by its id. HTTP and Splunk take it at least once: an HTTP endpoint can tell repeated
requests by their id, a collector cannot tell repeated events.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.services.firehose.destinations import http, splunk
from headrace.services.firehose.destinations.common import DeliveryRefusal
from tests.support.clock import FakeClock
from tests.support.objects import Killed
from tests.unit.firehose.destinations.helpers import DestinationLab
from tests.unit.firehose.destinations.test_opensearch_deliveries import Domains
from tests.unit.firehose.helpers import SHARD

SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 150))]
FATES = ("ok", "ok", "ok", "die before", "die after", "refuse", "refuse after")


class Fates:
    """What becomes of each request: it may be lost, or taken and its answer lost."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.is_calm = False
        self.again = 0

    def next(self) -> str:
        fate = "ok" if self.is_calm else self.dice.choice(FATES)
        self.again += fate in ("die after", "refuse after")
        return fate


class HardDomains(Domains):
    """A domain whose requests meet their fates."""

    def __init__(self, tmp_path: Path, clock: FakeClock, fates: Fates) -> None:
        super().__init__(tmp_path, clock)
        self.fates = fates

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        fate = self.fates.next()
        if fate == "die before":
            raise Killed
        if fate == "refuse":
            return 503, b"away"
        answer = super().ask(method, path, body)
        if fate == "die after":
            raise Killed
        return (503, b"away") if fate == "refuse after" else answer


def run(lab: DestinationLab, fates: Fates) -> int:
    """Put records, pass time, kill; in the end let all be delivered. Return how many records were put."""
    dice, sent, shards, made = fates.dice, 0, [SHARD], 1
    for _ in range(40):
        match dice.randrange(8):
            case 0 if made < 8:
                parent = shards.pop(dice.randrange(len(shards)))
                children = [f"shardId-{100 + made}", f"shardId-{101 + made}"]
                made += 2
                lab.streams.replace(parent, *children)
                shards += children
            case 1:
                lab.start()
            case 2 | 3 | 4:
                lab.clock.advance(dice.choice([20, 60, 300]))
            case _:
                for _ in range(dice.randrange(6)):
                    lab.put(b'{"n":%d}' % sent, shard=dice.choice(shards))
                    sent += 1
        lab.settle_through_kills()
    fates.is_calm = True
    for _ in range(100):
        lab.settle_through_kills()
        if lab.is_drained:
            return sent
        lab.clock.advance(60)
    raise AssertionError("not all is delivered")


def failed(lab: DestinationLab, error_type: str) -> list[int]:
    return [json.loads(line["rawData"])["n"] for line in lab.errors(error_type)]


@pytest.mark.parametrize("seed", SEEDS)
def test_documents_are_there_once(tmp_path: Path, seed: int):
    fates = Fates(random.Random(seed))
    lab = DestinationLab(
        tmp_path,
        "Amazonopensearchservice",
        DomainARN="arn:aws:es:us-east-1:000000000000:domain/flights",
        IndexName="f",
        IndexRotationPeriod="NoRotation",
        RetryOptions={"DurationInSeconds": 7200},
    )
    domains = HardDomains(tmp_path, lab.clock, fates)
    lab.search = domains
    lab.start()
    sent = run(lab, fates)
    body = b'{"size": 1000}'
    found = [hit["_source"]["n"] for hit in hits(domains, body)] if sent else []
    assert Counter([*found, *failed(lab, "AmazonOpenSearchService-failed")]) == Counter(range(sent))


def hits(domains: Domains, body: bytes) -> list[dict[str, Any]]:
    status, answer = Domains.ask(domains, "POST", "f/_search", body)
    assert status == 200
    return json.loads(answer)["hits"]["hits"]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_endpoint_that_knows_request_ids_has_each_record_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
):
    fates = Fates(random.Random(seed))
    taken: dict[str, tuple[bytes, ...]] = {}
    repeated = 0

    def post(
        _self: Any, datas: Sequence[bytes], request_id: str, _now_ms: int
    ) -> DeliveryRefusal | None:
        nonlocal repeated
        fate = fates.next()
        if fate == "die before":
            raise Killed
        if fate == "refuse":
            return DeliveryRefusal("HttpEndpoint.DestinationException", "away")
        repeated += request_id in taken
        assert taken.setdefault(request_id, tuple(datas)) == tuple(datas)
        if fate == "die after":
            raise Killed
        return (
            DeliveryRefusal("HttpEndpoint.RequestTimeout", "late")
            if fate == "refuse after"
            else None
        )

    monkeypatch.setattr(http.HttpEndpoint, "post", post)
    lab = DestinationLab(
        tmp_path,
        "HttpEndpoint",
        EndpointConfiguration={"Url": "https://example.com/"},
        RetryOptions={"DurationInSeconds": 7200},
    )
    sent = run(lab, fates)
    found = [json.loads(data)["n"] for datas in taken.values() for data in datas]
    assert Counter(found) == Counter(range(sent))
    assert failed(lab, "http-endpoint-failed") == []
    # No request is repeated but one whose answer was lost.
    assert repeated <= fates.again


@pytest.mark.parametrize("seed", SEEDS)
def test_a_collector_has_each_event_at_least_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
):
    fates = Fates(random.Random(seed))
    taken: list[bytes] = []

    def deliver(_self: Any, datas: Sequence[bytes]) -> DeliveryRefusal | None:
        fate = fates.next()
        if fate == "die before":
            raise Killed
        if fate == "refuse":
            return splunk.build_refusal("Splunk.ServerError")
        taken.extend(datas)
        if fate == "die after":
            raise Killed
        return splunk.build_refusal("Splunk.AckTimeout") if fate == "refuse after" else None

    monkeypatch.setattr(splunk.Collector, "deliver", deliver)
    lab = DestinationLab(
        tmp_path,
        "Splunk",
        HECEndpoint="https://example.com",
        HECEndpointType="Raw",
        HECToken="token",
        RetryOptions={"DurationInSeconds": 7200},
    )
    sent = run(lab, fates)
    found = Counter(json.loads(data)["n"] for data in taken)
    assert set(found) == set(range(sent))
    assert failed(lab, "splunk-failed") == []
    if not fates.again:
        assert max(found.values(), default=1) == 1
