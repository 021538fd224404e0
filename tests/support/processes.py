"""Function processes seen from the machine: inside of their walls they count from 1, as every other function does."""

from __future__ import annotations

from pathlib import Path

# A function's source that answers with a name of its process that `is_running` takes: its namespace, its id there, and
# when it began, for the kernel uses both numbers again.
WHO = (
    "import os\n"
    "def who(pid='self'):\n"
    "    stat = open(f'/proc/{pid}/stat').read()\n"
    "    began = stat.rpartition(')')[2].split()[19]\n"
    "    return ' '.join([os.readlink(f'/proc/{pid}/ns/pid'), stat.split()[0], began])\n"
    "def handler(event, context):\n    return who()\n"
)


def pid_of(name: str) -> int | None:
    """Return the id on this machine of the process that called itself `name`; None when it has ended."""
    namespace, inner, began = name.strip('"').split()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if str((folder / "ns" / "pid").readlink()) != namespace:
                continue
            status, stat = (folder / "status").read_text(), (folder / "stat").read_text()
        except OSError:
            continue
        inner_ids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        fields = stat.rpartition(")")[2].split()
        if (inner_ids[-1], fields[19]) == (inner, began) and fields[0] != "Z":
            return int(folder.name)
    return None


def is_running(name: str) -> bool:
    """Whether the process that called itself `name` has not ended."""
    return pid_of(name) is not None
