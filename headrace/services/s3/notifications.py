"""Bucket notifications: sends events about objects to functions, queues, topics and the event bus.

An event is stored before the write is acknowledged, and deleted when its target has accepted it. So the events of every
acknowledged write are sent at least once; a write that a kill interrupts may have no event. Events of one bucket are
sent in order. A file that Spark writes directly makes no event. Source of the event documents (documented):
https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html and
https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import bucket_arn
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import BusEvent, CallerIdentity, Guard, NoGuard
from headrace.core.values import iso_of
from headrace.services.s3 import notification_rules
from headrace.services.s3.notification_rules import (
    EVENT_BRIDGE,
    KINDS,
    NAME,
    NoTargets,
    Targets,
    build_bus_event,
)
from headrace.services.s3.state import Bucket, StoredObject
from headrace.store.database import Database

log = logging.getLogger(__name__)

CREATED_PUT = "ObjectCreated:Put"
CREATED_POST = "ObjectCreated:Post"
CREATED_COPY = "ObjectCreated:Copy"
CREATED_MULTIPART = "ObjectCreated:CompleteMultipartUpload"
REMOVED = "ObjectRemoved:Delete"
MARKED = "ObjectRemoved:DeleteMarkerCreated"
EXPIRED = "LifecycleExpiration:Delete"
EXPIRED_MARKED = "LifecycleExpiration:DeleteMarkerCreated"
TAGGED = "ObjectTagging:Put"
UNTAGGED = "ObjectTagging:Delete"
ACL_PUT = "ObjectAcl:Put"
TRANSITIONED = "LifecycleTransition"
RESTORE_ASKED = "ObjectRestore:Post"
RESTORED = "ObjectRestore:Completed"

SERVICE = "s3.amazonaws.com"
# The action that S3 calls on a target, for each service.
_SENDS = {"sqs": "sqs:SendMessage", "sns": "sns:Publish", "lambda": "lambda:InvokeFunction"}
# How soon a target that was too busy is asked again.
_BUSY_S = 1.0
_AT_ONCE = 100
# The ETag in a delete marker's event is the MD5 of no bytes. Documented (notification-content-structure.html).
_MARKERS_ETAG = "d41d8cd98f00b204e9800998ecf8427e"
_WITHOUT_SIZE = (REMOVED, MARKED, EXPIRED, EXPIRED_MARKED, TAGGED, UNTAGGED, ACL_PUT)
_WITHOUT_SEQUENCER = (TAGGED, UNTAGGED, ACL_PUT)
_WITHOUT_ETAG = (REMOVED, EXPIRED)
# Event name -> EventBridge's detail-type, and the members that are added to the detail.
_ON_THE_BUS: dict[str, tuple[str, dict[str, str]]] = {
    CREATED_PUT: ("Object Created", {"reason": "PutObject"}),
    CREATED_POST: ("Object Created", {"reason": "POST Object"}),
    CREATED_COPY: ("Object Created", {"reason": "CopyObject"}),
    CREATED_MULTIPART: ("Object Created", {"reason": "CompleteMultipartUpload"}),
    REMOVED: (
        "Object Deleted",
        {"reason": "DeleteObject", "deletion-type": "Permanently Deleted"},
    ),
    MARKED: (
        "Object Deleted",
        {"reason": "DeleteObject", "deletion-type": "Delete Marker Created"},
    ),
    EXPIRED: (
        "Object Deleted",
        {"reason": "Lifecycle Expiration", "deletion-type": "Permanently Deleted"},
    ),
    EXPIRED_MARKED: (
        "Object Deleted",
        {"reason": "Lifecycle Expiration", "deletion-type": "Delete Marker Created"},
    ),
    TAGGED: ("Object Tags Added", {}),
    UNTAGGED: ("Object Tags Deleted", {}),
    ACL_PUT: ("Object ACL Updated", {}),
    TRANSITIONED: ("Object Storage Class Changed", {}),
    RESTORE_ASKED: ("Object Restore Initiated", {}),
    RESTORED: ("Object Restore Completed", {}),
}
_OWNER = {"principalId": "A3NL1KOZZKExample"}


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event about an object. The event of a removed object has neither size nor ETag.

    Attributes:
        version_id: "" unless the bucket's versioning is enabled.
        glacier: the storage class and the expiry date in the event of a restored object.
    """

    name: str
    bucket: str
    key: str
    size_bytes: int = 0
    etag: str = ""
    version_id: str = ""
    glacier: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def of(name: str, stored: StoredObject, holder: Bucket) -> ObjectEvent:
        """Return an event about an object; it has a version id if the bucket's versioning is enabled."""
        version_id = stored.version_id if holder.versioning == "Enabled" else ""
        return ObjectEvent(
            name, stored.bucket, stored.key, stored.size_bytes, stored.etag, version_id
        )


