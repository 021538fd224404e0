"""Which faults strike, and how hard: all from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.store import frame

# The share of each beside the kills: a run of so many kills has about a third as many other faults.
_KILLS = {"kill": 74, "kill, torn tails": 16, "kill on a full disk": 10}
_OTHERS = {"stop": 8, "pause": 6, "clock forward": 6, "clock back": 6, "full disk": 7}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault and its moment.

    Attributes:
        after_acknowledged, after_forwarded: it strikes once so many more records were, and
        after_s: so much later.
        seconds: how long it lasts.
        jump_ms: how far the clock jumps.
        leave_bytes: how much room is left on the disk.
    """

    kind: str
    after_acknowledged: int
    after_forwarded: int
    after_s: float
    seconds: float = 0.0
    jump_ms: int = 0
    leave_bytes: int = 0


def plan(chosen: random.Random, kills: int) -> Iterator[Fault]:
    """Yield faults until so many of them are kills; the first few are one of each kind."""
    first = [*_OTHERS, *_KILLS]
    chosen.shuffle(first)
    done = 0
    while done < kills:
        kind = first.pop() if first else _draw(chosen)
        done += kind.startswith("kill")
        yield _fault(chosen, kind)


def _draw(chosen: random.Random) -> str:
    weights = {**_KILLS, **_OTHERS}
    return chosen.choices(list(weights), list(weights.values()))[0]


def _fault(chosen: random.Random, kind: str) -> Fault:
    jump_ms = chosen.randrange(1_000, 900_000)
    return Fault(
        kind,
        # Often at once after a start, now and then with everything in full swing.
        after_acknowledged=chosen.choice((1, 5, 20, 60, 150)),
        after_forwarded=chosen.choice((0, 0, 1, 30, 80)),
        after_s=chosen.random() * 0.05,
        seconds=0.1 + chosen.random() * 0.7,
        jump_ms=-jump_ms if kind == "clock back" else jump_ms,
        leave_bytes=chosen.choice((0, 0, 4096, 16_384, 100_000)),
    )


def tear_tails(data_dir: Path, chosen: random.Random) -> None:
    """Append the beginnings of writes that never came to their end, to logs and to SQLite's journal."""
    folders = [sorted(folder.glob("*.log")) for folder in data_dir.glob("streams/*/*")]
    newest = [paths[-1] for paths in sorted(folders) if paths]
    for path in chosen.sample(newest, min(2, len(newest))):
        whole = frame.encode(b"x" * chosen.randrange(1, 5000), 1, 1, 1 << 40, 1)
        with path.open("ab") as file:
            file.write(whole[: chosen.randrange(1, len(whole))])
    journal = data_dir / "state.sqlite-wal"
    if journal.exists() and chosen.random() < 0.5:
        with journal.open("ab") as file:
            file.write(chosen.randbytes(chosen.randrange(1, 5000)))
