"""Reads Kinesis Agent's `agent.json`: its keys, their defaults and their ranges.

Documented: https://docs.aws.amazon.com/streams/latest/dev/writing-with-agents.html; the keys that this page leaves out
are those of awslabs/amazon-kinesis-agent (observed in its source, release 2).
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headrace.agent.config.errors import ConfigurationError, line_of_key
from headrace.agent.converters import ConverterError, converter_of
from headrace.agent.files.names import FilePattern
from headrace.agent.patterns import compile_java

# What the Java agent uses for itself and has no meaning here: its threads, connections and metrics.
_WITHOUT_EFFECT = frozenset(
    {
        "cloudwatch.emitMetrics", "cloudwatch.endpoint", "cloudwatch.namespace", "cloudwatch.tagInstance",
        "cloudwatch.metricsBufferTimeMillis", "cloudwatch.metricsQueueSize", "log.level", "log.file",
        "log.emitMetrics", "log.emitInternalMetrics", "log.statusReportingPeriodSeconds", "log.maxBackupIndex",
        "log.maxFileSize", "maxSendingThreads", "maxSendingThreadsPerCore", "sendingThreadsKeepAliveMillis",
        "sendingThreadsMaxQueueSize", "maxConnections", "connectionTimeoutMillis", "connectionTTLMillis",
        "socketTimeoutMillis", "useTcpKeepAlive", "useHttpGzip", "sts.endpoint", "instance.endpoint",
    }
)  # fmt: skip
_OF_AGENT = _WITHOUT_EFFECT | {
    "flows", "checkpointFile", "checkpointTimeToLiveDays", "awsAccessKeyId", "awsSecretAccessKey", "kinesis.endpoint",
    "kinesis.region", "firehose.endpoint", "firehose.region", "shutdownTimeoutMillis",
}  # fmt: skip
_REFUSED = frozenset(
    {"assumeRoleARN", "assumeRoleExternalId", "userDefinedCredentialsProvider.classname"}
)
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
    "truncatedRecordTerminator", "minTimeBetweenFilePollsMillis", "fileFooterPattern",
}  # fmt: skip
_FLOW_REFUSED = frozenset({"aggregatedRecordSizeBytes"})
_RECORDS = {"kinesisStream": 500, "deliveryStream": 500}
_BYTES = {"kinesisStream": 5 << 20, "deliveryStream": 4 << 20}
# AWS's largest record at the default MaxRecordSize of a stream, less its key; Firehose's largest.
_RECORD_BYTES = {"kinesisStream": (1 << 20) - 256, "deliveryStream": 1_024_000}


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow: which files go where. `id` names it among the positions."""

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
    poll_ms: int


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """A whole `agent.json`."""

    flows: list[Flow]
    positions: Path
    keep_days: int
    access_key: str
    secret_key: str
    kinesis_endpoint: str
    firehose_endpoint: str
    kinesis_region: str
    firehose_region: str


