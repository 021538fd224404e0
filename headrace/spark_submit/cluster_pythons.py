"""The Pythons into which a cluster's bootstrap actions install packages, for the steps of that cluster only.

On EMR, a bootstrap action installs packages for PySpark with `python3 -m pip install` or `sudo pip3 install`. Here a
cluster's folder has a `bin` with those Pythons of EMR's image that this machine has, under their names on EMR. At its
first call each creates a virtual environment that includes the image's packages. The `sudo` there only runs its
command as the same user: it changes nothing on the machine, and no job runs as root.
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path

from headrace.core.extras import format_minor, minor_of
from headrace.spark_submit.emr_releases import Release
from headrace.spark_submit.environments import find_cached, find_python
from headrace.spark_submit.sparks import JobSpark

_FOLDER = "python"
_SUDO = """\
#!/bin/sh
# Options of sudo, and variables before the command; the command runs as the same user.
while [ $# -gt 0 ]; do
  case "$1" in
    -u|-g|-h|-p|-C|-r|-t|-T|-U|-D|-R) shift 2 ;;
    --) shift; break ;;
    -*) shift ;;
    *=*) export "$1"; shift ;;
    *) break ;;
  esac
done
[ $# -eq 0 ] || exec "$@"
"""
# Created under another name and then renamed, so that a crash leaves no partial one; of two at once, one is deleted.
_PYTHON = """\
#!/bin/sh
made={made}
if [ ! -x "$made/bin/python" ]; then
  part="$made.part.$$"
  {base} -m venv "$part" && echo {image} > "$part/lib/python{version}/site-packages/emr_image.pth" || exit
  if [ -e "$made" ]; then rm -rf "$part"; else mv "$part" "$made"; fi
fi
exec "$made/bin/python"{module} "$@"
"""


def make_cluster_pythons(release: Release, cluster: Path) -> Path:
    """Create the programs with which a cluster's bootstrap actions call its Pythons; return their folder."""
    folder = cluster / _FOLDER
    if not folder.is_dir():
        part = folder.with_name(f".{_FOLDER}.part")
        shutil.rmtree(part, ignore_errors=True)
        (part / "bin").mkdir(parents=True)
        for python in release.pythons:
            _offer(release, python, part / "bin", folder)
        _program(part / "bin" / "sudo", _SUDO)
        part.rename(folder)
    return folder / "bin"


def programs_in(cluster: Path) -> Path | None:
    """Return the folder of those programs; None if the cluster has none."""
    programs = cluster / _FOLDER / "bin"
    return programs if programs.is_dir() else None


def with_cluster_python(spark: JobSpark, cluster: Path) -> JobSpark:
    """Return `spark` with the cluster's own Python, if it has one."""
    if spark.environment is None:
        return spark
    version = format_minor(spark.environment.python)
    python = cluster / _FOLDER / version / "bin" / "python"
    if not python.exists():
        return spark
    note = f"the job also has the packages that the cluster's bootstrap actions installed for Python {version}"
    return replace(spark, python=python, notes=(*spark.notes, note))


def _offer(release: Release, version: str, programs: Path, folder: Path) -> None:
    """Write the programs of one Python, if this machine has it."""
    base = find_python(minor_of(version))
    if base is None:
        return
    image = find_cached(release.spark_version, minor_of(version)).packages
    names = [version]
    if version == release.system_python:
        names += ["3", ""]
    for program, module in (("python", ""), ("pip", " -m pip")):
        text = _PYTHON.format(
            made=shlex.quote(str(folder / version)),
            base=shlex.quote(str(base)),
            image=shlex.quote(str(image)),
            version=version,
            module=module,
        )
        for name in names:
            _program(programs / f"{program}{name}", text)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
