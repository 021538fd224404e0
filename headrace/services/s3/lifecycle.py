"""Lifecycle rules: checks them as AWS does, and computes which objects they apply to and when. Pure functions.

Sources (documented): docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html and
lifecycle-expire-general-considerations.html. The errors are observed in AWS's recorded answers.

The worker that applies lifecycle rules: expires versions and uploads, and moves objects to other storage classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any, cast
from urllib.parse import quote

from headrace.aws.calls.errors import build_malformed_xml
from headrace.aws.shapes.s3 import (
    AbortIncompleteMultipartUpload,
    BucketLifecycleConfiguration,
    LifecycleExpiration,
    LifecycleRule,
    LifecycleRuleFilter,
    NoncurrentVersionExpiration,
    Transition,
)
from headrace.core.clock import Clock
from headrace.core.values import moment
from headrace.services.s3 import locks
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_argument, invalid_request
from headrace.services.s3.history import ListedVersion
from headrace.services.s3.notifications import TRANSITIONED
from headrace.services.s3.state import Bucket, Marker, StoredObject

NAME = "BucketLifecycleConfiguration"
SIZES = "TransitionDefaultMinimumObjectSize"
DEFAULT_SIZES = "all_storage_classes_128K"
_SMALLEST_MOVED_BYTES = 128 * 1024
_ID_CHARACTERS = 255
_ACTIONS = (
    "Expiration",
    "Transitions",
    "NoncurrentVersionExpiration",
    "NoncurrentVersionTransitions",
    "AbortIncompleteMultipartUpload",
)


def check(configuration: BucketLifecycleConfiguration) -> None:
    """Check a lifecycle configuration as AWS does. Raises AwsError MalformedXML, InvalidArgument, InvalidRequest."""
    rules = configuration.get("Rules") or []
    if not rules:
        raise build_malformed_xml()
    for rule in rules:
        _check_rule(rule)
    ids = [rule.get("ID") for rule in rules if rule.get("ID")]
    if len(set(ids)) < len(ids):
        raise invalid_argument("Rule ID must be unique. Found same ID for more than one rule")


def _check_rule(rule: LifecycleRule) -> None:
    rule_filter = rule.get("Filter")
    has_filter = rule_filter is not None
    if rule.get("Status") not in ("Enabled", "Disabled") or has_filter == ("Prefix" in rule):
        raise build_malformed_xml()
    if len(rule.get("ID") or "") > _ID_CHARACTERS:
        raise invalid_argument("ID length should not exceed allowed limit of 255")
    if rule_filter is not None:
        _check_filter(rule_filter)
    if not any(rule.get(name) for name in _ACTIONS):
        raise build_malformed_xml()
    expiration = rule.get("Expiration")
    if expiration is not None:
        if len([value for value in expiration.values() if value is not None]) != 1:
            raise build_malformed_xml()
        _check_days(expiration)
    noncurrent = rule.get("NoncurrentVersionExpiration")
    if noncurrent is not None and not noncurrent.get("NoncurrentDays"):
        raise build_malformed_xml()
    for transition in rule.get("Transitions") or ():
        _check_days(transition, least=0)


def _check_days(timing: LifecycleExpiration | Transition, least: int = 1) -> None:
    date = timing.get("Date")
    if date is not None:
        parsed = _parse_date(date)
        if parsed is None:
            raise build_malformed_xml()
        if (parsed.hour, parsed.minute, parsed.second, parsed.microsecond) != (0, 0, 0, 0):
            date_text = parsed.strftime("%Y-%m-%dT%H:%M:%S.") + f"{parsed.microsecond // 1000:03d}Z"
            raise invalid_argument("'Date' must be at midnight GMT", "Date", date_text)
    days = timing.get("Days")
    if days is not None and int(days) < least:
        kind = "Expiration" if least else "Transition"
        raise invalid_argument(f"'Days' for {kind} action must be a positive integer")


def _check_filter(rule_filter: LifecycleRuleFilter) -> None:
    if sum(value is not None for value in rule_filter.values()) > 1:
        raise build_malformed_xml()
    both = rule_filter.get("And")
    if both is not None:
        tags = both.get("Tags") or []
        others = [name for name in both if name != "Tags"]
        if len(tags) + len(others) < 2:
            raise build_malformed_xml()
        keys = [tag["Key"] for tag in tags]
        if len(set(keys)) < len(keys):
            raise invalid_request("Duplicate Tag Keys are not allowed.")


def list_rules(bucket: Bucket) -> list[LifecycleRule]:
    """Return the enabled lifecycle rules of a bucket."""
    configuration: dict[str, Any] = bucket.configurations.get(NAME) or {}
    rules: list[LifecycleRule] = configuration.get("Rules") or []
    return [rule for rule in rules if rule["Status"] == "Enabled"]


def matches(rule: LifecycleRule, stored: StoredObject) -> bool:
    """Whether a rule's filter takes an object."""
    return all(_is_met(name, value, stored) for name, value in _list_conditions(rule))


