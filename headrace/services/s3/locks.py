"""Object Lock: the retention and the legal hold of versions, and the checks that they require.

Source (documented): docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html. The error messages are observed in
AWS's recorded answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.shapes.s3 import DefaultRetention, ObjectLockConfiguration, ObjectLockRule
from headrace.core.values import moment
from headrace.services.s3.encryption import is_true
from headrace.services.s3.errors import invalid_argument, invalid_request
from headrace.services.s3.state import Bucket, StoredObject

NAME = "ObjectLockConfiguration"
MODES = ("GOVERNANCE", "COMPLIANCE")
_DAYS_OF_A_YEAR = 365
# A hundred years, documented in object-lock-managing.html; the error messages about the period are assumed.
_MOST_DAYS = 100 * _DAYS_OF_A_YEAR
_MODE_HEADER = "x-amz-object-lock-mode"
_DATE_HEADER = "x-amz-object-lock-retain-until-date"
_BYPASS_HEADER = "x-amz-bypass-governance-retention"
_PACIFIC = timezone(timedelta(hours=-8), "PST")


def is_locking(bucket: Bucket) -> bool:
    """Whether a bucket has Object Lock enabled."""
    return NAME in bucket.configurations


def check_locking(bucket: Bucket) -> None:
    """Refuse an operation that needs a bucket with Object Lock. Raises AwsError InvalidRequest."""
    if not is_locking(bucket):
        raise invalid_request("Bucket is missing Object Lock Configuration")


def parse_date(value: Any) -> datetime | None:
    """Return the date in a parameter, which may be a datetime or ISO 8601 text, or None for anything else."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        parsed = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def build_write_fields(params: Mapping[str, Any], bucket: Bucket, now_ms: int) -> dict[str, Any]:
    """Return the fields `retention` and `legal_hold` of a new object. Raises AwsError."""
    mode, until = params.get("ObjectLockMode"), params.get("ObjectLockRetainUntilDate")
    hold = params.get("ObjectLockLegalHoldStatus") or ""
    if mode or until:
        _check_pair(mode, until)
    if (mode or until or hold) and not is_locking(bucket):
        raise invalid_request("Bucket is missing Object Lock Configuration")
    if hold and hold not in ("ON", "OFF"):
        raise invalid_argument(
            "Legal Hold must be either of 'ON' or 'OFF'", "x-amz-object-lock-legal-hold", hold
        )
    lock: dict[str, Any] = {"legal_hold": hold} if hold else {}
    if mode:
        date = parse_date(until)
        if date is None:
            raise invalid_argument(
                "The retain until date must be provided in ISO 8601 format",
                _DATE_HEADER,
                str(until),
            )
        _check_future(date, now_ms, _DATE_HEADER)
        lock["retention"] = {"Mode": str(mode), "RetainUntilDate": _render_date(date)}
    elif is_locking(bucket):
        default = _find_default(bucket)
        if default:
            days = int(default.get("Days") or int(default["Years"]) * _DAYS_OF_A_YEAR)
            date = moment(now_ms) + timedelta(days=days)
            lock["retention"] = {"Mode": default["Mode"], "RetainUntilDate": _render_date(date)}
    return lock


def _check_pair(mode: Any, until: Any) -> None:
    if not mode or not until:
        raise AwsError(
            "InvalidArgument",
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
            400,
            {"ArgumentName": _DATE_HEADER if mode else _MODE_HEADER},
        )
    if mode not in MODES:
        raise invalid_argument("Unknown wormMode directive.", _MODE_HEADER, str(mode))


def _find_default(bucket: Bucket) -> dict[str, Any]:
    rule: dict[str, Any] = bucket.configurations[NAME].get("Rule") or {}
    return rule.get("DefaultRetention") or {}


def _render_date(date: datetime) -> str:
    return date.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _check_future(date: datetime, now_ms: int, name: str) -> None:
    if date.timestamp() * 1000 <= now_ms:
        # AWS writes the date in Java's format and in Pacific time.
        shown = date.astimezone(_PACIFIC).strftime("%a %b %d %H:%M:%S PST %Y")
        raise invalid_argument("The retain until date must be in the future!", name, shown)


