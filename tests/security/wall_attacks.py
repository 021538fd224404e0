"""A cloud with secrets, and functions that try to get at them: a program that prints what each of them achieved.

`python -m tests.security.wall_attacks FOLDER` runs it as whoever starts it; the tests start it as two users. In
FOLDER is everything: the data directory, another function's code, an object of S3's, the user's home.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from headrace.services.lambda_.runtime import namespaces
from tests.support.lambda_lab import LambdaLab

SECRET = "hunter2-of-the-user"

# Each attack is a function that returns what it achieved, or raises. `where` says where the prizes are.
ATTACKS = '''
import ctypes, ctypes.util, errno, glob, os, pathlib, signal, socket, stat, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)
ATTACKS = {}

def attack(function):
    ATTACKS[function.__name__] = function
    return function

def called(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def search(top, text, most=200_000):
    """Every readable file below a folder that holds a text: what a thief would grep for."""
    found = []
    for folder, folders, files in os.walk(top):
        # Of these it is known what they hold.
        if folder in (sys.prefix, sys.base_prefix) or folder.endswith("node_modules"):
            folders.clear()
        for name in files:
            most -= 1
            if most < 0:
                return found + ["too many"]
            path = os.path.join(folder, name)
            try:
                if os.path.getsize(path) < 10_000_000 and text in open(path, "rb").read():
                    found.append(path)
            except OSError:
                pass
    return found

@attack
def list_the_data_directory(where):
    return os.listdir(where["data"])

@attack
def read_the_database(where):
    return open(where["data"] + "/state.sqlite", "rb").read(16).decode()

@attack
def read_another_functions_code(where):
    return open(where["code"]).read()

@attack
def read_an_object(where):
    return open(where["object"]).read()

@attack
def write_an_object(where):
    return open(where["object"], "w").write("mine")

@attack
def read_the_users_home(where):
    return open(where["home"] + "/.aws/credentials").read()

@attack
def find_the_secret_anywhere(where):
    return [p for top in ("/etc", "/home", "/root", "/var", "/work", "/tmp", "/opt", "/run", "/srv", "/mnt")
            for p in search(top, where["secret"].encode()) if not p.startswith("/var/task")]

@attack
def see_other_processes(where):
    return sorted(int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid()))

@attack
def read_the_servers_environment(where):
    return open(f"/proc/{where['server']}/environ").read()

@attack
def read_a_root_link(where):
    return [os.listdir(f"/proc/{p}/root{where['data']}") for p in ("1", "self", str(where["server"]))]

@attack
def read_the_first_process_environment(where):
    return open("/proc/1/environ").read()

@attack
def read_the_first_process_memory(where):
    return open("/proc/1/mem", "rb").read(1).decode()

@attack
def trace_the_first_process(where):
    return called(libc.ptrace(16, 1, 0, 0))  # PTRACE_ATTACH

@attack
def trace_the_server(where):
    return called(libc.ptrace(16, where["server"], 0, 0))

@attack
def kill_the_server(where):
    return os.kill(where["server"], signal.SIGKILL)

@attack
def kill_everybody(where):
    child = subprocess.Popen(["sleep", "600"])
    os.kill(1, signal.SIGKILL)  # ignored: it is the first of its namespace
    child.kill(); child.wait()
    return "still here" if os.path.exists("/proc/1") else "gone"

@attack
def write_its_own_code(where):
    return open("/var/task/app.py", "a").write("#")

@attack
def add_to_its_own_code(where):
    return os.mkdir("/var/task/more")

@attack
def change_its_own_code(where):
    return os.chmod("/var/task/app.py", 0o777)

@attack
def write_to_the_root(where):
    return os.mkdir("/more")

@attack
def write_to_the_system(where):
    return [open(p + "/more", "w") for p in ("/usr/bin", "/etc")]

@attack
def write_to_the_interpreter(where):
    return [open(os.path.dirname(p) + "/more.py", "w") for p in (sys.executable, os.__file__)]

@attack
def write_a_kernel_setting(where):
    return open("/proc/sys/kernel/core_pattern", "w").write("|/tmp/evil")

@attack
def press_a_magic_key(where):
    return open("/proc/sysrq-trigger", "w").write("h")

@attack
def make_a_device(where):
    return os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0))

@attack
def find_disks(where):
    return [p for p in glob.glob("/dev/*") if stat.S_ISBLK(os.stat(p).st_mode)]

@attack
def read_passwords(where):
    return open("/etc/shadow").read() or None

@attack
def mount_something(where):
    return called(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))

@attack
def unmount_its_code(where):
    return called(libc.umount2(b"/var/task", 2))

@attack
def make_its_code_writable(where):
    return called(libc.mount(b"none", b"/var/task", None, 32 | 4096, None))  # MS_REMOUNT | MS_BIND

@attack
def own_a_namespace(where):
    """In a namespace of one's own one has all capabilities: are they good for anything?"""
    pid = os.fork()
    if pid == 0:
        try:
            called(libc.unshare(0x10000000 | 0x00020000))
            called(libc.mount(b"none", b"/var/task", None, 32 | 4096, None))
            open("/var/task/app.py", "a").close()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    raise OSError(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "in the child")