def _list_conditions(rule: LifecycleRule) -> Iterator[tuple[str, Any]]:
    rule_filter: LifecycleRuleFilter = rule.get("Filter") or {"Prefix": rule.get("Prefix") or ""}
    for name, value in rule_filter.items():
        if name == "And":
            both = cast("dict[str, Any]", value or {})
            yield from both.items()
        else:
            yield name, value


def find_prefix(rule: LifecycleRule) -> str:
    """Return the key prefix in a rule's filter, or "" when the filter has none."""
    return next(
        (str(value or "") for name, value in _list_conditions(rule) if name == "Prefix"), ""
    )


def _is_met(name: str, value: Any, stored: StoredObject) -> bool:
    if name == "Prefix":
        return stored.key.startswith(value or "")
    if name == "Tag":
        return stored.tags.get(value["Key"]) == value["Value"]
    if name == "Tags":
        return all(stored.tags.get(tag["Key"]) == tag["Value"] for tag in value)
    if name == "ObjectSizeGreaterThan":
        return stored.size_bytes > int(value)
    if name == "ObjectSizeLessThan":
        return stored.size_bytes < int(value)
    return True


def compute_due_ms(timing: Mapping[str, Any], since_ms: int, days_name: str = "Days") -> int | None:
    """Return when an action is due: at its date, or at the midnight after its days; None if it has neither."""
    date = _parse_date(timing.get("Date"))
    if date is not None:
        return round(date.timestamp() * 1000)
    days = timing.get(days_name)
    if days is None:
        return None
    return round(_compute_midnight_after(since_ms, int(days)).timestamp() * 1000)


def _compute_midnight_after(since_ms: int, days: int) -> datetime:
    due = moment(since_ms) + timedelta(days=days)
    midnight = due.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if midnight == due else midnight + timedelta(days=1)


