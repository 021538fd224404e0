"""Functions in the test's own process: modules of their own, AWS's errors, logs, breakpoints and coverage."""

from __future__ import annotations

import base64
import contextlib
import inspect
import io
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from headrace.testing import FunctionNotLoadable, LocalCloud, cloud, functions
from headrace.testing.access import AccountView
from headrace.testing.code import (
    FunctionFailed,
    StreamMissing,
    make_function,
    make_importable_function,
)


@pytest.fixture
def here() -> Iterator[LocalCloud]:
    with cloud() as entered:
        yield entered


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_two_functions_have_modules_of_one_name_and_the_tests_own_stays(
    here: LocalCloud, tmp_path: Path
) -> None:
    logic = "N = 0\ndef count():\n    global N\n    N += 1\n    return ['{name}', N]\n"
    handler = "from logic import count\ndef handler(event, context): return count()\n"
    for name in ("one", "two"):
        write(tmp_path / name, handler=handler, logic=logic.replace("{name}", name))
    # Another test of this process may have imported one of its own.
    before = sys.modules.get("handler")
    sys.modules["logic"] = mine = type(sys)("logic")
    try:
        one, two = (make_function(here, tmp_path / name) for name in ("one", "two"))
        assert [one.invoke({}), two.invoke({}), one.invoke({})] == [
            ["one", 1],
            ["two", 1],
            ["one", 2],
        ]
        assert sys.modules["logic"] is mine
        assert sys.modules.get("handler") is before
    finally:
        del sys.modules["logic"]


def test_a_change_of_the_code_is_seen(here: LocalCloud, tmp_path: Path) -> None:
    made = make_function(here, write(tmp_path / "f", handler="def handler(e, c): return 1\n"))
    assert made.invoke({}) == 1
    write(tmp_path / "f", handler="def handler(e, c): return 'another'\n")
    here.advance(seconds=1)
    assert made.invoke({}) == "another"


