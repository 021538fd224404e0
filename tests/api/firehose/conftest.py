"""A client of a file's own cloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud


@pytest.fixture
def firehose(cloud: InProcessCloud) -> Iterator[Any]:
    """Yield a client; its streams are deleted after each test, for the cloud serves the whole file."""
    client = cloud.client("firehose")
    yield client
    for name in client.list_delivery_streams()["DeliveryStreamNames"]:
        client.delete_delivery_stream(DeliveryStreamName=name)
