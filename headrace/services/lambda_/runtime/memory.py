"""How much memory a process and its children use, from Linux's `/proc`."""

from __future__ import annotations

import os

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def count_memory_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants without mapped files, or 0 where it is unknown."""
    return _sum_memory_bytes([pid])


def count_children_memory_bytes(pid: int) -> int:
    """Return the memory of a process's descendants alone."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:  # noqa: PTH123
            return _sum_memory_bytes([int(child) for child in file.read().split()])
    except OSError:
        return 0


def _sum_memory_bytes(family: list[int]) -> int:
    total = 0
    # the list grows during this loop
    for process_id in family:
        try:
            with open(f"/proc/{process_id}/statm", "rb") as file:  # noqa: PTH123 - once an invocation: Path is slower
                fields = file.read().split()
            with open(f"/proc/{process_id}/task/{process_id}/children", "rb") as file:  # noqa: PTH123
                family.extend(map(int, file.read().split()))
        except OSError:
            continue
        total += (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
    return total
