"""An `agent.json` is read unchanged; what cannot be used is one sentence with its line."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.session import Session
from click.testing import CliRunner

from headrace.agent.kinesis_agent import AgentSettings, MetricsSettings, read_agent_json
from headrace.agent.positions import PlainContent
from headrace.agent.properties import ConfigurationError
from headrace.agent.running import (
    TRIES_ONCE,
    Agent,
    AgentMetrics,
    FirehoseSender,
    NotSent,
    Stopped,
)
from headrace.cli.agent import agent
from headrace.client import Producer, PutError, PutsFailed
from headrace.client.access import AwsAccess, assume_role
from headrace.client.pages import Keys
from headrace.client.receipts import RequestCounts
from tests.support.clock import FakeClock
from tests.support.endpoint import Request, answer, endpoint
from tests.support.fake_stream import FakeStream


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


def test_once_sends_a_last_line_without_its_newline(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\ntwo")
    (tmp_path / "app.log.long").write_bytes(b"z" * 3_000_000)
    settings = settings_of(tmp_path, flow(tmp_path))
    sent = run(settings, Sent())
    assert b"two" in sent
    assert sum(record.count(b"z") for record in sent) == 3_000_000
    assert run(settings, Sent()) == []


def test_once_waits_for_no_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "app.log").write_bytes(b"one\ntwo")
    settings = settings_of(tmp_path, flow(tmp_path))
    read_at = PlainContent.read_at

    class Breaks(Sent):
        def send(self, records: Sequence[bytes]) -> None:
            super().send(records)
            monkeypatch.setattr(PlainContent, "read_at", refuse)

    def refuse(*_: Any) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    assert run(settings, Breaks()) == [b"one\n"]
    assert "cannot be read now: Input/output error" in caplog.text
    monkeypatch.setattr(PlainContent, "read_at", read_at)
    assert run(settings, Sent()) == [b"two"]


def test_a_deleted_file_s_lines_that_were_not_sent_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stops(Sent):
        def send(self, records: Sequence[bytes]) -> None:
            del records
            (tmp_path / "app.log").unlink()
            raise Stopped

    (tmp_path / "app.log").write_bytes(b"one\ntwo\n")
    run(settings_of(tmp_path, flow(tmp_path)), Stops())
    assert f"{tmp_path}/app.log is deleted, and its last 8 bytes were not sent" in caplog.text
    # What was sent is not named.
    caplog.clear()
    (tmp_path / "app.log").write_bytes(b"three\n")

    class Deletes(Sent):
        def send(self, records: Sequence[bytes]) -> None:
            super().send(records)
            (tmp_path / "app.log").unlink()

    assert run(settings_of(tmp_path, flow(tmp_path)), Deletes()) == [b"three\n"]
    assert "is deleted" not in caplog.text


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


def test_once_ends_with_a_sentence_when_nobody_takes_the_records(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    settings = settings_of(tmp_path, flow(tmp_path))
    sent = Sent(failures=TRIES_ONCE)
    with pytest.raises(NotSent, match=r"kinesis:s:.*after 5 tries: .*not there yet"):
        run(settings, sent)
    assert sent.failures == 0
    assert run(settings, Sent()) == [b"one\n"]


def test_records_of_several_lines_begin_where_the_pattern_matches(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"A 1\n at x\nA 2\n at y\nA 3\n")
    settings = settings_of(
        tmp_path,
        flow(tmp_path, multiLineStartPattern="A ", dataProcessingOptions=[{"optionName": "SINGLELINE"}]),
    )  # fmt: skip
    # The last may go on: it waits for the next, or until nothing was added for a while.
    assert run(settings, Sent()) == [b"A 1at x\n", b"A 2at y\n", b"A 3\n"]


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
        ({"optionName": "LOGTOJSON", "logFormat": "COMBINEDAPACHELOG", "jsonFormat": "PRETTYPRINT"},
         APACHE + ' "http://www.amazon.com/" "Mozilla/5.0"',
         {"host": "64.242.88.10", "ident": None, "authuser": None, "datetime": "07/Mar/2004:16:10:02 -0800",
          "request": "GET /mailman HTTP/1.1", "response": "200", "bytes": "6291",
          "referer": "http://www.amazon.com/", "agent": "Mozilla/5.0"}),
        ({"optionName": "LOGTOJSON", "logFormat": "APACHEERRORLOG"},
         "[Fri Sep 09 10:42:29.902022 2011] [core:error] [pid 35708:tid 4328636416] [client 72.15.99.187] no such file",
         {"timestamp": "Fri Sep 09 10:42:29.902022 2011", "module": "core", "severity": "error",
          "processid": "35708", "threadid": "4328636416", "client": "72.15.99.187", "message": "no such file"}),
        ({"optionName": "LOGTOJSON", "logFormat": "COMMONAPACHELOG", "customFieldNames": ["word", "rest"],
          "matchPattern": "(\\w+) (.*)"}, "two words", {"word": "two", "rest": "words"}),
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
        ('{"flows": [],\n"userDefinedCredentialsProvider.location": "/x.jar"}',
         "agent.json:2: userDefinedCredentialsProvider.location is not built"),
        ('{"assumeRoleExternalId": "x",\n"flows": [{"filePattern": "/a", "kinesisStream": "s"}]}',
         "agent.json:1: assumeRoleExternalId needs assumeRoleARN"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s"}],\n"awsAccessKeyId": "k"}',
         "agent.json:2: awsAccessKeyId and awsSecretAccessKey stand together"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s"}],\n"log.level": "LOUD"}',
         "agent.json:2: log.level is ALL or TRACE or"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s"}],\n"cloudwatch.emitMetrics": "often"}',
         "agent.json:2: cloudwatch.emitMetrics is true or false, not 'often'"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s",\n"aggregatedRecordSizeBytes": 9}]}',
         "agent.json:2: aggregatedRecordSizeBytes is for a deliveryStream"),
        ('{"flows": [{"filePattern": "/a",\n"filePattern": "/b", "kinesisStream": "s"}]}',
         "agent.json:2: filePattern stands twice"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s"},\n{"filePattern": "/a", "kinesisStream": "s"}]}',
         "agent.json:2: two flows send kinesis:s:/a"),
        ('{"flows": [{"filePattern": "/a", "kinesisStream": "s"},\n"/b"]}',
         "agent.json:2: flow 2 is not an object"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_used_is_one_sentence_with_its_line(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings_of(tmp_path, text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flows_of_agent_d_count_too(tmp_path: Path) -> None:
    folder = tmp_path / "agent.d"
    (folder / "no-file").mkdir(parents=True)
    other = {"flows": [{"filePattern": "/b", "deliveryStream": "d"}], "log.level": "DEBUG"}
    (folder / "web.json").write_text(json.dumps(other, indent=1))
    settings = settings_of(tmp_path, flow(tmp_path))
    assert [one.target for one in settings.flows] == ["s", "d"]
    assert settings.log_level == logging.INFO
    (warning,) = settings.warnings
    assert "web.json:8: log.level has no effect in a file of agent.d" in warning
    (folder / "web.json").write_text(json.dumps(flow(tmp_path)))
    with pytest.raises(ConfigurationError, match=r"web\.json:1: two flows send kinesis:s:"):
        settings_of(tmp_path, flow(tmp_path))


def test_the_line_is_the_flow_s_own(tmp_path: Path) -> None:
    others = [{"filePattern": f"/{n}", "kinesisStream": "s", "skipHeaderLines": 1} for n in "bc"]
    others[0]["skipHeaderLines"] = -1
    content = {"flows": [{"filePattern": "/a", "kinesisStream": "s"}, *others]}
    with pytest.raises(ConfigurationError, match=r"agent\.json:10: skipHeaderLines is a number"):
        settings_of(tmp_path, content)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe{}", b"[" * 100_000, b"1" * 10_000], ids=["binary", "deep", "digits"]
)
def test_what_is_no_json_at_all_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"agent.json:1: it is not JSON"):
        read_agent_json(tmp_path / "agent.json")


def test_comments_are_allowed_as_java_s_parser_does(tmp_path: Path) -> None:
    text = '// ours\n{"flows": [ /* "x": 1,\n*/ {"filePattern": "/a//b", "kinesisStream": "s",\n"x": 1}]}'
    with pytest.raises(ConfigurationError, match=r"agent\.json:4: a flow has no key 'x'"):
        settings_of(tmp_path, text)
    settings = settings_of(tmp_path, text.replace(',\n"x": 1', ""))
    assert settings.flows[0].id == "kinesis:s:/a//b"


def test_every_documented_key_is_taken(tmp_path: Path) -> None:
    # Documented: writing-with-agents.html and firehose's agent-config-settings.html, the tables of settings.
    content = {
        "assumeRoleARN": "arn:aws:iam::123456789012:role/r", "assumeRoleExternalId": "x", "awsAccessKeyId": "k",
        "awsSecretAccessKey": "s", "cloudwatch.emitMetrics": True, "cloudwatch.endpoint": "", "sts.endpoint": "",
        "firehose.endpoint": "", "kinesis.endpoint": "", "log.level": "debug",
        "flows": [
            {"filePattern": "/a", "deliveryStream": "d", "aggregatedRecordSizeBytes": 0, "dataProcessingOptions": [],
             "initialPosition": "START_OF_FILE", "maxBufferAgeMillis": 60000, "maxBufferSizeBytes": 4194304,
             "maxBufferSizeRecords": 500, "minTimeBetweenFilePollsMillis": 100, "multiLineStartPattern": "x",
             "skipHeaderLines": 0, "truncatedRecordTerminator": "\n"},
            {"filePattern": "/a", "kinesisStream": "k", "partitionKeyOption": "DETERMINISTIC"},
        ],
    }  # fmt: skip
    settings = settings_of(tmp_path, content)
    assert len(settings.flows) == 2
    assert settings.log_level == logging.DEBUG
    assert settings.role_arn.endswith("role/r")
    assert settings.metrics == MetricsSettings("", "AWSKinesisAgent", 30_000)
    assert settings.warnings == []
    content |= {"cloudwatch.emitMetrics": "false", "cloudwatch.tagInstance": True}
    settings = settings_of(tmp_path, content)
    assert settings.metrics is None
    assert [w.split("agent.json:")[1] for w in settings.warnings] == [
        "33: cloudwatch.tagInstance has no effect: metrics name no instance"
    ]


def test_neighbours_are_joined_for_firehose(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(b"aa\nbb\ncccccccccc\ndd\n")
    content = flow(tmp_path, aggregatedRecordSizeBytes=6)
    content["flows"][0]["deliveryStream"] = content["flows"][0].pop("kinesisStream")
    assert run(settings_of(tmp_path, content), Sent()) == [b"aa\nbb\n", b"cccccccccc\n", b"dd\n"]


def test_firehose_s_requests_are_as_large_as_the_file_says() -> None:
    client = FakeFirehose()
    sender = FirehoseSender(client, "d", FakeClock(), Event(), most_records=2, most_bytes=5)
    sender.send([b"1\n", b"2\n", b"3\n", b"four\n", b"5\n"])
    assert client.requests == [[b"1\n", b"2\n"], [b"3\n"], [b"four\n"], [b"5\n"]]


class FakeFirehose:
    def __init__(self) -> None:
        self.requests: list[list[bytes]] = []
        self.refused: set[bytes] = set()

    def put_record_batch(self, *, DeliveryStreamName: str, Records: list[Any]) -> Any:
        del DeliveryStreamName
        data = [record["Data"] for record in Records]
        self.requests.append(data)
        if b"down" in data:
            raise EndpointConnectionError(endpoint_url="http://down")
        refused, self.refused = self.refused, set()
        return {"RequestResponses": [{"ErrorCode": "Slow"} if d in refused else {} for d in data]}


class FakeCloudWatch:
    """Keeps each metric's SampleCount, Sum, Minimum and Maximum, by its name."""

    def __init__(self) -> None:
        self.is_down, self.metrics = False, dict[str, tuple[float, ...]]()

    def put_metric_data(self, *, Namespace: str, MetricData: list[Any]) -> None:
        if self.is_down:
            raise EndpointConnectionError(endpoint_url="http://down")
        assert Namespace == "AWSKinesisAgent"
        for datum in MetricData:
            (dimension,) = datum["Dimensions"]
            name = f"{dimension['Value']} {datum['MetricName']} {datum['Unit']}"
            self.metrics[name] = tuple(datum["StatisticValues"].values())


