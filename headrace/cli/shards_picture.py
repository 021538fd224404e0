"""A stream's shards as a picture in the terminal: the ring of hash keys with its heat, the shards, their parents."""

from __future__ import annotations

import math
from bisect import bisect_right

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.client.hash_keys import HASH_KEYS, ShardRange
from headrace.shards.loads import StreamLoad

# From idle to full, and beyond: as colours, and as letters where there are none.
_HEAT = (
    (0.05, "grey37", "."),
    (0.3, "dodger_blue2", ":"),
    (0.6, "green3", "o"),
    (0.8, "gold1", "O"),
    (0.95, "dark_orange", "#"),
    (math.inf, "red1", "@"),
)
_RADIUS = 9
_INNER = 6.2
# A character is twice as high as it is wide.
_ASPECT = 2.0
_MOST_ROWS = 40
_MOST_FORMER = 10


def picture_of(
    stream: str, load: StreamLoad, lineage: list[tuple[ShardRange, bool]], *, keys: int, width: int
) -> RenderableType:
    """Return the picture of one look.

    Args:
        stream: its name.
        load: the look.
        lineage: all shards, each with whether it is open.
        keys: how many of the hottest keys to name.
        width: of the terminal, in characters.
    """
    head = Text(
        f"{stream}: {len(load.shards)} open shards, {load.records_per_s:,.0f} records/s,"
        f" {load.bytes_per_s / (1 << 20):.2f} MiB/s"
    )
    ring = _ring(load)
    table = _shard_table(load)
    parts: list[RenderableType] = [head]
    if width >= 100:
        side = Table.grid(padding=(0, 2))
        side.add_row(ring, table)
        parts.append(side)
    else:
        parts += [ring, table]
    parts.append(_former(lineage))
    if keys:
        parts.append(_hottest(load, keys))
    return Group(*parts)


def _heat(used: float) -> tuple[str, str]:
    return next((style, letter) for most, style, letter in _HEAT if used < most)


def _ring(load: StreamLoad) -> Text:
    """Return the ring: hash key 0 is at the top, and they grow clockwise; `|` parts two shards."""
    starts = [shard.start for shard in load.shards]
    lines = [Text(no_wrap=True) for _ in range(2 * _RADIUS + 1)]
    for row, line in enumerate(lines):
        y = _RADIUS - row
        before: int | None = None
        for column in range(round(2 * _RADIUS * _ASPECT) + 1):
            x = (column - _RADIUS * _ASPECT) / _ASPECT
            if not _INNER <= math.hypot(x, y) <= _RADIUS + 0.3:
                before = None
                line.append(" ")
                continue
            turn = (math.atan2(x, y) / (2 * math.pi)) % 1.0
            index = bisect_right(starts, int(turn * HASH_KEYS)) - 1
            style, letter = _heat(load.utilisation[index])
            is_border = before is not None and before != index
            line.append("|" if is_border else letter, style="bold white" if is_border else style)
            before = index
    return Text("\n").join(lines)


def _shard_table(load: StreamLoad) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("shard", "ring", "used", "", "hottest key", "from"):
        table.add_column(name, no_wrap=True)
    rows = sorted(
        range(len(load.shards)),
        key=lambda i: (-round(load.utilisation[i], 3), load.shards[i].start),
    )
    for i in rows[:_MOST_ROWS]:
        shard, used = load.shards[i], load.utilisation[i]
        style, letter = _heat(used)
        loads = load.keys.get(shard.shard_id)
        hottest = loads.hottest(1) if loads is not None else []
        table.add_row(
            _short(shard.shard_id),
            f"{(shard.end - shard.start + 1) / HASH_KEYS:.1%}",
            f"{used:.0%}",
            Text(letter * min(20, math.ceil(used * 20)), style=style),
            f"{hottest[0].key} {hottest[0].share:.0%}" if hottest else "",
            " + ".join(map(_short, shard.parents)),
        )
    if len(rows) > _MOST_ROWS:
        table.add_row(f"and {len(rows) - _MOST_ROWS} more")
    return table


def _former(lineage: list[tuple[ShardRange, bool]]) -> Text:
    """Return the closed shards with what became of them, the newest first."""
    children: dict[str, list[str]] = {}
    for shard, _ in lineage:
        for parent in shard.parents:
            children.setdefault(parent, []).append(_short(shard.shard_id))
    closed = sorted((s.shard_id for s, is_open in lineage if not is_open), reverse=True)
    lines = [
        f"{_short(name)} became {' and '.join(sorted(children.get(name, ['?'])))}"
        for name in closed[:_MOST_FORMER]
    ]
    if len(closed) > _MOST_FORMER:
        lines.append(f"and {len(closed) - _MOST_FORMER} more closed shards")
    return Text("\n".join(["closed: " + (lines[0] if lines else "none"), *lines[1:]]))


def _hottest(load: StreamLoad, count: int) -> Text:
    hottest = [
        (hot.share * used, hot.key, shard.shard_id)
        for shard, used in zip(load.shards, load.utilisation, strict=True)
        if (loads := load.keys.get(shard.shard_id)) is not None
        for hot in loads.hottest(count)
    ]
    words = [
        f"{key or '(none)'} {used:.1%} of a shard ({_short(shard_id)})"
        for used, key, shard_id in sorted(hottest, reverse=True)[:count]
    ]
    return Text("hottest keys: " + (", ".join(words) or "none in the sample"))


def _short(shard_id: str) -> str:
    """Return a shard's number: `shardId-000000000012` is 12."""
    number = shard_id.rpartition("-")[2]
    return str(int(number)) if number.isdecimal() else shard_id
