"""Bucket notifications: events of writing and removing objects, sent to functions, queues and topics.

An event is stored before the write is acknowledged and deleted when its target has taken it, so that the events of
every acknowledged write are sent at least once (an object whose write a kill cut short may have none). Events of one
bucket are sent in order. A file that Spark writes is no API call and makes no event. Event documents and rules:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
and .../notification-how-to-filtering.html (documented).
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

from headrace.aws.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.services.s3.state import Bucket
from headrace.store.database import Database

log = logging.getLogger(__name__)

Deliver = Callable[[str, str], str]

CREATED_PUT = "ObjectCreated:Put"
CREATED_COPY = "ObjectCreated:Copy"
CREATED_MULTIPART = "ObjectCreated:CompleteMultipartUpload"
REMOVED = "ObjectRemoved:Delete"
MARKED = "ObjectRemoved:DeleteMarkerCreated"

NAME = "BucketNotificationConfiguration"
_TARGETS = {
    "LambdaFunctionConfigurations": ("LambdaFunctionArn", "lambda"),
    "QueueConfigurations": ("QueueArn", "sqs"),
    "TopicConfigurations": ("TopicArn", "sns"),
}
_AT_ONCE = 100
# The MD5 of nothing: what a delete marker's event has. Observed in AWS's recorded answers.
_MARKERS_ETAG = "d41d8cd98f00b204e9800998ecf8427e"


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event of an object. A removed object has neither size nor ETag."""

    name: str
    bucket: str
    key: str
    size_bytes: int = 0
    etag: str = ""
    version_id: str = ""


