"""Installs LocalStack into a separate environment, because it pins other versions than headrace.

The environment is in the user's cache, one for each set of versions: a fresh clone finds it there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).parents[2]
PLUGINS = Path(__file__).parent / "plugins"
GROUP = "localstack"
CACHE_VARIABLE = "HEADRACE_LOCALSTACK_CACHE"
# The installation takes one to two minutes with a near registry.
INSTALL_WITHIN_S = 300.0


class HostError(RuntimeError):
    """LocalStack cannot be installed or started; the message is a sentence, maybe with a program's last output."""


def environments() -> Path:
    """Return the environments' folder: HEADRACE_LOCALSTACK_CACHE, else `headrace/localstack` in the user's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    home = Path(os.environ.get("HOME") or "/")
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache").absolute() / "headrace/localstack"
    )


@dataclass(frozen=True)
class Installation:
    """A folder with LocalStack's data and logs, and the environment, which other folders share."""

    folder: Path
    environment: Path = field(default_factory=lambda: environments() / _fingerprint())

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.environment / "venv" / "bin" / "python"

    @property
    def data(self) -> Path:
        """The root of LocalStack's files."""
        return self.folder / "data"

    @property
    def function_logs(self) -> Path:
        """The folder with a log file for each function process."""
        return self.folder / "functions"

    @property
    def log(self) -> Path:
        """The file with LocalStack's output."""
        return self.folder / "localstack.log"

    @property
    def _stamp(self) -> Path:
        return self.environment / "installed"

    def is_current(self) -> bool:
        """Whether the versions in pyproject.toml are installed."""
        return self._stamp.exists()

    def install(self) -> None:
        """Install LocalStack unless it is installed; concurrent callers wait. Raises HostError."""
        if self.is_current():
            return
        try:
            self.environment.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HostError(
                f"LocalStack cannot be installed in {self.environment}: {error}"
            ) from error
        with (self.environment / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.is_current():
                self._install()
                self._stamp.touch()

    def _install(self) -> None:
        venv, log = self.environment / "venv", self.environment / "install.log"
        shutil.rmtree(venv, ignore_errors=True)
        # Bytecode is compiled at import: to compile all packages would take most of the installation's time.
        pip = [
            str(self.python),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-compile",
        ]
        for command in ([sys.executable, "-m", "venv", str(venv)], [*pip, *requirements()]):
            with log.open("ab") as out:
                try:
                    code = subprocess.run(
                        command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, check=False,
                        timeout=INSTALL_WITHIN_S,
                    ).returncode  # fmt: skip
                    why = f"exit code {code}"
                except subprocess.TimeoutExpired:
                    code, why = 1, f"not done within {INSTALL_WITHIN_S:.0f} s"
            if code != 0:
                words = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
                raise HostError(
                    f"LocalStack could not be installed ({why}); is the package registry reachable?"
                    f" All of it is in {log}:\n{words}"
                )


def requirements() -> list[str]:
    """Return the requirements of pyproject.toml's dependency group."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(settings["dependency-groups"][GROUP])


def _fingerprint() -> str:
    return f"{crc32(repr((requirements(), sys.version_info[:2])).encode()):08x}"
