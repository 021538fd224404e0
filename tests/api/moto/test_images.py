"""ECR through moto: nothing is built or pushed."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab


def test_who_would_push_an_image_is_told_what_to_do_instead(tmp_path: Path):
    """The CDK CLI and the SAM CLI ask for this log-in before they build."""
    with MotoLab(tmp_path / "moto") as lab, pytest.raises(ClientError) as refused:
        lab.client("ecr").get_authorization_token()
    answer = refused.value.response
    assert answer["Error"]["Code"] == "NotImplemented"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert "deploy it as a zip (CDK: Function with Code.fromAsset" in answer["Error"]["Message"]
