"""Layers as /opt, a /tmp of the function's own size, and code from a folder that is reloaded as it changes.

On the three kinds of machines that there are: those that permit walls, those that permit mounts only, and all others.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.lambda_.runtime import namespaces, own_mounts
from headrace.services.lambda_.runtime.visible_files import TMP
from tests.support.lambda_lab import LambdaLab, zipped
from tests.support.server import wait_until


@pytest.fixture(autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The kind of machine; `on` says which a test is for. Those that this one cannot be are skipped."""
    kind: str = getattr(request, "param", "walls")
    if kind == "walls":
        probe = namespaces.Namespaces(tmp_path / "probe")
        seen = probe.view()
        probe.close()
        if seen is None:
            pytest.skip("this machine permits no walls")
        return kind
    monkeypatch.setattr(namespaces._Known, "refusal", "not wanted")
    if kind == "nothing":
        monkeypatch.setattr(own_mounts, "_find_entering_command", lambda: None)
    elif own_mounts._find_entering_command() is None:
        pytest.skip("this machine gives nobody mounts of their own")
    return kind


def on(*kinds: str) -> pytest.MarkDecorator:
    """Run a test on machines of these kinds."""
    return pytest.mark.parametrize("machine", kinds, indirect=True)


LOOK = """
import glob, os, shutil, tempfile
def handler(event, context):
    return {"opt": sorted(glob.glob("/opt/**", recursive=True)), "tmp": tempfile.gettempdir(),
            "free_mib": shutil.disk_usage(tempfile.gettempdir()).total // 1048576}
"""
FILL = """
import os, tempfile
def handler(event, context):
    with tempfile.TemporaryFile() as file:
        for _ in range(event):
            file.write(bytes(1048576))
    return "fits"
"""
WRITES = """
import os, pathlib
def handler(event, context):
    pathlib.Path("/tmp/mine").write_text("1")
    return sorted(os.listdir("/tmp"))
"""


def layer(lab: LambdaLab, name: str, files: dict[str, str]) -> str:
    answer = lab.client().publish_layer_version(LayerName=name, Content={"ZipFile": zipped(files)})
    return answer["LayerVersionArn"]


def run(lab: LambdaLab, name: str, event: Any = None) -> Any:
    result = lab.lambda_.invoker.invoke(name, json.dumps(event).encode())
    assert result.function_error is None, result.payload
    return json.loads(result.payload)


@pytest.fixture
def lab_outside_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[LambdaLab]:
    """A cloud whose files are not below /tmp, as users' are: functions can have a /tmp of their own."""
    # A Spark session of another test leaves a folder in /tmp on this process's path, which functions then see.
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not Path(p).is_relative_to(TMP)])
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="headrace-") as folder,
        LambdaLab(Path(folder)) as lab,
    ):
        yield lab


# --- layers -----------------------------------------------------------------------------------


@on("walls", "mounts")
def test_layers_lie_over_each_other_in_opt(lab: LambdaLab) -> None:
    arns = [
        layer(lab, "under", {"data/a.txt": "under", "data/b.txt": "under"}),
        layer(lab, "over", {"data/b.txt": "over", "bin/tool": "x"}),
    ]
    source = "def handler(e, c):\n    return [open(f'/opt/data/{n}.txt').read() for n in 'ab']\n"
    lab.create("layered", source, Layers=arns)
    assert run(lab, "layered") == ["under", "over"]
    lab.create("looks", LOOK, Layers=arns)
    assert "/opt/bin/tool" in run(lab, "looks")["opt"]


@on("walls", "mounts")
def test_a_function_cannot_change_its_layers(lab: LambdaLab) -> None:
    arn = layer(lab, "fixed", {"data/a.txt": "a"})
    source = "def handler(e, c):\n    open('/opt/data/a.txt', 'w')\n"
    lab.create("writes", source, Layers=[arn])
    result = lab.lambda_.invoker.invoke("writes", b"{}")
    assert json.loads(result.payload)["errorType"] == "OSError"