class Notifications:
    """The events that wait for their targets, and the worker that sends them.

    `deliver` and `wake` are set before the worker starts.

    Args:
        clock: stamps the events.
        ids: gives ids to requests and configurations.
        database: stores the events.
    """

    name = "s3-notifications"

    def __init__(self, *, clock: Clock, ids: Ids, database: Database) -> None:
        self.deliver: Deliver = _nowhere
        self.wake: Callable[[], None] = _nobody
        self._clock = clock
        self._ids = ids
        self._waiting = database.documents("s_three_notifications")
        self._lock = threading.Lock()
        kept = [int(key) for key, _ in self._waiting.items()]
        self._newest = max(kept, default=0)

    # --- configuring --------------------------------------------------------------------------

    def checked(self, bucket: str, configuration: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration with ids; its queues and topics get a test event, as on AWS. Raises AwsError."""
        for member, (arn_member, service) in _TARGETS.items():
            for one in configuration.get(member) or ():
                one.setdefault("Id", self._ids.uuid())
                arn = str(one.get(arn_member, ""))
                if arn.split(":")[2:3] != [service]:
                    raise _invalid("The ARN could not be parsed", arn_member, arn)
                _check_rules(one)
                if service != "lambda":
                    self._send_test(bucket, arn, arn_member)
        return configuration

    def _send_test(self, bucket: str, arn: str, member: str) -> None:
        document = {
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": _iso(self._clock.now_ms()),
            "Bucket": bucket,
            "RequestId": self._ids.hex(16).upper(),
            "HostId": self._ids.hex(32),
        }
        try:
            self.deliver(arn, json.dumps(document))
        except LookupError:
            sentence = "Unable to validate the following destination configurations"
            raise _invalid(sentence, member, arn) from None

    # --- keeping ------------------------------------------------------------------------------

    def keep(self, event: ObjectEvent, bucket: Bucket) -> None:
        """Store an event for every target that the bucket's configuration names for it."""
        configuration = bucket.configurations.get(NAME)
        if not configuration:
            return
        waiting = list(_targets_of(configuration, event))
        if not waiting:
            return
        with self._lock:
            for arn, configuration_id in waiting:
                self._newest += 1
                record = self._record(event, bucket.region, configuration_id, self._newest)
                document = json.dumps({"Records": [record]})
                self._waiting.put(f"{self._newest:016d}", {"arn": arn, "document": document})
        self.wake()

    def _record(
        self, event: ObjectEvent, region: str, configuration_id: str, number: int
    ) -> dict[str, Any]:
        stored: dict[str, Any] = {"key": quote_plus(event.key, safe="/")}
        if event.name not in (REMOVED, MARKED):
            stored |= {"size": event.size_bytes, "eTag": event.etag}
        if event.name == MARKED:
            stored["eTag"] = _MARKERS_ETAG
        if event.version_id:
            stored["versionId"] = event.version_id
        stored["sequencer"] = f"{number:016X}"
        owner = {"principalId": "A3NL1KOZZKExample"}
        return {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "awsRegion": region,
            "eventTime": _iso(self._clock.now_ms()),
            "eventName": event.name,
            "userIdentity": owner,
            "requestParameters": {"sourceIPAddress": "127.0.0.1"},
            "responseElements": {
                "x-amz-request-id": self._ids.hex(16).upper(),
                "x-amz-id-2": self._ids.hex(32),
            },
            "s3": {
                "s3SchemaVersion": "1.0",
                "configurationId": configuration_id,
                "bucket": {
                    "name": event.bucket,
                    "ownerIdentity": owner,
                    "arn": f"arn:aws:s3:::{event.bucket}",
                },
                "object": stored,
            },
        }

    # --- sending ------------------------------------------------------------------------------

    def step(self) -> float:
        """Send the events that wait, oldest first; see `Worker.step`."""
        waiting = self._waiting.items()[:_AT_ONCE]
        for key, kept in waiting:
            try:
                self.deliver(kept["arn"], kept["document"])
            except LookupError:
                # As on AWS, events for a target that is gone are lost.
                log.warning("no notification target %s", kept["arn"])
            self._waiting.delete(key)
        return 0.0 if len(waiting) == _AT_ONCE else math.inf


def _targets_of(configuration: dict[str, Any], event: ObjectEvent) -> Iterator[tuple[str, str]]:
    for member, (arn_member, _) in _TARGETS.items():
        for one in configuration.get(member) or ():
            if _is_asked_for(one, event):
                yield str(one[arn_member]), str(one["Id"])


def _is_asked_for(one: dict[str, Any], event: ObjectEvent) -> bool:
    names = (f"s3:{event.name}", f"s3:{event.name.split(':')[0]}:*")
    if not any(asked in names for asked in one.get("Events") or ()):
        return False
    for name, value in _rules(one):
        matched = event.key.startswith(value) if name == "prefix" else event.key.endswith(value)
        if not matched:
            return False
    return True


def _rules(one: dict[str, Any]) -> list[tuple[str, str]]:
    outer: dict[str, Any] = one.get("Filter") or {}
    key_filter: dict[str, Any] = outer.get("Key") or {}
    rules: list[dict[str, str]] = key_filter.get("FilterRules") or []
    return [(rule.get("Name", "").lower(), rule.get("Value", "")) for rule in rules]


def _check_rules(one: dict[str, Any]) -> None:
    names = [name for name, _ in _rules(one)]
    if any(name not in ("prefix", "suffix") for name in names):
        raise _invalid("filter rule name must be either prefix or suffix", "FilterRule", "")
    if len(set(names)) < len(names):
        raise _invalid(
            "Cannot specify more than one prefix rule in a filter."
            if names.count("prefix") > 1
            else "Cannot specify more than one suffix rule in a filter.",
            "FilterRule",
            "",
        )


def _invalid(sentence: str, name: str, value: str) -> AwsError:
    return AwsError(
        "InvalidArgument", sentence, 400, {"ArgumentName": name, "ArgumentValue": value}
    )


def _iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"


def _nowhere(arn: str, document: str) -> str:
    """Drop an event: S3 alone has no targets."""
    return ""


def _nobody() -> None:
    """Do nothing: the worker is not started."""
