"""Reads Kinesis Agent's `agent.json`: its keys, their defaults and their ranges.

Documented: https://docs.aws.amazon.com/streams/latest/dev/writing-with-agents.html; the keys that this page leaves out
are those of awslabs/amazon-kinesis-agent (observed in its source, release 2).
"""

from __future__ import annotations

import fnmatch
import json
import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headrace.agent.converters import ConverterError, JavaPattern, compile_java, converter_of
from headrace.agent.lines import FilePattern
from headrace.agent.properties import (
    ConfigurationError,
    JsonPath,
    blank_comments,
    lines_of_keys,
)

# What the Java agent uses for itself and has no meaning here: its threads, connections and log.
_WITHOUT_EFFECT = frozenset(
    {
        "cloudwatch.tagInstance", "cloudwatch.metricsQueueSize", "log.file", "log.emitMetrics",
        "log.emitInternalMetrics", "log.statusReportingPeriodSeconds", "log.maxBackupIndex", "log.maxFileSize",
        "maxSendingThreads", "maxSendingThreadsPerCore", "sendingThreadsKeepAliveMillis", "sendingThreadsMaxQueueSize",
        "maxConnections", "connectionTimeoutMillis", "connectionTTLMillis", "socketTimeoutMillis", "useTcpKeepAlive",
        "useHttpGzip", "instance.endpoint",
    }
)  # fmt: skip
_OF_AGENT = _WITHOUT_EFFECT | {
    "flows", "checkpointFile", "checkpointTimeToLiveDays", "awsAccessKeyId", "awsSecretAccessKey", "kinesis.endpoint",
    "kinesis.region", "firehose.endpoint", "firehose.region", "shutdownTimeoutMillis", "assumeRoleARN",
    "assumeRoleExternalId", "sts.endpoint", "cloudwatch.emitMetrics", "cloudwatch.endpoint",
    "cloudwatch.namespace", "cloudwatch.metricsBufferTimeMillis", "log.level",
}  # fmt: skip
# They name a Java class.
_REFUSED = frozenset(
    {"userDefinedCredentialsProvider.classname", "userDefinedCredentialsProvider.location"}
)
# By Log4j's name.
_LEVELS = {
    "ALL": logging.DEBUG, "TRACE": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO,
    "WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL, "OFF": logging.CRITICAL + 1,
}  # fmt: skip
_FLOW_WITHOUT_EFFECT = frozenset(
    {
        "waitOnFullPublishQueueMillis", "waitOnEmptyPublishQueueMillis", "waitOnFullRetryQueueMillis",
        "publishQueueCapacity", "retryInitialBackoffMillis", "retryMaxBackoffMillis", "log.emitInternalMetrics",
        "maxTimeBetweenFileTrackerRefreshMillis",
    }
)  # fmt: skip
_OF_FLOW = _FLOW_WITHOUT_EFFECT | {
    "filePattern", "kinesisStream", "deliveryStream", "partitionKeyOption", "initialPosition", "multiLineStartPattern",
    "dataProcessingOptions", "maxBufferAgeMillis", "maxBufferSizeBytes", "maxBufferSizeRecords", "skipHeaderLines",
    "truncatedRecordTerminator", "minTimeBetweenFilePollsMillis", "fileFooterPattern", "aggregatedRecordSizeBytes",
}  # fmt: skip
_RECORDS = {"kinesisStream": 500, "deliveryStream": 500}
_BYTES = {"kinesisStream": 5 << 20, "deliveryStream": 4 << 20}
# AWS's largest record at the default MaxRecordSize of a stream, less its key; Firehose's largest.
_RECORD_BYTES = {"kinesisStream": (1 << 20) - 256, "deliveryStream": 1_024_000}


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow: which files go where. `id` names it among the positions.

    `joined_bytes`: neighbouring records become one of at most so many bytes; 0 for none.
    """

    id: str
    pattern: FilePattern
    is_firehose: bool
    target: str
    is_random_key: bool
    from_start: bool
    starts_record: Callable[[bytes], bool] | None
    is_footer: Callable[[bytes], bool] | None
    convert: Callable[[bytes], bytes | None] | None
    most_bytes: int
    most_records: int
    lines_to_skip: int
    terminator: bytes
    longest_bytes: int
    joined_bytes: int
    poll_ms: int


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where the agent's own metrics go, and how often."""

    endpoint: str
    namespace: str
    every_ms: int


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """A whole `agent.json`.

    Attributes:
        warnings: sentences about keys that have no effect here, with their lines.
        metrics: None when the file wants none.
    """

    flows: list[Flow]
    positions: Path
    keep_days: int
    log_level: int
    warnings: list[str]
    metrics: MetricsSettings | None
    access_key: str
    secret_key: str
    kinesis_endpoint: str
    firehose_endpoint: str
    kinesis_region: str
    firehose_region: str
    role_arn: str
    external_id: str
    sts_endpoint: str


