"""Environments of Sparks: made whole or not at all, once for all, and anew when something of them has gone."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.spark_submit import JobRefused, environments
from headrace.spark_submit.environments import (
    CACHE_VARIABLE,
    REUSE_VARIABLE,
    Environment,
    cache_folder,
    ensure,
    find_cached,
    link_if_possible,
    list_complete,
    python_for,
    remove,
)
from tests.support.server import wait_until
from tests.support.spark_environments import HERE, make_donor, make_python

MEND = "headrace spark install emr-7.12.0."


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(REUSE_VARIABLE, raising=False)
    return tmp_path / "cache"


def made_by(python: Path, spark: str = "3.5.6") -> tuple[Environment, list[str]]:
    said: list[str] = []
    environment = find_cached(spark, HERE)
    ensure(environment, python, say=said.append, mend=MEND)
    return environment, said


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock"))


def test_an_environment_is_made_once_and_found_again(cache: Path, tmp_path: Path) -> None:
    python = make_python(tmp_path / "py", "pyspark 3.5.6")
    environment, said = made_by(python)
    assert environment.whole
    assert "installing pyspark==3.5.6 numpy<2" in said[0]
    assert said[-1].endswith(str(environment.folder))
    assert list_complete() == [environment]
    assert made_by(python)[1] == []
    assert len((tmp_path / "py" / "pip.log").read_text().splitlines()) == 1
    assert left_in(cache) == [environment.folder.name]


def test_an_environment_is_made_once_where_a_umask_lets_everybody_write(
    cache: Path, tmp_path: Path
) -> None:
    python = make_python(tmp_path / "py", "pyspark 3.5.6")
    kept = os.umask(0)
    try:
        environment, _ = made_by(python)
    finally:
        os.umask(kept)
    assert environment.whole
    assert environment.folder.stat().st_mode & 0o777 == 0o700
    assert made_by(python)[1] == []


def test_a_link_in_an_environments_place_makes_way_for_one(cache: Path, tmp_path: Path) -> None:
    python = make_python(tmp_path / "py", "pyspark 3.5.6")
    environment, _ = made_by(python)
    elsewhere = environment.folder.rename(tmp_path / "elsewhere")
    environment.folder.symlink_to(elsewhere)
    assert made_by(python)[0].whole
    assert not environment.folder.is_symlink()
    assert elsewhere.is_dir()


def test_what_pip_installed_is_compiled_by_its_own_python(cache: Path, tmp_path: Path) -> None:
    zips = 'pyspark 3.5.6; mkdir -p "$packages/pyspark/python/lib"; touch "$packages/pyspark/python/lib/p.zip"'
    environment, said = made_by(make_python(tmp_path / "py", zips))
    _, compiles = (tmp_path / "py" / "pip.log").read_text().splitlines()
    assert compiles.startswith("-I ")
    assert compiles.endswith(f"zip_compiler.py {environment.home / 'python' / 'lib' / 'p.zip'}")
    assert len(said) == 2
    shutil.rmtree(environment.folder)
    _, said = made_by(make_python(tmp_path / "failing", f'{zips}; [ "$1" != -I ]'))
    assert "so jobs start more slowly" in said[1]


def test_scripts_name_the_place_where_the_environment_ends_up(cache: Path, tmp_path: Path) -> None:
    environment, _ = made_by(make_python(tmp_path / "py", "pyspark 3.5.6"))
    script = (environment.folder / "bin" / "script").read_text()
    assert script == f"#!{environment.folder}/bin/python\n"


def test_the_cache_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/headrace/spark")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert cache_folder() == Path("/home/ann/.cache/headrace/spark")


def test_what_is_here_already_is_linked_and_takes_no_pip(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    donor = make_donor(tmp_path / "donor", "4.0.9")
    monkeypatch.setenv(REUSE_VARIABLE, str(donor))
    environment = find_cached("4.0.9", HERE)
    link_if_possible(environment, Path(sys.executable))
    assert environment.whole
    assert environment.home.resolve().is_relative_to(donor)
    assert not (environment.packages / "pip").exists()
    # Nothing of headrace's own packages is seen.
    asked = "import importlib.util as u; print([bool(u.find_spec(n)) for n in ('pyspark', 'numpy', 'boto3', 'pip')])"
    said = subprocess.check_output([environment.interpreter, "-c", asked], text=True)
    assert said == "[True, True, False, False]\n"
    # Another version is not there to be linked.
    other = find_cached("4.0.8", HERE)
    link_if_possible(other, Path(sys.executable))
    assert not other.whole


def test_an_environment_whose_links_lead_nowhere_is_made_anew(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REUSE_VARIABLE, str(make_donor(tmp_path / "donor", "4.0.9")))
    link_if_possible(find_cached("4.0.9", HERE), Path(sys.executable))
    shutil.rmtree(tmp_path / "donor")
    assert not find_cached("4.0.9", HERE).whole
    environment, said = made_by(make_python(tmp_path / "py", "pyspark 4.0.9"), "4.0.9")
    assert f"{environment.folder} is incomplete: removing it" in said
    assert environment.whole


def test_what_a_crash_left_half_made_is_removed_and_made_anew(cache: Path, tmp_path: Path) -> None:
    # pip, as it looks when it is cut off: half of PySpark is there.
    reached = tmp_path / "reached"
    slow = make_python(
        tmp_path / "slow", f'mkdir -p "$packages/pyspark"; touch {reached}; sleep 600'
    )
    program = (
        "import sys; from pathlib import Path; from headrace.spark_submit.environments import *;"
        f"ensure(find_cached('3.5.6', {HERE}), Path(sys.argv[1]), say=print, mend='')"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(slow)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(reached.exists, what="pip under way")
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    (left,) = left_in(cache)
    assert left.startswith(f".3.5.6-py{HERE[0]}.{HERE[1]}.part-")
    assert list_complete() == []
    environment, said = made_by(make_python(tmp_path / "py", "pyspark 3.5.6"))
    assert environment.whole
    assert any("is incomplete: removing it" in line for line in said)
    assert left_in(cache) == [environment.folder.name]


def test_of_two_that_want_the_same_one_makes_it_and_the_other_waits(
    cache: Path, tmp_path: Path
) -> None:
    cache.mkdir()
    environment = find_cached("3.5.6", HERE)
    python = make_python(tmp_path / "py", "pyspark 3.5.6")
    said: list[str] = []
    with (cache / f".{environment.folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(
            target=lambda: ensure(environment, python, say=said.append, mend=MEND)
        )
        other.start()
        wait_until(lambda: said, what="the other's word that it waits")
        assert said == [f"another process creates {environment.folder}: waiting for it"]
        assert not environment.whole
    other.join()
    assert environment.whole


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
         "there is no space left on the disk. When there is:"),
        ("Max retries exceeded with url: /simple/pyspark/", "pip did not reach its index"),
        ("ERROR: No matching distribution found for pyspark==3.5.6 (from versions: none)",
         "pip did not reach its index"),
        ("error: something else", "error: something else. To try again:"),
    ],
)  # fmt: skip
def test_why_it_cannot_be_installed_is_said_with_what_mends_it(
    cache: Path, tmp_path: Path, printed: str, cause: str
) -> None:
    python = make_python(tmp_path / "py", f"echo '{printed}'; exit 1")
    with pytest.raises(JobRefused) as refused:
        made_by(python)
    assert str(refused.value).startswith("Spark 3.5.6 could not be installed: ")
    assert cause in str(refused.value)
    assert str(refused.value).endswith(f" {MEND}")
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(JobRefused, match=r"cannot be installed in .*: Not a directory\. When"):
        made_by(make_python(tmp_path / "py", "pyspark 3.5.6"))


def test_another_users_cache_is_refused_by_its_owner_and_roots_is_taken(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_python(tmp_path / "py", "pyspark 3.5.6")
    environment, _ = made_by(python)
    if os.getuid() == 0:
        monkeypatch.setattr("os.getuid", lambda: 12345)
        assert made_by(python)[1] == []
        owner = 12346
        for path in (environment.folder, cache):
            os.chown(path, owner, -1)
    else:
        owner = os.getuid()
        monkeypatch.setattr("os.getuid", lambda: owner + 1)
    with pytest.raises(JobRefused) as refused:
        made_by(python)
    for part in (
        f"{environment.folder} belongs to ",
        f"uid {owner}",
        f"export {CACHE_VARIABLE}=",
        MEND,
    ):
        assert part in str(refused.value)
    assert environment.folder.is_dir()


def test_a_cache_that_may_not_be_written_is_said_with_its_owner(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()

    def refuse(folder: Path, say: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(environments, "hold_lock", refuse)
    with pytest.raises(JobRefused) as refused:
        made_by(make_python(tmp_path / "py", "pyspark 3.5.6"))
    said = f": Permission denied. {cache} belongs to "
    assert said in str(refused.value)
    assert f"export {CACHE_VARIABLE}=FOLDER. Then: {MEND}" in str(refused.value)


@pytest.mark.slow
def test_without_a_network_pip_itself_fails_at_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(JobRefused, match=r"pip did not reach its index .* install emr-7\.12\.0"):
        made_by(Path(sys.base_prefix) / "bin" / f"python{HERE[0]}.{HERE[1]}", "4.0.1")


def test_the_nearest_patch_is_taken_when_pip_lacks_the_version(cache: Path, tmp_path: Path) -> None:
    missing = (
        'case "$*" in *pyspark==3.5.9*) echo "ERROR: Could not find a version that satisfies the '
        'requirement pyspark==3.5.9 (from versions: 3.4.4, 3.5.7, 3.5.8, 4.0.0)"; exit 1 ;; '
        "*pyspark==3.5.8*) pyspark 3.5.8 ;; esac"
    )
    environment, _ = made_by(make_python(tmp_path / "py", missing), "3.5.9")
    assert environments.version_at(environment.home) == "3.5.8"
    assert environment.folder.name.startswith("3.5.9-")


def test_a_removed_environment_is_gone(cache: Path, tmp_path: Path) -> None:
    environment, _ = made_by(make_python(tmp_path / "py", "pyspark 3.5.6"))
    remove(environment)
    assert list_complete() == []


def test_the_images_python_is_taken_else_the_nearest_that_this_spark_runs_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = {(3, 8), (3, 10), (3, 13)}
    monkeypatch.setattr(
        environments, "find_python", lambda v: Path(f"/py{v[1]}") if v in here else None
    )
    assert python_for("4.0.2", [(3, 10), (3, 13)])[1] == (3, 10)
    assert python_for("4.0.2", [(3, 11), (3, 12), (3, 13)])[1] == (3, 13)
    assert python_for("3.5.6", [(3, 9), (3, 11)])[1] == (3, 10)
    assert python_for("3.3.0", [(3, 7)])[1] == (3, 8)
    here.clear()
    with pytest.raises(JobRefused, match=r"3\.5\.6 runs with Python 3\.8 to 3\.11, and this mach"):
        python_for("3.5.6", [(3, 9)])


def test_scripts_make_an_environment_anywhere_with_more_packages(tmp_path: Path) -> None:
    python = make_python(tmp_path / "py", "pyspark 3.5.6")
    environment = Environment("3.5.6", HERE, tmp_path / ".spark" / "3.5")
    more, again = ["pandas", "pyarrow"], "run this again."
    ensure(environment, python, say=lambda _: None, more=more, mend=again)
    assert str(environment.interpreter) == f"{tmp_path}/.spark/3.5/bin/python"
    assert environment.whole
    assert "numpy<2 pandas pyarrow" in (tmp_path / "py" / "pip.log").read_text()
    python.write_text("#!/bin/sh\necho 'No space left on device'; exit 1\n")
    other = Environment("3.5.6", HERE, tmp_path / "other")
    with pytest.raises(
        JobRefused, match=r"no space left on the disk\. When there is: run this again\."
    ):
        ensure(other, python, say=lambda _: None, mend=again)
