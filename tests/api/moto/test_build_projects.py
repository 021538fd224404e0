"""CodeBuild's projects: the types of AWS's model, and those that a pipeline starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

BUILT = {"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[MotoLab]:
    with MotoLab(tmp_path / "moto") as lab:
        yield lab


def project(**more: Any) -> dict[str, Any]:
    return {
        "name": "build",
        "source": {"type": "NO_SOURCE", "buildspec": "version: 0.2"},
        "artifacts": {"type": "NO_ARTIFACTS"},
        "environment": BUILT,
        "serviceRole": "arn:aws:iam::000000000000:role/builder",
        **more,
    }


@pytest.mark.parametrize(
    "asked",
    [
        # What CDK Pipelines makes of each step.
        {"source": {"type": "CODEPIPELINE"}, "artifacts": {"type": "CODEPIPELINE"}},
        {"source": {"type": "GITLAB", "location": "https://gitlab.com/a/b.git"}},
        {"environment": {**BUILT, "type": "ARM_LAMBDA_CONTAINER", "computeType": "BUILD_LAMBDA_1GB"}},
        {"environment": {**BUILT, "computeType": "BUILD_GENERAL1_XLARGE"}},
        {"name": "7-builds_a"},
    ],
)  # fmt: skip
def test_a_project_of_every_type_is_made(lab: MotoLab, asked: dict[str, Any]) -> None:
    client = lab.client("codebuild")
    client.create_project(**project(**asked))
    name = asked.get("name", "build")
    (shown,) = client.batch_get_projects(names=[name])["projects"]
    assert asked.items() <= shown.items()
    client.update_project(name=name, **{k: v for k, v in asked.items() if k != "name"})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"source": {"type": "S3"}}, "Project source location is required"),
        ({"source": {"type": "SVN", "location": "x"}}, "Project source type"),
        ({"artifacts": {"type": "S3"}}, "location is required"),
        ({"environment": {**BUILT, "computeType": "HUGE"}}, "Invalid compute type provided: HUGE"),
        ({"name": "a b"}, "Only alphanumeric characters, dash, and underscore"),
    ],
)
def test_what_the_model_does_not_have_is_refused(
    lab: MotoLab, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ClientError, match=sentence) as refusal:
        lab.client("codebuild").create_project(**project(**asked))
    assert refusal.match("InvalidInputException")
