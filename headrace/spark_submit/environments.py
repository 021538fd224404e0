"""Creates environments for Spark versions: an interpreter, pip's PySpark, and the packages that EMR's image has.

A user's clouds share one cache of them, named `<Spark>-py<Python>`. An environment is created under a lock and another
name, and renamed when it is complete, so that a partial one after a crash is removed and created again.

Finds an interpreter of a Python version on this machine: headrace's own, on PATH, pyenv's, uv's.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import pwd
import re
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.config import cache_home
from headrace.core.extras import Minor, format_minor, minor_of
from headrace.spark_submit import JobRefused
from headrace.spark_submit.emr_releases import traits_of
from headrace.spark_submit.zip_compiler import compile_modules

_SPARK_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+)\.jar")
_ASK_WITHIN_S = 30
_ASK = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


@functools.cache
def find_python(version: Minor) -> Path | None:
    """Return an interpreter of exactly that version that can create virtual environments, or None."""
    for candidate in _candidates(format_minor(version)):
        if _version(candidate) == format_minor(version):
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    if version == format_minor(sys.version_info[:2]):
        yield Path(sys.base_prefix) / "bin" / name
    # pyenv has shims for missing versions too, so run the interpreter to get its version.
    for folder in os.get_exec_path():
        path = shutil.which(name, path=folder)
        if path is not None:
            yield Path(path)
    home = Path(os.environ.get("HOME") or "/")
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}*/bin/{name}"), reverse=True)
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    yield from sorted(data.glob(f"uv/python/cpython-{version}.*/bin/{name}"), reverse=True)


def _version(python: Path) -> str | None:
    """Return the version that an interpreter prints; None when it cannot run, or lacks the module `venv`."""
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _ASK],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASK_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


Say = Callable[[str], None]

CACHE_VARIABLE = "HEADRACE_SPARK_CACHE"
# More environments whose PySpark is linked instead of downloaded, separated as in PATH.
REUSE_VARIABLE = "HEADRACE_SPARK_REUSE"
_MARKER = "headrace.json"
_NAME = re.compile(r"(\d+\.\d+\.\d+)-py(\d+\.\d+)")
_PYSPARK = ("pyspark", "py4j")
_NUMPY = ("numpy", "numpy.libs")
_TAIL_LINES = 4


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of one Spark, which may not exist yet.

    Attributes:
        spark: the version, `3.5.6`.
        python: its interpreter's version, `(3, 9)`.
        folder: its folder.
    """

    spark: str
    python: Minor
    folder: Path

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return self.folder / "lib" / f"python{format_minor(self.python)}" / "site-packages"

    @property
    def home(self) -> Path:
        """Its SPARK_HOME."""
        return self.packages / "pyspark"

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"

    @property
    def whole(self) -> bool:
        """Whether it can be used: it is complete, and everything that it links to still exists."""
        return (
            is_trusted(self.folder)
            and is_trusted(self.folder / _MARKER)
            and self.interpreter.exists()
            and (self.home / "bin" / "spark-submit").is_file()
        )


def is_trusted(path: Path) -> bool:
    """Whether a path is there, and no other user of this machine has made it or may change it.

    A cache that HEADRACE_SPARK_CACHE names may lie where everybody writes; what is in it runs as this user.
    """
    try:
        found = path.lstat()
    except OSError:
        return False
    mine = found.st_uid in (os.getuid(), 0)
    return mine and not stat.S_ISLNK(found.st_mode) and not found.st_mode & stat.S_IWOTH


def _is_of_another(path: Path) -> bool:
    try:
        return path.lstat().st_uid not in (os.getuid(), 0)
    except OSError:
        return False


def _say_whose(folder: Path) -> str:
    """Return whose the nearest existing one of a folder and its parents is, and what a user does about it."""
    place = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    uid = place.lstat().st_uid
    try:
        owner = f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        owner = f"uid {uid}"
    return (
        f"{place} belongs to {owner}, and this process is uid {os.getuid()}. "
        f"Run it as that user, or name a folder of your own: export {CACHE_VARIABLE}=FOLDER. Then:"
    )


def version_at(home: Path) -> str | None:
    """Return the version of the Spark in `home`, such as `4.0.2`; None if its jars do not show it."""
    names = (path.name for path in home.glob("jars/spark-core_*.jar"))
    return next((match[1] for name in names if (match := _SPARK_CORE.fullmatch(name))), None)


