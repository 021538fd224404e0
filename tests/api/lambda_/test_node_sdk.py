"""Node.js functions find the AWS SDK that Lambda's runtimes bring: npm installs it when a function needs it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.services.lambda_.runtime import sdk_modules
from tests.support.lambda_lab import LambdaLab, zipped

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

# As npm does it, without a registry: it knows client-sqs and version 2, and counts how often it is asked.
NPM = """#!/bin/sh
prefix=$3
echo run >> "$(dirname "$0")/runs"
case "$*" in
  *@aws-sdk/client-sqs@3*)
    package="$prefix/node_modules/@aws-sdk/client-sqs"
    mkdir -p "$package"
    echo '{"name": "@aws-sdk/client-sqs", "main": "main.js"}' > "$package/package.json"
    echo 'exports.SQSClient = class { name() { return "sqs"; } };' > "$package/main.js" ;;
  *" aws-sdk@2"*)
    package="$prefix/node_modules/aws-sdk"
    mkdir -p "$package/lib" "$package/clients"
    echo '{"name": "aws-sdk", "main": "lib/aws.js"}' > "$package/package.json"
    echo 'exports.SQSClient = class { name() { return "2"; } };' > "$package/lib/aws.js"
    cp "$package/lib/aws.js" "$package/clients/sqs.js" ;;
  *) echo "npm error 404 Not Found" >&2; exit 1 ;;
esac
"""
REQUIRES = """
exports.handler = async (event) => new (require(event.module).SQSClient)().name();
"""
IMPORTS = """
import { SQSClient } from '@aws-sdk/client-sqs';
export const handler = async () => new SQSClient().name();
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "npm").write_text(NPM)
    (folder / "npm").chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def lab(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LambdaLab]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        patch.setenv(sdk_modules.FOLDER_VARIABLE, str(tmp_path_factory.mktemp("node-cache")))
        with LambdaLab(tmp_path_factory.mktemp("lambda")) as lab:
            module = {"app.js": IMPORTS, "package.json": '{"type": "module"}'}
            for name, files in (
                ("requires", {"app.js": REQUIRES}),
                ("imports", {"app.mjs": IMPORTS}),
                ("module", module),
            ):
                code = {"ZipFile": zipped(files)}
                lab.create(name, "", Runtime="nodejs22.x", Code=code)
            yield lab


def call(lab: LambdaLab, name: str, event: dict[str, Any]) -> Any:
    answer = lab.client().invoke(FunctionName=name, Payload=json.dumps(event))
    return json.loads(answer["Payload"].read())


def test_a_module_that_is_required_or_imported_is_installed_once(
    lab: LambdaLab, programs: Path
) -> None:
    event = {"module": "@aws-sdk/client-sqs"}
    assert call(lab, "requires", event) == "sqs"
    assert call(lab, "requires", event) == "sqs"
    assert call(lab, "imports", {}) == "sqs"
    assert call(lab, "module", {}) == "sqs"
    assert (programs / "runs").read_text().count("run") == 1


@pytest.mark.parametrize("module", ["aws-sdk", "aws-sdk/clients/sqs"])
def test_runtimes_before_nodejs18_have_version_2(lab: LambdaLab, module: str) -> None:
    code = {"ZipFile": zipped({"app.js": REQUIRES})}
    name = module.replace("/", "-")
    lab.create(f"{name}-16", "", Runtime="nodejs16.x", Code=code)
    assert call(lab, f"{name}-16", {"module": module}) == "2"
    error = call(lab, "requires", {"module": module})["errorMessage"]
    assert error.splitlines()[0] == f"Cannot find module '{module}'"


def test_a_module_that_npm_does_not_have_is_named_with_what_npm_says(lab: LambdaLab) -> None:
    error = call(lab, "requires", {"module": "@aws-sdk/client-nothing"})
    assert "Cannot find module '@aws-sdk/client-nothing'" in error["errorMessage"]
    assert "npm error 404 Not Found" in error["errorMessage"]


def test_what_lambda_does_not_bring_is_not_installed(lab: LambdaLab, programs: Path) -> None:
    before = (programs / "runs").read_text() if (programs / "runs").exists() else ""
    for module in ("left-pad", "@aws-sdk/signature-v4-crt", "@aws-sdk/client-x@1;rm"):
        assert "Cannot find module" in call(lab, "requires", {"module": module})["errorMessage"]
    after = (programs / "runs").read_text() if (programs / "runs").exists() else ""
    assert after == before


def test_without_npm_the_module_and_the_way_to_get_it_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(sdk_modules.FOLDER_VARIABLE, str(tmp_path / "cache"))
    reason = sdk_modules.install("@aws-sdk/client-s3")
    assert "npm, which is not on PATH" in reason
    assert "@aws-sdk/client-s3" in reason


# As version 2 of the SDK has it: a configuration that all clients start from.
VERSION_2 = {
    "node_modules/aws-sdk/package.json": '{"name": "aws-sdk", "main": "lib/aws.js"}',
    "node_modules/aws-sdk/lib/aws.js": "module.exports = require('./node_loader');",
    "node_modules/aws-sdk/lib/node_loader.js": """
class Config { update(options) { Object.assign(this, options); } }
module.exports = { config: new Config() };
""",
}
OLD = {
    "index.js": "const AWS = require('aws-sdk'); exports.handler = async () => AWS.config;",
    "index.mjs": "import AWS from 'aws-sdk'; export const handler = async () => AWS.config;",
}


@pytest.mark.parametrize("file", OLD)
def test_clients_of_version_2_ask_the_cloud(lab: LambdaLab, file: str) -> None:
    code = {"ZipFile": zipped({**VERSION_2, file: OLD[file]})}
    name = file.replace(".", "-")
    lab.create(name, "", Runtime="nodejs22.x", Handler="index.handler", Code=code)
    config = call(lab, name, {})
    assert config["endpoint"].startswith("http://127.0.0.1:")
    assert config["s3ForcePathStyle"] is True
