"""The operations of object lock, and RestoreObject."""

from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from typing import Any, cast

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.s3 import (
    GetObjectLegalHoldInput,
    GetObjectLegalHoldOutput,
    GetObjectRetentionInput,
    GetObjectRetentionOutput,
    PutObjectLegalHoldInput,
    PutObjectLegalHoldOutput,
    PutObjectRetentionInput,
    PutObjectRetentionOutput,
    RestoreObjectInput,
    RestoreObjectOutput,
)
from headrace.core.values import moment
from headrace.services.s3 import locks
from headrace.services.s3.actions.objects import find_object_or_marker
from headrace.services.s3.backend import S3
from headrace.services.s3.notifications import RESTORE_ASKED, RESTORED, ObjectEvent
from headrace.services.s3.state import EmptyAnswer, StoredObject
from headrace.services.s3.writes import ARCHIVES


def _find_lockable(s3: S3, request: Any) -> StoredObject:
    holder = s3.bucket(request["Bucket"])
    stored = find_object_or_marker(s3, request)
    locks.check_locking(holder)
    return stored


@operation("PutObjectRetention")
def put_object_retention(
    s3: S3, call: Call, request: PutObjectRetentionInput
) -> PutObjectRetentionOutput:
    """Set a version's retention: it cannot be deleted before a date. Source: API_PutObjectRetention."""
    with s3.files.lock:
        stored = _find_lockable(s3, request)
        requested = cast("dict[str, Any]", request.get("Retention") or {})
        bypass = request.get("BypassGovernanceRetention")
        retention = locks.check_new_retention(stored, requested, call.now_ms, bypass)
        s3.update(replace(stored, retention=retention))
    return {}


@operation("GetObjectRetention")
def get_object_retention(
    s3: S3, call: Call, request: GetObjectRetentionInput
) -> GetObjectRetentionOutput:
    """Return a version's retention. Source: API_GetObjectRetention."""
    stored = _find_lockable(s3, request)
    if not stored.retention:
        raise locks.no_lock()
    until = locks.parse_date(stored.retention["RetainUntilDate"])
    retention = {"Mode": stored.retention["Mode"], "RetainUntilDate": until}
    return cast("GetObjectRetentionOutput", {"Retention": retention})


@operation("PutObjectLegalHold")
def put_object_legal_hold(
    s3: S3, call: Call, request: PutObjectLegalHoldInput
) -> PutObjectLegalHoldOutput:
    """Turn a version's legal hold on or off: a held version cannot be deleted. Source: API_PutObjectLegalHold."""
    with s3.files.lock:
        stored = _find_lockable(s3, request)
        status = (request.get("LegalHold") or {}).get("Status")
        if status not in ("ON", "OFF"):
            raise malformed_xml()
        s3.update(replace(stored, legal_hold=status))
    return {}


@operation("GetObjectLegalHold")
def get_object_legal_hold(
    s3: S3, call: Call, request: GetObjectLegalHoldInput
) -> GetObjectLegalHoldOutput:
    """Return whether a version's legal hold is on. Source: API_GetObjectLegalHold."""
    stored = _find_lockable(s3, request)
    if not stored.legal_hold:
        raise locks.no_lock()
    return {"LegalHold": {"Status": stored.legal_hold}}


@operation("RestoreObject")
def restore_object(s3: S3, call: Call, request: RestoreObjectInput) -> RestoreObjectOutput:
    """Make an archived object readable for some days; it is readable at once. Source: API_RestoreObject."""
    with s3.files.lock:
        stored = find_object_or_marker(s3, request)
        if stored.storage_class not in ARCHIVES:
            raise AwsError(
                "InvalidObjectState",
                "Restore is not allowed for the object's current storage class",
                403,
                {"StorageClass": stored.storage_class},
            )
        days = int((request.get("RestoreRequest") or {}).get("Days") or 0)
        # AWS does not document its limit; a hundred years is longer than anyone needs.
        if not 1 <= days <= 36_500:
            raise malformed_xml()
        was_restored = bool(stored.restored_until)
        # AWS rounds up to the next midnight.
        until = moment(call.now_ms) + timedelta(days=days + 1)
        until = until.replace(hour=0, minute=0, second=0, microsecond=0)
        s3.update(replace(stored, restored_until=format_datetime(until, usegmt=True)))
        if not was_restored:
            holder = s3.bucket(stored.bucket)
            glacier = {
                "storage_class": stored.storage_class,
                "expiry": until.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            }
            asked = ObjectEvent.of(RESTORE_ASKED, stored, holder)
            s3.notifications.keep(asked, holder)
            done = replace(ObjectEvent.of(RESTORED, stored, holder), glacier=glacier)
            s3.notifications.keep(done, holder)
    # Documented: 202 the first time; 200 when a restored copy exists already and its expiry date changes.
    return cast("RestoreObjectOutput", EmptyAnswer(200 if was_restored else 202))
