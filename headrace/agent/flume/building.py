"""Makes an agent of a Flume properties file, and runs it: a thread for each source, sink or group of sinks."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.agent.flume.avro import AvroSink, AvroSource
from headrace.agent.flume.channels import ChannelDamaged, FileChannel, MemoryChannel
from headrace.agent.flume.cloud_sinks import (
    FileRoll,
    FirehoseSink,
    KinesisSink,
    Logger,
    Null,
    Reach,
)
from headrace.agent.flume.events import SinkFailed, Source, Stopped
from headrace.agent.flume.file_sources import Exec, Seq, Spooldir, Taildir
from headrace.agent.flume.groups import Group, Sink, group_of
from headrace.agent.flume.http_source import Http
from headrace.agent.flume.intake import Intake, Intercept, interceptor_of, selector_of
from headrace.agent.flume.object_sinks import Hdfs
from headrace.agent.flume.socket_sources import Netcat, SyslogTcp, netcat_udp, syslog_udp
from headrace.agent.positions import PositionsDamaged
from headrace.agent.properties import (
    ConfigurationError,
    Section,
    Value,
    parse_properties,
    resolve,
)
from headrace.agent.running import TRIES_ONCE
from headrace.core.clock import Clock

_LOG = logging.getLogger("headrace.agent")
_KINDS = ("sources", "channels", "sinks", "sinkgroups")
_MEMORY_BYTES = 1 << 30
_SOURCES: dict[str, Callable[[Section, Intake, Clock], Source]] = {
    "avro": AvroSource, "exec": Exec, "http": Http, "netcat": Netcat, "netcatudp": netcat_udp, "seq": Seq,
    "spooldir": Spooldir, "taildir": Taildir, "syslogudp": syslog_udp,
    "syslogtcp": partial(SyslogTcp, is_multiport=False), "multiport_syslogtcp": partial(SyslogTcp, is_multiport=True),
}  # fmt: skip
# Flume takes the names of its classes too.
_CLASSES = {
    "org.apache.flume.source.avrosource": "avro", "org.apache.flume.source.execsource": "exec",
    "org.apache.flume.source.http.httpsource": "http", "org.apache.flume.source.netcatsource": "netcat",
    "org.apache.flume.source.netcatudpsource": "netcatudp", "org.apache.flume.source.sequencegeneratorsource": "seq",
    "org.apache.flume.source.spooldirectorysource": "spooldir",
    "org.apache.flume.source.taildir.taildirsource": "taildir",
    "org.apache.flume.source.syslogudpsource": "syslogudp", "org.apache.flume.source.syslogtcpsource": "syslogtcp",
    "org.apache.flume.source.multiportsyslogtcpsource": "multiport_syslogtcp",
    "org.apache.flume.channel.memorychannel": "memory", "org.apache.flume.channel.file.filechannel": "file",
    "org.apache.flume.sink.hdfs.hdfseventsink": "hdfs", "org.apache.flume.sink.loggersink": "logger",
    "org.apache.flume.sink.rollingfilesink": "file_roll", "org.apache.flume.sink.nullsink": "null",
    "org.apache.flume.sink.avrosink": "avro",
    "com.amazonaws.services.kinesis.flume.kinesissink": "kinesis",
    "com.amazonaws.services.kinesis.flume.firehosesink": "firehose",
}  # fmt: skip


@dataclass(slots=True)
class FlumeAgent:
    """An agent that is joined and not yet running."""

    name: str
    channels: dict[str, MemoryChannel]
    sources: dict[str, Source]
    intakes: dict[str, Intake]
    sinks: dict[str, Sink]
    # What a thread drives: a sink by itself, or a group.
    runners: dict[str, Sink | Group]


def agent_names(path: Path) -> list[str]:
    """Return the names of the agents in a file. Raises ConfigurationError, OSError."""
    names = dict.fromkeys(key.partition(".")[0] for key in parse_properties(path) if "." in key)
    if not names:
        raise ConfigurationError(f"{path}:1: there is no agent in it")
    return list(names)


def build(
    path: Path, name: str, reach: Reach, clock: Clock, stop: threading.Event, *, hdfs: str = ""
) -> FlumeAgent:
    """Read a file and make the agent of that name: sources bind their ports, channels open their folders.

    Raises ConfigurationError with the file's line, OSError.
    """
    return _Builder(path, name, reach, clock, stop, hdfs).build()


class _Builder:
    def __init__(
        self, path: Path, name: str, reach: Reach, clock: Clock, stop: threading.Event, hdfs: str
    ) -> None:
        self._path, self._values = path, resolve(path, parse_properties(path), name)
        self._reach, self._clock, self._stop, self._hdfs = reach, clock, stop, hdfs
        self._agent = FlumeAgent(name, {}, {}, {}, {}, {})
        self._whole = Section(path, self._values, f"{name}.", f"the agent {name}")

    def build(self) -> FlumeAgent:
        whole, agent = self._whole, self._agent
        for key in whole.names:
            if key not in (*_KINDS, "configfilters"):
                raise whole.error(
                    _first_key(self._values, f"{agent.name}.{key}", agent.name),
                    f"{whole.owner} has no key {key!r}",
                )
        names = {kind: self._names(kind) for kind in _KINDS}
        if not names["sources"] and not names["sinks"]:
            raise whole.error("sources", f"{whole.owner} has neither sources nor sinks")
        try:
            for name in names["channels"]:
                with self._section("channel", name) as section:
                    agent.channels[name] = self._channel(name, section)
            for name in names["sinks"]:
                with self._section("sink", name) as section:
                    agent.sinks[name] = self._sink(section)
            self._group(names["sinkgroups"])
            taken = {id(sink.channel) for sink in agent.sinks.values()}
            for name, channel in agent.channels.items():
                if id(channel) not in taken:
                    raise whole.error(
                        "channels", f"no sink takes from channel {name}, which would fill up"
                    )
            for name in names["sources"]:
                with self._section("source", name) as section:
                    self._source(name, section)
        except BaseException:
            for channel in agent.channels.values():
                channel.close()
            raise
        return agent

    def _names(self, kind: str) -> list[str]:
        """Return the components of a kind; names what is configured and not listed."""
        names = self._whole.words(kind, "")
        if len(set(names)) < len(names):
            raise self._whole.error(kind, f"{kind} of {self._whole.owner} has a name twice")
        below = Section(self._path, self._values, f"{self._agent.name}.{kind}.", kind)
        for name in sorted(below.names - set(names)):
            first = _first_key(
                self._values, f"{self._agent.name}.{kind}.{name}", f"{self._agent.name}.{kind}"
            )
            _LOG.warning(
                "%s; its keys have no effect",
                below.error(first, f"{name} is not in the list of {kind}"),
            )
        return names

    @contextlib.contextmanager
    def _section(self, kind: str, name: str) -> Generator[Section]:
        section = Section(
            self._path, self._values, f"{self._agent.name}.{kind}s.{name}.", f"{kind} {name}"
        )
        if not section.names:
            raise self._whole.error(f"{kind}s", f"{kind} {name} has no keys")
        try:
            yield section
        except (PositionsDamaged, ChannelDamaged) as error:
            raise section.error("type", str(error)) from error
        except PermissionError as error:
            raise section.error("type", f"{section.owner}: {error}") from error
        except OSError as error:
            raise section.error(
                "port" if section.has("port") else "type", f"{section.owner}: {error.strerror}"
            ) from error
        section.finish()

    def _type(self, section: Section) -> str:
        kind = section.text("type").lower()
        return _CLASSES.get(kind, kind)

    def _channel(self, name: str, section: Section) -> MemoryChannel:
        kind = self._type(section)
        if kind not in ("memory", "file"):
            raise section.error("type", f"the channel type {section.text('type')!r} is not built")
        is_file = kind == "file"
        capacity = section.number("capacity", 1_000_000 if is_file else 100, least=1)
        most = section.number("transactionCapacity", 10_000 if is_file else 100, least=1)
        if most > capacity:
            key = "transactionCapacity" if section.has("transactionCapacity") else "capacity"
            raise section.error(
                key,
                f"transactionCapacity of {section.owner}, {most}, is more than its capacity, {capacity}",
            )
        bounds = {"capacity": capacity, "transaction_capacity": most}
        keep_alive_s = section.number("keep-alive", 3)
        if not is_file:
            share = section.number("byteCapacityBufferPercentage", 20, most=99)
            most_bytes = (
                section.number("byteCapacity", _MEMORY_BYTES, least=1) * (100 - share) // 100
            )
            return MemoryChannel(name, keep_alive_s=keep_alive_s, most_bytes=most_bytes, **bounds)
        return self._file_channel(name, section, keep_alive_s, bounds)

    def _file_channel(
        self, name: str, section: Section, keep_alive_s: float, bounds: Mapping[str, int]
    ) -> FileChannel:
        if any(key.startswith("encryption") for key in section.names):
            raise section.error(
                _first_of(section, "encryption"), f"encryption of {section.owner} is not built"
            )
        folders = [Path(word.strip()).expanduser() for word in
                   section.text("dataDirs", "~/.flume/file-channel/data").split(",")]  # fmt: skip
        for folder in folders:
            if any(folder.glob("log-*.meta")):
                _LOG.warning(
                    "channel %s: %s has a log of Flume's own, whose events are not read",
                    name,
                    folder,
                )
        section.ignore(
            "checkpointDir", "useDualCheckpoints", "backupCheckpointDir", "compressBackupCheckpoint",
            "checkpointInterval", "checkpointOnClose", "use-log-replay-v1", "use-fast-replay", "fsyncInterval",
        )  # fmt: skip
        return FileChannel(
            name, folders[0] / f"headrace-{self._agent.name}-{name}", keep_alive_s=keep_alive_s,
            least_free_bytes=section.number("minimumRequiredSpace", 524_288_000),
            segment_bytes=section.number("maxFileSize", 2_146_435_071, least=1),
            fsync=section.flag("fsyncPerTransaction", default=True), **bounds,
        )  # fmt: skip

    def _sink(self, section: Section) -> Sink:
        name = section.text("channel")
        channel = self._agent.channels.get(name)
        if channel is None:
            raise section.error(
                "channel", f"{section.owner} takes from {name!r}, which is no channel of the agent"
            )
        for key in ("batchSize", "batch-size", "sink.batchSize", "hdfs.batchSize"):
            if section.has(key) and section.number(key, least=1) > channel.transaction_capacity:
                raise _too_large(section, key, channel)
        kind = self._type(section)
        makers: dict[str, Callable[[], Sink]] = {
            "kinesis": lambda: KinesisSink(section, channel, self._reach),
            "firehose": lambda: FirehoseSink(section, channel, self._reach),
            "hdfs": lambda: Hdfs(section, channel, self._reach, self._clock, self._hdfs),
            "logger": lambda: Logger(section, channel, self._clock),
            "null": lambda: Null(section, channel, self._clock),
            "file_roll": lambda: FileRoll(section, channel, self._clock),
            "avro": lambda: AvroSink(section, channel),
        }
        if kind not in makers:
            raise section.error("type", f"the sink type {section.text('type')!r} is not built")
        return makers[kind]()

    def _group(self, groups: list[str]) -> None:
        free: dict[str, Sink] = dict(self._agent.sinks)
        for name in groups:
            section = Section(
                self._path,
                self._values,
                f"{self._agent.name}.sinkgroups.{name}.",
                f"sink group {name}",
            )
            self._agent.runners[name] = group_of(section, free, self._clock)
            for sink in section.words("sinks"):
                free.pop(sink)
        self._agent.runners.update(free)

    def _source(self, name: str, section: Section) -> None:
        channels: dict[str, MemoryChannel] = {}
        for word in section.words("channels"):
            if word not in self._agent.channels:
                raise section.error(
                    "channels",
                    f"{section.owner} puts into {word!r}, which is no channel of the agent",
                )
            channels[word] = self._agent.channels[word]
        if not channels:
            raise section.error("channels", f"{section.owner} needs at least one of channels")
        for channel in channels.values():
            if (
                section.has("batchSize")
                and section.number("batchSize", least=1) > channel.transaction_capacity
            ):
                raise _too_large(section, "batchSize", channel)
        intercepts: list[Intercept] = []
        for word in section.words("interceptors", ""):
            part = section.part(f"interceptors.{word}.", f"interceptor {word} of {section.owner}")
            if not part.names:
                raise section.error(
                    "interceptors", f"interceptor {word} of {section.owner} has no keys"
                )
            intercepts.append(interceptor_of(part, self._clock))
        selector = selector_of(
            section.part("selector.", f"the selector of {section.owner}"), channels
        )
        most = min(channel.transaction_capacity for channel in channels.values())
        intake = Intake(name, intercepts, selector, most, self._clock, self._stop)
        kind = self._type(section)
        if kind not in _SOURCES:
            raise section.error("type", f"the source type {section.text('type')!r} is not built")
        self._agent.sources[name] = _SOURCES[kind](section, intake, self._clock)
        self._agent.intakes[name] = intake


def _too_large(section: Section, key: str, channel: MemoryChannel) -> ConfigurationError:
    return section.error(
        key,
        f"{key} of {section.owner} is more than transactionCapacity of channel {channel.name},"
        f" {channel.transaction_capacity}",
    )


def _first_key(values: Mapping[str, Value], prefix: str, base: str) -> str:
    """Return the first key that is a prefix or below it, without what comes before it."""
    for key in values:
        if key == prefix or key.startswith(f"{prefix}."):
            return key.removeprefix(f"{base}.")
    return prefix


def _first_of(section: Section, start: str) -> str:
    return next((key for key in section.keys if key.startswith(start)), start)


_WAIT_S = 0.2
_LONGEST_PAUSE_S = 5.0
# What is in memory when the agent is stopped is delivered within this time, or lost; a file channel keeps it.
_DRAIN_S = 10.0


class RunError(Exception):
    """The agent cannot run so. The message is one sentence."""


class FlumeRun:
    """One run of an agent."""

    def __init__(self, agent: FlumeAgent, clock: Clock, stop: threading.Event) -> None:
        """Take the agent; `stop` ends its sources, and then its sinks."""
        self.agent, self._clock, self._stop = agent, clock, stop
        # Set once no event comes any more.
        self._drains, self._ends = threading.Event(), threading.Event()
        self._failure: BaseException | None = None

    def run(self, *, once: bool = False) -> None:
        """Run until `stop`, or, `once`, until every source is at its end and every channel empty.

        Raises RunError, and what ended a thread.
        """
        endless = [name for name, source in self.agent.sources.items() if not source.ends]
        if once and endless:
            raise RunError(f"--once: source {endless[0]} never ends")
        sources = [
            self._start(f"source-{n}", self._source(s, once)) for n, s in self.agent.sources.items()
        ]
        most_tries = TRIES_ONCE if once else math.inf
        sinks = [
            self._start(f"sink-{n}", self._sink(n, s, most_tries))
            for n, s in self.agent.runners.items()
        ]
        try:
            while not self._stop.is_set() and (
                not once or any(thread.is_alive() for thread in sources)
            ):
                self._clock.wait(self._stop, _WAIT_S)
            for thread in sources:
                thread.join()
            self._drain(sinks, waits=once and not self._stop.is_set())
        finally:
            self._stop.set()
            self._ends.set()
            for thread in (*sources, *sinks):
                thread.join()
            for channel in self.agent.channels.values():
                channel.close()
        if self._failure is not None:
            raise self._failure

    def _start(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except Stopped:
                return
            except BaseException as error:  # noqa: BLE001 - `run` raises it
                self._failure = self._failure or error
                self._stop.set()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _source(self, source: Source, once: bool) -> Callable[[], None]:
        return lambda: source.run(once=once)

    def _drain(self, sinks: list[threading.Thread], *, waits: bool) -> None:
        """Let sinks take what is in the channels: all of it, or what memory would lose, for a while."""
        self._drains.set()
        end_s = self._clock.monotonic_s() + _DRAIN_S
        while any(thread.is_alive() for thread in sinks):
            if waits:
                if self._stop.is_set():
                    return
            elif self._clock.monotonic_s() >= end_s or not self._holds_in_memory():
                return
            threading.Event().wait(0.01)

    def _holds_in_memory(self) -> bool:
        return any(c.used and not c.is_durable for c in self.agent.channels.values())

    def _sink(self, name: str, sink: Sink | Group, most_tries: float) -> Callable[[], None]:
        channels = sink.channels if isinstance(sink, Group) else [sink.channel]

        def run() -> None:
            failures = 0
            while not self._ends.is_set():
                try:
                    is_busy = sink.process(0.0 if self._drains.is_set() else _WAIT_S)
                    if not is_busy and self._drains.is_set():
                        # What is held back for larger objects is written now.
                        sink.close()
                        if _are_empty(channels):
                            return
                        self._clock.wait(self._ends, 0.01)
                except SinkFailed as error:
                    failures += 1
                    if failures >= most_tries:
                        why = f"sink {name}: after {failures} tries: {error}"
                        raise RunError(why) from error
                    _LOG.error("sink %s: %s; it is tried again", name, error)
                    self._clock.wait(self._ends, min(float(failures), _LONGEST_PAUSE_S))
                else:
                    failures = 0
            try:
                sink.close()
            except SinkFailed as error:
                _LOG.error("sink %s: %s", name, error)

        return run


def _are_empty(channels: list[MemoryChannel]) -> bool:
    return not any(channel.used for channel in channels)
