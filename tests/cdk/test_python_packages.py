from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from cdk.parts import python_packages
from cdk.parts.python_packages import Target

REQUIREMENTS = Path(__file__).parents[2] / "spark_jobs" / "requirements"
EMR = Target("3.11", "x86_64")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(python_packages.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def six(tmp_path: Path) -> Path:
    """The requirements of one small package without anything compiled."""
    path = tmp_path / "spark-4.0.txt"
    path.write_text("six==1.17.0\n")
    return path


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as tar:
        return set(tar.getnames())


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_requirements_give_the_same_bytes(six: Path, cache: Path) -> None:
    made = python_packages.archive(six, EMR, EMR)
    first = digest(made)
    made.unlink()

    assert digest(python_packages.archive(six, EMR, EMR)) == first
    assert names(made) == {"six.py", *(n for n in names(made) if n.startswith("six-1.17.0."))}
    assert not any(name.endswith(("RECORD", "INSTALLER")) for name in names(made))


def test_what_was_made_is_kept(six: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = python_packages.archive(six, EMR, EMR)
    monkeypatch.setattr(python_packages, "_install", None)

    assert python_packages.archive(six, EMR, EMR) == made


def test_an_installation_that_fails_leaves_nothing_and_says_what(six: Path, cache: Path) -> None:
    six.write_text("six==0.0.999\n")

    with pytest.raises(RuntimeError, match=r"spark-4.0.txt for Python 3.11 on linux x86_64 .*six"):
        python_packages.archive(six, EMR, EMR)
    assert [path for path in cache.iterdir() if not path.name.endswith(".lock")] == []


def test_files_of_tests_and_of_this_machine_are_left_out(tmp_path: Path) -> None:
    for name in ("a/__init__.py", "a/tests/test_a.py", "bin/f2py", "a.dist-info/RECORD"):
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    python_packages.pack(tmp_path / "packages", tmp_path / "a.tgz")

    assert names(tmp_path / "a.tgz") == {"a/__init__.py"}


def test_another_python_here_finds_its_own_packages_first(six: Path, tmp_path: Path) -> None:
    here = python_packages.here(f"{sys.version_info[0]}.{sys.version_info[1]}")
    # As if EMR's image were another machine than this.
    emr = Target("3.9", "aarch64")
    with tarfile.open(python_packages.archive(six, emr, here)) as tar:
        tar.extractall(tmp_path / "packages", filter="data")

    done = subprocess.run(
        [sys.executable, "-c", "import six; print(six.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "./packages"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == str(tmp_path / "packages" / here.folder / "six.py")


@pytest.mark.parametrize(
    ("instance_type", "machine"),
    [
        ("m5.xlarge", "x86_64"),
        ("g4dn.xlarge", "x86_64"),
        ("m7i-flex.large", "x86_64"),
        ("m6g.xlarge", "aarch64"),
        ("r6gd.4xlarge", "aarch64"),
        ("im4gn.large", "aarch64"),
    ],
)
def test_the_wheels_are_for_the_instances_processor(instance_type: str, machine: str) -> None:
    assert python_packages.machine_of(instance_type) == machine


def test_each_spark_has_its_requirements() -> None:
    def name(*spark: int) -> str:
        return python_packages.requirements_of(REQUIREMENTS, (spark[0], spark[1])).name

    assert name(3, 5) == "spark-3.5.txt"
    assert name(4, 0) == "spark-4.0.txt"
    assert name(4, 1) == name(4, 3) == name(5, 0) == "spark-4.1.txt"
    with pytest.raises(ValueError, match=r"no requirements for Spark 3\.3"):
        name(3, 3)


def test_requirements_are_whole_and_pinned() -> None:
    for path in REQUIREMENTS.glob("*.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert all(line.count("==") == 1 for line in lines), path
        assert {"pyarrow", "pandas", "numpy", "boto3"} <= {line.split("==")[0] for line in lines}


def test_the_apps_packages_are_packed_ahead_before_anything_is_installed(cache: Path) -> None:
    """Only what the packing itself asks for is checked here: nothing is fetched for an archive that is there."""
    made = (
        "import sys; sys.path.insert(0, sys.argv[1]); import cdk.parts.python_packages as packages;"
    )
    made += "packages.archive = lambda *asked: print(asked[0].name, asked[1].python);"
    made += "packages.archive_for(packages.REQUIREMENTS, packages.RELEASE, packages.INSTANCE_TYPE)"
    root = str(REQUIREMENTS.parents[1])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", made, root], capture_output=True, text=True, check=True
    )
    assert done.stdout == "spark-4.0.txt 3.11\n"