@attack
def reveal_what_is_hidden(where):
    pid = os.fork()
    if pid == 0:
        try:
            called(libc.unshare(0x10000000 | 0x00020000))
            called(libc.umount2(b"/var/task", 2))
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    raise OSError(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "in the child")

@attack
def become_root(where):
    try:
        done = subprocess.run(["sudo", "-n", "id"], capture_output=True)
    except FileNotFoundError:
        raise PermissionError(errno.EPERM, "no sudo") from None
    if done.returncode:
        raise PermissionError(errno.EPERM, done.stderr.decode())
    return done.stdout.decode()

@attack
def have_capabilities(where):
    lines = open("/proc/self/status").read().splitlines()
    return {l.split()[0]: l.split()[1] for l in lines if l.startswith("Cap") and int(l.split()[1], 16)} or None

@attack
def find_open_descriptors(where):
    ours = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if int(fd) > 2 and not target.startswith(("socket:", "/proc/")):
            ours.append((fd, target))
    return ours or None

@attack
def follow_a_link_out_of_the_code(where):
    return os.listdir("/var/task/out")

@attack
def fill_the_disk(where):
    with open("/tmp/much", "wb") as file:
        for _ in range(600):
            file.write(bytes(1 << 20))

@attack
def fill_the_directory(where):
    os.unlink("/tmp/much")
    for number in range(40_000):
        open(f"/tmp/{number}", "w").close()

@attack
def share_memory(where):
    return os.listdir("/dev/shm")

def handler(where, context):
    results = {}
    for name, function in ATTACKS.items():
        try:
            results[name] = function(where)
        except OSError as error:
            results[name] = errno.errorcode.get(error.errno, str(error))
    results["environment"] = dict(os.environ)
    return results
'''

PEEK = """
import os
def handler(event, context):
    try:
        return sorted(os.listdir(event))
    except OSError as error:
        return type(error).__name__
"""


def prepare(folder: Path) -> dict[str, Any]:
    """Lay out the prizes; return where they are."""
    home = folder / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text(f"[default]\naws_secret_access_key = {SECRET}\n")
    data = folder / "project" / ".headrace"
    data.mkdir(parents=True)
    return {"data": str(data), "home": str(home), "server": os.getpid(), "secret": SECRET}


def main(folder: Path) -> None:
    """Run all attacks and print their results."""
    where = prepare(folder)
    os.environ |= {
        "HOME": where["home"],
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "HEADRACE_SECRET": SECRET,
    }
    data = Path(where["data"])
    with LambdaLab(data, folders=()) as lab:
        lab.create(
            "other",
            f"# {SECRET}\ndef handler(e, c):\n    return 1\n",
            Environment={"Variables": {"MINE": SECRET}},
        )
        # The launcher has seen its variables now.
        assert lab.lambda_.invoker.invoke("other", b"{}").payload == b"1"
        (code,) = (data / "lambda" / "code").glob("*/app.py")
        lab.box.put_object("bucket", "object", SECRET.encode())
        where |= {"code": str(code), "object": str(data / "objects" / "bucket" / "object")}
        source = folder / "attacker"
        source.mkdir()
        (source / "app.py").write_text(ATTACKS)
        (source / "out").symlink_to(where["home"])
        lab.create(
            "attacker",
            "",
            Timeout=60,
            MemorySize=1024,
            Code={"S3Bucket": "headrace-local", "S3Key": str(source)},
        )
        result = lab.lambda_.invoker.invoke("attacker", json.dumps(where).encode())
        assert result.function_error is None, result.payload
        # A folder of the user's that holds the data directory, as a project does.
        (data.parent / "app.py").write_text(PEEK)
        lab.create("peek", "", Code={"S3Bucket": "headrace-local", "S3Key": str(data.parent)})
        peeked = lab.lambda_.invoker.invoke("peek", b'"/var/task/.headrace"').payload
        report = {
            "walls": not namespaces._Known.refusal,
            "uid": os.getuid(),
            "results": json.loads(result.payload),
            "peeked": json.loads(peeked),
            "object": Path(where["object"]).read_text(),
            "code": (source / "app.py").read_text() == ATTACKS,
        }
    print(json.dumps(report))  # noqa: T201 - a program's answer


if __name__ == "__main__":
    main(Path(sys.argv[1]))