class Notifications:
    """Stores events, and sends them in the background (a `Worker`).

    Args:
        clock: gives the events their time.
        ids: makes the ids of requests and configurations.
        database: stores the events.
        targets: sends them; without it they are dropped.
        guard: asks whether a target's policy lets S3 send.
    """

    name = "s3-notifications"

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        database: Database,
        targets: Targets | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._targets = targets or NoTargets()
        self._guard = guard or NoGuard()
        self._listeners: list[Callable[[], None]] = []
        self._clock = clock
        self._ids = ids
        self._waiting = database.documents("s_three_notifications")
        self._lock = threading.Lock()
        kept = [int(key) for key, _ in self._waiting.items()]
        self._newest = max(kept, default=0)

    def listen(self, stored: Callable[[], None]) -> None:
        """Call `stored` from now on whenever an event is stored."""
        self._listeners.append(stored)

    # --- configuring --------------------------------------------------------------------------

    def check(
        self,
        bucket: str,
        configuration: dict[str, Any],
        *,
        account: str = "",
        skip_validation: bool = False,
    ) -> dict[str, Any]:
        """Check a configuration and return it with Ids. As on AWS, queues and topics get a test event. Raises AwsError.

        `account` is the account of the bucket.
        """
        notification_rules.check(configuration)
        targets: list[tuple[str, str]] = []
        for member, kind in KINDS.items():
            for one in configuration.get(member) or ():
                one.setdefault("Id", self._ids.uuid())
                targets.append((kind.service, str(one[kind.arn_member])))
        if skip_validation:
            return configuration
        source = {"bucket": bucket, "account": account}
        refused = [
            (service, arn, exists)
            for service, arn in targets
            if not (exists := self._targets.exists(arn)) or self._explain_denial(arn, source)
        ]
        if refused:
            raise _unusable_targets(refused)
        for service, arn in dict.fromkeys(targets):
            if service != "lambda":
                self._targets.send(arn, _compact(self._test_event(bucket)))
        return configuration

    def _test_event(self, bucket: str) -> dict[str, str]:
        return {
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": iso_of(self._clock.now_ms()),
            "Bucket": bucket,
            "RequestId": self._ids.hex(16).upper(),
            "HostId": self._ids.hex(32),
        }

    def _explain_denial(self, arn: str, source: Mapping[str, str]) -> str:
        """Return why the target's resource policy does not let S3 send the bucket's events, or "" when it does."""
        acting = CallerIdentity(
            SERVICE,
            source_arn=f"arn:{arn.split(':')[1]}:s3:::{source['bucket']}",
            source_account=source["account"],
        )
        return self._guard.denial(acting, _SENDS[arn.split(":")[2]], arn)

    # --- storing ------------------------------------------------------------------------------

    def keep(self, event: ObjectEvent, bucket: Bucket) -> None:
        """Store an event once for each of its targets in the bucket's configuration."""
        configuration = bucket.configurations.get(NAME)
        if not configuration:
            return
        waiting = list(notification_rules.list_targets(configuration, event.name, event.key))
        to_bus = configuration.get(EVENT_BRIDGE) is not None
        if not waiting and not to_bus:
            return
        with self._lock:
            for arn, configuration_id in waiting:
                record = self._record(event, bucket.region, configuration_id, self._newest + 1)
                kept = {"arn": arn, "document": _compact({"Records": [record]})}
                self._put({**kept, "bucket": event.bucket, "account": bucket.account})
            if to_bus:
                self._put(self._build_bus_event(event, bucket, self._newest + 1))
        for stored in self._listeners:
            stored()

    def _put(self, waiting: dict[str, Any]) -> None:
        self._newest += 1
        self._waiting.put(f"{self._newest:016d}", waiting)

    def _record(
        self, event: ObjectEvent, region: str, configuration_id: str, number: int
    ) -> dict[str, Any]:
        record: dict[str, Any] = {
            "eventVersion": "2.3" if event.name in _WITHOUT_SEQUENCER else "2.1",
            "eventSource": "aws:s3",
            "awsRegion": region,
            "eventTime": iso_of(self._clock.now_ms()),
            "eventName": event.name,
            "userIdentity": _OWNER,
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
                    "ownerIdentity": _OWNER,
                    "arn": bucket_arn(region, event.bucket),
                },
                "object": _render_object(event, number, ("eTag", "versionId")),
            },
        }
        if event.glacier:
            record["glacierEventData"] = {
                "restoreEventData": {
                    "lifecycleRestorationExpiryTime": event.glacier["expiry"],
                    "lifecycleRestoreStorageClass": event.glacier["storage_class"],
                }
            }
        return record

    def _build_bus_event(self, event: ObjectEvent, bucket: Bucket, number: int) -> dict[str, Any]:
        detail_type, more = _ON_THE_BUS[event.name]
        detail: dict[str, Any] = {
            "version": "0",
            "bucket": {"name": event.bucket},
            "object": _render_object(event, number, ("etag", "version-id")),
            "request-id": self._ids.hex(16).upper(),
            "requester": bucket.account,
            **more,
        }
        if event.name in (EXPIRED, EXPIRED_MARKED):
            detail["requester"] = "s3.amazonaws.com"
        elif event.name != RESTORED:
            detail["source-ip-address"] = "127.0.0.1"
        if event.name in (RESTORE_ASKED, RESTORED):
            detail["source-storage-class"] = event.glacier.get("storage_class", "GLACIER")
        if event.name == RESTORED:
            detail["restore-expiry-time"] = event.glacier["expiry"]
        return {
            "account": bucket.account,
            "region": bucket.region,
            "bucket": event.bucket,
            "detail_type": detail_type,
            "detail": detail,
        }

    # --- sending ------------------------------------------------------------------------------

    def step(self) -> float:
        """Send the stored events, oldest first; see `Worker.step`.

        A target that is too busy is asked again later, and holds up no other target.
        """
        busy: set[str] = set()
        done = 0
        for key, kept in self._waiting.items():
            target = str(kept.get("arn") or "the default event bus")
            if target in busy:
                continue
            if done == _AT_ONCE:
                return 0.0
            try:
                self._send(kept)
            except LookupError:
                # As on AWS, events for a deleted target are lost.
                log.warning("an event for %s is lost: the target does not exist", target)
            except AwsError as error:
                if error.may_pass:
                    busy.add(target)
                    continue
                log.warning("an event for %s is lost: %s", target, error)
            self._waiting.delete(key)
            done += 1
        return _BUSY_S if busy else math.inf

    def _send(self, kept: dict[str, Any]) -> None:
        if "arn" in kept:
            # Events that an earlier version of headrace stored have no bucket.
            problem = self._explain_denial(kept["arn"], kept) if "bucket" in kept else ""
            if problem:
                log.warning("an event for %s is lost: %s", kept["arn"], problem)
                return
            self._targets.send(kept["arn"], kept["document"])
            return
        event: BusEvent = build_bus_event(
            bucket_arn(kept["region"], kept["bucket"]), kept["detail_type"], kept["detail"]
        )
        self._targets.put_event(kept["account"], kept["region"], event)


