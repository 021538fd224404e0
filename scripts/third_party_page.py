"""Writes docs/conformance/strangers.md from the results of `python -m scripts.third_party_stacks --results FILE`.

`python -m scripts.third_party_page FILE ...` takes the files of one or several runs; for a case in several files the
last one counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "conformance" / "strangers.md"
_MOST_WORDS = 160
_ABOUT = """# Strangers' stacks

Stacks that were not written for headrace: aws-cdk-lib's streaming constructs and their alpha packages
(`ev-`, `fh-`, `iot-`, `k-`, `l-`, `pa-`, `sch-`, `sfn-`, ...), AWS Solutions Constructs (`sc-`), SAM (`sam-`), raw
templates (`doc-`), and public apps and patterns, retyped in short (`mix-`, `pat-`, `ssp-`).
Each is deployed by CloudFormation, fed, looked at where its data must arrive, and destroyed.
`python -m scripts.third_party_stacks` does it anew, and `python -m scripts.third_party_page` writes this page from its
`--results`. What users type is in [Commands](commands.md).
"""


def page(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the page for the rows of cases: `name`, `deploys`, `flows` (None: nothing is sent), `destroys`, `why`."""
    found = sorted(rows, key=lambda row: str(row["name"]))
    passing = sum(bool(r["deploys"] and r["destroys"] and r["flows"] is not False) for r in found)
    sent = [row for row in found if row["flows"] is not None]
    flowing = sum(bool(row["flows"]) for row in sent)
    counts = (
        f"{passing} of {len(found)} pass: {sum(bool(row['deploys']) for row in found)} deploy,"
        f" data flows in {flowing} of the {len(sent)} that are fed,"
        f" {sum(bool(row['destroys']) for row in found)} are destroyed."
    )
    lines = ["| case | deploys | flows | is destroyed | what failed |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['name']} | {_shown(row['deploys'])} | {_shown(row['flows'])}"
        f" | {_shown(row['destroys'])} | {_words(str(row['why']))} |"
        for row in found
    ]
    return "\n".join([_ABOUT, counts, "", *lines, ""])


def _shown(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "**no**"


def _words(why: str) -> str:
    return why.replace("|", "\\|").replace("\n", " ")[:_MOST_WORDS]


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="scripts.third_party_page", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    rows: dict[str, Mapping[str, Any]] = {}
    for file in parser.parse_args(arguments).results:
        rows.update({row["name"]: row for row in json.loads(file.read_text())})
    PAGE.write_text(page(rows.values()))
    print(f"{PAGE}: {len(rows)} cases")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
