"""Writes the table of releases in docs/emr.md from `emr_releases`: python -m scripts.emr_table."""

from __future__ import annotations

from pathlib import Path

from headrace.core.extras import format_minor
from headrace.spark_submit.emr_releases import Release, releases, traits_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "emr.md"
BEGIN = "<!-- releases: python -m scripts.emr_table -->\n"
END = "<!-- end of releases -->\n"
_SERVICES = {"emr": "EC2", "emr-serverless": "Serverless"}


def table() -> str:
    """Return the table as Markdown."""
    lines = [
        "| label | Spark | Python on the image (PySpark's first) | Java, Scala | Hadoop | on | here it needs |",
        "|---|---|---|---|---|---|---|",
        *(_row(release) for release in releases()),
    ]
    return "\n".join(lines) + "\n"


def _row(release: Release) -> str:
    others = [python for python in release.pythons if python != release.python]
    traits = traits_of(release.spark_minor)
    can = traits.pythons
    services = ", ".join(_SERVICES[name] for name in release.services)
    mark = "" if release.evidence == "documented" else f" ({release.evidence})"
    cells = [
        f"[{release.label}]({release.source})",
        release.spark + mark,
        ", ".join([release.python, *others]),
        f"{release.java}, {release.scala}",
        release.hadoop or "not documented",
        services,
        f"{traits.needed_java}; Python {format_minor(can[0])} to {format_minor(can[-1])}",
    ]
    return f"| {' | '.join(cells)} |"


def with_table(text: str) -> str:
    """Return a page with the current table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
