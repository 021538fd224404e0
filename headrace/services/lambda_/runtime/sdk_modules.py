"""Installs packages of the AWS SDK for JavaScript, which Lambda's Node.js runtimes contain, when a function needs them.

If a function requires an SDK module that it does not contain, the module comes from a cache, which has a folder for
each package with its dependencies. A package that is not in the cache is installed with npm first, under another name,
and renamed when it is complete; that takes some seconds, once. Packages' install scripts do not run.
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
# Version 2 of the SDK, one package, which the runtimes before nodejs18.x contain.
_VERSION_2 = "aws-sdk"
# The packages of this scope that Lambda's runtimes contain. Libraries try to load others, such as signers in C, and
# work without them.
_BROUGHT = (
    *("client-", "lib-", "util-", "credential-provider", "s3-presigned-post", "s3-request-presigner"),
    *("cloudfront-signer", "rds-signer", "dsql-signer", "polly-request-presigner"),
)  # fmt: skip
_LETTERS = frozenset(string.ascii_lowercase + string.digits + "-")
_LONGEST_NAME = 80
_LONGEST_S = 240
_SHOWN_CHARACTERS = 400
_installing = threading.Lock()


def find_sdk_folder() -> Path:
    """Return the cache, which a user's clouds share: HEADRACE_NODE_CACHE, or `headrace/node` in the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).absolute()
    home = Path(os.environ.get("HOME") or "/")
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache").absolute() / "headrace/node"


def is_brought(package: str) -> bool:
    """Whether Lambda's runtimes contain a package, judging by its name."""
    name = package.removeprefix(_SCOPE)
    return package == _VERSION_2 or (
        name != package
        and name.startswith(_BROUGHT)
        and len(name) <= _LONGEST_NAME
        and _LETTERS.issuperset(name)
    )


def install(package: str) -> str:
    """Install a package of the SDK if the cache lacks it. Return the reason if this fails, otherwise "".

    Thread-safe. An installation takes some seconds.
    """
    if not is_brought(package):
        return f"{package} is not a package that Lambda's runtimes bring"
    folder = find_sdk_folder() / package.removeprefix(_SCOPE)
    # Only one installation runs at a time; npm's own cache makes the next one quick.
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
    major = 2 if package == _VERSION_2 else 3
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder_made = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        ran = subprocess.run(
            [npm, "install", "--prefix", str(folder_made), "--no-audit", "--no-fund", "--ignore-scripts",
             "--no-package-lock", "--loglevel=error", "--fetch-retries=1", f"{package}@{major}"],
            cwd=folder_made,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_LONGEST_S,
        )  # fmt: skip
        if ran.returncode == 0:
            folder_made.chmod(0o755)
            folder_made.rename(folder)
            return ""
        cause = " ".join(ran.stderr.split())[:_SHOWN_CHARACTERS]
    except (OSError, subprocess.SubprocessError) as error:
        cause = str(error)
    finally:
        shutil.rmtree(folder_made, ignore_errors=True)
    log.warning("npm could not install %s: %s", package, cause)
    return f"headrace installs it with npm, which failed: {cause}"
