"""A second thing of a name is refused, and the first stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

KEY = {"ApiKeyAuthParameters": {"ApiKeyName": "a", "ApiKeyValue": "b"}}
CONNECTION = f"arn:aws:events:{REGION}:{ACCOUNT}:connection/n/x"
CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("dms", "create_endpoint", {"EndpointIdentifier": "n", "EndpointType": "source", "EngineName": "mysql"},
        "ResourceAlreadyExistsFault"),
    ("events", "create_connection", {"Name": "n", "AuthorizationType": "API_KEY", "AuthParameters": KEY},
        "ResourceAlreadyExistsException"),
    ("events", "create_api_destination", {"Name": "n", "ConnectionArn": CONNECTION,
        "InvocationEndpoint": "https://example.com", "HttpMethod": "POST"}, "ResourceAlreadyExistsException"),
    ("scheduler", "create_schedule_group", {"Name": "n"}, "ConflictException"),
    ("autoscaling", "create_launch_configuration",
        {"LaunchConfigurationName": "n", "ImageId": "ami-1", "InstanceType": "t3.micro"}, "AlreadyExists"),
    ("glue", "create_workflow", {"Name": "n"}, "AlreadyExistsException"),
    ("servicediscovery", "create_http_namespace", {"Name": "n"}, "NamespaceAlreadyExists"),
]  # fmt: skip


def test_a_name_is_given_once(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        for service, call, parameters, code in CALLS:
            create = getattr(cloud.client(service), call)
            create(**parameters)
            with pytest.raises(ClientError) as refused:
                create(**parameters)
            assert refused.value.response["Error"]["Code"] == code, call
        # Another account's are its own.
        other = cloud.client("scheduler", account="111111111111")
        assert other.create_schedule_group(Name="n")["ScheduleGroupArn"]
        # A service's name is its namespace's own.
        discovery = cloud.client("servicediscovery")
        discovery.create_http_namespace(Name="other")
        of_first, of_other = (one["Id"] for one in discovery.list_namespaces()["Namespaces"])
        for namespace in (of_first, of_other):
            discovery.create_service(Name="api", NamespaceId=namespace)
        with pytest.raises(discovery.exceptions.ServiceAlreadyExists):
            discovery.create_service(Name="api", NamespaceId=of_other)