def test_each_request_counts_in_the_metrics_of_its_destination(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cloudwatch, firehose, clock = FakeCloudWatch(), FakeFirehose(), FakeClock()
    metrics = AgentMetrics(lambda: cloudwatch, "AWSKinesisAgent", 30.0, clock)
    firehose.refused = {b"2"}
    noted = metrics.noting("DeliveryStream:d")
    sender = FirehoseSender(firehose, "d", clock, Event(), on_request=noted)
    sender.send([b"1", b"2", b"three"])
    with pytest.raises(EndpointConnectionError):
        sender.send([b"down"])
    stream = FakeStream(1)
    with Producer(
        "s", streams=stream, make_wire=lambda: stream, connections=1,  # type: ignore[arg-type]
        on_request=metrics.noting("KinesisStream:s"),
    ) as producer:  # fmt: skip
        producer.put(b"four", "key")
    metrics.publish()
    assert cloudwatch.metrics == {
        "DeliveryStream:d RecordSendAttempts Count": (3, 5, 1, 3),
        "DeliveryStream:d RecordSendErrors Count": (2, 1, 0, 1),
        "DeliveryStream:d ServiceErrors Count": (3, 1, 0, 1),
        "DeliveryStream:d BytesSent Bytes": (2, 7, 1, 6),
        "KinesisStream:s RecordSendAttempts Count": (1, 1, 1, 1),
        "KinesisStream:s RecordSendErrors Count": (1, 0, 0, 0),
        "KinesisStream:s ServiceErrors Count": (1, 0, 0, 0),
        "KinesisStream:s BytesSent Bytes": (1, 4, 4, 4),
    }
    cloudwatch.is_down = True
    for _ in range(3):
        sender.send([b"5"])
        metrics.publish()
    assert [record.message.count("not published") for record in caplog.records] == [1, 1]
    cloudwatch.is_down = False
    cloudwatch.metrics.clear()
    metrics.publish()
    assert cloudwatch.metrics == {}


def test_metrics_that_cannot_be_put_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    cloudwatch, clients = FakeCloudWatch(), iter([None])

    def make_client() -> FakeCloudWatch:
        # botocore's for an endpoint with a space.
        for _ in clients:
            raise ValueError("Invalid endpoint: https://monitor ing")
        return cloudwatch

    metrics = AgentMetrics(make_client, "AWSKinesisAgent", 30.0, FakeClock())
    note = metrics.noting("KinesisStream:s")
    for records in (1, 2):
        note(RequestCounts(records, 0, 4, has_failed=False))
        metrics.publish()
    assert (
        "metrics are not published, and dropped: Invalid endpoint: https://monitor ing"
        in caplog.text
    )
    assert cloudwatch.metrics["KinesisStream:s RecordSendAttempts Count"] == (1, 2, 2, 2)


def test_a_role_s_keys_are_asked_for_when_they_are_needed() -> None:
    def answers(_: Request) -> bytes:
        keys = "<AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
        result = f"<Credentials>{keys}<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
        return answer(
            200, f"<AssumeRoleResponse><AssumeRoleResult>{result}</AssumeRoleResult></AssumeRoleResponse>"
        )  # fmt: skip

    source = Session()
    source.set_credentials("AKIAFILE", "s")
    source.set_config_variable("region", "eu-west-1")
    with endpoint(answers) as sts:
        arn = "arn:aws:iam::123456789012:role/r"
        session = assume_role(source, arn, "agent", external_id="other", endpoint_url=sts.url)
        assert sts.requests == []
        access = AwsAccess(session=session)
        assert access.keys() == Keys("ASIAROLE", "s", "t")
        access.drop_keys()
        assert access.keys().access_key == "ASIAROLE"
        assert len(sts.requests) == 2
        assert b"ExternalId=other" in sts.requests[0].body
        assert "AKIAFILE" in sts.requests[0].headers["authorization"]
        assert "/eu-west-1/" in sts.requests[0].headers["authorization"]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("agent.json", "", "agent.json:1: it is not JSON"),
        ("agent.json", "flows: []", "agent.json:1: it is not JSON"),
        ("agent", "[]", "agent:1: it is not a JSON object"),
        ("agent", "// ours\n/* all */ {}", "agent:1: flows is a list"),
        ("agent", "# Flume's\n", "agent:1: there is no agent in it"),
    ],
)
def test_a_file_is_taken_for_json_by_its_name_and_by_what_follows_its_comments(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    (tmp_path / name).write_text(text)
    done = CliRunner().invoke(agent, [str(tmp_path / name), "--check"])
    assert done.exit_code == 1
    assert sentence in done.output
