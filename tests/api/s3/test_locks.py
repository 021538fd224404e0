"""Bounds of retention: a period that no date can hold is refused, so that objects can still be put."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.helpers import S3Lab
from tests.support.clock import FakeClock


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[S3Lab]:
    lab = S3Lab(tmp_path, FakeClock())
    yield lab
    lab.stop()


@pytest.mark.parametrize("period", [{"Days": -1}, {"Days": 2**31 - 1}, {"Years": 101}])
def test_a_default_retention_is_at_most_a_hundred_years(lab: S3Lab, period: dict[str, int]):
    """Documented: object-lock-managing.html. The error is assumed."""
    client = lab.client()
    client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)

    def put(**default: Any) -> None:
        rule = {"DefaultRetention": {"Mode": "GOVERNANCE", **default}}
        client.put_object_lock_configuration(
            Bucket="locked",
            ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule},
        )

    with pytest.raises(ClientError) as caught:
        put(**period)
    assert caught.value.response.get("Error", {}).get("Code") == "InvalidArgument"
    put(Years=100)
    client.put_object(Bucket="locked", Key="k", Body=b"x")
    held = client.get_object_retention(Bucket="locked", Key="k")["Retention"]
    assert held["RetainUntilDate"].year > 2100


def test_a_restored_copy_is_kept_for_days_that_a_date_can_hold(lab: S3Lab):
    client = lab.client()
    client.create_bucket(Bucket="archive")
    client.put_object(Bucket="archive", Key="k", Body=b"x", StorageClass="GLACIER")
    with pytest.raises(ClientError) as caught:
        client.restore_object(Bucket="archive", Key="k", RestoreRequest={"Days": 2**31 - 1})
    assert caught.value.response.get("Error", {}).get("Code") == "MalformedXML"
    client.restore_object(Bucket="archive", Key="k", RestoreRequest={"Days": 36_500})
    assert client.head_object(Bucket="archive", Key="k")["Restore"]
