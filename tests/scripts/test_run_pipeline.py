"""`make run` itself: interrupted it stops what it has started, and it empties no folder of anybody else's."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from headrace.cli.running_cloud import health
from headrace.spark_submit.sparks import Sparks
from headrace.testing import cloud
from scripts.pipeline import other_clouds
from scripts.pipeline.options import DEVICES
from scripts.pipeline.run import Run, StageError, Synthesis, context_of
from scripts.pipeline.stages import archive_classes, empty, is_expendable, start
from scripts.run_pipeline import parse
from tests.support.command import INTERRUPTED, begin_python

ROOT = Path(__file__).parents[2]

# Sends itself Ctrl-C where the pipeline would be deployed.
AT_DEPLOYING = """
import os, runpy, signal, sys
import scripts.run_pipeline

scripts.run_pipeline.deploy = lambda *_: os.kill(os.getpid(), signal.SIGINT)
sys.argv[1:1] = ["scripts.run_pipeline"]
runpy.run_module("scripts.without_traceback", run_name="__main__")
"""


def required(name: str, extras: frozenset[str], known: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the distributions that pip installs for one with these extras."""
    if (name, extras) in known:
        return set()
    known.add((name, extras))
    found = {name}
    for text in metadata.requires(name) or []:
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in ("", *extras)):
            found |= required(normal(one.name), frozenset(one.extras), known)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_a_run_imports_only_what_it_installs() -> None:
    """`make run` leaves the tools of the tests out; see `setup_run` in scripts/setup.sh."""
    program = (
        "import sys, scripts.run_pipeline, scripts.localstack_host.command, cdk.nag_suppressions;"
        "from cdk.stacks import analytics, delivery, devices, ingest, processing;"
        "assert 'pandas.core' not in sys.modules, 'the run waits for pandas before it starts anything';"
        "scripts.run_pipeline.pd.DataFrame;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    there = metadata.packages_distributions()
    imported = {
        normal(name)
        for module in done.stdout.split()
        if module not in sys.stdlib_module_names
        for name in there.get(module, [])[:1]
    }
    assert {"boto3", "pandas", "aws-cdk-lib"} <= imported
    installed = required("headrace", frozenset({"spark", "pipeline"}), set())
    assert imported - installed == set()


@pytest.mark.parametrize("own_spark", [False, True])
def test_a_run_has_the_classes_of_its_clusters_spark_archived_unless_another_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, own_spark: bool
) -> None:
    class Emr:
        def describe_cluster(self, ClusterId: str) -> dict[str, dict[str, str]]:
            return {"Cluster": {"ReleaseLabel": f"label of {ClusterId}"}}

    begun: list[list[str]] = []
    monkeypatch.setattr(Run, "client", lambda *_: Emr())
    monkeypatch.setattr(Sparks, "programs_of", lambda *_: None if own_spark else tmp_path)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: begun.append(command))
    archive_classes(Run("", tmp_path, outputs={"headrace-analytics": {"ClusterId": "j-1"}}))
    assert [words[-3:] for words in begun] == (
        [] if own_spark else [["spark", "install", "label of j-1"]]
    )


