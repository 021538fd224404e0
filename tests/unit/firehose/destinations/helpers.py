"""A delivery stream to a destination other than S3, from a stream in memory, which can be killed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.core.ports import TrimHorizon
from headrace.core.ports.messages import SearchDomains
from headrace.core.ports.warehouses import NoWarehouses, Warehouses
from headrace.services.firehose.delivery import Delivery
from headrace.services.firehose.destinations import DESTINATIONS
from headrace.services.firehose.records import NoSearchDomains
from headrace.services.firehose.state import DeliveryStream
from tests.support.streams import STREAM_ARN
from tests.unit.firehose.helpers import INTERVAL_S, SHARD, Lab

ROLE = "arn:aws:iam::000000000000:role/r"
S3: dict[str, Any] = {
    "RoleARN": ROLE,
    "BucketARN": "arn:aws:s3:::lake",
    "Prefix": "p/",
    "ErrorOutputPrefix": "bad/!{firehose:error-output-type}/",
    "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": INTERVAL_S},
}


class DestinationLab(Lab):
    """See `Lab`. `given` are the members of the destination's configuration beside the common ones."""

    def __init__(
        self,
        tmp_path: Path,
        kind: str,
        *,
        search: SearchDomains | None = None,
        warehouses: Warehouses | None = None,
        secrets: Mapping[str, str] | None = None,
        **given: Any,
    ) -> None:
        self.search = search or NoSearchDomains()
        self.warehouses = warehouses or NoWarehouses()
        self.secrets = dict(secrets or {})
        self.changed: DeliveryStream | None = None
        super().__init__(tmp_path)
        configuration = {
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": INTERVAL_S},
            "CloudWatchLoggingOptions": {
                "Enabled": True,
                "LogGroupName": "g",
                "LogStreamName": "s",
            },
            "S3Configuration": S3,
            **given,
        }
        self.stream = replace(
            self.stream,
            destination=DESTINATIONS[kind].check(configuration),
            destination_kind=kind,
        )
        self.start()

    def start(self) -> None:
        super().start()
        self.ports = replace(
            self.ports,
            search=self.search,
            warehouses=self.warehouses,
            secrets=lambda arn, _account, _region: self.secrets.get(arn),
        )
        self.delivery = Delivery(
            self.stream, self.source, self.store, self.ports, lambda: self.current
        )

    def settle_until(self, is_so: Callable[[], bool]) -> int:
        """Let time pass, as long as each wait says, until something is so; return the seconds."""
        began_ms = self.clock.now_ms()
        for _ in range(200):
            wait_s = self.settle()
            if is_so():
                return round((self.clock.now_ms() - began_ms) / 1000)
            assert wait_s < 10_000
            self.clock.advance(wait_s)
        raise AssertionError("it does not come to pass")

    @property
    def is_drained(self) -> bool:
        return bool(self.delivery.status()["is_drained"])

    def number(self, place: int) -> str:
        """Return the sequence number of a record of the stream."""
        found = self.streams.read(
            STREAM_ARN, SHARD, TrimHorizon(), max_records=100, max_bytes=1 << 20
        )
        return found.records[place].sequence_number

    def errors(self, error_type: str) -> list[dict[str, Any]]:
        """Return the lines of the error output of a type, data unpacked, in the order of their keys."""
        start = f"lake/bad/{error_type}/"
        bodies = [
            self.objects.objects[k] for k in sorted(self.objects.objects) if k.startswith(start)
        ]
        lines = [json.loads(line) for body in bodies for line in body.splitlines()]
        return [{**line, "rawData": base64.b64decode(line["rawData"])} for line in lines]

    @property
    def codes(self) -> list[str]:
        """The error codes of the log."""
        return [json.loads(line)["errorCode"] for line in self.logs.lines]
