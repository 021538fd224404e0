"""Turns sample records into a realistic stream: duplicates, late and broken records, hot keys, resharding.

`stream` is an iterator for load; `streams` is a hypothesis strategy, so that a failing stream shrinks to a few records.
`play` puts either of them into a Kinesis stream.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SKEW_MS = 180 * 60_000
# Of a request of `play`.
_MOST_RECORDS, _MOST_BYTES = 100, 1 << 20
# A KPL record's first bytes. Source: github.com/awslabs/amazon-kinesis-producer, aggregation-format.md (documented).
KPL_MAGIC = b"\xf3\x89\x9a\xc2"


class SampleRefused(ValueError):
    """A file is not a usable sample; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a stream. `time_ms` is the event time by the producer's clock, or None."""

    key: str
    data: bytes
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Something that happens to the stream between two records, such as a split."""

    what: Literal["split", "merge", "throttled", "partial", "iterator_expiry"]


Item = Event | StreamEvent
POISON = (b"", b"\x00\xff\xfe", b"not json", b"[]", b"null")
TROUBLES = ("split", "merge", "throttled", "partial", "iterator_expiry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostility:
    """The probability of each kind of trouble, for each record.

    Attributes:
        duplicate: the record comes again at once, as when a producer retries after a lost answer.
        replay: the record comes again much later.
        late: the record comes up to `latest_ms` late, behind its successors.
        swapped: the record changes places with the next record of another key.
        hot_key: the record has the key of the first record, which skews a shard.
        poison: the record is not JSON.
        truncated: the record is cut off.
        drift: a field is missing, new, or of another type.
        skew: the event time is wrong by hours.
        aggregate: the record shares one Kinesis record with its successors, in the KPL's form.
        happening: a split, a merge, throttling, a partial failure or an expired iterator comes before the record.
    """

    duplicate: float = 0.05
    replay: float = 0.02
    late: float = 0.05
    swapped: float = 0.1
    hot_key: float = 0.0
    poison: float = 0.01
    truncated: float = 0.01
    drift: float = 0.02
    skew: float = 0.02
    aggregate: float = 0.0
    happening: float = 0.0
    latest_records: int = 50


USUAL = Hostility()


# --- samples ------------------------------------------------------------------------------------


def from_records(
    records: Iterable[Mapping[str, Any] | bytes | str],
    *,
    key: str | Callable[[Any], str] = "id",
    time: str | None = None,
) -> list[Event]:
    """Return events made from JSON objects or raw data.

    Args:
        records: the objects, oldest first.
        key: the member that holds the partition key, or a function that returns it for an object.
        time: the member with the event time, ISO 8601 or milliseconds.
    """
    return [_event(one, key, time) for one in records]


def from_file(
    path: str | Path, *, key: str | Callable[[Any], str] = "id", time: str | None = None
) -> list[Event]:
    """Return the events of a file: JSON lines, a JSON array, a CSV file, or a recorded Lambda event of Kinesis.

    Raises SampleRefused.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SampleRefused(f"{path} cannot be read as a sample: {error}") from error
    try:
        records = _records_of(path, text)
    except ValueError as error:
        raise SampleRefused(f"{path} is not a sample of records: {error}") from error
    if not records:
        raise SampleRefused(f"{path} has no records.")
    if all(isinstance(one, Event) for one in records):
        return records
    return from_records(records, key=key, time=time)


def _records_of(path: Path, text: str) -> list[Any]:
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    try:
        whole: Any = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(whole, dict) and "Records" in whole:
        recorded: list[Any] = cast("dict[str, Any]", whole)["Records"]
        return [
            Event(
                one["kinesis"].get("partitionKey", ""),
                base64.b64decode(one["kinesis"]["data"]),
                round(float(one["kinesis"].get("approximateArrivalTimestamp", 0)) * 1000),
            )
            for one in recorded
        ]
    return cast("list[Any]", whole) if isinstance(whole, list) else [whole]


def _event(
    record: Mapping[str, Any] | bytes | str, key: str | Callable[[Any], str], time: str | None
) -> Event:
    if isinstance(record, bytes | str):
        data = record.encode() if isinstance(record, str) else record
        return Event(key(data) if callable(key) else hashlib.md5(data).hexdigest()[:8], data)
    if callable(key):
        name = key(record)
    elif key in record:
        name = str(record[key])
    else:
        raise SampleRefused(f"A record has no {key!r} to be its key; it has {', '.join(record)}.")
    return Event(name, json.dumps(record, separators=(",", ":")).encode(), _time_of(record, time))


