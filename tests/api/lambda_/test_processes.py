"""Function processes and the world: what they answer to, and that they never outlive the cloud."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.lambda_lab import LambdaLab, zipped
from tests.support.processes import WHO, is_running
from tests.support.server import wait_until

# A cloud's Lambda in a process of its own, running a function that has a child and never ends.
VICTIM = f"""
import json, sys
from pathlib import Path
from tests.support.lambda_lab import LambdaLab
place = Path(sys.argv[1])
lab = LambdaLab(place / "data")
lab.start()
lab.create("endless", '''
{WHO}
import pathlib, subprocess, sys, time
def handler(event, context):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    pathlib.Path(event, "names").write_text(who() + chr(10) + who(child.pid) + chr(10))
    while True: time.sleep(1)
''', Timeout=600)
lab.create("idle", '''
{WHO}
''')
name = json.loads(lab.lambda_.invoker.invoke("idle", b"{{}}").payload)
(place / "idle").write_text(name + chr(10))
lab.lambda_.invoker.invoke("endless", json.dumps(sys.argv[1]).encode())
"""


@pytest.mark.crash
def test_no_process_outlives_a_killed_cloud(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM, str(tmp_path)],
            cwd=Path(__file__).parents[3],
            stdout=log,
            stderr=log,
        )
    try:

        def names() -> list[str]:
            assert victim.poll() is None, (tmp_path / "log").read_text()
            texts = [tmp_path / "names", tmp_path / "idle"]
            whole = [t.read_text() for t in texts if t.exists()]
            return "".join(whole).splitlines() if len(whole) == 2 else []

        running = wait_until(lambda: names() if len(names()) == 3 else None, what="the processes")
        assert all(is_running(name) for name in running)
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    wait_until(lambda: not any(is_running(name) for name in running), what="the processes' end")


@pytest.mark.crash
def test_a_timeout_kills_the_functions_children_too(lab: LambdaLab) -> None:
    source = (
        f"{WHO}import pathlib, subprocess, sys, time\ndef handler(event, context):\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    pathlib.Path(event).write_text(who(child.pid))\n"
        "    time.sleep(600)\n"
    )
    lab.create("parent", source, Timeout=1)
    file = lab.place / "child"
    lab.lambda_.invoker.invoke("parent", json.dumps(str(file)).encode())
    wait_until(lambda: not is_running(file.read_text()), what="the child's end")


def test_an_idle_process_is_ended_after_a_while(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.create("idle", WHO)
    name = lab.lambda_.invoker.invoke("idle", b"{}").payload.decode()
    lab.lambda_.pools.step()
    assert is_running(name)
    monkeypatch.setattr("headrace.services.lambda_.invocations.pools.SANDBOX_IDLE_SECONDS", 0)
    lab.lambda_.pools.step()
    assert not is_running(name)
    assert lab.lambda_.invoker.invoke("idle", b"{}").payload.decode() != name


def test_a_code_update_lets_a_running_invocation_end(lab: LambdaLab) -> None:
    source = (
        "import pathlib, time\ndef handler(event, context):\n"
        "    pathlib.Path(event, 'started').touch()\n"
        "    while not pathlib.Path(event, 'go').exists(): time.sleep(0.005)\n"
        "    return 'old'\n"
    )
    lab.create("drains", source)
    place = lab.place / "place"
    place.mkdir()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(
            lab.lambda_.invoker.invoke, "drains", json.dumps(str(place)).encode()
        )
        wait_until((place / "started").exists, what="the invocation's start")
        new = zipped({"app.py": "def handler(event, context):\n    return 'new'\n"})
        lab.client().update_function_code(FunctionName="drains", ZipFile=new)
        assert lab.lambda_.invoker.invoke("drains", b"{}").payload == b'"new"'
        (place / "go").touch()
        assert running.result(10).payload == b'"old"'
