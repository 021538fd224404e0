"""Whichever is imported first, moto's module or its patches: the module is there with all of them, on every thread."""

from __future__ import annotations

import subprocess
import sys

# First what moto's modules import of others, once for all programs.
START = """
import importlib, os, sys, threading, traceback
import boto3, cryptography.x509, joserfc.jwt, jsonpath_ng, openapi_spec_validator, pydantic_settings
import aws_xray_sdk.core, requests, responses, simplejson, unittest.mock, xmltodict, werkzeug.wrappers
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
# Each in a process that has imported nothing of moto's yet.
PROGRAMS = {
    "in order": "assert len(set(ROOMS)) > 30\nimport_moto(sorted(patches.of_modules))\n",
    "in the other order": "import_moto(sorted(patches.of_modules)[::-1])\n",
    "patches first, which bring no module of moto": """
before = {name for name in sys.modules if name.startswith('moto.')}
import_rooms(ROOMS)
assert before == {name for name in sys.modules if name.startswith('moto.')}
import_moto(patches.of_modules)
""",
    "on other threads at the same time": """
failed = []
threading.excepthook = failed.append
sys.setswitchinterval(1e-5)
names = sorted(patches.of_modules)
threads = [threading.Thread(target=import_moto, args=[names[::2]]),
    threading.Thread(target=import_moto, args=[names[::-2]]),
    threading.Thread(target=import_rooms, args=[ROOMS]),
    threading.Thread(target=import_rooms, args=[ROOMS[::-1]])]
for one in threads: one.start()
for one in threads: one.join()
assert not failed, failed
import_moto(names)
""",
}
RUN = """
for name, program in PROGRAMS.items():
    child = os.fork()
    if child == 0:
        try:
            exec(program + END)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def test_patches_come_with_the_modules_that_they_change() -> None:
    given = f"PROGRAMS, END = {PROGRAMS!r}, {END!r}\n"
    subprocess.run([sys.executable, "-c", START + given + RUN], check=True)
