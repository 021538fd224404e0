"""A function does not get at another one by the network that they share: its Runtime API serves its own processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lambda_lab import LambdaLab
from tests.support.server import wait_until

VICTIM = """
import os
def handler(event, context):
    return {"api": os.environ["AWS_LAMBDA_RUNTIME_API"], "event": event}
"""
# Asks for the victim's next event, and says what it gets.
THIEF = """
import pathlib, socket
def handler(event, context):
    host, _, port = event["api"].partition(":")
    got = b""
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(event["request"].encode())
        pathlib.Path(event["here"]).touch()
        peer.settimeout(20)
        try:
            while part := peer.recv(65536):
                got += part
        except ConnectionResetError:
            pass
    return got.decode()
"""
# One of the function's own programs may ask; it asks for nothing that exists.
PARENT = """
import os, subprocess, sys
ASK = "import sys, http.client as h; c = h.HTTPConnection(sys.argv[1]); c.request('GET', '/x')"
ASK += "; print(c.getresponse().status)"
def handler(event, context):
    api = os.environ["AWS_LAMBDA_RUNTIME_API"]
    return subprocess.run([sys.executable, "-c", ASK, api], capture_output=True, text=True, check=True).stdout
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LambdaLab]:
    with LambdaLab(tmp_path / "data") as lab:
        lab.create("victim", VICTIM)
        invoked(lab, "victim", 0)
        if lab.lambda_.pools.lack_walls:
            pytest.skip("this machine permits no walls")
        yield lab


def invoked(lab: LambdaLab, name: str, payload: Any) -> Any:
    answer = lab.client().invoke(FunctionName=name, Payload=json.dumps(payload))
    return json.loads(answer["Payload"].read())


@pytest.mark.parametrize(
    "request_text",
    [
        "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "POST /2018-06-01/runtime/init/error HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_another_function_gets_no_event_and_forges_no_answer(lab: LambdaLab, request_text: str):
    lab.create("thief", THIEF, Timeout=30)
    api = invoked(lab, "victim", 0)["api"]
    mark = lab.place / "connected"
    stolen: list[Any] = []
    asked = {"api": api, "request": request_text, "here": str(mark)}
    theft = threading.Thread(target=lambda: stolen.append(invoked(lab, "thief", asked)))
    theft.start()
    wait_until(mark.exists)
    assert invoked(lab, "victim", "secret") == {"api": api, "event": "secret"}
    theft.join(30)
    assert stolen == [""]


def test_the_functions_own_programs_reach_it(lab: LambdaLab):
    lab.create("parent", PARENT)
    assert invoked(lab, "parent", 0) == "404\n"
