"""Layers of other accounts: a folder that `headrace up --layer` names, Powertools, and the refusal of the others."""

from __future__ import annotations

import json
import logging
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.core.config import LayerFolder
from headrace.services.lambda_.layers import CACHE_VARIABLE
from tests.support.lambda_lab import LambdaLab

POWERTOOLS = "arn:aws:lambda:us-east-1:017000801446:layer:AWSLambdaPowertoolsPythonV2:32"
FOREIGN = "arn:aws:lambda:us-east-1:123456789012:layer:Extras:7"
SOURCE = "import shared\ndef handler(event, context):\n    return shared.COLOUR\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "extras"
    (path / "python").mkdir(parents=True)
    (path / "python" / "shared.py").write_text("COLOUR = 'red'\n")
    return path


def answer_of(lab: LambdaLab, name: str) -> Any:
    return json.loads(lab.client().invoke(FunctionName=name)["Payload"].read())


@pytest.mark.parametrize(
    "arn", [FOREIGN, FOREIGN.rpartition(":")[0], "arn:aws:lambda:*:123456789012:layer:Extras:*"]
)
def test_a_function_runs_with_the_folder_of_its_foreign_layer(
    tmp_path: Path, folder: Path, arn: str
) -> None:
    with LambdaLab(tmp_path / "data", layers=(LayerFolder(arn, folder),)) as lab:
        created = lab.create("reads", SOURCE, Layers=[FOREIGN])
        assert [layer["Arn"] for layer in created["Layers"]] == [FOREIGN]
        assert answer_of(lab, "reads") == "red"
        version = lab.client().get_layer_version_by_arn(Arn=FOREIGN)
        assert version["LayerVersionArn"] == FOREIGN


def test_a_foreign_layer_without_a_folder_is_refused_by_the_option(
    lab: LambdaLab, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: lab.create("reads", SOURCE, Layers=[FOREIGN]),
        lambda: lab.client().get_layer_version_by_arn(Arn=FOREIGN),
    ]
    for call in calls:
        with caplog.at_level(logging.WARNING), pytest.raises(ClientError) as caught:
            call()
        sentence = caught.value.response["Error"]["Message"]
        assert sentence.startswith(f"Layer version {FOREIGN} does not exist here")
        assert sentence.endswith(f"headrace up --layer {FOREIGN}=FOLDER")
        assert sentence in caplog.text


def test_powertools_comes_from_the_cache(
    lab: LambdaLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with zipfile.ZipFile(tmp_path / f"powertools-2-py{version}.zip", "w") as layer:
        layer.writestr("python/shared.py", "COLOUR = 'blue'\n")
    lab.create("tooled", SOURCE, Layers=[POWERTOOLS])
    assert answer_of(lab, "tooled") == "blue"


def test_powertools_without_a_network_is_one_sentence(
    lab: LambdaLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        ClientError, match=r"pip cannot bring aws-lambda-powertools\[all\]==2\.\* from its index"
    ):
        lab.create("tooled", SOURCE, Layers=[POWERTOOLS])
    assert not list((tmp_path / "cache").iterdir())
