"""Steps run with the Spark of their cluster's label, and say what becomes of it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace.spark_submit
from headrace.spark_submit.environments import (
    CACHE_VARIABLE,
    REUSE_VARIABLE,
    find_cached,
    find_python,
)
from headrace.spark_submit.making import packages_folder
from tests.api.emr.conftest import LOGS, Lab
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until
from tests.support.spark_environments import make_python, make_whole

# A spark-submit that says what it was started as.
_SAYS = '#!/bin/sh\necho "$SPARK_HOME $PYSPARK_PYTHON path=$PYTHONPATH $*"\n'

EARLY = Path(headrace.spark_submit.__file__).parent / "early"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(REUSE_VARIABLE, "")
    return tmp_path / "cache"


@pytest.fixture
def every_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has each Python."""
    monkeypatch.setattr(
        "headrace.spark_submit.environments.find_python", lambda _: Path(sys.executable)
    )


@pytest.fixture
def two_sparks(cache: Path, every_python: None) -> None:
    """The Sparks of emr-spark-8.0.0 and emr-7.12.0."""
    make_whole(find_cached("4.0.2", (3, 11)), _SAYS)
    make_whole(find_cached("3.5.6", (3, 9)), _SAYS)


def log_of(lab: Lab, cluster_id: str, step_id: str, name: str) -> str:
    return (lab.cloud.cloud.config.data_dir / "emr" / cluster_id / step_id / name).read_text()


def submitted(lab: Lab, label: str, *arguments: str, **request: object) -> tuple[str, str]:
    cluster_id = lab.cluster(ReleaseLabel=label, LogUri=f"s3://{LOGS}/", **request)
    step = lab.step("spark-submit", *arguments, "s3://logs/job.py")
    lab.s3.put_object(Bucket=LOGS, Key="job.py", Body=b"print()")
    return cluster_id, lab.add(cluster_id, step)[0]


@pytest.mark.usefixtures("two_sparks")
def test_two_labels_on_one_cloud_run_two_sparks(lab: Lab, cache: Path) -> None:
    steps = {label: submitted(lab, label) for label in ("emr-spark-8.0.0", "emr-7.12.0")}
    for label, spark in (("emr-spark-8.0.0", "4.0.2"), ("emr-7.12.0", "3.5.6")):
        assert lab.ended(*steps[label])["State"] == "COMPLETED"
        home, python, path, *_ = log_of(lab, *steps[label], "stdout").split()
        assert home.startswith(f"{cache}/{spark}-py")
        assert python.startswith(f"{cache}/{spark}-py")
        # Of headrace only what connects early, on Spark 4.
        assert path in ("path=", f"path={EARLY}")
        controller = log_of(lab, *steps[label], "controller")
        assert f"Spark {spark} of {label}, from pip, in {cache}" in controller
        assert "Amazon's patches are not in this one" in controller


@pytest.mark.parametrize(
    ("label", "spark", "package"),
    [
        ("emr-7.12.0", "3.5.6", "streaming"),
        ("emr-spark-8.0.0", "4.0.2", "streaming"),
        ("emr-spark-8.1.0", "4.1.1", "streaming.checkpointing"),
    ],
)
@pytest.mark.usefixtures("every_python")
def test_settings_are_those_of_the_labels_spark(
    lab: Lab, cache: Path, label: str, spark: str, package: str
) -> None:
    shows = '#!/bin/sh\ncat "$SPARK_CONF_DIR/spark-defaults.conf"\n'
    make_whole(find_cached(spark, (3, 9 if spark == "3.5.6" else 11)), shows)
    step = submitted(lab, label)
    assert lab.ended(*step)["State"] == "COMPLETED"
    wanted = f"org.apache.spark.sql.execution.{package}.FileSystemBasedCheckpointFileManager\n"
    assert wanted in log_of(lab, *step, "stdout")


@pytest.mark.usefixtures("two_sparks")
def test_an_interpreter_of_the_image_is_replaced_by_ours(lab: Lab, cache: Path) -> None:
    step = submitted(lab, "emr-spark-8.0.0", "--conf", "spark.pyspark.python=/usr/bin/python3")
    assert lab.ended(*step)["State"] == "COMPLETED"
    assert f"spark.pyspark.python={cache}/4.0.2-py" in log_of(lab, *step, "stdout")