def test_what_a_handler_is_given_and_may_see(
    here: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
import os
def handler(event, context):
    return [event, context.function_name, context.memory_limit_in_mb, context.invoked_function_arn,
            50_000 < context.get_remaining_time_in_millis() <= 60_000, os.environ["TABLE"], os.environ["_HANDLER"],
            os.environ["AWS_LAMBDA_FUNCTION_NAME"], os.environ.get("AWS_PROFILE")]
"""
    made = make_function(here, write(tmp_path / "f", handler=source), environment={"TABLE": "t"})
    monkeypatch.setenv("AWS_PROFILE", "mine")
    arn = "arn:aws:lambda:us-east-1:000000000000:function:f"
    assert made.invoke({"a": 1}) == [
        {"a": 1}, "f", "128", arn, True, "t", "handler.handler", "f", None
    ]  # fmt: skip
    assert os.environ["AWS_PROFILE"] == "mine"
    assert "TABLE" not in os.environ


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("def handler(e, c): raise ValueError('seven')", "ValueError", "seven"),
        ("def handler(e, c): return {1, 2}", "Runtime.MarshalError", "Unable to marshal response"),
        ("def handler(e, c): raise SystemExit(3)", "Runtime.ExitError", "exit status 3"),
        ("import nothing_of_that_name\ndef handler(e, c): pass", "Runtime.ImportModuleError", "nothing_of_that_name"),
        ("def handler(e, c): return 'x' * 7_000_000", "Function.ResponseSizeTooLarge", "exceeded maximum"),
    ],
)  # fmt: skip
def test_failures_are_lambdas_own(
    here: LocalCloud, tmp_path: Path, source: str, kind: str, message: str
) -> None:
    made = make_function(here, write(tmp_path / "f", handler=source))
    with pytest.raises(FunctionFailed, match=message) as failed:
        made.invoke({})
    assert failed.value.error["errorType"] == kind


def test_a_function_that_ran_for_too_long_has_timed_out(here: LocalCloud, tmp_path: Path) -> None:
    source = "import time\ndef handler(e, c): time.sleep(1.1)\n"
    made = make_function(here, write(tmp_path / "f", handler=source), Timeout=1)
    with pytest.raises(FunctionFailed, match=r"Task timed out after 1\.00 seconds"):
        made.invoke({})


def test_handlers_that_cannot_be_are_refused_in_a_sentence(
    here: LocalCloud, tmp_path: Path
) -> None:
    with pytest.raises(FunctionNotLoadable, match=r"There is no folder .*/missing"):
        make_function(here, tmp_path / "missing")
    with pytest.raises(
        FunctionNotLoadable, match=r"cannot be imported: .*/handler\.py is not there"
    ):
        make_function(here, tmp_path)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def handler(:", r"cannot be imported: SyntaxError: "),
        ("import no_such", r"cannot be imported: ModuleNotFoundError: No module named 'no_such'"),
        ("other = 1", r"is missing: the module handler has no function handler\.$"),
    ],
)
def test_what_never_loads_is_refused_before_it_is_made(
    here: LocalCloud, tmp_path: Path, source: str, why: str
) -> None:
    write(tmp_path / "never", handler=source)
    before = sys.modules.get("handler")
    with pytest.raises(FunctionNotLoadable, match=why):
        make_importable_function(here, tmp_path / "never")
    assert "never" not in [
        one["FunctionName"] for one in here.client("lambda").list_functions()["Functions"]
    ]
    assert sys.modules.get("handler") is before


def test_a_module_that_wants_what_the_test_makes_later_is_taken(
    here: LocalCloud, tmp_path: Path
) -> None:
    source = "import os\nif not os.path.exists(os.environ['MARK']): raise RuntimeError('not yet')\n"
    mark = tmp_path / "mark"
    made = make_importable_function(
        here,
        write(tmp_path / "later", handler=source + "def handler(e, c): return 1"),
        environment={"MARK": str(mark)},
    )
    mark.touch()
    assert made.invoke({}) == 1
    assert "MARK" not in os.environ


def test_prints_and_log_lines_are_in_the_tail(here: LocalCloud, tmp_path: Path) -> None:
    source = """
import logging
log = logging.getLogger()
log.setLevel(logging.INFO)
def handler(event, context):
    print("printed")
    log.info("logged %d", 7)
"""
    made = make_function(here, write(tmp_path / "f", handler=source))
    level = logging.getLogger().level
    answer = here.client("lambda").invoke(FunctionName=made.name, LogType="Tail")
    tail = base64.b64decode(answer["LogResult"]).decode()
    assert "\nprinted\n" in tail
    assert "[INFO]\t" in tail
    assert tail.count("logged 7") == 1
    assert "REPORT RequestId:" in tail
    assert logging.getLogger().level == level


def test_output_is_the_processs_again_after_functions_that_waited_for_each_other(
    here: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments: list[functions.InProcessEnvironment] = []
    invoke = functions.InProcessEnvironment.invoke

    def note(environment: functions.InProcessEnvironment, *rest: Any) -> Any:
        environments.append(environment)
        return invoke(environment, *rest)

    monkeypatch.setattr(functions.InProcessEnvironment, "invoke", note)
    made = make_function(here, write(tmp_path / "f", handler="def handler(e, c): return 1\n"))
    made.invoke({})
    running, waits = functions._RUNNING, threading.Event()

    class Noted:
        def __enter__(self) -> None:
            waits.set()
            running.acquire()

        def __exit__(self, *_: object) -> None:
            running.release()

    monkeypatch.setattr(functions, "_RUNNING", Noted())
    second = threading.Thread(target=environments[0].initialise)
    before = sys.stdout
    with running, contextlib.redirect_stdout(io.StringIO()):
        second.start()
        assert waits.wait(10)
    second.join(10)
    assert sys.stdout is before


def test_a_stream_triggers_a_function_that_writes_to_another(
    here: LocalCloud, tmp_path: Path
) -> None:
    source = """
import base64, boto3
kinesis = boto3.client("kinesis")
def handler(event, context):
    for record in event["Records"]:
        data = base64.b64decode(record["kinesis"]["data"])
        kinesis.put_record(StreamName="out", Data=data.upper(), PartitionKey="k")
"""
    kinesis = here.client("kinesis")
    for name in ("in", "out"):
        kinesis.create_stream(StreamName=name, ShardCount=1)
    make_function(here, write(tmp_path / "f", handler=source), source="in")
    for data in (b"a", b"b", b"c"):
        kinesis.put_record(StreamName="in", Data=data, PartitionKey="k")
    here.until_drained()
    assert [record.data for record in here.records_of("out")] == [b"A", b"B", b"C"]


def test_a_function_invokes_another(here: LocalCloud, tmp_path: Path) -> None:
    inner = make_function(
        here, write(tmp_path / "inner", handler="def handler(e, c): return e + 1\n")
    )
    source = """
import boto3, json
def handler(event, context):
    answer = boto3.client("lambda").invoke(FunctionName="inner", Payload=json.dumps(event))
    return json.load(answer["Payload"]) * 2
"""
    outer = make_function(here, write(tmp_path / "outer", handler=source))
    assert (inner.invoke(1), outer.invoke(4)) == (2, 10)


def test_lines_of_a_handler_are_seen_by_tracers(here: LocalCloud, tmp_path: Path) -> None:
    """As coverage and debuggers see them: by the user's own file."""
    folder = write(tmp_path / "f", handler="def handler(e, c):\n    x = e + 1\n    return x\n")
    made = make_function(here, folder)
    lines: set[int] = set()
    file = str(folder.resolve() / "handler.py")

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None  # lines of everything else would take seconds
        lines.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        made.invoke(1)
    finally:
        sys.settrace(before)
    assert {2, 3} <= lines


def test_answers_may_have_decimals_and_any_text(here: LocalCloud, tmp_path: Path) -> None:
    source = (
        "from decimal import Decimal\ndef handler(e, c): return {'n': Decimal('1.5'), 't': 'é'}\n"
    )
    made = make_function(here, write(tmp_path / "f", handler=source))
    answer = here.client("lambda").invoke(FunctionName=made.name, Payload=b"{}")["Payload"].read()
    assert json.loads(answer) == {"n": 1.5, "t": "é"}
    assert "é".encode() in answer


def test_a_function_has_a_session_of_its_own(here: LocalCloud, tmp_path: Path) -> None:
    """The test's own default session is another account's."""
    source = "import boto3\ndef handler(e, c): return boto3.client('sts').get_caller_identity()['Account']\n"
    other = AccountView(here, "222222222222")
    made = make_function(other, write(tmp_path / "f", handler=source))
    assert boto3.client("sts").get_caller_identity()["Account"] == here.account
    assert made.invoke({}) == "222222222222"


def test_the_documentation_names_every_setting_of_a_function() -> None:
    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
    table = page.partition("`headrace_function(folder, **settings)` takes:")[2].split("\n\n")[1]
    documented = re.findall(r"(?m)^\| `(\w+)` \|", table)
    parameters = inspect.signature(make_function).parameters.values()
    assert documented == [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def test_a_mapping_without_its_stream_is_refused(here: LocalCloud, tmp_path: Path) -> None:
    folder = write(tmp_path / "f", handler="def handler(e, c): return 1\n")
    with pytest.raises(StreamMissing, match="name the stream by source="):
        make_importable_function(here, folder, mapping={"BatchSize": 1})
    assert here.client("lambda").list_functions()["Functions"] == []
