"""An `agent.json` is read unchanged; what cannot be used is one sentence with its line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from headrace.agent.config.errors import ConfigurationError
from headrace.agent.config.kinesis_agent import AgentSettings, read_agent_json
from headrace.agent.running import Agent
from headrace.client import PutError, PutsFailed
from tests.support.clock import FakeClock


class Sent:
    def __init__(self, failures: int = 0) -> None:
        self.records: list[bytes] = []
        self.failures, self.is_closed = failures, False

    def send(self, records: Sequence[bytes]) -> None:
        if self.failures:
            self.failures -= 1
            raise PutsFailed(len(records), PutError("ResourceNotFoundException", "not there yet"))
        self.records += records

    def close(self) -> None:
        self.is_closed = True


def settings_of(folder: Path, content: Any) -> AgentSettings:
    path = folder / "agent.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return read_agent_json(path)


def flow(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "checkpointFile": str(folder / "state" / "checkpoints"),
        "flows": [
            {"filePattern": f"{folder}/app.log*", "kinesisStream": "s",
             "initialPosition": "START_OF_FILE", **more}
        ],
    }  # fmt: skip


def run(settings: AgentSettings, sent: Sent) -> list[bytes]:
    Agent(settings, lambda _: sent, FakeClock(), Event()).run(once=True)
    assert sent.is_closed
    return sent.records


def test_lines_go_with_their_newlines_and_once(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\ntwo\r\nthr\xffee\n\0\n")
    settings = settings_of(tmp_path, flow(tmp_path))
    assert run(settings, Sent()) == [b"one\n", b"two\r\n", b"thr\xffee\n", b"\0\n"]
    assert run(settings, Sent()) == []


def test_from_the_end_only_later_lines_go_but_a_new_file_whole(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"before\n")
    settings = settings_of(tmp_path, flow(tmp_path, initialPosition="END_OF_FILE"))
    assert run(settings, Sent()) == []
    with (tmp_path / "app.log").open("ab") as file:
        file.write(b"after\n")
    (tmp_path / "app.log.other").write_bytes(b"new\n")
    assert sorted(run(settings, Sent())) == [b"after\n", b"new\n"]


def test_what_fails_is_sent_again_and_nothing_is_stored_before(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    assert run(settings_of(tmp_path, flow(tmp_path)), Sent(failures=3)) == [b"one\n"]


def test_records_of_several_lines_begin_where_the_pattern_matches(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"A 1\n at x\nA 2\n at y\nA 3\n")
    settings = settings_of(
        tmp_path,
        flow(tmp_path, multiLineStartPattern="A ", dataProcessingOptions=[{"optionName": "SINGLELINE"}]),
    )  # fmt: skip
    # The last may go on: it waits for the next.
    assert run(settings, Sent()) == [b"A 1at x\n", b"A 2at y\n"]


def test_a_line_without_end_goes_in_parts_and_memory_stays_bounded(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"x" * (3 << 20) + b"\nshort\n")
    records = run(settings_of(tmp_path, flow(tmp_path)), Sent())
    assert max(map(len, records)) <= (1 << 20) - 256
    assert b"".join(r.removesuffix(b"\n") for r in records[:-1]) == b"x" * (3 << 20)
    assert records[-1] == b"short\n"


def test_header_lines_are_passed_over_and_the_footer_ends_a_file(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"a,b\n1,2\nEND\nrest\n")
    settings = settings_of(tmp_path, flow(tmp_path, skipHeaderLines="1", fileFooterPattern="END"))
    assert run(settings, Sent()) == [b"1,2\n"]
    assert run(settings, Sent()) == []


APACHE = '64.242.88.10 - - [07/Mar/2004:16:10:02 -0800] "GET /mailman HTTP/1.1" 200 6291'


@pytest.mark.parametrize(
    ("option", "line", "record"),
    [
        ({"optionName": "CSVTOJSON", "customFieldNames": ["a", "b", "c"]}, "1,x",
         {"a": "1", "b": "x", "c": None}),
        ({"optionName": "CSVTOJSON", "customFieldNames": ["a", "b"], "delimiter": "\\t"}, "1\t2",
         {"a": "1", "b": "2"}),
        # Documented: writing-with-agents.html, its example of COMMONAPACHELOG.
        ({"optionName": "LOGTOJSON", "logFormat": "COMMONAPACHELOG"}, APACHE,
         {"host": "64.242.88.10", "ident": None, "authuser": None, "datetime": "07/Mar/2004:16:10:02 -0800",
          "request": "GET /mailman HTTP/1.1", "response": "200", "bytes": "6291"}),
        ({"optionName": "LOGTOJSON", "logFormat": "SYSLOG"}, "Mar 12 12:00:19 host-1 anacron[10745]: started",
         {"timestamp": "Mar 12 12:00:19", "hostname": "host-1", "program": "anacron", "processid": "10745",
          "message": "started"}),
        ({"optionName": "LOGTOJSON", "logFormat": "SYSLOG"}, "no log line", None),
        ({"optionName": "LOGTOJSON", "logFormat": "RFC3339SYSLOG"},
         "2026-11-27T12:00:19.5+01:00 host-1 cron[7]: started",
         {"timestamp": "2026-11-27T12:00:19.5+01:00", "hostname": "host-1", "program": "cron", "processid": "7",
          "message": "started"}),
        ({"optionName": "ADDMETADATA", "metadata": {"k": "v"}}, "x", {"metadata": {"k": "v"}, "data": "x"}),
    ],
)  # fmt: skip
def test_options_convert(tmp_path: Path, option: Any, line: str, record: Any) -> None:
    (tmp_path / "app.log").write_text(line + "\n")
    records = run(settings_of(tmp_path, flow(tmp_path, dataProcessingOptions=[option])), Sent())
    assert [json.loads(r) for r in records] == ([] if record is None else [record])
    assert all(r.endswith(b"\n") for r in records)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{\n "flows": [\n', "agent.json:3: it is not JSON"),
        ('{\n "flows": [{"filePattern": "/a",\n "kinesisStream": "s", "deliveryStream": "d"}]}',
         "agent.json:3: flow 1 has either kinesisStream or deliveryStream, and not 2 of them"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s",\n "colour": 1}]}',
         "agent.json:2: a flow has no key 'colour'"),
        ('{"flows": [{"filePattern": "a", "kinesisStream": "s"}]}',
         "agent.json:1: filePattern is an absolute path, not 'a'"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s",\n\n"initialPosition": "MIDDLE"}]}',
         "agent.json:3: initialPosition is END_OF_FILE or START_OF_FILE, not 'MIDDLE'"),
        ('{"flows": [{"filePattern": "/a", "deliveryStream": "s",\n"partitionKeyOption": "RANDOM"}]}',
         "agent.json:2: a delivery stream has no partition keys"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s",\n"multiLineStartPattern": "("}]}',
         "agent.json:2: multiLineStartPattern is not a regular expression"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s",\n"maxBufferAgeMillis": 5}]}',
         "agent.json:2: maxBufferAgeMillis is a number from 1000 to 900000"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s","dataProcessingOptions":\n[{"optionName": "GZIP"}]}]}',
         "agent.json:2: the option GZIP is not built"),
        ('{"flows": [],\n"assumeRoleARN": "arn"}', "agent.json:2: assumeRoleARN is not built"),
        ('{"flows": [{"filePattern": "/a",\n"filePattern": "/b", "kinesisStream": "s"}]}', "agent.json:2: "),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s"},\n{"filePattern": "/a", "kinesisStream": "s"}]}',
         "agent.json:2: two flows send kinesis:s:/a"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_used_is_one_sentence_with_its_line(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings_of(tmp_path, text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
