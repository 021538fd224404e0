"""boto3 clients for a benchmark's cloud."""

from __future__ import annotations

from typing import Any, cast

import boto3
from botocore.config import Config

ACCOUNT = "000000000000"


def client_of(service: str, port: int, **config: Any) -> Any:
    """Return a client for the cloud on `port` that never retries; `config` goes to botocore's `Config`."""
    make: Any = cast("Any", boto3).client
    return make(
        service,
        region_name="us-east-1",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=ACCOUNT,
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, **config),
    )