def cache_folder() -> Path:
    """Return the environments' folder: HEADRACE_SPARK_CACHE, else `headrace/spark` in the user's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    return cache_home() / "headrace/spark"


def find_cached(spark: str, python: Minor) -> Environment:
    """Return the environment of a Spark and a Python in the cache, whether it exists or not."""
    return Environment(spark, python, cache_folder() / f"{spark}-py{format_minor(python)}")


def list_complete() -> list[Environment]:
    """Return the complete environments of the cache, newest Spark first."""
    environments: list[Environment] = []
    with contextlib.suppress(FileNotFoundError):
        for path in cache_folder().iterdir():
            name = _NAME.fullmatch(path.name)
            if name is not None:
                environment = Environment(name[1], minor_of(name[2]), path)
                environments += [environment] if environment.whole else []
    numbers = {e: ([int(n) for n in e.spark.split(".")], e.python) for e in environments}
    return sorted(environments, key=numbers.__getitem__, reverse=True)


def python_for(spark: str, wanted_minors: Sequence[Minor] = ()) -> tuple[Path, Minor]:
    """Return an interpreter for a Spark, and its version. Raises JobRefused.

    Args:
        spark: the version.
        wanted_minors: the Pythons of EMR's image, default first. If none is here, the nearest one that runs the Spark.
    """
    can = traits_of(minor_of(spark)).pythons
    near = wanted_minors[0] if wanted_minors else can[-1]
    others = sorted(
        (p for p in can if p not in wanted_minors), key=lambda p: (abs(p[1] - near[1]), -p[1])
    )
    for version in (*wanted_minors, *others):
        python = find_python(version)
        if python is not None:
            return python, version
    name = format_minor(wanted_minors[0] if wanted_minors else can[-1])
    raise JobRefused(
        f"Spark {spark} runs with Python {format_minor(can[0])} to {format_minor(can[-1])}, "
        f"and this machine has none of them: "
        f"install one (pyenv install {name}, or uv python install {name}), and try again."
    )


def ensure(
    environment: Environment, python: Path, *, say: Say, more: Sequence[str] = (), mend: str
) -> None:
    """Create an environment unless it is complete. Raises JobRefused; its message has `mend`, the command to try again.

    Processes may call this concurrently: one creates it, the others wait.
    """
    if environment.whole:
        return
    folder = environment.folder
    if _is_of_another(folder):
        raise JobRefused(
            f"Spark {environment.spark} is not taken from a folder of another user: {_say_whose(folder)} {mend}"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder, say):
            if not environment.whole:
                _make(environment, python, say, more, mend)
    except OSError as error:
        mended_by = "When that is mended:"
        if isinstance(error, PermissionError):
            mended_by = _say_whose(folder)
        raise JobRefused(
            f"Spark {environment.spark} cannot be installed in {folder}: {error.strerror}. {mended_by} {mend}"
        ) from error


def link_if_possible(environment: Environment, python: Path) -> None:
    """Create an environment if all its parts are on this machine, which takes half a second and no network."""
    if {_PYSPARK[0], _NUMPY[0]} <= {path.name for path in _reusable(environment)}:
        ensure(environment, python, say=lambda _: None, mend="try again.")


def remove(environment: Environment) -> None:
    """Remove an environment from the cache."""
    with hold_lock(environment.folder, lambda _: None):
        shutil.rmtree(environment.folder)


@contextlib.contextmanager
def hold_lock(folder: Path, say: Say) -> Generator[None]:
    """Hold the lock of a folder in the cache; the system releases it when the process ends for any reason."""
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process creates {folder}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(environment: Environment, python: Path, say: Say, more: Sequence[str], mend: str) -> None:
    """Create the environment under another name, then rename it. The caller holds the lock."""
    folder = environment.folder
    for left in (folder, *folder.parent.glob(f".{folder.name}.part-*")):
        if left.exists() or left.is_symlink():
            say(f"{left} is incomplete: removing it")
            left.unlink() if left.is_symlink() else shutil.rmtree(left)
    part = Environment(
        environment.spark,
        environment.python,
        folder.with_name(f".{folder.name}.part-{secrets.token_hex(4)}"),
    )
    try:
        _fill(part, python, say, more, mend, folder)
        _move_scripts(part.folder / "bin", part.folder, folder)
        marker = {"spark": version_at(part.home), "python": format_minor(part.python)}
        (part.folder / _MARKER).write_text(json.dumps(marker) + "\n")
        for path in (part.folder / _MARKER, part.folder):
            # A umask may let everybody write, and what is in here would not be trusted.
            if path.stat().st_mode & stat.S_IWOTH:
                path.chmod(0o700)
        part.folder.rename(folder)
    except BaseException:
        shutil.rmtree(part.folder, ignore_errors=True)
        raise
    # A linked PySpark belongs to another environment.
    if not (environment.packages / _PYSPARK[0]).is_symlink():
        problem = compile_modules(environment.home, environment.interpreter)
        if problem is not None:
            say(f"PySpark's modules could not be compiled, so jobs start more slowly: {problem}")
    say(f"Spark {environment.spark} with Python {format_minor(environment.python)} is in {folder}")


def _fill(
    part: Environment, python: Path, say: Say, more: Sequence[str], mend: str, folder: Path
) -> None:
    linked = list(_reusable(part))
    requirements = (
        [] if any(_PYSPARK[0] == path.name for path in linked) else [_requirement(part.spark)]
    )
    if not any(_NUMPY[0] == path.name for path in linked):
        # PySpark 3 uses names that NumPy 2 no longer has.
        requirements.append("numpy<2" if minor_of(part.spark) < (4, 0) else "numpy")
    requirements += more
    how = [] if requirements else ["--without-pip"]
    _run([str(python), "-m", "venv", *how, str(part.folder)], part.spark, mend)
    for path in linked:
        (part.packages / path.name).symlink_to(path)
    if requirements:
        say(
            f"installing {' '.join(requirements)} with Python {format_minor(part.python)} into {folder}; "
            f"once, and it takes minutes"
        )
        _pip(part, requirements, mend)


def _pip(part: Environment, requirements: list[str], mend: str) -> None:
    command = [
        str(part.interpreter), "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
        "--progress-bar", "off", "--retries", "1",
    ]  # fmt: skip
    exact = _requirement(part.spark)
    try:
        _run([*command, *requirements], part.spark, mend)
    except _NoSuchVersion as error:
        nearest = _nearest(part.spark, error.versions)
        if nearest is None:
            raise JobRefused(
                f"pip has no PySpark {format_minor(minor_of(part.spark))}. {mend}"
            ) from None
        others = [
            _requirement(nearest) if requirement == exact else requirement
            for requirement in requirements
        ]
        _run([*command, *others], part.spark, mend)


def _requirement(spark: str) -> str:
    return f"pyspark=={spark}"


def _nearest(spark: str, versions: Sequence[str]) -> str | None:
    """Return the patch version nearest to a version in the same minor; the newer one of two."""
    patch = int(spark.split(".")[2])
    same = [
        v for v in versions if re.fullmatch(r"\d+\.\d+\.\d+", v) and minor_of(v) == minor_of(spark)
    ]
    return min(
        same,
        key=lambda v: (abs(int(v.split(".")[2]) - patch), -int(v.split(".")[2])),
        default=None,
    )


def _reusable(part: Environment) -> Iterator[Path]:
    """Return the parts of another environment that can be linked: PySpark, and NumPy for the same Python."""
    for packages in _donors():
        if version_at(packages / "pyspark") != part.spark or not (packages / "py4j").is_dir():
            continue
        yield from (packages / name for name in _PYSPARK)
        # NumPy is compiled for one version of Python.
        if packages.parent.name == f"python{format_minor(part.python)}":
            yield from (path for name in _NUMPY if (path := packages / name).is_dir())
        return


def _donors() -> Iterator[Path]:
    spec = importlib.util.find_spec("pyspark")
    yield from (
        Path(package_folder).parent
        for package_folder in (spec and spec.submodule_search_locations) or []
    )
    for folder in os.environ.get(REUSE_VARIABLE, "").split(os.pathsep):
        if folder:
            yield from Path(folder).glob("lib/python*/site-packages")


class _NoSuchVersion(Exception):
    """pip does not have a version; `versions` lists those that it has."""

    def __init__(self, versions: list[str]) -> None:
        super().__init__()
        self.versions = versions


def _run(command: list[str], spark: str, mend: str) -> None:
    """Run a command that installs a part. Raises JobRefused with the cause, _NoSuchVersion."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        # The variables for headrace's own Python must not reach the environment.
        env={name: v for name, v in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")},
    )
    if done.returncode == 0:
        return
    if (
        known := re.search(r"requirement pyspark==\S+ \(from versions: (\d[^)]*)\)", done.stdout)
    ) is not None:
        raise _NoSuchVersion([version.strip() for version in known[1].split(",")])
    raise JobRefused(f"Spark {spark} could not be installed: {_cause(done.stdout)} {mend}")


def _cause(printed: str) -> str:
    """Return why an installer failed, as a sentence, from its output."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if "No space left on device" in printed:
        return "there is no space left on the disk. When there is:"
    if "ensurepip" in printed:
        return "this Python cannot make environments (Debian: apt-get install python3-venv). When it can:"
    network = ("NewConnectionError", "Max retries", "ConnectTimeout", "name resolution", "ProxyError",
               "(from versions: none)", "Connection error", "CERTIFICATE_VERIFY_FAILED")  # fmt: skip
    if any(word in printed for word in network):
        return "pip did not reach its index (see `pip config list` and HTTPS_PROXY). When it does:"
    last = " / ".join(line for line in lines[-_TAIL_LINES:]) or "it printed nothing"
    return f"{last}. To try again:"


def _move_scripts(folder: Path, old: Path, new: Path) -> None:
    """Change the paths in an environment's scripts to its final folder."""
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink():
            text = path.read_bytes()
            if bytes(old) in text:
                path.write_bytes(text.replace(bytes(old), bytes(new)))
