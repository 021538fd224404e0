"""Endpoint discovery: DescribeEndpoints names this cloud, so that no client goes on to AWS with its next call.

Clients of Timestream ask always, those of DynamoDB where they are told to; botocore follows the answer even with an
endpoint of its own in `AWS_ENDPOINT_URL`. AWS's address has no scheme. Here it has one: without it, botocore and AWS's
SDK for Go would take https. SDKs that always write their own scheme before it do not ask where their endpoint is set
(documented for C++: github.com/aws/aws-sdk-cpp/pull/2567).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

# moto's module of responses -> its class.
_CLASSES = {
    "moto.dynamodb.responses": "DynamoHandler",
    "moto.timestreamwrite.responses": "TimestreamWriteResponse",
}
MODULES = tuple(_CLASSES)


def name_own_endpoint(module: Any) -> None:
    """Answer DescribeEndpoints with the address that the request was sent to."""
    getattr(module, _CLASSES[module.__name__]).describe_endpoints = _describe_endpoints


def _describe_endpoints(self: Any) -> str:
    address = f"http://{urlsplit(str(self.uri)).netloc}"
    return json.dumps({"Endpoints": [{"Address": address, "CachePeriodInMinutes": 1440}]})