def read_agent_json(path: Path) -> AgentSettings:
    """Read the file. Raises ConfigurationError, OSError."""
    text = path.read_text()
    try:
        content: Any = json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        line = getattr(error, "lineno", None) or line_of_key(text, str(error), 1)
        raise ConfigurationError(f"{path}:{line}: it is not JSON: {error}") from error
    reader = _Reader(path, text)
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}:1: it is not a JSON object")
    agent = cast("dict[str, Any]", content)
    reader.check_keys(agent, _OF_AGENT, _REFUSED, "the agent", 0)
    flows = agent.get("flows")
    if not isinstance(flows, list) or not flows:
        raise reader.error("flows", "flows is a list of at least one flow")
    made = [reader.flow(item, at) for at, item in enumerate(cast("list[Any]", flows))]
    ids = [flow.id for flow in made]
    for at, flow in enumerate(made):
        if flow.id in ids[:at]:
            raise reader.error("filePattern", f"two flows send {flow.id}", at)
    checkpoints = reader.text(agent, "checkpointFile", "/var/run/aws-kinesis-agent/checkpoints")
    return AgentSettings(
        made,
        # The Java agent's own file is left as it is.
        Path(checkpoints + ".headrace.json"),
        reader.number(agent, "checkpointTimeToLiveDays", 7, 1, 3650),
        *(
            reader.text(agent, key, "")
            for key in (
                "awsAccessKeyId", "awsSecretAccessKey", "kinesis.endpoint", "firehose.endpoint",
                "kinesis.region", "firehose.region",
            )
        ),
    )  # fmt: skip


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(key)
        content[key] = value
    return content


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def error(self, key: str, sentence: str, nth: int = 0) -> ConfigurationError:
        return ConfigurationError(f"{self._path}:{line_of_key(self._text, key, nth)}: {sentence}")

    def check_keys(
        self, values: Mapping[str, Any], known: frozenset[str], refused: frozenset[str], owner: str, nth: int
    ) -> None:  # fmt: skip
        for key in values:
            if key in refused:
                raise self.error(key, f"{key} is not built")
            if key not in known:
                raise self.error(key, f"{owner} has no key {key!r}")

    def text(self, values: Mapping[str, Any], key: str, default: str, nth: int = 0) -> str:
        value = values.get(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"{key} is a text", nth)
        return value

    def number(
        self, values: Mapping[str, Any], key: str, default: int, least: int, most: int, nth: int = 0
    ) -> int:
        # Kinesis Agent takes numbers in quotes, and its documentation shows both.
        value = values.get(key, default)
        try:
            number = int(value) if isinstance(value, int | str) else least - 1
        except ValueError:
            number = least - 1
        if not least <= number <= most or isinstance(value, bool):
            raise self.error(key, f"{key} is a number from {least} to {most}", nth)
        return number

    def choice(
        self, values: Mapping[str, Any], key: str, options: tuple[str, ...], nth: int
    ) -> str:
        value = values.get(key, options[0])
        if value not in options:
            raise self.error(key, f"{key} is {' or '.join(options)}, not {value!r}", nth)
        return str(value)

    def flow(self, item: Any, nth: int) -> Flow:
        if not isinstance(item, dict):
            raise self.error("flows", f"flow {nth + 1} is not an object")
        flow = cast("dict[str, Any]", item)
        self.check_keys(flow, _OF_FLOW, _FLOW_REFUSED, "a flow", nth)
        targets = [key for key in ("kinesisStream", "deliveryStream") if key in flow]
        if len(targets) != 1:
            raise self.error(
                targets[-1] if targets else "filePattern",
                f"flow {nth + 1} has either kinesisStream or deliveryStream, and not {len(targets)} of them",
                0 if targets else nth,
            )
        kind = targets[0]
        if kind == "deliveryStream" and "partitionKeyOption" in flow:
            raise self.error("partitionKeyOption", "a delivery stream has no partition keys")
        target, files = self.text(flow, kind, ""), self.text(flow, "filePattern", "")
        if not target or not Path(files).is_absolute():
            raise self.error("filePattern", f"filePattern is an absolute path, not {files!r}", nth)
        folder, name = Path(files).parent, Path(files).name
        if any(sign in str(folder) for sign in "*?["):
            raise self.error("filePattern", "wildcards are for the file's name alone", nth)
        start = self._pattern(flow, "multiLineStartPattern", nth)
        footer = self._pattern(flow, "fileFooterPattern", nth)
        # Records go as they come, which is sooner.
        self.number(flow, "maxBufferAgeMillis", 60_000, 1_000, 900_000, nth)
        longest = _RECORD_BYTES[kind]
        return Flow(
            id=f"{'fh' if kind == 'deliveryStream' else 'kinesis'}:{target}:{files}",
            pattern=FilePattern(folder, lambda candidate: fnmatch.fnmatchcase(candidate, name)),
            is_firehose=kind == "deliveryStream",
            target=target,
            is_random_key=self.choice(flow, "partitionKeyOption", ("RANDOM", "DETERMINISTIC"), nth) == "RANDOM",
            from_start=self.choice(flow, "initialPosition", ("END_OF_FILE", "START_OF_FILE"), nth) == "START_OF_FILE",
            starts_record=None if start is None else start.matches_start,
            is_footer=None if footer is None else footer.matches_whole,
            convert=self._converters(flow, nth),
            most_bytes=self.number(flow, "maxBufferSizeBytes", _BYTES[kind], 1, _BYTES[kind], nth),
            most_records=self.number(flow, "maxBufferSizeRecords", _RECORDS[kind], 1, _RECORDS[kind], nth),
            lines_to_skip=self.number(flow, "skipHeaderLines", 0, 0, 1 << 31, nth),
            terminator=self.text(flow, "truncatedRecordTerminator", "\n", nth).encode(),
            longest_bytes=longest,
            poll_ms=self.number(flow, "minTimeBetweenFilePollsMillis", 100, 1, 3_600_000, nth),
        )  # fmt: skip

    def _pattern(self, flow: Mapping[str, Any], key: str, nth: int) -> Any:
        text = self.text(flow, key, "", nth)
        try:
            return compile_java(text) if text else None
        except ValueError as error:
            raise self.error(key, f"{key} is not a regular expression: {error}") from error

    def _converters(
        self, flow: Mapping[str, Any], nth: int
    ) -> Callable[[bytes], bytes | None] | None:
        options: Any = flow.get("dataProcessingOptions", [])
        if not isinstance(options, list):
            raise self.error("dataProcessingOptions", "dataProcessingOptions is a list", nth)
        steps: list[Callable[[bytes], bytes | None]] = []
        for option in cast("list[Any]", options):
            try:
                steps.append(converter_of(option))
            except ConverterError as error:
                raise self.error(error.key, str(error)) from error
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
