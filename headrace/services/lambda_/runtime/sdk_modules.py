"""The AWS SDK for JavaScript that Lambda's Node.js runtimes bring, installed by npm when a function needs it.

A module of the SDK that a function asks for and has not comes from the cache, where each package lies with what it
needs in a folder of its own. One that is not there is installed first, under another name, and renamed when it is
whole; that takes seconds, once. Packages do not run scripts.
"""

from __future__ import annotations

import logging
import os
import shutil
import string
import subprocess
import tempfile
import threading
from pathlib import Path

log = logging.getLogger(__name__)

FOLDER_VARIABLE = "HEADRACE_NODE_CACHE"
_SCOPE = "@aws-sdk/"
# What Lambda's runtimes bring of this scope. Libraries look for others, such as signers in C, and do without.
_BROUGHT = (
    *("client-", "lib-", "util-", "credential-provider", "s3-presigned-post", "s3-request-presigner"),
    *("cloudfront-signer", "rds-signer", "dsql-signer", "polly-request-presigner"),
)  # fmt: skip
_LETTERS = frozenset(string.ascii_lowercase + string.digits + "-")
_LONGEST_NAME = 80
_LONGEST_S = 240
_SHOWN_CHARACTERS = 400
_installing = threading.Lock()


def sdk_folder() -> Path:
    """Return the cache of all clouds of a user: HEADRACE_NODE_CACHE, else `headrace/node` in the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).absolute()
    home = Path(os.environ.get("HOME") or "/")
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache").absolute() / "headrace/node"


def is_brought(package: str) -> bool:
    """Whether Lambda's runtimes bring a package, as far as its name says."""
    name = package.removeprefix(_SCOPE)
    return (
        name != package
        and name.startswith(_BROUGHT)
        and len(name) <= _LONGEST_NAME
        and _LETTERS.issuperset(name)
    )


def install(package: str) -> str:
    """Have a package of the SDK in the cache; return why it is not there, or nothing. Thread-safe; takes seconds."""
    if not is_brought(package):
        return f"{package} is not a package that Lambda's runtimes bring"
    folder = sdk_folder() / package.removeprefix(_SCOPE)
    # One at a time: npm's own cache makes the second one quick.
    with _installing:
        return "" if folder.is_dir() else _install(package, folder)


def _install(package: str, folder: Path) -> str:
    npm = shutil.which("npm")
    if npm is None:
        return f"headrace installs it with npm, which is not on PATH (npm install --prefix {folder} {package})"
    log.info(
        "a function needs %s, which Lambda's runtimes bring: npm installs it into %s",
        package,
        folder,
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        ran = subprocess.run(
            [npm, "install", "--prefix", str(made), "--no-audit", "--no-fund", "--ignore-scripts",
             "--no-package-lock", "--loglevel=error", "--fetch-retries=1", f"{package}@3"],
            cwd=made,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_LONGEST_S,
        )  # fmt: skip
        if ran.returncode == 0:
            made.chmod(0o755)
            made.rename(folder)
            return ""
        cause = " ".join(ran.stderr.split())[:_SHOWN_CHARACTERS]
    except (OSError, subprocess.SubprocessError) as error:
        cause = str(error)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    log.warning("npm could not install %s: %s", package, cause)
    return f"headrace installs it with npm, which failed: {cause}"
