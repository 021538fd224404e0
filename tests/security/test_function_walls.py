"""What functions get at beyond their walls: nothing, whoever runs headrace. The attacks are in `wall_attacks`.

Where this machine permits no walls the attacks are skipped; what is promised there is that headrace says so.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from headrace.services.lambda_.runtime import namespaces
from tests.security.wall_attacks import SECRET
from tests.support.lambda_lab import LambdaLab
from tests.support.server import wait_until

ROOT = Path(__file__).parents[2]
NOBODY = 65534
# Who may be told as much: nothing of the user's is in these.
REFUSED = {
    "list_the_data_directory": ("ENOENT",),
    "read_the_database": ("ENOENT",),
    "read_another_functions_code": ("ENOENT",),
    "read_an_object": ("ENOENT",),
    "write_an_object": ("ENOENT",),
    "read_the_users_home": ("ENOENT",),
    "find_the_secret_anywhere": ([],),
    "see_other_processes": ([],),
    "read_the_servers_environment": ("ENOENT",),
    "read_a_root_link": ("EACCES",),
    "read_the_first_process_environment": ("EACCES",),
    "read_the_first_process_memory": ("EACCES",),
    "trace_the_first_process": ("EPERM",),
    "trace_the_server": ("ESRCH",),
    "kill_the_server": ("ESRCH",),
    "kill_everybody": ("still here",),
    "write_its_own_code": ("EROFS",),
    "add_to_its_own_code": ("EROFS",),
    "change_its_own_code": ("EROFS",),
    "write_to_the_root": ("EROFS",),
    "write_to_the_system": ("EROFS", "EACCES"),
    "write_to_the_interpreter": ("EROFS",),
    "write_a_kernel_setting": ("EROFS", "EACCES"),
    "press_a_magic_key": ("ENOENT", "EROFS", "EACCES"),
    "make_a_device": ("EPERM",),
    "find_disks": ([],),
    "read_passwords": (None, "EACCES"),
    "mount_something": ("EPERM",),
    "unmount_its_code": ("EPERM",),
    "make_its_code_writable": ("EPERM",),
    "own_a_namespace": ("EPERM", "ENOSPC"),
    "reveal_what_is_hidden": ("EINVAL", "EPERM", "ENOSPC"),
    "become_root": ("EPERM",),
    "have_capabilities": (None,),
    "find_open_descriptors": (None,),
    # The folders above the cache of Node.js modules, which is seen, have their names and nothing else.
    "follow_a_link_out_of_the_code": ("ENOENT", [".cache"]),
    "fill_the_disk": ("ENOSPC",),
    "fill_the_directory": ("ENOSPC",),
    # As on AWS, where multiprocessing's queues do not work for that.
    "share_memory": ("ENOENT",),
}


def _as_nobody(command: list[str]) -> list[str]:
    """Return a command that runs another as a user without rights, for which root's folders are opened a little.

    The interpreter may lie where only root may go (pyenv in /root): in a mount namespace of its own it lies there too,
    in folders that everybody may enter.
    """
    prefix = Path(sys.base_prefix).resolve()
    closed = next((p for p in reversed(prefix.parents) if not p.stat().st_mode & 0o001), None)
    steps: list[str] = []
    if closed is not None:
        aside, top, inner = (shlex.quote(str(p)) for p in (Path("/mnt"), closed, prefix))
        steps = [
            f"mount --bind {inner} {aside}",
            f"mount -t tmpfs -o mode=755 tmpfs {top}",
            f"mkdir -p {inner}",
            f"mount --bind {aside} {inner}",
            f"umount {aside}",
        ]
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    script = " && ".join([*steps, f"exec {shlex.join([*drop, *command])}"])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]


def _report(user: str) -> dict[str, Any]:
    # Not below /tmp, as users' folders are not.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="headrace-walls-") as name:
        folder = Path(name) / "f"
        folder.mkdir()
        command = [sys.executable, "-m", "tests.security.wall_attacks", str(folder)]
        if user == "nobody":
            Path(name).chmod(0o755)
            os.chown(folder, NOBODY, NOBODY)
            command = _as_nobody(command)
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": name},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=["this user", "nobody"])
def report(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the attacks achieved, when this user runs headrace, and when one without rights does."""
    if request.param == "nobody":
        tools = all(shutil.which(tool) for tool in ("unshare", "setpriv", "mount"))
        if os.getuid() != 0 or not tools:
            pytest.skip("only root can be somebody else")
    report = _report(request.param)
    if not report["walls"]:
        pytest.skip("this machine permits no walls")
    assert report["uid"] == (NOBODY if request.param == "nobody" else os.getuid())
    return report


