"""Shared parts of Lambda's two benchmarks: a figure with its goal, the table of figures, the functions' runtime."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

RUNTIME = "python3.12"


@dataclass(frozen=True)
class Row:
    """A figure of a target, and its goal; a figure without a goal is for comparison."""

    what: str
    target: str
    value: float
    unit: str
    goal: float | None = None
    higher_is_better: bool = False

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.higher_is_better else self.value < self.goal


def show(rows: list[Row], console: Console) -> None:
    """Print the figures as a table, grouped by kind."""
    table = Table("what", "target", "value", "goal", "met")
    for what in dict.fromkeys(row.what for row in rows):
        for row in (each for each in rows if each.what == what):
            sign = ">=" if row.higher_is_better else "<"
            goal = "" if row.goal is None else f"{sign} {row.goal:g} {row.unit}"
            met = {None: "", True: "yes", False: "[red]no[/]"}[row.is_met]
            table.add_row(what, row.target, f"{row.value:,.2f} {row.unit}", goal, met)
        table.add_section()
    console.print(table)


def exit_if_missed(rows: list[Row]) -> None:
    """Exit with a sentence when a goal is missed."""
    missed = [row for row in rows if row.is_met is False]
    if missed:
        raise SystemExit(f"{len(missed)} goals missed")
