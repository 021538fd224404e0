"""What functions and Lambda itself write into a log: as text and as JSON, with levels, and reports of failures."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest

from tests.support.lambda_lab import LambdaLab, zipped

node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

LOGS = """
import logging
logger = logging.getLogger()
def handler(event, context):
    logger.debug("quiet"); logger.info("usual"); logger.error("loud")
"""
NODE_LOGS = """
exports.handler = async () => {
  console.debug('quiet'); console.log('usual %d', 1); console.warn({ a: 1 });
  console.error(new RangeError('far')); console.log('two\\nlines');
};
"""


def create_node(lab: LambdaLab, name: str, source: str, **members: Any) -> None:
    code = {"ZipFile": zipped({"app.js": source})}
    lab.create(name, "", Runtime="nodejs22.x", Code=code, **members)


def run(lab: LambdaLab, name: str, payload: bytes = b"{}") -> list[str]:
    """Invoke and return the log's messages."""
    before = len(lab.logs.lines)
    lab.lambda_.invoker.invoke(name, payload)
    return [message for _, _, message in lab.logs.lines[before:]]


def objects(messages: list[str]) -> list[dict[str, Any]]:
    return [json.loads(message) for message in messages]


def test_json_logs_are_objects_with_platform_events(lab: LambdaLab) -> None:
    lab.create("f", LOGS, LoggingConfig={"LogFormat": "JSON"})
    found = objects(run(lab, "f"))
    kinds = [one.get("type", one.get("level")) for one in found]
    assert kinds == ["platform.initStart", "platform.start", "INFO", "ERROR", "platform.report"]
    report = found[-1]["record"]
    assert report["status"] == "success"
    assert report["requestId"] == found[1]["record"]["requestId"] == found[2]["requestId"]
    assert {"durationMs", "billedDurationMs", "memorySizeMB", "initDurationMs"} <= set(
        report["metrics"]
    )
    assert found[2]["message"] == "usual"


def test_levels_keep_lines_out(lab: LambdaLab) -> None:
    config = {"LogFormat": "JSON", "ApplicationLogLevel": "ERROR", "SystemLogLevel": "WARN"}
    lab.create("f", LOGS, LoggingConfig=config)
    assert [one["message"] for one in objects(run(lab, "f"))] == ["loud"]
    lab.create("g", LOGS, LoggingConfig={**config, "ApplicationLogLevel": "DEBUG"})
    messages = [one["message"] for one in objects(run(lab, "g"))]
    assert messages == ["quiet", "usual", "loud"]


def test_a_failure_passes_the_level_of_warnings(lab: LambdaLab) -> None:
    source = "import os\ndef handler(event, context):\n    os._exit(1)\n"
    lab.create("f", source, LoggingConfig={"LogFormat": "JSON", "SystemLogLevel": "WARN"})
    report = json.loads(run(lab, "f")[-1])["record"]
    assert (report["status"], report["errorType"]) == ("error", "Runtime.ExitError")


def test_another_group_may_be_named(lab: LambdaLab) -> None:
    lab.create("f", LOGS, LoggingConfig={"LogGroup": "/shared/group"})
    run(lab, "f")
    assert {group for group, _, _ in lab.logs.lines} == {"/shared/group"}


def test_reports_say_how_an_invocation_failed(lab: LambdaLab) -> None:
    lab.create("late", "import time\ndef handler(e, c):\n    time.sleep(9)\n", Timeout=1)
    *_, line, end, report = run(lab, "late")
    pattern = (
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [0-9a-f-]{36} Task timed out after 1\.00 seconds"
    )
    assert re.fullmatch(pattern, line)
    assert end.startswith("END RequestId: ")
    assert report.rstrip().endswith("Status: timeout")
    lab.create("dies", "import os\ndef handler(e, c):\n    os._exit(2)\n")
    assert run(lab, "dies")[-1].rstrip().endswith("Status: error\tError Type: Runtime.ExitError")


def test_a_failed_start_has_a_report_of_its_own(lab: LambdaLab) -> None:
    lab.create("broken", "import nothing_such\n")
    messages = run(lab, "broken")
    (report,) = [m for m in messages if m.startswith("INIT_REPORT")]
    assert report.endswith("Phase: init\tStatus: error\tError Type: Runtime.ImportModuleError")
    after = messages[messages.index(report) + 1 :]
    assert [m.split()[0] for m in after] == ["START", "END", "REPORT"]
    assert "Error Type: Runtime.ImportModuleError" in after[-1]


@node
def test_node_text_lines_carry_time_request_and_level(lab: LambdaLab) -> None:
    create_node(lab, "f", NODE_LOGS)
    _, start, *lines, _, _ = run(lab, "f")
    request_id = start.split()[2]
    fields = [line.split("\t") for line in lines]
    assert {len(f[0]) for f in fields} == {24}
    assert {f[1] for f in fields} == {request_id}
    assert [f[2] for f in fields] == ["DEBUG", "INFO", "WARN", "ERROR", "INFO"]
    assert [f[3] for f in (fields[0], fields[1], fields[4])] == ["quiet", "usual 1", "two\nlines"]
    assert fields[3][3].startswith("RangeError: far\n")


@node
def test_node_json_lines_are_objects(lab: LambdaLab) -> None:
    create_node(lab, "f", NODE_LOGS, LoggingConfig={"LogFormat": "JSON"})
    lines = [one for one in objects(run(lab, "f")) if "level" in one]
    assert [one["level"] for one in lines] == ["INFO", "WARN", "ERROR", "INFO"]
    assert [one["message"] for one in lines[:2]] == ["usual 1", {"a": 1}]
    assert (lines[2]["errorType"], lines[2]["errorMessage"]) == ("RangeError", "far")


def test_the_callers_trace_reaches_the_function(lab: LambdaLab) -> None:
    source = "import os\ndef handler(e, c):\n    return os.environ['_X_AMZN_TRACE_ID']\n"
    lab.create("f", source, TracingConfig={"Mode": "Active"})
    own = json.loads(lab.lambda_.invoker.invoke("f", b"{}").payload)
    assert re.fullmatch(r"Root=1-[0-9a-f]{8}-[0-9a-f]{24};Parent=[0-9a-f]{16};Sampled=1", own)
    client = lab.client()
    header = "Root=1-00000000-000000000000000000000001;Sampled=0"

    def add(request: Any, **_: Any) -> None:
        request.headers["X-Amzn-Trace-Id"] = header

    client.meta.events.register_first("before-sign.*", add)
    answer = client.invoke(FunctionName="f")
    assert json.loads(answer["Payload"].read()) == header


def test_the_memory_of_children_counts(lab: LambdaLab) -> None:
    source = (
        "import subprocess, sys\ndef handler(event, context):\n"
        "    grow = 'import time; kept = bytearray(300 << 20); time.sleep(20)'\n"
        "    subprocess.run([sys.executable, '-c', grow])\n"
    )
    lab.create("parent", source, MemorySize=128)
    answer = json.loads(lab.lambda_.invoker.invoke("parent", b"{}").payload)
    assert answer["errorType"] == "Runtime.OutOfMemory"
    assert answer["errorMessage"].endswith("Runtime exited with error: signal: killed")