def test_an_interrupted_run_stops_the_cloud_that_it_has_started(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with begin_python(
        AT_DEPLOYING, "--port", "0", "--data-dir", str(data_dir), cwd=ROOT
    ) as process:
        said, complained = process.communicate(timeout=120)
    assert (process.returncode, complained) == (INTERRUPTED, ""), said
    assert said.endswith("headrace is stopped\n")
    assert health(data_dir) is None


@pytest.mark.parametrize(
    ("name", "expendable"),
    [
        ("lock", True),
        ("headrace.log", True),
        ("cdk.out", True),
        (None, True),
        ("thesis.tex", False),
    ],
)
def test_only_a_clouds_own_folder_is_emptied(
    tmp_path: Path, name: str | None, expendable: bool
) -> None:
    if name is not None:
        (tmp_path / name).touch()
    assert is_expendable(tmp_path) is expendable


def test_the_synthesised_app_outlives_the_cloud_s_data(tmp_path: Path) -> None:
    for name in ("cdk.out/manifest.json", "s3/bucket/object", "lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    elsewhere = tmp_path.with_name("elsewhere")
    elsewhere.mkdir()
    (tmp_path / "link").symlink_to(elsewhere)
    empty(tmp_path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "cdk.out", tmp_path / "cdk.out/manifest.json"]
    assert elsewhere.is_dir()
    empty(tmp_path / "missing")


def test_a_folder_of_somebody_elses_is_named_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "thesis.tex"
    file.write_text("years")
    with pytest.raises(StageError, match="is no data directory of headrace's and is not empty"):
        start(tmp_path, 0)
    assert file.read_text() == "years"
    assert not is_expendable(file)
    assert is_expendable(tmp_path / "missing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cloud", "azure"], "There is no cloud 'azure'"),
        (["--cloud", "http://127.0.0.1"], "names no port"),
        (["--cloud", "localstack", "--data-dir", "x"], "--data-dir is headrace's"),
        (["--flights", "0"], "--flights must be 1 or more"),
        (
            ["--cloud", "http://127.0.0.1:1", "--port", "2"],
            "--port is for a cloud that this command starts",
        ),
        (["--pipeline", "devices", "--cloud", "localstack"], "it needs MQTT and rules"),
        (["--pipeline", "devices", "--devices", "0"], "--devices must be 1 or more"),
        (
            ["--cloud", "ministack"],
            "ministack is not started by this command: start it, and give its address",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_cloud_that_is_not_up_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"^No cloud is up at http://127.0.0.1:1.$"):
        other_clouds.connect("http://127.0.0.1:1", tmp_path, 0)


def test_what_a_cloud_cannot_do_is_left_out_of_the_app(tmp_path: Path) -> None:
    reasons = other_clouds.NOT_HERE["localstack"]
    run = Run("http://127.0.0.1:1", tmp_path, "localstack", not_here=reasons)
    assert context_of(run) == {"leave_out": "delivery,analytics"}
    assert context_of(Run("http://127.0.0.1:1", tmp_path)) == {}
    devices = Run("http://127.0.0.1:1", tmp_path, pipeline=DEVICES)
    assert context_of(devices) == {"pipeline": "devices"}


def test_a_synthesis_says_why_it_failed_and_ends_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = Run("", tmp_path / "a", pipeline="balloons")
    with Synthesis(devices) as synthesis, pytest.raises(StageError, match="not 'balloons'"):
        synthesis.wait()
    monkeypatch.setenv("JSII_NODE", "/bin/cat")  # never answers
    with Synthesis(Run("", tmp_path / "b")) as synthesis:
        process = synthesis.process
        assert process.poll() is None
    assert process.returncode == -signal.SIGKILL


def test_aws_is_asked_for_with_its_cost_and_nobody_to_ask_means_no(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = other_clouds.cost_sentence(336_776)
    # 6 x 0.015 + 2 x 0.24 an hour; 0.34 million flights at 0.46.
    assert "about $0.57 an hour" in sentence
    assert "$0.16 for 336,776 flights" in sentence
    # 2 x 0.015 + 2 x 0.24 an hour; 0.061 million readings at 1.51.
    of_devices = other_clouds.cost_sentence(61_000, DEVICES)
    assert "about $0.51 an hour" in of_devices
    assert "$0.09 for 61,000 readings" in of_devices
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    assert not other_clouds.may_spend(sentence)
    assert sentence in capsys.readouterr().out


def test_aws_region_is_the_region_of_a_run_on_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with cloud(account="123456789012", region="eu-west-1"):
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        run = other_clouds.connect_to_aws(tmp_path / "run")
        assert (run.account, run.region) == ("123456789012", "eu-west-1")
        assert run.client("kinesis").meta.region_name == "eu-west-1"
        monkeypatch.delenv("AWS_REGION")
        with pytest.raises(StageError, match=r"AWS needs a region: set AWS_REGION\."):
            other_clouds.connect_to_aws(tmp_path / "run")


def test_a_run_on_aws_names_no_endpoint_and_no_keys_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.delenv("CDK_VALIDATION", raising=False)  # the tests of cdk/ set it
    run = Run("", tmp_path, "aws", "123456789012", "eu-west-1")
    assert {"AWS_ENDPOINT_URL", "CDK_VALIDATION"}.isdisjoint(run.environment)
    assert run.environment["AWS_ACCESS_KEY_ID"] == "mine"
    assert run.target.client_options() == {}