def _time_of(record: Mapping[str, Any], time: str | None) -> int | None:
    value = None if time is None else record.get(time)
    if value is None:
        return None
    if isinstance(value, int | float):
        return round(value)
    moment = datetime.fromisoformat(str(value))
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


# --- streams ------------------------------------------------------------------------------------


def stream(
    sample: Sequence[Event],
    *,
    seed: int,
    hostility: Hostility = USUAL,
    count: int | None = 10_000,
) -> Iterator[Item]:
    """Yield a hostile stream of `count` items, with None without end; the same seed gives the same one."""
    if not sample:
        raise SampleRefused("A hostile stream needs a sample of at least one record.")
    chosen = random.Random(f"hostile/{seed}")
    count_made, held = 0, list[tuple[int, Event]]()
    step = 0
    while count is None or count_made < count:
        due = [one for one in held if one[0] <= step]
        if due:
            held.remove(due[0])
            items: list[Item] = [due[0][1]]
        else:
            items = _next_items(sample, step, chosen, hostility, held)
            step += 1
        for item in items:
            if count is not None and count_made >= count:
                return
            count_made += 1
            yield item


def _next_items(
    sample: Sequence[Event],
    index: int,
    chosen: random.Random,
    hostility: Hostility,
    held: list[tuple[int, Event]],
) -> list[Item]:
    """Return the items at one position of the stream; put items that shall come later into `held`."""
    event = sample[index % len(sample)]
    items: list[Item] = []

    def happens(chance: float) -> bool:
        return chance > 0 and chosen.random() < chance

    if happens(hostility.happening):
        items.append(StreamEvent(chosen.choice(cast("Any", TROUBLES))))
    event = _corrupt(event, sample, happens, chosen, hostility)
    if happens(hostility.replay):
        held.append((index + chosen.randint(2, hostility.latest_records), event))
    if happens(hostility.late):
        held.append((index + 2 + chosen.randrange(hostility.latest_records), event))
        return items
    if happens(hostility.swapped):
        # Behind the next record.
        held.append((index + 2, event))
        return items
    if happens(hostility.aggregate):
        following = [sample[(index + n) % len(sample)] for n in range(1, chosen.randint(2, 4))]
        event = aggregated([event, *following])
    items.append(event)
    if happens(hostility.duplicate):
        items.append(event)
    return items


def _corrupt(
    event: Event,
    sample: Sequence[Event],
    happens: Callable[[float], bool],
    chosen: random.Random,
    hostility: Hostility,
) -> Event:
    if happens(hostility.hot_key):
        event = replace(event, key=sample[0].key)
    if happens(hostility.poison):
        return replace(event, data=chosen.choice(POISON))
    if happens(hostility.truncated):
        return replace(event, data=event.data[: chosen.randrange(max(1, len(event.data)))])
    if happens(hostility.drift):
        return replace(event, data=drifted(event.data, chosen))
    if happens(hostility.skew) and event.time_ms is not None:
        return _skew(event, chosen.choice((-1, 1)))
    return event


