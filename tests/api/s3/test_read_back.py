"""Every member that a configuration of a bucket takes is read back. See `tests.support.read_back`."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.s3.actions import ACTIONS
from headrace.services.s3.api import FIDELITY
from tests.api.s3.read_back_cases import (
    CASES,
    SENT,
)
from tests.support.read_back import Case, check, never_given, not_read_back, overlooked

ELSEWHERE = {
    "CreateBucket": "tests/conformance/s3: GetBucketLocation, GetBucketOwnershipControls, GetObjectLockConfiguration",
    "CreateMultipartUpload": "tests/conformance/s3/checksums_and_parts.json",
    "PutBucketAcl": "tests/conformance/s3/access.json",
    "PutBucketEncryption": "tests/conformance/s3/encryption.json",
    "PutObject": "tests/conformance/s3, all topics",
    "PutObjectAcl": "tests/conformance/s3/access.json",
    "PutObjectLegalHold": "tests/conformance/s3/locks.json",
    "PutObjectLockConfiguration": "tests/conformance/s3/locks.json",
    "PutObjectRetention": "tests/conformance/s3/locks.json",
}


@pytest.mark.parametrize("given", CASES, ids=lambda one: one.operation)
def test_what_a_call_takes_is_read_back(s3: Any, given: Case):
    assert check("s3", given, s3, FIDELITY) == []


def test_every_call_that_keeps_something_is_read_back():
    assert not_read_back("s3", ACTIONS, CASES) == sorted(ELSEWHERE)
    assert overlooked("s3", CASES) == []
    never = never_given("s3", CASES)
    assert [name for name in never if name.partition(".")[2] not in SENT] == [
        "PutObjectTagging.VersionId",
    ]