def _read(path: Path) -> tuple[_Reader, dict[str, Any]]:
    """Return a file's object with its reader. Raises ConfigurationError, OSError."""
    try:
        # The Java agent's parser allows comments (observed in its source).
        text = blank_comments(path.read_text(encoding="utf-8"))
        content: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{path}:{error.lineno}: it is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}:1: it is not JSON: {error}") from error
    reader = _Reader(path, text)
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}:1: it is not a JSON object")
    agent = cast("dict[str, Any]", content)
    reader.check_keys(agent, _OF_AGENT, "the agent")
    return reader, agent


def read_agent_json(path: Path) -> AgentSettings:
    """Read the file, and the flows of the files in `agent.d` beside it, as the Java agent does.

    Raises ConfigurationError, OSError.
    """
    reader, agent = _read(path)
    flows: dict[str, Flow] = {}
    reader.add_flows(agent, flows)
    warnings = reader.warnings(agent)
    others = path.parent / "agent.d"
    for file in sorted(others.iterdir()) if others.is_dir() else ():
        if file.is_file():
            other, content = _read(file)
            other.add_flows(content, flows)
            warnings += [other.no_effect(key) for key in content if key != "flows"]
    if not flows:
        raise reader.error("flows", "flows is a list of at least one flow")
    checkpoints = reader.text(agent, "checkpointFile", "/var/run/aws-kinesis-agent/checkpoints")
    if reader.text(agent, "assumeRoleExternalId", "") and not agent.get("assumeRoleARN"):
        raise reader.error("assumeRoleExternalId", "assumeRoleExternalId needs assumeRoleARN")
    if bool(agent.get("awsAccessKeyId")) != bool(agent.get("awsSecretAccessKey")):
        key = "awsAccessKeyId" if agent.get("awsAccessKeyId") else "awsSecretAccessKey"
        raise reader.error(key, "awsAccessKeyId and awsSecretAccessKey stand together")
    return AgentSettings(
        list(flows.values()),
        # The Java agent's own file is left as it is.
        Path(checkpoints + ".headrace.json"),
        reader.number(agent, "checkpointTimeToLiveDays", 7, 1, 3650),
        reader.log_level(agent),
        warnings,
        reader.metrics(agent),
        *(
            reader.text(agent, key, "")
            for key in (
                "awsAccessKeyId", "awsSecretAccessKey", "kinesis.endpoint", "firehose.endpoint",
                "kinesis.region", "firehose.region", "assumeRoleARN", "assumeRoleExternalId", "sts.endpoint",
            )
        ),
    )  # fmt: skip


