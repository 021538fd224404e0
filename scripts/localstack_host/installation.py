"""Where LocalStack is installed, and how: an environment of its own, since it pins other versions than headrace."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).parents[2]
PLUGINS = Path(__file__).parent / "plugins"
GROUP = "localstack"


class HostError(RuntimeError):
    """LocalStack cannot be installed or started; the message is a sentence, maybe with a program's last words."""


@dataclass(frozen=True)
class Installation:
    """LocalStack's folder: its environment, its data, its logs."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def data(self) -> Path:
        """What LocalStack takes for the root of its files."""
        return self.folder / "data"

    @property
    def function_logs(self) -> Path:
        """A file for each process of a function."""
        return self.folder / "functions"

    @property
    def log(self) -> Path:
        """What LocalStack prints."""
        return self.folder / "localstack.log"

    @property
    def _stamp(self) -> Path:
        return self.folder / "venv" / ".headrace-installed"

    def is_current(self) -> bool:
        """Whether what is installed is what pyproject.toml asks for."""
        return self._stamp.exists() and self._stamp.read_text() == _fingerprint()

    def install(self) -> None:
        """Install what is missing. Raises HostError."""
        if self.is_current():
            return
        shutil.rmtree(self.folder / "venv", ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "install.log"
        pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check"]
        for command in (
            [sys.executable, "-m", "venv", str(self.folder / "venv")],
            [*pip, *requirements()],
        ):
            with log.open("ab") as out:
                done = subprocess.run(
                    command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, check=False
                )
            if done.returncode != 0:
                words = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
                raise HostError(
                    "LocalStack could not be installed; is the package registry reachable?"
                    f" All of it is in {log}:\n{words}"
                )
        self._stamp.write_text(_fingerprint())


def requirements() -> list[str]:
    """Return what pyproject.toml's dependency group asks for."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(settings["dependency-groups"][GROUP])


def _fingerprint() -> str:
    return f"{crc32(repr((requirements(), sys.version_info[:2])).encode()):08x}"
