"""Runs commands of the CDK CLI, the AWS CLI and the SAM CLI as users do, and reports which of them work.

`python -m scripts.third_party_commands [CASE ...]` runs the cases of `scripts/strangers/commands/*.toml` on a headrace
that the CDK CLI has bootstrapped. A case has a copy of a folder beside the TOML files (an app or templates), shell
commands, data that is put in and must arrive (as in `flows.json`), and commands that remove everything. A `*` at the
end of a CASE stands for any ending. pip installs the SAM CLI in `.venv-sam`, npm installs CDK's library beside the
apps. Exits 1 when a case does not pass. `--results FILE` stores each case's result; `--page FILE ...` writes the table
of such files to docs/conformance/commands.md; for a case in several files the last one counts.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts import third_party_flows, third_party_stacks
from scripts.benchmarks.servers import free_port

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent / "strangers" / "commands"
SAM = ROOT / ".venv-sam"
PAGE = ROOT / "docs" / "conformance" / "commands.md"
# The machine may be busy with other work; a command that takes longer hangs.
LINE_WITHIN_S = 240.0
SHOWN_CHARACTERS = 300


class Unexpected(Exception):
    """A command did not work as it should; the message is the end of its output."""


class CommandCase(third_party_stacks.Outcome):
    """The commands of a case, and the case's result."""

    def __init__(self, name: str, definition: Mapping[str, Any], folder: Path) -> None:
        super().__init__(name, [each.replace("$CASE", name) for each in definition.get("flow", [])])
        self._definition, self._folder = definition, folder / name

    def run(self, cloud: third_party_flows.Cloud) -> None:
        """Run the commands, put data in, and remove everything."""
        shutil.copytree(
            HERE / self._definition["folder"],
            self._folder,
            ignore=shutil.ignore_patterns("cdk.out"),
        )
        self.deploys = self._typed(cloud, "lines")
        if self.deploys and self.flow:
            self._feed(cloud)
        self.destroys = self._typed(cloud, "then") and self._is_gone(cloud)

    def _feed(self, cloud: third_party_flows.Cloud) -> None:
        stack = f"{self.name}{self._definition.get('stack', '')}"
        try:
            why = third_party_flows.feed(cloud, stack, self.flow)
        except Exception as error:  # noqa: BLE001 - the table shows every error
            why = f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS]
        self.flows, self.why = not why, self.why or why

    def _typed(self, cloud: third_party_flows.Cloud, which: str) -> bool:
        for each in self._definition.get(which, []):
            line = {"run": each} if isinstance(each, str) else each
            try:
                _run(line, self._folder, self._environment(cloud))
            except Unexpected as error:
                self.why = self.why or str(error)
                return False
        return True

    def _environment(self, cloud: third_party_flows.Cloud) -> dict[str, str]:
        paths = [ROOT / "cdk/node_modules/.bin", Path(sys.executable).parent, SAM / "bin"]
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "PATH": os.pathsep.join([*map(str, paths), os.environ["PATH"]]),
            "HOME": str(self._folder),
            "CASE": self.name,
            "NODE_PATH": str(HERE / "node_modules"),
            "NODE_NO_WARNINGS": "1",
            "CI": "true",
            "NO_COLOR": "1",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "SAM_CLI_TELEMETRY": "0",
            "AWS_ENDPOINT_URL": cloud.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": third_party_flows.REGION,
            "AWS_REGION": third_party_flows.REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _is_gone(self, cloud: third_party_flows.Cloud) -> bool:
        """Return whether no stack of the case is left."""
        pages = cloud("cloudformation").get_paginator("describe_stacks").paginate()
        names = [stack["StackName"] for page in pages for stack in page["Stacks"]]
        left = [name for name in names if _case_of(name) == self.name]
        self.why = self.why or (f"left: {', '.join(left)}" if left else "")
        return not left


def _case_of(stack: str) -> str:
    """Return the case of a stack: the longest case name with which the stack's name begins."""
    return max(
        (name for name in all_cases() if f"{stack}-".startswith(f"{name}-")), key=len, default=""
    )


