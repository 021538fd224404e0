"""Every owned service against botocore's model."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.aws.calls.operation import service_model
from headrace.aws.protocols.owned_service import check_api
from tests.support.cloud import InProcessCloud
from tests.support.owned import OWNED


@pytest.mark.skipif(
    "CreateQueue" not in service_model("kinesis").operation_names,
    reason="the lowest botocore does not know queues",
)
def test_services_declare_only_operations_that_aws_has(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        apis = cloud.cloud.gateway.owned
        assert sorted(apis) == list(OWNED)
        for api in apis.values():
            check_api(api)
            assert len(api.by_name()) == len(api.actions)
