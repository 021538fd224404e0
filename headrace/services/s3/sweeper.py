"""The worker that applies lifecycle rules: expires versions and uploads, and moves objects to other storage classes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from headrace.aws.shapes.s3 import (
    AbortIncompleteMultipartUpload,
    LifecycleExpiration,
    LifecycleRule,
    NoncurrentVersionExpiration,
)
from headrace.core.clock import Clock
from headrace.services.s3 import lifecycle, locks
from headrace.services.s3.backend import S3
from headrace.services.s3.history import ListedVersion
from headrace.services.s3.notifications import TRANSITIONED
from headrace.services.s3.state import Bucket, Marker, StoredObject

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
            rules = lifecycle.list_rules(bucket)
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
            expiration = lifecycle.find_expiration(stored, bucket)
            if expiration is not None and expiration[0] <= now_ms:
                self._s3.expire(stored)
                continue
            storage_class = lifecycle.find_due_storage_class(stored, bucket, now_ms)
            if storage_class:
                with self._s3.files.lock:
                    self._s3.update(replace(stored, storage_class=storage_class))
                self._s3.notify(TRANSITIONED, stored)

    def _sweep_noncurrent(
        self, name: str, bucket: Bucket, rule: LifecycleRule, now_ms: int
    ) -> None:
        prefix = lifecycle.find_prefix(rule)
        by_key: dict[str, list[ListedVersion]] = {}
        for listed in self._s3.histories.scan(name, prefix, ""):
            by_key.setdefault(listed.version.key, []).append(listed)
        timing: NoncurrentVersionExpiration = rule.get("NoncurrentVersionExpiration") or {}
        for key, versions in by_key.items():
            kept = int(timing.get("NewerNoncurrentVersions") or 0)
            for newer, listed in pairwise(versions):
                # A version became noncurrent when the next newer one was made.
                due = lifecycle.compute_due_ms(
                    timing, newer.version.last_modified_ms, "NoncurrentDays"
                )
                if due is None or due > now_ms or not self._matches(rule, listed):
                    continue
                if kept > 0:
                    kept -= 1
                    continue
                self._remove(name, bucket, listed, now_ms)
            self._remove_lone_marker(name, key, rule)

    def _matches(self, rule: LifecycleRule, listed: ListedVersion) -> bool:
        return isinstance(listed.version, Marker) or lifecycle.matches(rule, listed.version)

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
        for upload in self._s3.uploads.list(name, lifecycle.find_prefix(rule)):
            due = lifecycle.compute_due_ms(timing, upload.initiated_ms, "DaysAfterInitiation")
            if due is not None and due <= now_ms:
                self._s3.uploads.remove(upload)
