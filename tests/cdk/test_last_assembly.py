"""The app that does not run again: whatever changes its assembly is seen, and nothing else makes it run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cdk import last_assembly
from cdk.last_assembly import INPUTS, Assembly, digest_inputs, list_interpreters
from headrace.spark_submit.emr_releases import releases
from headrace.spark_submit.environments import find_python

ROOT = Path(__file__).parents[2]
# Runs the app, and prints the files that it opens.
RUN_APP = """
import runpy, sys
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
sys.argv = ["app.py"]
try:
    runpy.run_path("app.py", run_name="__main__")
finally:
    print("aws_cdk" in sys.modules, *sorted(opened), sep="\\n")
"""


class Project:
    """A project with one input of each kind."""

    def __init__(self, folder: Path) -> None:
        self.root, self.out = folder / "project", folder / "out"
        self.code = self.root / "lambdas" / "enrich" / "handler.py"
        self.node = folder / "bin" / "node"
        self.python = folder / "home" / ".pyenv" / "versions" / "3.9.1" / "bin" / "python3.9"
        self.record = folder / "site" / "thing-1.0.dist-info" / "RECORD"
        self.context = folder / "context.json"
        for file in (self.code, self.node, self.python, self.record, self.context, self.asset):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("a = 1\n")
        self.environment = {
            "PATH": str(self.node.parent),
            "HOME": str(folder / "home"),
            "CDK_CONTEXT_JSON": "{}",
            "CONTEXT_OVERFLOW_LOCATION_ENV": str(self.context),
            "CDK_PERF_COUNTERS_FILE": str(self.out / "counters.json"),
        }
        self.kept().keep()

    @property
    def asset(self) -> Path:
        return self.out / "asset.1" / "code" / "handler.py"

    def kept(self) -> Assembly:
        return Assembly(self.out, self.environment)

    def is_current(self) -> bool:
        return self.kept().is_current()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(last_assembly, "_ROOT", tmp_path / "project")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return Project(tmp_path)


def edit_in_place(project: Project) -> None:
    """Write another content of the same size, at the same time."""
    times = project.code.stat()
    project.code.write_text("a = 2\n")
    os.utime(project.code, ns=(times.st_atime_ns, times.st_mtime_ns))


def replace(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


CHANGES: dict[str, Callable[[Project], object]] = {
    "a source is edited": edit_in_place,
    "a source is new": lambda p: p.code.with_name("new.py").write_text(""),
    "a source is gone": lambda p: p.code.unlink(),
    "a source has another name": lambda p: p.code.rename(p.code.with_name("other.py")),
    "a source may be run": lambda p: p.code.chmod(0o755),
    "a folder is new": lambda p: p.code.with_name("empty").mkdir(),
    "a source is behind a link": lambda p: p.code.with_name("link").symlink_to("handler.py"),
    "the context": lambda p: p.environment.update(CDK_CONTEXT_JSON='{"elastic": "true"}'),
    "a long context": lambda p: p.context.write_text('{"elastic": "true"}'),
    "a variable": lambda p: p.environment.update(HEADRACE_PACKAGES_CACHE="/elsewhere"),
    "a variable is gone": lambda p: p.environment.pop("CDK_CONTEXT_JSON"),
    "the account": lambda p: p.environment.update(CDK_DEFAULT_ACCOUNT="123456789012"),
    "the CLI": lambda p: p.environment.update(CDK_CLI_VERSION="2.9999.0"),
    "Node": lambda p: replace(p.node, "another"),
    "a Python is installed": lambda p: p.node.with_name("python3.13").write_text(""),
    "a Python is gone": lambda p: p.python.unlink(),
    "a package has another version": lambda p: p.record.parent.rename(
        p.record.parent.with_name("thing-1.1.dist-info")
    ),
    "a package is installed again": lambda p: replace(p.record, "again"),
    "an asset is gone": lambda p: p.asset.unlink(),
    "an asset is cut": lambda p: p.asset.write_text(""),
    "a template is new": lambda p: (p.out / "stack.template.json").write_text("{}"),
    "the app has begun again": lambda p: p.kept().forget(),
    "the note is damaged": lambda p: (p.out / "inputs.json").write_text("{"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_app_runs_again_after_every_kind_of_change(project: Project, change: str):
    assert project.is_current()
    CHANGES[change](project)
    assert not project.is_current()


def test_the_app_does_not_run_again_for_what_it_does_not_read(project: Project):
    cache = project.root / "cdk" / "__pycache__"
    cache.mkdir(parents=True)
    project.kept().keep()
    (cache / "app.pyc").write_text("")
    project.environment |= {"SHLVL": "7", "OLDPWD": "/"}
    (project.out / "counters.json").write_text("{}")
    (project.out / "synth.lock").write_text("")
    same = project.context.rename(project.context.with_name("context-2.json"))
    project.environment["CONTEXT_OVERFLOW_LOCATION_ENV"] = str(same)
    assert project.is_current()


def test_what_changes_while_the_app_runs_counts_as_changed(project: Project):
    running = project.kept()
    project.code.write_text("a = 3\n")
    running.keep()
    assert not project.is_current()


def test_no_two_trees_have_one_digest(tmp_path: Path):
    for name, files in {"one": {"a": "bc"}, "other": {"ab": "c"}}.items():
        for file, text in files.items():
            path = tmp_path / name / "lambdas" / file
            path.parent.mkdir(parents=True)
            path.write_text(text)
    (tmp_path / "root").symlink_to("one")
    one = digest_inputs(tmp_path / "root", {})
    (tmp_path / "root").unlink()
    (tmp_path / "root").symlink_to("other")
    assert digest_inputs(tmp_path / "root", {}) != one


def test_every_python_that_the_app_may_find_is_an_input():
    listed = list_interpreters(os.environ)
    versions = {tuple(map(int, name.split("."))) for one in releases() for name in one.pythons}
    found = [python for version in versions if (python := find_python(version)) is not None]
    assert found
    assert set(found) <= set(listed)


def test_the_app_itself_runs_once_and_reads_only_its_inputs(tmp_path: Path):
    out = tmp_path / "cdk.out"
    environment = {
        **os.environ,
        "CDK_OUTDIR": str(out),
        "CDK_CONTEXT_JSON": '{"leave_out": "analytics"}',
    }

    def run_app() -> tuple[bool, set[Path]]:
        done = subprocess.run(
            [sys.executable, "-c", RUN_APP],
            cwd=ROOT / "cdk", env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        imported, *opened = done.stdout.splitlines()
        return imported == "True", {Path(name) for name in opened}

    did_run, opened = run_app()
    own = {path.relative_to(ROOT) for path in opened if path.is_relative_to(ROOT)}
    assert did_run
    assert {path.parts[0] for path in own} <= {*INPUTS, Path(sys.prefix).name}
    written = json.loads((out / "manifest.json").read_text())
    assert run_app()[0] is False
    environment["CDK_CONTEXT_JSON"] = '{"leave_out": "analytics,delivery"}'
    assert run_app()[0] is True
    assert json.loads((out / "manifest.json").read_text()) != written
