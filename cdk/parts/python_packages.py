"""Packs the Python packages that jobs need and EMR's image lacks, for `spark-submit --archives FILE#packages`.

The packages are wheels for EMR's Linux and its image's Python; nothing is compiled or resolved:
`spark_jobs/requirements/` pins every package, with a file for each Spark. If the local cloud on this machine runs the
jobs with another Python or on another system, the archive also holds wheels for these, in a folder that
`sitecustomize.py` puts first on the path there: the same step then runs here and on EMR.
The same requirements give the same bytes, so that an unchanged archive is an unchanged asset; it is kept between
syntheses in HEADRACE_PACKAGES_CACHE, by default `headrace/packages` in the user's cache. `python -m
cdk.parts.python_packages` packs those of the app ahead, and unpacks them for the local cloud's first step, with
Python's standard library and pip alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.extras import format_minor, minor_of
from headrace.spark_submit import JobRefused, unpacked_archives
from headrace.spark_submit.emr_releases import UnknownRelease, release_of, releases
from headrace.spark_submit.environments import python_for

# The app's clusters, unless told otherwise: the EMR release with Spark 4.0 (7.x has Spark 3.5), and the machine.
RELEASE = "emr-spark-8.0.0"
INSTANCE_TYPE = "m5.xlarge"
# The app's requirements.
REQUIREMENTS = Path(__file__).resolve().parents[2] / "spark_jobs" / "requirements"
CACHE_VARIABLE = "HEADRACE_PACKAGES_CACHE"
# The folder into which the archive is unpacked, beside the driver and each executor; see `options`.
FOLDER = "packages"
# Amazon Linux 2023 has glibc 2.34 (documented: its release notes): wheels for older ones run there.
LINUX = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
# Files that differ between machines, or that no cluster needs.
_LEFT_OUT_FOLDERS = {"bin", "include", "tests", "__pycache__"}
_LEFT_OUT_FILES = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_FORMAT = 1
# Higher levels take three times as long to save a tenth.
_COMPRESSION = 1
_TAIL_LINES = 3


_HERE_FIRST = '''\
"""Puts the packages for this Python and system first; the others here are for EMR's."""

import os
import platform
import sys

_name = "%d.%d-%s-%s" % (*sys.version_info[:2], sys.platform, platform.machine())
_folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), _name)
if os.path.isdir(_folder):
    sys.path.insert(0, _folder)