def _parse_date(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    try:
        parsed = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def find_expiration(stored: StoredObject, bucket: Bucket) -> tuple[int, str] | None:
    """Return when an object expires and the ID of the rule that says so, or None when no rule does."""
    expirations: list[tuple[int, str]] = []
    for rule in list_rules(bucket):
        when = compute_due_ms(rule.get("Expiration") or {}, stored.last_modified_ms)
        if when is not None and matches(rule, stored):
            expirations.append((when, str(rule.get("ID") or "")))
    return min(expirations, default=None)


def expiration_header(stored: StoredObject, bucket: Bucket) -> list[tuple[str, str]]:
    """Return the header x-amz-expiration of an object, or [] when no rule expires the object."""
    due = find_expiration(stored, bucket) if NAME in bucket.configurations else None
    if due is None:
        return []
    date = format_datetime(moment(due[0]), usegmt=True)
    return [("x-amz-expiration", f'expiry-date="{date}", rule-id="{quote(due[1])}"')]


def find_due_storage_class(stored: StoredObject, bucket: Bucket, now_ms: int) -> str:
    """Return the storage class that an object must move to now, or "" for none. Small objects do not move."""
    configuration: dict[str, Any] = bucket.configurations.get(NAME) or {}
    if stored.size_bytes < _SMALLEST_MOVED_BYTES and (
        configuration.get(SIZES, DEFAULT_SIZES) == DEFAULT_SIZES
    ):
        return ""
    due: list[tuple[int, str]] = []
    for rule in list_rules(bucket):
        if matches(rule, stored):
            for transition in rule.get("Transitions") or ():
                when = compute_due_ms(transition, stored.last_modified_ms)
                if when is not None and when <= now_ms:
                    due.append((when, transition.get("StorageClass", "")))
    storage_class = max(due, default=(0, ""))[1]
    return "" if storage_class == stored.storage_class else storage_class


# AWS applies lifecycle rules once a day, at midnight, so actions become due only at midnight.
LOOK_EVERY_S = 3600.0


class Sweeper:
    """A `Worker` that applies the lifecycle rules of every bucket. Only one thread runs it.

    Args:
        s3: the buckets and objects.
        clock: the time that decides which actions are due.
    """

    name = "s3-lifecycle"

    def __init__(self, s3: S3, clock: Clock) -> None:
        self._s3 = s3
        self._clock = clock

    def step(self) -> float:
        """Do all actions that are due; see `Worker.step`."""
        now_ms = self._clock.now_ms()
        for name, bucket in self._s3.buckets().items():
            rules = list_rules(bucket)
            if not rules:
                continue
            self._sweep_current(name, bucket, now_ms)
            if bucket.versioning:
                for rule in rules:
                    self._sweep_noncurrent(name, bucket, rule, now_ms)
            for rule in rules:
                self._sweep_uploads(name, rule, now_ms)
        return LOOK_EVERY_S

    def _sweep_current(self, name: str, bucket: Bucket, now_ms: int) -> None:
        for stored in self._s3.files.scan(name):
            expiration = find_expiration(stored, bucket)
            if expiration is not None and expiration[0] <= now_ms:
                self._s3.expire(stored)
                continue
            storage_class = find_due_storage_class(stored, bucket, now_ms)
            if storage_class:
                with self._s3.files.lock:
                    self._s3.update(replace(stored, storage_class=storage_class))
                self._s3.notify(TRANSITIONED, stored)

    def _sweep_noncurrent(
        self, name: str, bucket: Bucket, rule: LifecycleRule, now_ms: int
    ) -> None:
        prefix = find_prefix(rule)
        by_key: dict[str, list[ListedVersion]] = {}
        for listed in self._s3.histories.scan(name, prefix, ""):
            by_key.setdefault(listed.version.key, []).append(listed)
        timing: NoncurrentVersionExpiration = rule.get("NoncurrentVersionExpiration") or {}
        for key, versions in by_key.items():
            kept = int(timing.get("NewerNoncurrentVersions") or 0)
            for newer, listed in pairwise(versions):
                # A version became noncurrent when the next newer one was made.
                due = compute_due_ms(timing, newer.version.last_modified_ms, "NoncurrentDays")
                if due is None or due > now_ms or not self._matches(rule, listed):
                    continue
                if kept > 0:
                    kept -= 1
                    continue
                self._remove(name, bucket, listed, now_ms)
            self._remove_lone_marker(name, key, rule)

    def _matches(self, rule: LifecycleRule, listed: ListedVersion) -> bool:
        return isinstance(listed.version, Marker) or matches(rule, listed.version)

    def _remove(self, name: str, bucket: Bucket, listed: ListedVersion, now_ms: int) -> None:
        version = listed.version
        if isinstance(version, StoredObject) and locks.is_locked(version, bucket, now_ms):
            return
        self._s3.expire_version(name, version.key, version.version_id)

    def _remove_lone_marker(self, name: str, key: str, rule: LifecycleRule) -> None:
        """Remove a delete marker that is the only version left, if a rule says so (ExpiredObjectDeleteMarker)."""
        expiration: LifecycleExpiration = rule.get("Expiration") or {}
        if not expiration.get("ExpiredObjectDeleteMarker"):
            return
        left = list(self._s3.histories.of_key(name, key))
        if len(left) == 1 and isinstance(left[0].version, Marker):
            self._s3.expire_version(name, key, left[0].version.version_id)

    def _sweep_uploads(self, name: str, rule: LifecycleRule, now_ms: int) -> None:
        timing: AbortIncompleteMultipartUpload = rule.get("AbortIncompleteMultipartUpload") or {}
        for upload in self._s3.uploads.list(name, find_prefix(rule)):
            due = compute_due_ms(timing, upload.initiated_ms, "DaysAfterInitiation")
            if due is not None and due <= now_ms:
                self._s3.uploads.remove(upload)