@pytest.mark.parametrize("attack", list(REFUSED))
def test_an_attack_achieves_nothing(report: dict[str, Any], attack: str) -> None:
    assert report["results"][attack] in REFUSED[attack]


def test_every_attack_is_judged(report: dict[str, Any]) -> None:
    assert set(report["results"]) == {*REFUSED, "environment"}


def test_nothing_of_the_clouds_environment_is_inherited(report: dict[str, Any]) -> None:
    environment = report["results"]["environment"]
    assert SECRET not in json.dumps(environment)
    assert not [name for name in environment if name.startswith("HEADRACE")]
    assert environment["HOME"] == environment["TMPDIR"] == "/tmp"
    assert environment["LAMBDA_TASK_ROOT"] == "/var/task"


def test_the_data_directory_inside_of_a_folder_of_code_is_hidden(report: dict[str, Any]) -> None:
    assert report["peeked"] == []


def test_files_are_as_they_were(report: dict[str, Any]) -> None:
    assert report["object"] == SECRET
    assert report["code"]


# --- where there are no walls ---------------------------------------------------------------------


@pytest.fixture
def unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of which it is not known yet whether it permits walls."""
    monkeypatch.setattr(namespaces._Known, "permitted", False)
    monkeypatch.setattr(namespaces._Known, "refusal", None)


@pytest.mark.usefixtures("unknown_machine")
def test_a_machine_without_walls_says_so_once_and_runs_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "launcher.py"
    broken.write_text("raise OSError('unshare: Operation not permitted')\n")
    monkeypatch.setattr(namespaces, "command_of", lambda _: [sys.executable, "-I", str(broken)])
    with caplog.at_level(logging.WARNING), LambdaLab(tmp_path / "data") as lab:
        lab.create(
            "f", "import os\ndef handler(e, c):\n    return os.environ['LAMBDA_TASK_ROOT']\n"
        )
        result = lab.lambda_.invoker.invoke("f", b"{}")
        assert str(lab.data_dir) in result.payload.decode()
        (remark,) = lab.lambda_.fidelity_remarks()
    said = [r.getMessage() for r in caplog.records if "rights" in r.getMessage()]
    why = "this machine permits no walls around them (OSError: unshare: Operation not permitted)"
    assert said == [f"{namespaces.NO_WALLS}: {why}."]
    assert remark["remark"] == f"{namespaces.NO_WALLS}."


WITHOUT = """
import sys
from pathlib import Path
from tests.support.lambda_lab import LambdaLab
with LambdaLab(Path(sys.argv[1])) as lab:
    lab.create("f", "import os; handler = lambda e, c: os.environ['LAMBDA_TASK_ROOT']")
    print(lab.lambda_.invoker.invoke("f", b"{}").payload.decode())
    print(lab.lambda_.fidelity_remarks()[0]["remark"])
