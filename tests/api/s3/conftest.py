"""One S3 a test, with a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.s3.helpers import S3Lab
from tests.support.clock import FakeClock

BUCKET = "bucket-one"


@pytest.fixture
def lab(data_dir: Path, clock: FakeClock) -> Iterator[S3Lab]:
    """A started S3."""
    lab = S3Lab(data_dir, clock)
    yield lab
    lab.stop()


@pytest.fixture
def s3(lab: S3Lab) -> Any:
    """A client, and `bucket-one`."""
    client = lab.client()
    client.create_bucket(Bucket=BUCKET)
    return client