@pytest.mark.usefixtures("two_sparks")
def test_the_connectors_jar_brings_its_stand_in_and_the_log_says_so(lab: Lab, cache: Path) -> None:
    jar = "/usr/share/aws/kinesis/spark-sql-kinesis/lib/spark-streaming-sql-kinesis-connector.jar"
    step = submitted(lab, "emr-spark-8.0.0", "--jars", jar)
    assert lab.ended(*step)["State"] == "COMPLETED"
    printed = log_of(lab, *step, "stdout")
    assert "headrace/spark/connector" in printed
    assert jar not in printed
    assert "EMR's connector aws-kinesis: headrace.spark answers" in log_of(lab, *step, "controller")
    folder = next(cache.glob("connector-4.0-py*"))
    assert {"pyarrow", "boto3"} <= {path.name for path in folder.iterdir()}
    assert "moto" not in os.listdir(folder)  # noqa: PTH208
    # Spark 3.5 has a way of its own. Its packages are there: pip would fetch them.
    for name in ("pyarrow", "boto3"):
        (packages_folder(find_cached("3.5.6", (3, 9))) / name).mkdir(parents=True)
    old = submitted(lab, "emr-7.12.0", "--jars", jar)
    assert lab.ended(*old)["State"] == "COMPLETED"
    assert "headrace/spark/connector35:" in log_of(lab, *old, "stdout")


@pytest.fixture
def python39(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Path]:
    """A machine whose Python 3.9 does for pip what the file `pip` beside it says."""
    folder = tmp_path / "py"
    make_python(folder, f". {folder}/pip", "3.9")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    find_python.cache_clear()
    yield folder
    find_python.cache_clear()