"""


def test_a_system_that_really_allows_no_namespaces_says_so_and_runs_functions(
    tmp_path: Path,
) -> None:
    run = shlex.join([sys.executable, "-c", WITHOUT, str(tmp_path / "data")])
    forbid = f"echo 0 > /proc/sys/user/max_user_namespaces && exec {run}"
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", forbid]
    try:
        subprocess.run([*command[:-3], "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine allows none to begin with")
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    answer, remark = done.stdout.splitlines()
    assert json.loads(answer).startswith(str(tmp_path / "data"))
    assert remark == f"{namespaces.NO_WALLS}."
    (said,) = [line for line in done.stderr.splitlines() if namespaces.NO_WALLS in line]
    assert said.endswith("([Errno 28] user namespaces: no more are allowed).")


SHORT = """
import json, socket, struct
server = socket.socket(fileno=0)
# Whoever ends before it has read everything resets the connection, and its answer is lost.
wanted = struct.unpack("!I", server.recv(4, socket.MSG_WAITALL))[0]
server.recv(wanted, socket.MSG_WAITALL)
data = json.dumps({"error": "clone: no memory", "errno": 12}).encode()
server.sendall(struct.pack("!I", len(data)) + data)
"""


KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.usefixtures("unknown_machine")
@pytest.mark.parametrize("why", ["no memory", "killed", "a file is in the way"])
def test_a_machine_that_lacks_something_for_now_lets_no_function_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """The first start of a launcher may meet a full disk or too many processes: that says nothing about walls."""
    short = tmp_path / "launcher.py"
    short.write_text(KILLED if why == "killed" else SHORT)
    command_of = namespaces.command_of
    stage = tmp_path / "data" / "lambda" / "root"
    if why in ("no memory", "killed"):
        monkeypatch.setattr(namespaces, "command_of", lambda _: [sys.executable, "-I", str(short)])
    else:
        stage.parent.mkdir(parents=True)
        stage.write_text("")
    with LambdaLab(tmp_path / "data") as lab:
        lab.create("f", "import os; handler = lambda e, c: os.environ['LAMBDA_TASK_ROOT']")
        failed = json.loads(lab.lambda_.invoker.invoke("f", b"{}").payload)
        assert failed["errorType"] == "Runtime.InvalidEntrypoint"
        assert lab.lambda_.fidelity_remarks() == []
        monkeypatch.setattr(namespaces, "command_of", command_of)
        if stage.is_file():
            stage.unlink()
        lab.lambda_.pools._walls.view()
        if not lab.lambda_.pools._walls.are_missing:
            assert lab.lambda_.invoker.invoke("f", b"{}").payload == b'"/var/task"'


def test_a_launcher_that_fails_later_lets_no_function_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many processes, a full disk: after walls were there once, a function without them is none."""
    with LambdaLab(tmp_path / "data") as lab:
        lab.create("f", "def handler(e, c):\n    return 1\n")

        def end_launcher() -> None:
            """Kill it, as a hasty administrator does; the functions end with it."""
            assert lab.lambda_.invoker.invoke("f", b"{}").function_error is None
            (entry,) = lab.lambda_.pools._entries.values()
            (sandbox,) = entry.pool._idle
            launcher = lab.lambda_.pools._walls._launcher
            if launcher is None:
                pytest.skip("this machine permits no walls")
            launcher._process.kill()
            wait_until(lambda: not sandbox.usable, what="the function's end")

        end_launcher()
        end_launcher()
        broken = tmp_path / "launcher.py"
        broken.write_text("raise OSError('fork: Resource temporarily unavailable')\n")
        monkeypatch.setattr(namespaces, "command_of", lambda _: [sys.executable, "-I", str(broken)])
        failed = lab.lambda_.invoker.invoke("f", b"{}")
        assert json.loads(failed.payload)["errorType"] == "Runtime.InvalidEntrypoint"
        assert lab.lambda_.fidelity_remarks() == []


@pytest.mark.usefixtures("unknown_machine")
def test_a_cloud_without_functions_keeps_no_launcher(tmp_path: Path) -> None:
    with LambdaLab(tmp_path / "data") as lab:
        pools = lab.lambda_.pools
        pools.step()
        assert pools._walls.are_known
        assert pools._walls._launcher is None
        if pools._walls.are_missing:
            pytest.skip("this machine permits no walls")
        lab.create("f", "def handler(e, c):\n    return 1\n")
        pools.step()
        launcher = pools._walls._launcher
        assert launcher is not None
        assert lab.lambda_.invoker.invoke("f", b"{}").payload == b"1"
        # One that has started processes would take them with it.
        pools._walls.rest()
        assert pools._walls._launcher is launcher