def drifted(data: bytes, chosen: random.Random) -> bytes:
    """Return a JSON object as another version of its producer writes it; return other data unchanged."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    if not isinstance(document, dict) or not document:
        return data
    record = cast("dict[str, Any]", document)
    name = chosen.choice(sorted(record))
    match chosen.randrange(4):
        case 0:
            del record[name]
        case 1:
            record[f"{name}_v2"] = record[name]
        case 2:
            record[name] = None
        case _:
            record[name] = str(record[name]) if not isinstance(record[name], str) else 0
    return json.dumps(record, separators=(",", ":")).encode()


def aggregated(events: Sequence[Event]) -> Event:
    """Return several events in one record, as the Kinesis Producer Library packs them."""
    keys = list(dict.fromkeys(event.key for event in events))
    message = b"".join(_field(1, key.encode()) for key in keys)
    for event in events:
        record = b"\x08" + _varint(keys.index(event.key)) + _field(3, event.data)
        message += _field(3, record)
    digest = hashlib.md5(message).digest()
    return Event(events[0].key, KPL_MAGIC + message + digest, events[0].time_ms)


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def streams(
    sample: Sequence[Event],
    *,
    hostility: Hostility = USUAL,
    longest: int = 30,
    happenings: bool = False,
) -> SearchStrategy[list[Item]]:
    """Return a hypothesis strategy of hostile streams; a failing one shrinks to the few records that matter."""
    from hypothesis import strategies as st

    if not sample:
        raise SampleRefused("Hostile streams need a sample of at least one record.")
    plain = st.sampled_from(list(sample))
    kinds: list[SearchStrategy[Any]] = [plain]
    if hostility.poison:
        kinds.append(st.builds(_with_data, plain, st.sampled_from(POISON)))
    if hostility.truncated:
        kinds.append(st.builds(_cut, plain, st.integers(0, 40)))
    if hostility.drift:
        kinds.append(st.builds(_drift, plain, st.integers(0, 1000)))
    if hostility.skew and any(event.time_ms is not None for event in sample):
        kinds.append(st.builds(_skew, plain, st.sampled_from((1, -1))))
    if hostility.hot_key:
        kinds.append(st.builds(replace, plain, key=st.just(sample[0].key)))
    if hostility.aggregate:
        kinds.append(st.builds(aggregated, st.lists(plain, min_size=1, max_size=3)))
    if happenings:
        kinds.append(st.sampled_from([StreamEvent(cast("Any", what)) for what in TROUBLES]))
    # A list strategy may draw an element twice and in any order, which covers duplicates, replays and disorder.
    return st.lists(st.one_of(kinds), max_size=longest)


def _with_data(event: Event, data: bytes) -> Event:
    return replace(event, data=data)


def _cut(event: Event, length: int) -> Event:
    return replace(event, data=event.data[:length])


def _skew(event: Event, sign: int) -> Event:
    return (
        event if event.time_ms is None else replace(event, time_ms=event.time_ms + sign * SKEW_MS)
    )


def _drift(event: Event, seed: int) -> Event:
    return replace(event, data=drifted(event.data, random.Random(seed)))


# --- playing it -------------------------------------------------------------------------------------


def play(cloud: Any, name: str, items: Iterable[Item]) -> int:
    """Put a hostile stream into a Kinesis stream; return how many records were put.

    Throttling and partial failures hit the next request, of one record, so that a record that is put again keeps its
    place; botocore or this function retries it. Other requests have many records.
    `cloud` comes from `headrace.testing`; an expired iterator needs a cloud whose time can be moved.
    """
    kinesis, put, most = cloud.client("kinesis"), 0, _MOST_RECORDS
    waiting: list[Event] = []
    for item in items:
        if isinstance(item, Event):
            waiting.append(item)
            if len(waiting) < most and sum(len(one.data) for one in waiting) < _MOST_BYTES:
                continue
        put, most = put + _put(kinesis, name, waiting), _MOST_RECORDS
        waiting.clear()
        if isinstance(item, StreamEvent):
            _apply_event(cloud, kinesis, name, item.what)
            most = 1
    return put + _put(kinesis, name, waiting)


def _put(kinesis: Any, name: str, events: Sequence[Event]) -> int:
    left = [{"Data": one.data or b" ", "PartitionKey": one.key or "-"} for one in events]
    while left:
        answer = kinesis.put_records(StreamName=name, Records=left)
        results = zip(left, answer["Records"], strict=True)
        left = [record for record, result in results if "ErrorCode" in result]
    return len(events)


def _apply_event(cloud: Any, kinesis: Any, name: str, what: str) -> None:
    if what in ("throttled", "partial"):
        kind = {"throttled": "throttle", "partial": "partial"}[what]
        rule = {"fault": kind, "service": "kinesis", "action": "PutRecords", "count": 1}
        cloud.add_fault(rule)
        return
    if what == "iterator_expiry":
        cloud.advance(seconds=301)
        return
    shards = [
        one
        for one in kinesis.list_shards(StreamName=name)["Shards"]
        if "EndingSequenceNumber" not in one["SequenceNumberRange"]
    ]
    shards.sort(key=lambda one: int(one["HashKeyRange"]["StartingHashKey"]))
    if what == "split":
        keys = shards[0]["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        kinesis.split_shard(
            StreamName=name, ShardToSplit=shards[0]["ShardId"], NewStartingHashKey=str(middle)
        )
    elif len(shards) > 1:
        kinesis.merge_shards(
            StreamName=name,
            ShardToMerge=shards[0]["ShardId"],
            AdjacentShardToMerge=shards[1]["ShardId"],
        )