def test_an_environment_is_made_on_first_need_and_the_step_goes_on(
    lab: Lab, python39: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (python39 / "pip").write_text(
        "pyspark 3.5.6; printf '#!/bin/sh\\necho \"ran in $SPARK_HOME\"\\n' > "
        '"$packages/pyspark/bin/spark-submit"; chmod +x "$packages/pyspark/bin/spark-submit"\n'
    )
    step = submitted(lab, "emr-7.12.0")
    assert lab.ended(*step)["State"] == "COMPLETED", log_of(lab, *step, "stderr")
    home = cache / "3.5.6-py3.9" / "lib" / "python3.9" / "site-packages" / "pyspark"
    assert log_of(lab, *step, "stdout") == f"ran in {home}\n"
    assert f"Spark 3.5.6 of emr-7.12.0 is made first, for {step[1]}; once, and" in caplog.text
    controller = log_of(lab, *step, "controller")
    assert "installing pyspark==3.5.6 numpy<2 with Python 3.9" in controller
    assert f"Spark 3.5.6 with Python 3.9 is in {cache / '3.5.6-py3.9'}" in controller
    # It was tried: this spark-submit leaves none.
    assert (
        "no archive of Spark's classes, so jobs start more slowly: spark-submit ended" in controller
    )


def test_a_step_whose_spark_cannot_be_fetched_fails_with_what_mends_it(
    lab: Lab, python39: Path, cache: Path
) -> None:
    (python39 / "pip").write_text("echo 'Max retries exceeded with url: /simple/'; exit 1\n")
    step = submitted(lab, "emr-7.12.0")
    status = lab.ended(*step)
    assert status["State"] == "FAILED"
    assert status["FailureDetails"]["Message"] == (
        "Spark 3.5.6 could not be installed: pip did not reach its index (see `pip config list` and HTTPS_PROXY). "
        "When it does: headrace spark install emr-7.12.0."
    )
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []


def test_a_step_can_be_cancelled_while_its_spark_is_fetched(
    lab: Lab, python39: Path, cache: Path
) -> None:
    (python39 / "pip").write_text(f"touch {python39}/begun; sleep 600\n")
    step = submitted(lab, "emr-7.12.0")
    wait_until((python39 / "begun").exists, what="pip under way")
    lab.emr.cancel_steps(
        ClusterId=step[0], StepIds=[step[1]], StepCancellationOption="TERMINATE_PROCESS"
    )
    assert lab.ended(*step)["State"] == "CANCELLED"
    # The next one begins anew.
    (python39 / "pip").write_text("pyspark 3.5.6\n")
    again = submitted(lab, "emr-7.12.0")
    lab.ended(*again)
    assert "is incomplete: removing it" in log_of(lab, *again, "controller")


@pytest.mark.usefixtures("two_sparks")
def test_a_program_finds_the_python_of_the_labels_environment(lab: Lab, cache: Path) -> None:
    cluster_id = lab.cluster(ReleaseLabel="emr-spark-8.0.0")
    step_id = lab.add(cluster_id, lab.step("bash", "-c", "command -v python"))[0]
    lab.ended(cluster_id, step_id)
    assert log_of(lab, cluster_id, step_id, "stdout") == f"{cache}/4.0.2-py3.11/bin/python\n"


@pytest.fixture
def bootstrapped(data_dir: Path, cache: Path) -> Iterator[Lab]:
    with InProcessCloud(data_dir, run_bootstrap_actions=True) as cloud:
        lab = Lab(cloud)
        lab.s3.create_bucket(Bucket=LOGS)
        yield lab


def test_what_sudo_pip3_installs_is_the_clusters_own(
    bootstrapped: Lab, python39: Path, data_dir: Path
) -> None:
    (python39 / "pip").write_text('touch "$packages/$4.py"\n')
    make_whole(find_cached("3.5.6", (3, 9)), _SAYS)
    lab = bootstrapped
    lab.s3.put_object(Bucket=LOGS, Key="b.sh", Body=b"#!/bin/sh\nsudo -H pip3 install brought\n")
    action = {"Name": "b", "ScriptBootstrapAction": {"Path": "s3://logs/b.sh"}}
    step = submitted(lab, "emr-7.12.0", BootstrapActions=[action])
    assert lab.ended(*step)["State"] == "COMPLETED"
    folder = data_dir / "emr" / step[0] / "python" / "3.9"
    assert log_of(lab, *step, "stdout").split()[1] == str(folder / "bin" / "python")
    packages = folder / "lib" / "python3.9" / "site-packages"
    assert (packages / "brought.py").is_file()
    image = find_cached("3.5.6", (3, 9)).packages
    assert (packages / "emr_image.pth").read_text() == f"{image}\n"


@pytest.mark.slow
@pytest.mark.usefixtures("two_sparks")
def test_what_a_bootstrap_action_installs_is_seen_by_the_clusters_steps_alone(
    bootstrapped: Lab, data_dir: Path
) -> None:
    lab = bootstrapped
    script = (
        "#!/bin/bash\nset -e\nsudo -H python3 -c 'import sys; print(sys.prefix)' >&2\n"
        "packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()[\"purelib\"])')\n"
        "echo > $packages/brought.py\n"
    )
    lab.s3.put_object(Bucket=LOGS, Key="b.sh", Body=script.encode())
    action = {"Name": "b", "ScriptBootstrapAction": {"Path": "s3://logs/b.sh"}}
    cluster_id, step_id = submitted(lab, "emr-spark-8.0.0", BootstrapActions=[action])
    assert lab.ended(cluster_id, step_id)["State"] == "COMPLETED"
    python = log_of(lab, cluster_id, step_id, "stdout").split()[1]
    folder = data_dir / "emr" / cluster_id / "python"
    assert Path(python).is_relative_to(folder)
    assert len(list(folder.glob("3.*/lib/python*/site-packages/brought.py"))) == 1
    assert "bootstrap actions installed for Python" in log_of(
        lab, cluster_id, step_id, "controller"
    )
    other = submitted(lab, "emr-spark-8.0.0")
    lab.ended(*other)
    assert "/emr/" not in log_of(lab, *other, "stdout").split()[1]


@pytest.mark.spark
def test_a_job_sees_what_the_image_has_and_spark_says_what_it_lacks(lab: Lab) -> None:
    """With the real Spark of emr-spark-8.0.0, which is linked."""
    job = (
        "import importlib.util as u\n"
        "names = ('numpy', 'pyspark', 'pandas', 'pyarrow', 'boto3', 'headrace', 'moto', 'pytest')\n"
        "print([n for n in names if u.find_spec(n)])\n"
        "from pyspark.sql.functions import theta_sketch_agg\n"
    )
    cluster_id = lab.cluster(ReleaseLabel="emr-spark-8.0.0", LogUri=f"s3://{LOGS}/")
    lab.s3.put_object(Bucket=LOGS, Key="real.py", Body=job.encode())
    step_id = lab.add(cluster_id, lab.step("spark-submit", "s3://logs/real.py"))[0]
    status = lab.ended(cluster_id, step_id)
    assert log_of(lab, cluster_id, step_id, "stdout").splitlines()[0] == "['numpy', 'pyspark']"
    # Of Spark 4.1.
    assert status["State"] == "FAILED"
    assert (
        "ImportError: cannot import name 'theta_sketch_agg'"
        in (status["FailureDetails"]["Message"])
    )


def test_the_installed_spark_says_so_at_each_step_and_strict_refuses_others(
    data_dir: Path, cache: Path
) -> None:
    with InProcessCloud(data_dir, spark="installed", strict=True) as cloud:
        lab = Lab(cloud)
        lab.s3.create_bucket(Bucket=LOGS)
        step = submitted(lab, "emr-7.12.0")
        status = lab.ended(*step)
        assert status["State"] == "FAILED"
        assert "--strict refuses to run one for the other" in status["FailureDetails"]["Message"]
        own = submitted(lab, "emr-spark-8.0.0")
        lab.ended(*own)
        assert "whatever the label says; emr-spark-8.0.0 has Spark 4.0.2-amzn-0" in log_of(
            lab, *own, "controller"
        )
