"""What is installed: headrace's extras and how to install one, and the minor versions of Spark and Python.

Keeps pyiceberg, an extra, from running what a table names.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import unquote, urlsplit

Minor = tuple[int, int]


def minor_of(version: str) -> Minor:
    """Return `(3, 5)` of `3.5.6`."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def format_minor(minor: Minor) -> str:
    """Return `3.11` of `(3, 11)`."""
    return f"{minor[0]}.{minor[1]}"


def install_command(extra: str) -> str:
    """Return the line of a shell that installs an extra: from the checkout, wheel or repository of this headrace.

    An installation from an index, and a headrace that is not installed, have no origin: the line then has the name.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        # The record of where pip got a distribution (PEP 610).
        record = distribution("headrace").read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    return _install_command(extra, json.loads(record or "{}"))


def _install_command(extra: str, origin: dict[str, Any]) -> str:
    named = f"headrace[{extra}]"
    url = str(origin.get("url", ""))
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        folder = unquote(urlsplit(url).path)
        return f"pip install {editable}{shlex.quote(f'{folder}[{extra}]')}"
    if "vcs_info" in origin:
        vcs, commit = origin["vcs_info"]["vcs"], origin["vcs_info"]["commit_id"]
        return f"pip install {shlex.quote(f'{named} @ {vcs}+{url}@{commit}')}"
    return f"pip install {shlex.quote(f'{named} @ {url}' if url else named)}"


def forbid_location_providers() -> None:
    """Keep pyiceberg from calling the function that a table's property `write.py-location-provider.impl` names.

    Whoever can write a table's metadata file would else run any Python in the process that writes the table. Such a
    table is read; pyiceberg raises ValueError when it is written.
    """
    from pyiceberg.table import locations

    def import_nothing(*_: object) -> None:
        return None

    # pyiceberg has no setting for it.
    locations._import_location_provider = import_nothing  # noqa: SLF001  # pyrefly: ignore[bad-assignment]
