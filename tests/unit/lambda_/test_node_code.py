"""Node.js runs the AWS SDK from what V8 made of it before, and as it would run without."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.services.lambda_.runtime import node_code, sdk_modules

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

NODE = shutil.which("node") or ""
MAIN = """
exports.names = [__filename, __dirname, module.id, require.resolve('./other')];
exports.is = [require.main === module, this === exports, require.cache[__filename] === module, module.children.length];
exports.value = 'one';
exports.other = () => require('./other').value;
exports.later = require('./importing');
"""
IMPORTING = "module.exports = async () => (await import('./other.js')).default.value;"
USED = """
const client = require('@aws-sdk/client-one');
const { names, is, value, other, later } = client;
later().then((last) => console.log(JSON.stringify([names, is, value, other(), last])));
"""


class Sdk:
    """A package of the SDK on this machine, and a program that uses it."""

    def __init__(self, tmp_path: Path) -> None:
        self.modules = tmp_path / "node_modules"
        self.main = self.modules / "@aws-sdk" / "client-one" / "main.js"
        self.main.parent.mkdir(parents=True)
        (self.main.parent / "package.json").write_text(
            '{"name": "@aws-sdk/client-one", "main": "main.js"}'
        )
        (self.main.parent / "other.js").write_text("exports.value = 'two';")
        (self.main.parent / "importing.js").write_text(IMPORTING)
        self.main.write_text(MAIN)
        self._program = tmp_path / "used.js"
        self._program.write_text(USED)

    def make(self) -> Path:
        command = node_code.build_command(NODE, [str(self.modules)])
        assert command is not None
        subprocess.run(command, check=True)
        file = node_code.find_file(NODE, [str(self.modules)])
        assert file is not None
        return file

    def used(self, file: Path | None) -> str:
        env: dict[str, Any] = {"NODE_PATH": str(self.modules), "PATH": os.environ["PATH"]}
        preloaded: list[str] = []
        if file is not None:
            env[node_code.VARIABLE] = str(file)
            preloaded = ["--require", str(node_code.PROGRAM)]
        command = [NODE, *preloaded, str(self._program)]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    def rewrite(self, *, as_before: bool) -> None:
        """Write another value of the same length."""
        before = self.main.stat()
        self.main.write_text(MAIN.replace("'one'", "'new'"))
        moved_ns = 0 if as_before else 10_000_000
        os.utime(self.main, ns=(before.st_atime_ns, before.st_mtime_ns + moved_ns))


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sdk:
    monkeypatch.setenv(sdk_modules.FOLDER_VARIABLE, str(tmp_path / "cache"))
    return Sdk(tmp_path)


def test_a_module_does_the_same(sdk: Sdk) -> None:
    plain = sdk.used(None)
    assert '"one","two","two"' in plain
    assert sdk.used(sdk.make()) == plain


def test_the_kept_code_runs_until_the_file_changes(sdk: Sdk) -> None:
    file = sdk.make()
    sdk.rewrite(as_before=True)
    assert '"one"' in sdk.used(file)
    sdk.rewrite(as_before=False)
    assert '"new"' in sdk.used(file)


def test_it_is_made_once_for_each_state_of_the_packages(sdk: Sdk) -> None:
    folders = [str(sdk.modules)]
    assert node_code.find_file(NODE, folders) is None
    file = sdk.make()
    assert node_code.build_command(NODE, folders) is None
    os.utime(sdk.main.parent / "package.json", ns=(1, 1))
    assert node_code.find_file(NODE, folders) is None
    assert sdk.make() != file


def test_no_more_than_some_are_kept(sdk: Sdk) -> None:
    made = [sdk.make()]
    for number in range(9):
        os.utime(made[-1], ns=(number, number))
        os.utime(sdk.main.parent / "package.json", ns=(number, number))
        made.append(sdk.make())
    assert [file.exists() for file in made] == [False, False, *[True] * 8]


def test_a_file_that_another_cloud_has_deleted_is_not_missed(sdk: Sdk) -> None:
    plain = sdk.used(None)
    file = sdk.make()
    file.unlink()
    assert sdk.used(file) == plain


def test_without_a_client_nothing_is_made(sdk: Sdk, tmp_path: Path) -> None:
    assert node_code.build_command(NODE, [str(tmp_path / "nothing")]) is None