def _run(line: Mapping[str, Any], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a command of a case. Raises Unexpected."""
    if "edit" in line:
        file = folder / line["edit"]
        file.write_text(file.read_text().replace(line["from"], line["to"]))
        return
    done = _printed(line["run"], folder, environment)
    says = line.get("says", [])
    words = [
        word.replace("$CASE", environment["CASE"])
        for word in ([says] if isinstance(says, str) else says)
    ]
    missing = [word for word in words if word not in done[1]]
    exits = line.get("exits", 0)
    if done[0] != exits or missing:
        lacks = f" does not say {missing[0]!r}" if missing else f" exits {done[0]}"
        last = " ".join(done[1].split())[-SHOWN_CHARACTERS:]
        raise Unexpected(f"`{line['run'].strip().splitlines()[0]}`{lacks}: {last}")


def _printed(text: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    process = subprocess.Popen(
        ["bash", "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=LINE_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        printed, _ = process.communicate()
        printed += f" (after {LINE_WITHIN_S:.0f} s)"
    with (folder / "log.txt").open("a") as log:
        log.write(f"$ {text}\n{printed}\n")
    return process.returncode, printed


def all_cases() -> dict[str, dict[str, Any]]:
    """Return all cases by name, with the folder that each one copies."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(HERE.glob("*.toml")):
        for name, case in tomllib.loads(file.read_text()).items():
            found[name] = {"folder": file.stem, **case}
    return found


def install(names: Sequence[str]) -> None:
    """Install what the cases need beside headrace, on first use."""
    if any(name.startswith("cdk-") for name in names) and not (HERE / "node_modules").exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("scripts.third_party_commands needs Node.js and npm.")
        subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"], cwd=HERE, check=True
        )
    if any(name.startswith("sam-cli-") for name in names) and not (SAM / "bin/sam").exists():
        subprocess.run([sys.executable, "-m", "venv", str(SAM)], check=True)
        pip = [str(SAM / "bin/python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "aws-sam-cli>=1.140,<2"], check=True)


def survey(
    wanted: Sequence[str], port: int, at_a_time: int, keep: Path | None
) -> list[CommandCase]:
    """Run the chosen cases on a separate cloud, and print a line for each."""
    names = [name for name in all_cases() if third_party_stacks.is_wanted(name, wanted)]
    if not names:
        return []
    install(names)
    with tempfile.TemporaryDirectory(prefix="strangers-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        command_cases = [CommandCase(name, all_cases()[name], folder / "cases") for name in names]
        process = third_party_stacks.started(folder / "data", port)
        try:
            cloud = third_party_flows.Cloud(f"http://127.0.0.1:{port}")
            cloud("s3").create_bucket(Bucket=third_party_flows.SINK)
            for service in ("cloudformation", "lambda", "sqs", "kinesis"):
                cloud(service)
            if any(name.startswith("cdk-") for name in names):
                _bootstrap(cloud, folder / "cases")
            with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
                for case in pool.map(lambda case: (case.run(cloud), case)[1], command_cases):
                    print(third_party_stacks.line(case), flush=True)
        finally:
            process.terminate()
            process.wait(30)
    return command_cases


def _bootstrap(cloud: third_party_flows.Cloud, folder: Path) -> None:
    case = CommandCase("bootstrapped", {"folder": "cdk", "lines": ["cdk bootstrap"]}, folder)
    case.run(cloud)
    if not case.deploys:
        raise SystemExit(f"cdk bootstrap failed: {case.why}")


_ABOUT = """# Commands

What users type, on a real cloud: the CDK CLI (`cdk-`), the AWS CLI's `cloudformation` (`aws-`) and the SAM CLI
(`sam-cli-`). Each case deploys an app or a template in the way that its name says, is fed, and is taken away; refusals
are cases too, which must say what to do. `python -m scripts.third_party_commands` does it anew, and with `--page`
writes this page. The lines of a case are in `scripts/strangers/commands/`.
"""


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page for the rows of cases."""
    found = sorted(rows, key=lambda row: str(row["name"]))
    passing = sum(bool(r["deploys"] and r["destroys"] and r["flows"] is not False) for r in found)
    lines = [_ABOUT, f"{passing} of {len(found)} pass.", ""]
    lines += [
        "| case | does what it says | data flows | all is gone | what failed |",
        "|---|---|---|---|---|",
    ]
    shown = {None: "-", True: "yes", False: "**no**"}
    for row in found:
        cells = [shown[row[name]] for name in ("deploys", "flows", "destroys")]
        why = str(row["why"]).replace("|", "\\|").replace("\n", " ")[:SHOWN_CHARACTERS]
        lines.append(f"| `{row['name']}` | {' | '.join(cells)} | {why} |")
    return "\n".join([*lines, ""])


def _write_page(files: Sequence[Path]) -> int:
    rows: dict[str, Mapping[str, Any]] = {}
    for file in files:
        rows.update({row["name"]: row for row in json.loads(file.read_text())})
    PAGE.write_text(page([rows[name] for name in all_cases() if name in rows]))
    print(f"{PAGE}: {len(rows)} cases")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the cases and print how many pass."""
    parser = argparse.ArgumentParser(prog="scripts.third_party_commands", description=__doc__)
    parser.add_argument("cases", nargs="*", help="the cases to run; default: all")
    parser.add_argument("--port", type=int, default=free_port(), help="default: a free port")
    parser.add_argument("--at-a-time", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="keep each command's output in this folder")
    parser.add_argument("--results", type=Path, help="write each case's result to this JSON file")
    parser.add_argument(
        "--page", type=Path, nargs="+", help="only write the page, from these results"
    )
    options = parser.parse_args(arguments)
    if options.page:
        return _write_page(options.page)
    found = survey(options.cases, options.port, options.at_a_time, options.keep)
    if options.results is not None:
        names = ("name", "deploys", "flows", "destroys", "why")
        rows = [{name: getattr(case, name) for name in names} for case in found]
        options.results.write_text(json.dumps(rows, indent=1))
    print(third_party_stacks.summary(found))
    return 0 if all(case.passes for case in found) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
