"""A cloud in a folder with letters outside ASCII, in a locale that has none: S3's files, functions, the command."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import begin
from tests.support.server import ServerProcess, wait_until

# The second is how Python names files in ISO 8859-1 and the like: not in UTF-8.
LOCALES = {
    "C": {"LC_ALL": "C"},
    "not UTF-8": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
PYTHON = """\
import sys
def handle(event, context):
    print("Zeile ü 数")
    return [event["ü"], open("dätä/数.txt", encoding="utf-8").read(), sys.getfilesystemencoding()]
"""
NODE = """\
import fs from 'node:fs';
export const handle = async (event) => {
    console.log('Zeile ü 数');
    return [event['ü'], fs.readFileSync('dätä/数.txt', 'utf8'), 'utf-8'];
};
"""


@pytest.fixture(params=LOCALES)
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    return LOCALES[request.param]


@pytest.fixture
def server(tmp_path: Path, environment: dict[str, str]) -> Iterator[ServerProcess]:
    started = ServerProcess(tmp_path / "Daten ü 数")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        started.start()
    yield started
    started.stop()


def test_keys_are_files_and_functions_read_theirs(server: ServerProcess) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="bucket")
    keys = ["ü", "作业/ä b", "plain"]
    for key in keys:
        s3.put_object(Bucket="bucket", Key=key, Body=key.encode(), Metadata={"a": "b"})
    assert [s3.get_object(Bucket="bucket", Key=key)["Body"].read().decode() for key in keys] == keys
    listed = s3.list_objects_v2(Bucket="bucket")["Contents"]
    assert sorted(item["Key"] for item in listed) == sorted(keys)
    assert (server.data_dir / "s3" / "bucket" / "作业" / "ä b").read_bytes() == "作业/ä b".encode()
    for runtime, name, program in (
        ("python3.11", "main.py", PYTHON),
        ("nodejs22.x", "main.mjs", NODE),
    ):
        assert invoke(server, runtime, name, program) == ["数", "Ä数", "utf-8"]


def invoke(server: ServerProcess, runtime: str, name: str, program: str) -> Any:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr(name, program)
        archive.writestr("dätä/数.txt", "Ä数")
    functions, function = server.client("lambda"), runtime.partition(".")[0]
    functions.create_function(
        FunctionName=function, Runtime=runtime, Handler="main.handle",
        Role="arn:aws:iam::000000000000:role/r", Code={"ZipFile": code.getvalue()},
    )  # fmt: skip

    def is_active() -> bool:
        state = functions.get_function(FunctionName=function)["Configuration"]["State"]
        return bool(state == "Active")

    wait_until(is_active)
    answer = functions.invoke(FunctionName=function, Payload=json.dumps({"ü": "数"}))
    return json.load(answer["Payload"])


def test_the_command_shows_any_name(server: ServerProcess, environment: dict[str, str]) -> None:
    with begin("status", "--data-dir", str(server.data_dir), environment=environment) as process:
        said, complained = process.communicate(timeout=60)
    assert (process.returncode, complained) == (0, "")
    assert "Daten ü 数" in said or r"Daten \xfc \u6570" in said


def test_a_folder_of_any_bytes_is_shown(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    with begin("status", "--data-dir", os.fsdecode(folder)) as process:
        _, complained = process.communicate(timeout=60)
    assert process.returncode == 1
    assert complained.startswith("Error: No headrace runs on ")