'''


@dataclass(frozen=True, slots=True)
class Target:
    """The platform and Python version of the wheels.

    Attributes:
        python: `3.11`.
        machine: the system's name of the processor, such as `x86_64` or `aarch64`.
        system: the value of `sys.platform`.
    """

    python: str
    machine: str
    system: str = "linux"

    @property
    def folder(self) -> str:
        """The name of this target's folder beside another target's packages."""
        return f"{self.python}-{self.system}-{self.machine}"


def machine_of(instance_type: str) -> str:
    """Return the machine of an EC2 instance type: `aarch64` for Graviton (m6g, c7gd), else `x86_64`."""
    family = instance_type.partition(".")[0]
    kind = family.lstrip("abcdefghijklmnopqrstuvwxyz").lstrip("0123456789")
    return "aarch64" if "g" in kind else "x86_64"


def here(python: str) -> Target:
    """Return this machine with one of its Pythons."""
    return Target(python, platform.machine(), sys.platform)


def requirements_of(folder: Path, spark: tuple[int, int]) -> Path:
    """Return the file in `folder` for a Spark: `spark-4.0.txt`, or the nearest older one. Raises ValueError."""
    files = {
        tuple(int(number) for number in path.stem.removeprefix("spark-").split(".")): path
        for path in folder.glob("spark-*.txt")
    }
    fit = [version for version in files if version <= spark]
    if not fit:
        raise ValueError(f"{folder} has no requirements for Spark {spark[0]}.{spark[1]}.")
    return files[max(fit)]


def options(archive_uri: str) -> list[str]:
    """Return the options of `spark-submit` that give the archive to the driver and to every executor.

    YARN unpacks an archive into a container's start folder. The driver is in a container only in cluster mode.
    """
    return [
        *("--deploy-mode", "cluster", "--archives", f"{archive_uri}#{FOLDER}"),
        *("--conf", f"spark.yarn.appMasterEnv.PYTHONPATH=./{FOLDER}"),
        *("--conf", f"spark.executorEnv.PYTHONPATH=./{FOLDER}"),
    ]


def archive_for(requirements: Path, label: str, instance_type: str) -> Path:
    """Return the archive of the packages for a release, also for the Python that the local cloud uses for it."""
    try:
        release = release_of(label)
    except UnknownRelease:
        # A release newer than this list: treat it as the newest known one.
        release = releases()[0]
    others = (python for python in release.pythons if python != release.python)
    minors = [minor_of(python) for python in (release.python, *others)]
    target = Target(release.python, machine_of(instance_type))
    try:
        also = here(format_minor(python_for(release.spark_version, minors)[1]))
    except JobRefused:
        # No Python here runs this Spark: the step will run on EMR, but not here.
        also = target
    named = requirements_of(requirements, release.spark_minor)
    return archive(named, target, also)


def archive(requirements: Path, target: Target, also: Target) -> Path:
    """Return the archive of `requirements`, from the cache or newly made. Raises RuntimeError with a sentence.

    Safe when several processes call it at once.

    Args:
        requirements: the file with the packages.
        target: EMR's platform and Python.
        also: this machine's; if it differs from `target`, the archive has wheels for it too.
    """
    requirements_text = requirements.read_text()
    key = hashlib.sha256(f"{_FORMAT} {target} {also} {requirements_text}".encode()).hexdigest()[:16]
    folder = _cache()
    # Not `.tar.gz`: the CDK would shorten it to `.gz`, and YARN and Spark decide by the name.
    path = folder / f"packages-{key}.tgz"
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{key}.lock"):
        if not path.is_file():
            with tempfile.TemporaryDirectory(dir=folder, prefix=f".{key}-") as part:
                packages = Path(part) / "packages"
                _install(requirements, target, packages)
                if also != target:
                    _install(requirements, also, packages / also.folder)
                    (packages / "sitecustomize.py").write_text(_HERE_FIRST)
                pack(packages, Path(part) / path.name)
                (Path(part) / path.name).replace(path)
    return path


def pack(packages: Path, path: Path) -> None:
    """Write an archive of a folder's files; the same files give the same bytes."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for source in sorted(packages.rglob("*")):
            name = source.relative_to(packages)
            if not source.is_file() or _LEFT_OUT_FOLDERS.intersection(name.parts[:-1]):
                continue
            if source.name in _LEFT_OUT_FILES:
                continue
            entry = tarfile.TarInfo(name.as_posix())
            entry.size, entry.mode = source.stat().st_size, 0o644
            with source.open("rb") as data:
                tar.addfile(entry, data)


def _install(requirements: Path, target: Target, folder: Path) -> None:
    platforms: list[str] = []
    if target.system == "linux":
        platforms = [w for name in LINUX for w in ("--platform", f"{name}_{target.machine}")]
    command = [
        sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
        "--quiet", "--no-deps", "--no-compile", "--only-binary", ":all:",
        "--implementation", "cp", "--python-version", target.python, *platforms,
        "--target", str(folder), "--requirement", str(requirements),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"The packages of {requirements.name} for Python {target.python} on {target.system} {target.machine}"
            f" could not be fetched, which the jobs need on EMR: {_last_words(done.stderr.splitlines())}"
        )


def _last_words(lines: Sequence[str]) -> str:
    printed = [line.strip() for line in lines if line.strip() and not line.startswith("WARNING")]
    return " / ".join(printed[-_TAIL_LINES:]) or "pip said nothing."


def _cache() -> Path:
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).absolute()
    home = Path(os.environ.get("HOME") or tempfile.gettempdir())
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache").absolute() / "headrace/packages"
    )


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    packed = archive_for(REQUIREMENTS, RELEASE, INSTANCE_TYPE)
    # For the first step of a local cloud.
    unpacked_archives.keep(packed, "gztar")