@on("walls", "mounts", "nothing")
def test_a_wrapper_of_a_layer_starts_the_runtime(lab: LambdaLab) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        info = zipfile.ZipInfo("wrap")
        info.external_attr = 0o100755 << 16
        archive.writestr(info, '#!/bin/sh\nexport WRAPPED=yes\nexec "$@"\n')
    content = {"ZipFile": packed.getvalue()}
    made = lab.client().publish_layer_version(LayerName="wrapper", Content=content)
    lab.create(
        "wrapped",
        "import os\ndef handler(e, c):\n    return os.environ['WRAPPED']\n",
        Layers=[made["LayerVersionArn"]],
        Environment={"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/wrap"}},
    )
    assert run(lab, "wrapped") == "yes"


def test_code_and_layers_have_a_size_together(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.services.lambda_.actions.functions.UNZIPPED_BYTES", 1000)
    arn = layer(lab, "large", {"python/a.py": "#" * 900})
    lab.create("small", "#" * 99)
    for call in (
        lambda: lab.create("both", "#" * 100, Layers=[arn]),
        lambda: lab.client().update_function_configuration(FunctionName="small", Layers=[arn, arn]),
        lambda: lab.create("none", "#" * 900, Layers=[arn]),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        assert caught.value.response["Error"]["Code"] == "InvalidParameterValueException"
    with pytest.raises(ClientError) as caught:
        lab.create("both", "#" * 100, Layers=[arn])
    assert "The actual size is 1000 bytes" in caught.value.response["Error"]["Message"]
    lab.client().update_function_configuration(FunctionName="small", Layers=[arn])
    with pytest.raises(ClientError):
        lab.client().update_function_code(
            FunctionName="small", ZipFile=zipped({"app.py": "#" * 100})
        )


@on("walls", "mounts", "nothing")
def test_layers_are_importable(lab: LambdaLab) -> None:
    arns = [
        layer(lab, "under", {"python/shared.py": "NAME = 'under'\n"}),
        layer(lab, "over", {"python/shared.py": "NAME = 'over'\n"}),
    ]
    lab.create(
        "imports", "import shared\ndef handler(e, c):\n    return shared.NAME\n", Layers=arns
    )
    assert run(lab, "imports") == "over"


def test_nothing_is_mounted_over_what_the_function_needs(tmp_path: Path) -> None:
    made = own_mounts.plan(
        opt=tmp_path, own_tmp=tmp_path, storage_mib=512, needed=[Path("/opt/code"), Path("/tmp/x")]
    )
    assert made.opt is None
    assert made.tmp == tmp_path


# --- /tmp -------------------------------------------------------------------------------------


@on("walls", "mounts")
def test_temporary_files_are_limited_to_the_functions_storage(lab: LambdaLab) -> None:
    lab.create("fills", FILL, EphemeralStorage={"Size": 512}, MemorySize=1024)
    assert run(lab, "fills", 100) == "fits"
    result = lab.lambda_.invoker.invoke("fills", b"600")
    assert "No space left on device" in json.loads(result.payload)["errorMessage"]


@on("walls", "mounts")
@pytest.mark.skipif(
    own_mounts._covers(TMP, own_mounts._list_interpreters()), reason="headrace lies in /tmp"
)
def test_tmp_is_the_functions_own_and_begins_empty(lab_outside_tmp: LambdaLab) -> None:
    Path("/tmp/headrace-test-of-the-machine").touch()
    try:
        lab_outside_tmp.create("own", WRITES)
        assert run(lab_outside_tmp, "own") == ["mine"]
        assert not Path("/tmp/mine").exists()
        lab_outside_tmp.create("other", LOOK)
        seen = run(lab_outside_tmp, "other")
        assert (seen["tmp"], seen["free_mib"]) == ("/tmp", 512)
    finally:
        Path("/tmp/headrace-test-of-the-machine").unlink()


# --- the code -----------------------------------------------------------------------------------

WHERE = """
import os, sys
def handler(event, context):
    return [os.environ["LAMBDA_TASK_ROOT"], os.getcwd(), __file__, sys.path[0] in ("", os.getcwd())]
"""


@on("walls")
def test_the_interpreters_lie_where_scripts_of_layers_look_for_them(lab: LambdaLab) -> None:
    # Observed: the first line of the AWS CLI in the layer that CDK's BucketDeployment brings.
    source = (
        "import subprocess\n"
        "def handler(event, context):\n"
        "    return subprocess.run(['/var/lang/bin/python', '-c', 'print(6 * 7)'],\n"
        "                          capture_output=True, text=True, check=True).stdout\n"
    )
    lab.create("script", source)
    assert run(lab, "script") == "42\n"


def test_code_is_var_task(lab: LambdaLab) -> None:
    lab.create("where", WHERE)
    assert run(lab, "where") == ["/var/task", "/var/task", "/var/task/app.py", True]


def test_python_code_is_compiled_for_functions_that_may_not_keep_what_they_compile(
    lab: LambdaLab,
) -> None:
    large = "".join(f"def f{n}(): return {n}\n" for n in range(9000))
    source = "import large, os\ndef handler(e, c):\n    return os.path.exists(large.__cached__)\n"
    made = layer(lab, "shared", {"python/shared.py": large})
    package = {"ZipFile": zipped({"app.py": source, "large.py": large})}
    lab.create("compiled", "", Code=package, Layers=[made])
    run(lab, "compiled")
    digest = lab.client().get_function(FunctionName="compiled")["Configuration"]["CodeSha256"]
    folders = [p for p in (lab.data_dir / "lambda" / "code").iterdir() if p.is_dir()]
    assert len(folders) == 2
    wait_until(
        lambda: all(list(folder.rglob("*.pyc")) for folder in folders), what="the compiled code"
    )
    # It is not the user's, and is not counted.
    assert lab.lambda_.code.count_unzipped_bytes(base64.b64decode(digest).hex()) == len(
        source + large
    )
    lab.restart()
    assert run(lab, "compiled") is True


def test_a_small_function_is_left_alone(lab: LambdaLab) -> None:
    lab.create("small", WHERE)
    run(lab, "small")
    bytecode = lab.lambda_.pools.bytecode
    while bytecode.step() == 0:
        pass
    assert not list((lab.data_dir / "lambda" / "code").rglob("*.pyc"))


# --- hot reload -------------------------------------------------------------------------------


@on("walls", "nothing")
@pytest.mark.parametrize("bucket", ["headrace-local", "hot-reload"])
def test_code_in_a_folder_is_reloaded_when_it_changes(
    lab: LambdaLab, tmp_path: Path, bucket: str
) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    file = folder / "app.py"
    file.write_text("def handler(e, c):\n    return 'old'\n")
    lab.create("hot", "", Code={"S3Bucket": bucket, "S3Key": str(folder)})
    assert run(lab, "hot") == "old"
    file.write_text("def handler(e, c):\n    return 'newer'\n")
    wait_until(lambda: run(lab, "hot") == "newer", what="the change")
    lab.restart()
    assert run(lab, "hot") == "newer"
    assert lab.client().get_function(FunctionName="hot")["Code"]["Location"] == folder.as_uri()
    assert file.exists()


def test_a_function_can_move_from_a_zip_to_a_folder(lab: LambdaLab, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def handler(e, c):\n    return 'folder'\n")
    lab.create("moves", "def handler(e, c):\n    return 'zip'\n")
    assert run(lab, "moves") == "zip"
    lab.client().update_function_code(
        FunctionName="moves", S3Bucket="headrace-local", S3Key=str(tmp_path)
    )
    assert run(lab, "moves") == "folder"


@pytest.mark.parametrize("key", ["relative/folder", "/no/such/folder"])
def test_a_folder_that_is_not_there_is_refused(lab: LambdaLab, key: str) -> None:
    with pytest.raises(ClientError) as caught:
        lab.create("hot", "", Code={"S3Bucket": "headrace-local", "S3Key": key})
    assert caught.value.response["Error"]["Code"] == "InvalidParameterValueException"
    assert key in caught.value.response["Error"]["Message"]
