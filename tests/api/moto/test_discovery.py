"""Clients that discover their endpoint stay in this cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.moto_lab import MotoLab


@pytest.mark.parametrize("service", ["timestream-write", "timestream-query", "dynamodb"])
def test_a_discovered_endpoint_is_this_clouds(tmp_path: Path, service: str) -> None:
    with MotoLab(tmp_path / "moto") as lab:
        client: Any = lab.client(service)
        (endpoint,) = client.describe_endpoints()["Endpoints"]
        queue = lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        assert queue.startswith(f"{endpoint['Address']}/")
