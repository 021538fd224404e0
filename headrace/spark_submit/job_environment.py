"""The folders and the environment variables that every job's process needs.

Finds a UTF-8 locale for jobs, so that they can open every file, whatever the cloud's own locale is.

Java encodes file names by the locale (`sun.jnu.encoding`): with `LC_ALL=C` it replaces letters outside ASCII by
question marks, and Spark does not find its own classes in such a folder. So a job's environment has a UTF-8 locale: the
cloud's own if it is one, else another one of the machine. Only the encoding changes; language and formats stay.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.spark_submit import JobRefused
from headrace.spark_submit.access import MODE_VARIABLE, JobContext


def make_folders(folder: Path) -> Path:
    """Create the folders that a job's process needs below the job's folder; return its working directory."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    return work


def make_hdfs(cluster: Path) -> Path:
    """Create the folder of a cluster's `hdfs:///`, with the folders that EMR's has; return it."""
    for name in ("tmp", "user/hadoop"):
        (cluster / "hdfs" / name).mkdir(parents=True, exist_ok=True)
    return cluster / "hdfs"


def job_environment(
    context: JobContext,
    folder: Path,
    *,
    account: str,
    region: str,
    role: str,
    session: str,
    policy: str = "",
    policy_arns: tuple[str, ...] = (),
) -> dict[str, str]:
    """Return every job's environment: credentials, region and endpoint, and no secrets of the cloud's own environment.

    `role` is the job's role in `JobCredentials`' form, `session` its session name, and the policies are the session
    policies that limit the role for this job.
    """
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "TZ", "JAVA_HOME", "USER", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    return {
        "PATH": os.defpath,
        **kept,
        **utf8_environment(os.environ),
        **context.credentials(account, role, session, policy, policy_arns),
        "AWS_ENDPOINT_URL": context.endpoint_url(),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        **({MODE_VARIABLE: context.access.mode} if context.file_system else {}),
        "TMPDIR": str(folder / "tmp"),
    }


# The variables that set the locale: all of it, its encoding, the rest. The first one that is set has priority.
VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
# Every system except macOS has C.UTF-8; with glibc before 2.35 only if the distribution adds it.
_UTF8_LOCALES = ("C.UTF-8", "en_US.UTF-8", "UTF-8")
_PROBE_WITHIN_S = 30

# Prints the index of the first of several settings that exists on this machine and is UTF-8. It runs in a separate
# process, because trying a locale means setting it for all threads.
_PROBE = """
import json, locale, os, sys
variables, settings = json.loads(sys.argv[1])
for place, setting in enumerate(settings):
    for name in variables:
        os.environ.pop(name, None)
    os.environ.update(setting)
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        continue
    if locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8":
        print(place)
        break
"""


def utf8_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a job's locale variables for this environment; unchanged if the machine has no UTF-8 locale."""
    locale = _read_locale(environment)
    utf8_setting = _utf8_setting(tuple(locale.items()))
    return locale if utf8_setting is None else dict(utf8_setting)


def require_utf8(environment: Mapping[str, str], *paths: Path) -> None:
    """Raise JobRefused when Java cannot open one of the paths in the job's locale."""
    beyond = next((path for path in paths if not str(path).isascii()), None)
    if beyond is not None and _utf8_setting(tuple(_read_locale(environment).items())) is None:
        raise JobRefused(
            f"Java cannot name the folder {beyond}: it has letters outside ASCII, and this machine has no UTF-8 locale "
            "(see `locale -a`); install one, such as C.UTF-8, or use a folder with a name in ASCII."
        )


def _read_locale(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in VARIABLES if environment.get(name)}


@functools.cache
def _utf8_setting(
    variables_given: tuple[tuple[str, str], ...],
) -> tuple[tuple[str, str], ...] | None:
    """Return the available UTF-8 setting that is closest to the given one; None if there is none."""
    settings = [dict(variables_given), *_others(dict(variables_given))]
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _PROBE, json.dumps([VARIABLES, settings])],
            # Keep Python from choosing a locale by itself.
            env={"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PATH": os.defpath},
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    chosen = done.stdout.strip()
    return tuple(settings[int(chosen)].items()) if chosen else None


def _others(variables_given: Mapping[str, str]) -> list[dict[str, str]]:
    """Return other settings to try, first those that keep the given language and formats."""
    # LC_ALL would override LC_CTYPE, so its value moves to LANG, which sets the rest.
    rest = variables_given.get("LC_ALL") or variables_given.get("LANG") or "C"
    return [
        *({"LANG": rest, "LC_CTYPE": name} for name in _UTF8_LOCALES),
        *({"LANG": "C", "LC_CTYPE": name} for name in _UTF8_LOCALES),
    ]
