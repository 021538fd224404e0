"""Writes docs/conformance/recordings.md: how many of AWS's recorded answers are replayed, and why not the others.

`tests/conformance/recordings.json` has, for each file of recordings (LocalStack's tests/aws/services, tag v4.9.2), the
number of its tests, and, by reason, the tests that are not replayed with the number of their variants; or just a
number if the reason applies to a whole moto service. The replayed tests are counted from the scenarios' evidence. With
--check it writes nothing, and exits 1 when the page is stale.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conformance.scenarios import load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "conformance" / "recordings.md"
SCENARIOS = ROOT / "tests" / "conformance"
RECORDINGS = SCENARIOS / "recordings.json"
NOTHING = "nothing was recorded"
_EVIDENCE = re.compile(r"AWS's answers? to (.+) of LocalStack's tests/aws/services/([\w/]+)\.py")
_NAMES = re.compile(r"(?: and |, )(?=[Tt]est)")

HOW = """# Recorded answers of AWS: which are replayed, and which are not

Written by `python -m scripts.recordings_page` from `tests/conformance`; do not edit. The recordings are those of
LocalStack's tests (v4.9.2), made on AWS. *Replayed* scenarios pass in the default suite, each answer compared whole; a
recording without content compares nothing with AWS; those with many functions or subnets run nightly.
API Gateway's, IAM's, SSM's and STS's are those of later versions, up to 2026; those of KMS and Secrets Manager are of
2022 to 2024, CloudWatch's of 2023 and January 2024.
Those of Step Functions are of its main branch in 2026, in 83 files. The 36 that scenarios replay are counted; the
stored lists of others name 61 more recordings at least, of which few were looked at: services in tasks, intrinsic
functions, credentials, asynchronous express executions, logs and TestState. The cases of a Choice's operator or an
intrinsic function run in one execution, whose output is compared.
Of API Gateway's, those of imported documents are replayed with other documents of the same form; the four of exports
hold for a shorter document (`tests/api/apigateway/test_exports.py`).
Kinesis, Firehose, EMR and the mappings of streams and queues to functions have more
scenarios, from other sources: see their own pages. On the morning of 27 November 2026 these were replayed: scheduler
17, sns 13, sqs 41 and none of apigateway, dynamodb, dynamodbstreams, events and logs.
"""


def recordings() -> dict[str, dict[str, Any]]:
    """Return the entries about each file of recordings."""
    return json.loads(RECORDINGS.read_text())


def replayed() -> dict[str, set[str]]:
    """Return the names of the recorded tests that scenarios replay, by the file of their recordings."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in sorted(path for path in SCENARIOS.iterdir() if path.is_dir()):
        for scenario in load(folder):
            for sentence in scenario["evidence"]:
                if match := _EVIDENCE.match(sentence):
                    found[f"{match[2]}.json"].update(_NAMES.split(match[1]))
    return found


def left_out(entry: dict[str, Any]) -> Counter[str]:
    """Return how many recordings of a file are not replayed, by reason."""
    return Counter(
        {
            reason: names if isinstance(names, int) else sum(names.values())
            for reason, names in entry["not replayed"].items()
        }
    )


def page() -> str:
    """Return the whole page."""
    services: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for file, entry in recordings().items():
        service = file.partition("/")[0].rstrip("_")
        missing = left_out(entry)
        services[service]["recorded"] += entry["recorded"]
        services[service]["replayed"] += entry["recorded"] - missing.total()
        services[service]["empty"] += missing.pop(NOTHING, 0)
        services[service]["left"] += missing.total()
        reasons[service] += missing
    lines = [
        HOW,
        "| service | recorded | without content | replayed, and pass | not replayed |",
        "| --- | --- | --- | --- | --- |",
    ]
    total: Counter[str] = sum(services.values(), Counter())
    for name, counts in (*services.items(), ("**all**", total)):
        cells = (counts[key] for key in ("recorded", "empty", "replayed", "left"))
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "## Why the others are not replayed",
        "",
        "| service | reason | recordings |",
        "| --- | --- | --- |",
    ]
    for name, counts in reasons.items():
        lines += [f"| {name} | {reason} | {count} |" for reason, count in counts.most_common()]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is stale; run python -m scripts.recordings_page")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
