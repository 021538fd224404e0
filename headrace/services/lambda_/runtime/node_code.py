"""Keeps what V8 made of the AWS SDK's modules: a Node.js function that imports one need not compile it again.

The file is in the cache of the SDK (`sdk_modules.py`), where functions can only read it if there are walls. headrace
makes it in the background when a Node.js function is about to run; `node_code.cjs` makes and uses it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from headrace.services.lambda_.runtime.sdk_modules import find_sdk_folder

PROGRAM = Path(__file__).parent / "node_code.cjs"
VARIABLE = "HEADRACE_NODE_CODE"
_CLIENTS = "@aws-sdk/client-*/package.json"
# A client takes about a megabyte.
_MOST_CLIENTS = 20


def find_file(node: str, folders: Iterable[str]) -> Path | None:
    """Return the file that functions use; None when it is not made. `folders` are those of NODE_PATH."""
    file = _name_file(node, _list_clients(folders))
    return file if file.exists() else None


def build_command(node: str, folders: Iterable[str]) -> list[str] | None:
    """Return the command that makes the file; None when it is there, or would have nothing in it."""
    clients = _list_clients(folders)
    file = _name_file(node, clients)
    if not clients or file.exists():
        return None
    packages = [str(path.parent) for path in clients]
    return [node, "--no-warnings", str(PROGRAM), str(file), *packages]


def _list_clients(folders: Iterable[str]) -> list[Path]:
    """Return the SDK's clients that functions find: first those that npm installed because a function needed them."""
    installed = sorted(find_sdk_folder().glob(f"client-*/node_modules/{_CLIENTS}"))
    others = [path for folder in folders for path in sorted(Path(folder).glob(_CLIENTS))]
    return [*installed, *others][:_MOST_CLIENTS]


def _name_file(node: str, clients: list[Path]) -> Path:
    """Return the file for a Node.js and the present files of clients."""
    states = [(str(path), _changed_ns(path)) for path in (Path(node), *clients)]
    name = hashlib.sha256(repr(states).encode()).hexdigest()[:16]
    return find_sdk_folder() / ".compiled" / name


def _changed_ns(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