class _Reader:
    """Takes values by type from the object at a path of the file."""

    def __init__(self, path: Path, text: str) -> None:
        self._file, self._at = path, JsonPath()
        self._lines, doubled = lines_of_keys(text)
        if doubled:
            line = self._lines[doubled[0]]
            raise ConfigurationError(f"{path}:{line}: {doubled[0][-1]} stands twice")

    def below(self, *path: str | int) -> _Reader:
        """Return the reader of an object inside this one."""
        reader = copy(self)
        reader._at = self._at + path  # noqa: SLF001 - its own class
        return reader

    def line(self, *path: str | int) -> int:
        """Return a key's line, or that of what is around it."""
        whole = self._at + path
        while whole not in self._lines:
            whole = whole[:-1]
        return self._lines[whole]

    def error(self, key: str | int, sentence: str) -> ConfigurationError:
        return ConfigurationError(f"{self._file}:{self.line(key)}: {sentence}")

    def warnings(self, agent: Mapping[str, Any]) -> list[str]:
        """Return what has no effect here and would have one on AWS."""
        if not self.truth(agent, "cloudwatch.tagInstance", default=False):
            return []
        line = self.line("cloudwatch.tagInstance")
        return [
            f"{self._file}:{line}: cloudwatch.tagInstance has no effect: metrics name no instance"
        ]

    def metrics(self, agent: Mapping[str, Any]) -> MetricsSettings | None:
        """Return where metrics go. The Java agent sends them unless the file says otherwise."""
        settings = MetricsSettings(
            self.text(agent, "cloudwatch.endpoint", ""),
            self.text(agent, "cloudwatch.namespace", "AWSKinesisAgent"),
            self.number(agent, "cloudwatch.metricsBufferTimeMillis", 30_000, 1, 86_400_000),
        )
        if not settings.namespace:
            raise self.error("cloudwatch.namespace", "cloudwatch.namespace is a name")
        return settings if self.truth(agent, "cloudwatch.emitMetrics", default=True) else None

    def truth(self, values: Mapping[str, Any], key: str, *, default: bool) -> bool:
        text = str(values.get(key, default)).lower()
        if text not in ("true", "false"):
            raise self.error(key, f"{key} is true or false, not {values[key]!r}")
        return text == "true"

    def no_effect(self, key: str) -> str:
        """Return the sentence about a key that is for the agent's own file."""
        return f"{self._file}:{self.line(key)}: {key} has no effect in a file of agent.d, whose flows alone count"

    def add_flows(self, agent: Mapping[str, Any], flows: dict[str, Flow]) -> None:
        """Add an object's flows by their ids."""
        items: Any = agent.get("flows", [])
        if not isinstance(items, list):
            raise self.error("flows", "flows is a list of at least one flow")
        for at, item in enumerate(cast("list[Any]", items)):
            flow = self.flow(item, at)
            if flow.id in flows:
                raise self.below("flows", at).error("filePattern", f"two flows send {flow.id}")
            flows[flow.id] = flow

    def log_level(self, agent: Mapping[str, Any]) -> int:
        name = self.text(agent, "log.level", "INFO").upper()
        if name not in _LEVELS:
            raise self.error("log.level", f"log.level is {' or '.join(_LEVELS)}, not {name!r}")
        return _LEVELS[name]

    def check_keys(self, values: Mapping[str, Any], known: frozenset[str], owner: str) -> None:
        for key in values:
            if key in _REFUSED:
                raise self.error(key, f"{key} is not built")
            if key not in known:
                raise self.error(key, f"{owner} has no key {key!r}")

    def text(self, values: Mapping[str, Any], key: str, default: str) -> str:
        value = values.get(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"{key} is a text")
        return value

    def number(
        self, values: Mapping[str, Any], key: str, default: int, least: int, most: int
    ) -> int:
        # Kinesis Agent takes numbers in quotes, and its documentation shows both.
        value = values.get(key, default)
        try:
            number = int(value) if isinstance(value, int | str) else least - 1
        except ValueError:
            number = least - 1
        if not least <= number <= most or isinstance(value, bool):
            raise self.error(key, f"{key} is a number from {least} to {most}")
        return number

    def choice(self, values: Mapping[str, Any], key: str, options: tuple[str, ...]) -> str:
        value = values.get(key, options[0])
        if value not in options:
            raise self.error(key, f"{key} is {' or '.join(options)}, not {value!r}")
        return str(value)

    def flow(self, item: Any, number: int) -> Flow:
        if not isinstance(item, dict):
            raise self.below("flows").error(number, f"flow {number + 1} is not an object")
        return self.below("flows", number).one_flow(cast("dict[str, Any]", item), number)

    def one_flow(self, flow: dict[str, Any], number: int) -> Flow:
        self.check_keys(flow, _OF_FLOW, "a flow")
        targets = [key for key in ("kinesisStream", "deliveryStream") if key in flow]
        if len(targets) != 1:
            raise self.error(
                targets[-1] if targets else "filePattern",
                f"flow {number + 1} has either kinesisStream or deliveryStream, and not {len(targets)} of them",
            )
        kind = targets[0]
        if kind == "deliveryStream" and "partitionKeyOption" in flow:
            raise self.error("partitionKeyOption", "a delivery stream has no partition keys")
        if kind == "kinesisStream" and "aggregatedRecordSizeBytes" in flow:
            raise self.error(
                "aggregatedRecordSizeBytes", "aggregatedRecordSizeBytes is for a deliveryStream"
            )
        target, files = self.text(flow, kind, ""), self.text(flow, "filePattern", "")
        if not target:
            raise self.error(kind, f"{kind} is a name")
        if not Path(files).is_absolute():
            raise self.error("filePattern", f"filePattern is an absolute path, not {files!r}")
        folder, name = Path(files).parent, Path(files).name
        if any(sign in str(folder) for sign in "*?["):
            raise self.error("filePattern", "wildcards are for the file's name alone")
        start = self._pattern(flow, "multiLineStartPattern")
        footer = self._pattern(flow, "fileFooterPattern")
        # Records go as they come, which is sooner.
        self.number(flow, "maxBufferAgeMillis", 60_000, 1_000, 900_000)
        longest = _RECORD_BYTES[kind]
        terminator = self.text(flow, "truncatedRecordTerminator", "\n").encode()
        if len(terminator) >= longest:
            raise self.error(
                "truncatedRecordTerminator",
                f"truncatedRecordTerminator has less than {longest} bytes",
            )
        return Flow(
            id=f"{'fh' if kind == 'deliveryStream' else 'kinesis'}:{target}:{files}",
            pattern=FilePattern(folder, lambda candidate: fnmatch.fnmatchcase(candidate, name)),
            is_firehose=kind == "deliveryStream",
            target=target,
            is_random_key=self.choice(flow, "partitionKeyOption", ("RANDOM", "DETERMINISTIC")) == "RANDOM",
            from_start=self.choice(flow, "initialPosition", ("END_OF_FILE", "START_OF_FILE")) == "START_OF_FILE",
            starts_record=None if start is None else start.matches_start,
            is_footer=None if footer is None else footer.matches_whole,
            convert=self._converters(flow),
            most_bytes=self.number(flow, "maxBufferSizeBytes", _BYTES[kind], 1, _BYTES[kind]),
            most_records=self.number(flow, "maxBufferSizeRecords", _RECORDS[kind], 1, _RECORDS[kind]),
            lines_to_skip=self.number(flow, "skipHeaderLines", 0, 0, 1 << 31),
            terminator=terminator,
            longest_bytes=longest,
            joined_bytes=self.number(flow, "aggregatedRecordSizeBytes", 0, 0, longest),
            poll_ms=self.number(flow, "minTimeBetweenFilePollsMillis", 100, 1, 3_600_000),
        )  # fmt: skip

    def _pattern(self, flow: Mapping[str, Any], key: str) -> JavaPattern | None:
        text = self.text(flow, key, "")
        try:
            return compile_java(text) if text else None
        except ValueError as error:
            raise self.error(key, f"{key} is not a regular expression: {error}") from error

    def _converters(self, flow: Mapping[str, Any]) -> Callable[[bytes], bytes | None] | None:
        options: Any = flow.get("dataProcessingOptions", [])
        if not isinstance(options, list):
            raise self.error("dataProcessingOptions", "dataProcessingOptions is a list")
        steps: list[Callable[[bytes], bytes | None]] = []
        for at, option in enumerate(cast("list[Any]", options)):
            try:
                steps.append(converter_of(option))
            except ConverterError as error:
                place = self.below("dataProcessingOptions", at)
                raise place.error(error.key, str(error)) from error
        if not steps:
            return None

        def convert(record: bytes) -> bytes | None:
            current: bytes | None = record
            for step in steps:
                if current is None:
                    return None
                current = step(current)
            return current

        return convert
