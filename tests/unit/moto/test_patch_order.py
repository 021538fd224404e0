"""Whichever is imported first, moto's module or its patches: the module is there with all of them, on every thread."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import importlib, sys, threading
from headrace.aws.protocols.moto_imports import IMPORTING
from headrace.composition.foundation import load_patches
from headrace.moto.patching import Patches, start_empty

done = []
patches = load_patches()

def noted(name, patch):
    def run(module):
        patch(module)
        done.append((name, patch))
    return run

with IMPORTING:
    start_empty(Patches(
        {name: [noted(name, one) for one in each] for name, each in patches.of_modules.items()},
        patches.at_start,
    ))
ROOMS = sorted(
    name for each in patches.of_modules.values() for one in each
    if (name := getattr(one, "_path", "").rpartition(".")[0]) and name not in sys.modules
)

def import_moto(names):
    for name in names:
        with IMPORTING:
            importlib.import_module(name)
        # As a request finds it, at once.
        missing = [one for one in patches.of_modules[name] if (name, one) not in done]
        assert not missing, (name, missing)

def import_rooms(names):
    for name in names:
        importlib.import_module(name)
"""
END = "assert len(done) == sum(map(len, patches.of_modules.values())), len(done)\n"


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", START + program + END], check=True)


@pytest.mark.parametrize(
    "order", ["sorted(patches.of_modules)", "sorted(patches.of_modules)[::-1]"]
)
def test_patches_come_with_the_modules_that_they_change(order: str) -> None:
    run(f"assert len(set(ROOMS)) > 30\nimport_moto({order})\n")


def test_patches_may_be_there_before_and_bring_no_module_of_moto() -> None:
    run(
        "before = {name for name in sys.modules if name.startswith('moto.')}\n"
        "import_rooms(ROOMS)\n"
        "assert before == {name for name in sys.modules if name.startswith('moto.')}\n"
        "import_moto(patches.of_modules)\n"
    )


def test_patches_may_come_on_another_thread_at_the_same_time() -> None:
    run(
        "failed = []\n"
        "threading.excepthook = failed.append\n"
        "sys.setswitchinterval(1e-5)\n"
        "names = sorted(patches.of_modules)\n"
        "threads = [threading.Thread(target=import_moto, args=[names[::2]]),\n"
        "    threading.Thread(target=import_moto, args=[names[::-2]]),\n"
        "    threading.Thread(target=import_rooms, args=[ROOMS]),\n"
        "    threading.Thread(target=import_rooms, args=[ROOMS[::-1]])]\n"
        "for one in threads: one.start()\n"
        "for one in threads: one.join()\n"
        "assert not failed, failed\n"
        "import_moto(names)\n"
    )
