"""The connection to Spark is made before a process has loaded PySpark."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

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
