"""What a job's Pythons do first: they connect to Spark, and import PySpark from where its compiled code is kept."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import headrace.spark_submit

EARLY = Path(headrace.spark_submit.__file__).parent / "early"
# As PySpark's, but loading waits for a file, as on a busy machine; its own way to connect must not be taken.
UTIL = """
import os, time
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
def local_connect_and_auth(port, secret):
    raise SystemExit("a second connection")
"""
RUNNER = """
import os, struct
from pyspark.util import local_connect_and_auth
file, sock = local_connect_and_auth(int(os.environ["PYTHON_WORKER_FACTORY_PORT"]), "secret")
file.write(struct.pack("!i", 4711))
file.flush()
import next_customized
"""


def test_a_slow_process_is_connected_in_time(tmp_path: Path) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "util.py").write_text(UTIL)
    (package / "runner.py").write_text(RUNNER)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, types; sys.modules['next_customized'] = types.ModuleType('next_customized')"
    )
    go = tmp_path / "go"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-m", "pyspark.runner"],
            env={
                "PYTHONPATH": os.pathsep.join([str(EARLY), str(tmp_path)]), "GO": str(go),
                "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]), "PYTHON_WORKER_FACTORY_SECRET": "secret",
            },
        )  # fmt: skip
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as file:
            assert file.read(struct.unpack("!i", file.read(4))[0]) == b"secret"
            file.write(struct.pack("!i", 2) + b"ok")
            file.flush()
            go.touch()
            assert struct.unpack("!i", file.read(4)) == (4711,)
        assert process.wait(60) == 0


def test_a_python_that_spark_does_not_wait_for_starts_as_ever(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "print('as ever')"], env={"PYTHONPATH": str(EARLY)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("as ever\n", "")


@pytest.mark.parametrize(
    ("home", "found"), [("site/pyspark", "folder"), ("site/spark", "zip"), ("lone/pyspark", "zip")]
)
def test_pyspark_comes_from_its_folder_if_that_is_whole(
    tmp_path: Path, home: str, found: str
) -> None:
    """A distribution of Spark has no packages beside its home, and PySpark alone lacks Py4J."""
    lib = tmp_path / home / "python" / "lib"
    lib.mkdir(parents=True)
    for name in ("site/pyspark", "site/py4j", "lone/pyspark", "own/pyspark"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "__init__.py").write_text(f"place = {name!r}")
    with zipfile.ZipFile(lib / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "place = 'zip'")
    jar = tmp_path / home / "jars" / "spark-core_2.13-4.0.2.jar"
    jar.parent.mkdir()
    shutil.copy(lib / "pyspark.zip", jar)
    path = [EARLY, lib / "pyspark.zip", jar, tmp_path / "own"]
    # What Python has looked into it reads again when it is told to forget: PySpark does so before each task.
    program = "import pyspark, sys; print(pyspark.place, *sys.path, *map('looked:{}'.format, sys.path_importer_cache))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": os.pathsep.join(map(str, path)), "SPARK_HOME": str(tmp_path / home)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    place, *entries = done.stdout.split()
    assert place == {"folder": "site/pyspark", "zip": "zip"}[found]
    for archive in (str(lib / "pyspark.zip"), str(jar)):
        assert (archive in entries) == (f"looked:{archive}" in entries) == (found == "zip")