def check_deletion(
    stored: StoredObject, bucket: Bucket, now_ms: int, *, bypass: bool = False
) -> None:
    """Refuse to delete a version that is locked. Raises AwsError AccessDenied."""
    if not is_locking(bucket):
        return
    if stored.legal_hold == "ON":
        raise build_denied_error()
    if _is_retained(stored, now_ms):
        mode = stored.retention["Mode"]
        if mode == "COMPLIANCE" or not bypass:
            raise build_denied_error()


def is_locked(stored: StoredObject, bucket: Bucket, now_ms: int) -> bool:
    """Whether retention or a legal hold protects a version from deletion."""
    return is_locking(bucket) and (stored.legal_hold == "ON" or _is_retained(stored, now_ms))


def check_bypass(bucket: Bucket, bypass: Any) -> None:
    """Refuse the bypass header in a bucket without Object Lock. Raises AwsError InvalidArgument."""
    if bypass is not None and not is_locking(bucket):
        raise AwsError(
            "InvalidArgument",
            f"{_BYPASS_HEADER} is only applicable to Object Lock enabled buckets.",
            400,
            {"ArgumentName": _BYPASS_HEADER},
        )


def _is_retained(stored: StoredObject, now_ms: int) -> bool:
    until = parse_date(stored.retention.get("RetainUntilDate")) if stored.retention else None
    return until is not None and until.timestamp() * 1000 > now_ms


def check_new_retention(
    stored: StoredObject, retention: Mapping[str, Any], now_ms: int, bypass: Any
) -> dict[str, str]:
    """Return a version's retention after PutObjectRetention, or {} when the request removes it. Raises AwsError."""
    mode, until = retention.get("Mode"), retention.get("RetainUntilDate")
    if bool(mode) != bool(until) or (mode and mode not in MODES):
        raise build_malformed_xml()
    date = parse_date(until) if until else None
    if until and date is None:
        raise build_malformed_xml()
    if date is not None:
        _check_future(date, now_ms, "RetainUntilDate")
    if _is_retained(stored, now_ms):
        present = parse_date(stored.retention["RetainUntilDate"])
        is_longer = date is not None and present is not None and date >= present
        is_softer = stored.retention["Mode"] == "COMPLIANCE" and mode != "COMPLIANCE"
        may_bypass = stored.retention["Mode"] == "GOVERNANCE" and is_true(bypass)
        changes_mode = mode != stored.retention["Mode"]
        if not may_bypass and (not is_longer or is_softer or changes_mode):
            raise build_denied_error()
    return {} if date is None else {"Mode": str(mode), "RetainUntilDate": _render_date(date)}


def build_denied_error() -> AwsError:
    """The version is locked."""
    return AwsError("AccessDenied", "Access Denied because object protected by object lock.", 403)


def no_lock() -> AwsError:
    """The version has neither a retention nor a legal hold."""
    return AwsError(
        "NoSuchObjectLockConfiguration",
        "The specified object does not have a ObjectLock configuration",
        404,
    )


def render_headers(stored: StoredObject) -> list[tuple[str, str]]:
    """Return the headers with a version's retention and legal hold."""
    pairs: list[tuple[str, str]] = []
    if stored.retention:
        pairs.append((_MODE_HEADER, stored.retention["Mode"]))
        pairs.append((_DATE_HEADER, stored.retention["RetainUntilDate"]))
    if stored.legal_hold:
        pairs.append(("x-amz-object-lock-legal-hold", stored.legal_hold))
    return pairs


def check_configuration(value: ObjectLockConfiguration, bucket: Bucket) -> None:
    """Check a bucket's Object Lock configuration as AWS does. Raises AwsError."""
    if value.get("ObjectLockEnabled") != "Enabled":
        raise build_malformed_xml()
    if "Rule" in value:
        rule: ObjectLockRule = value["Rule"] or {}
        default: DefaultRetention = rule.get("DefaultRetention") or {}
        has_one = bool(default.get("Days")) != bool(default.get("Years"))
        if default.get("Mode") not in MODES or not has_one:
            raise build_malformed_xml()
        days = int(default.get("Days") or 0) + int(default.get("Years") or 0) * _DAYS_OF_A_YEAR
        if not 0 < days <= _MOST_DAYS:
            raise invalid_argument(
                "Default retention period must be a positive integer value"
                if days < 0
                else "Default retention period is too large",
                "Days" if default.get("Days") else "Years",
                str(default.get("Days") or default.get("Years")),
            )
    if bucket.versioning != "Enabled":
        raise AwsError(
            "InvalidBucketState",
            "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
            409,
        )
