"""A CDK app is run with what its files, its caller and the environment say; what is wrong with it is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.core.cdk_apps import AppFailed, synthesise

APP = """
import json, os, pathlib
out = pathlib.Path(os.environ["CDK_OUTDIR"])
out.mkdir()
names = ("CDK_DEFAULT_ACCOUNT", "CDK_DEFAULT_REGION", "CDK_CONTEXT_JSON")
(out / "manifest.json").write_text(json.dumps({name: os.environ[name] for name in names}))
"""


def app(folder: Path, text: str = APP, **settings: object) -> Path:
    (folder / "app.py").write_text(text)
    (folder / "cdk.json").write_text(json.dumps({"app": "python3 app.py", **settings}))
    return folder


def run(folder: Path, **context: str) -> dict[str, str]:
    out = folder / "out"
    synthesise(folder, out, account="123456789012", region="eu-west-1", context=context)
    return json.loads((out / "manifest.json").read_text())


def test_an_app_is_told_its_environment_and_its_context(tmp_path: Path) -> None:
    app(tmp_path, context={"a": "file", "b": "file", "c": "file"})
    # Where the CDK's command line keeps what it has looked up.
    (tmp_path / "cdk.context.json").write_text('{"b": "looked up", "c": "looked up"}')
    said = run(tmp_path, c="given")
    assert said["CDK_DEFAULT_ACCOUNT"] == "123456789012"
    assert said["CDK_DEFAULT_REGION"] == "eu-west-1"
    # As the CDK's command line asks: resources name their constructs.
    paths = {"aws:cdk:enable-path-metadata": True}
    wanted = {"a": "file", "b": "looked up", "c": "given", **paths}
    assert json.loads(said["CDK_CONTEXT_JSON"]) == wanted


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("raise SystemExit('no such zone')", "failed with exit code 1: no such zone$"),
        ("", "failed with exit code 0: it left no manifest.json$"),
        (
            "import sys; sys.exit(\"No module named 'aws_cdk'\")",
            "pip install aws-cdk-lib constructs$",
        ),
    ],
)
def test_an_app_that_fails_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(AppFailed, match=sentence):
        run(app(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{}", "names no app$"), ("[]", "is not a JSON object$"), ("{", "cannot be read: ")],
)
def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "cdk.json").write_text(text)
    with pytest.raises(AppFailed, match=rf"cdk\.json {sentence}"):
        run(tmp_path)