def _render_object(event: ObjectEvent, number: int, names: tuple[str, str]) -> dict[str, Any]:
    """Return the member `object` of an event; `names` are its members for ETag and version (EventBridge differs)."""
    etag_name, version_name = names
    is_for_bus = etag_name == "etag"
    key = event.key if is_for_bus else quote_plus(event.key, safe="/")
    members: dict[str, Any] = {"key": key}
    if event.name not in _WITHOUT_SIZE:
        members["size"] = event.size_bytes
    if event.name not in _WITHOUT_ETAG:
        members[etag_name] = event.etag or _MARKERS_ETAG
    if event.version_id:
        members[version_name] = event.version_id
    is_restoration = event.name in (RESTORE_ASKED, RESTORED)
    if event.name not in _WITHOUT_SEQUENCER and not (is_for_bus and is_restoration):
        members["sequencer"] = f"{number:016X}"
    return members


def _unusable_targets(refused: list[tuple[str, str, bool]]) -> AwsError:
    """Return the error for targets that do not exist or do not let S3 send; observed for queues (aws-cli#8162)."""
    members: dict[str, str] = {}
    for number, (service, arn, exists) in enumerate(refused, 1):
        is_function = service == "lambda"
        kind = {"sqs": "queue", "sns": "topic"}.get(service, "")
        members[f"ArgumentName{number}"] = f"{arn}, null" if is_function else arn
        members[f"ArgumentValue{number}"] = (
            f"Not authorized to invoke function [{arn}]"
            if is_function
            else f"Permissions on the destination {kind} do not allow S3 to publish notifications from this bucket"
            if exists
            else f"The destination {kind} does not exist"
        )
    sentence = "Unable to validate the following destination configurations"
    return AwsError("InvalidArgument", sentence, 400, members)


def _compact(value: object) -> str:
    """Return JSON as S3 writes it to targets: without spaces (observed by others)."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
