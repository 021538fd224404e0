"""The wheel alone, in an environment of its own: it works without Spark, the CDK, pandas and pyarrow."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_wheel_works_without_the_checkout(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    folder = tmp_path / "function"
    folder.mkdir()
    program = ROOT / "tests" / "support" / "programs" / "wheel_smoke.py"
    done = subprocess.run(
        [python, str(program), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the wheel works\n"


@pytest.mark.slow
def test_the_clients_wheel_needs_botocore_alone(tmp_path: Path) -> None:
    package = ROOT / "packages" / "headrace-client"
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(package)],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    assert list(tmp_path.glob("*.tar.gz"))
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    program = (
        "import sys, headrace.client as client\n"
        "[getattr(client, name) for name in client._HOME]\n"
        "from headrace.client.faults import Faults\n"
        "foreign = {'boto3', 'moto', 'msgspec', 'headrace.core', 'headrace.cloud'} & set(sys.modules)\n"
        "print(sorted(foreign), hasattr(sys.modules['headrace'], '__version__'))\n"
    )
    done = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout == "[] False\n", done.stderr


@pytest.mark.slow
def test_the_spark_wheel_has_the_source_and_needs_pyspark_alone(tmp_path: Path) -> None:
    package = ROOT / "packages" / "headrace-spark"
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(package)],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {f"headrace/spark/{file.name}" for file in (ROOT / "headrace/spark").glob("*.py")}
    assert modules | {"pyspark_headrace/__init__.py"} <= names
    tops = {name.split("/")[0] for name in names if "dist-info" not in name}
    assert tops == {"headrace", "pyspark_headrace"}
    assert not [name for name in names if "connector" in name or name == "headrace/__init__.py"]
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["version"], project["dependencies"]) == (whole["version"], ["pyspark>=3.5,<5"])


def test_both_distributions_have_one_version_and_ask_for_the_same_botocore() -> None:
    files = [ROOT / "pyproject.toml", ROOT / "packages" / "headrace-client" / "pyproject.toml"]
    whole, client = (tomllib.loads(path.read_text())["project"] for path in files)
    assert client["version"] == whole["version"]
    assert set(client["dependencies"]) <= set(whole["dependencies"])
