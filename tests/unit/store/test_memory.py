"""The C allocator and the garbage collector."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from headrace.store.memory import exclude_from_garbage_collection, import_to_stay

# 64 MB in blocks of 10 KB; then every tenth stays, so that glibc alone returns nothing.
PROGRAM = """
import os
from headrace.store.memory import FreedMemory, keep_freed_memory

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

assert keep_freed_memory()
blocks = [bytearray(10_000) for _ in range(6_400)]
full = resident_mb()
blocks = blocks[::10]
before = resident_mb()
again_s = FreedMemory().step()
print(full - before, before - resident_mb(), again_s)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures as Linux does")
def test_freed_memory_returns_although_blocks_between_stay() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True
    )
    by_itself_mb, returned_mb, again_s = map(float, printed.stdout.split())
    assert by_itself_mb < 20
    assert returned_mb > 20
    assert again_s == 60


def test_to_exclude_objects_from_garbage_collection_collects_nothing() -> None:
    # A whole collection stops every request for 100 ms.
    phases: list[str] = []
    gc.callbacks.append(lambda phase, _: phases.append(phase))
    try:
        exclude_from_garbage_collection()
        assert gc.get_freeze_count() > 0
        assert phases == []
    finally:
        gc.unfreeze()
        gc.callbacks.pop()


def test_an_import_leaves_the_collector_as_it_was() -> None:
    try:
        for change, is_on in ((gc.disable, False), (gc.enable, True)):
            change()
            import_to_stay("headrace.store.memory")
            assert gc.isenabled() is is_on
    finally:
        gc.unfreeze()
