"""Imports moto, one thread at a time.

moto's packages import each other in circles. Two threads that import different parts at once can each see the other's
incomplete module and fail. So code that imports moto takes the lock `IMPORTING` (reentrant), and the modules that
`codec_moto` and `headrace.moto` share are imported together the first time.
"""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

from headrace.aws.calls.operation import LeanFiles, loader

IMPORTING = threading.RLock()

_SHARED = (
    "moto",
    "moto.core.utils",
    "moto.core.request",
    "moto.core.routing",
    "moto.core.parse",
    "moto.core.serialize",
    "moto.core.config",
    "moto.core.base_backend",
    "moto.backends",
    "moto.backend_index",
    "moto.moto_api._internal",
    "moto.iam.models",
)
_loaded = threading.Event()
# headrace uses moto's internals; the tests pass with these versions. pyproject.toml has the same range.
LOWEST, BEFORE = (5, 2, 5), (5, 3)

# Descriptions with additions of botocore's for clients, which moto leaves out, and of moto's.
_WITH_SDK_ADDITIONS = (("s3", "service-2"), ("rds", "paginators-1"))


class MotoUnsuited(RuntimeError):
    """headrace does not work with the installed version of moto; the message is one sentence."""


def check_version(version: str) -> None:
    """Raise MotoUnsuited for a version that headrace is not tested with."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if not LOWEST <= numbers < BEFORE:
        lowest, before = (".".join(map(str, bound)) for bound in (LOWEST, BEFORE))
        raise MotoUnsuited(
            f"headrace uses moto's internals and works with moto {lowest} and newer, below {before}; {version} is"
            f" installed: pip install 'moto>={lowest},<{before}'"
        )


def load_moto() -> None:
    """Import the modules of moto that headrace uses; quick after the first time. Thread-safe."""
    if _loaded.is_set():
        return
    import importlib.metadata

    with IMPORTING:
        check_version(importlib.metadata.version("moto"))
        for name in _SHARED:
            importlib.import_module(name)
        _share_descriptions()
        _loaded.set()


def _share_descriptions() -> None:
    """Make moto read services' descriptions with headrace's loader; by its own, it holds each a second time.

    Some descriptions have additions of moto's: those get copies of the parts that change.
    """
    utils: Any = importlib.import_module("moto.core.utils")
    loaders: Any = importlib.import_module("moto.core.loaders")
    folder = Path(loaders.moto_root)
    own: Any = loaders.Loader(extra_search_paths=[str(folder)], file_loader=LeanFiles())

    class SharedLoader:
        def load_service_model(self, service_name: str, type_name: str) -> dict[str, Any]:
            """Return a description; see botocore's `Loader.load_service_model`."""
            files = (folder / service_name.replace("-", "")).glob(
                f"*/{type_name}.moto-extras.json*"
            )
            additions = [LeanFiles().load_file(str(file).rpartition(".json")[0]) for file in files]
            if additions and (service_name, type_name) in _WITH_SDK_ADDITIONS:
                return own.load_service_model(service_name, type_name)
            description = loader().load_service_model(service_name, type_name)
            for addition in additions:
                description = _merged(description, addition["merge"])
            return description

    shared = SharedLoader()
    utils.create_loader = lambda: shared


def _merged(into: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Return a dictionary with additions at any depth, which shares with the first what has none."""
    return into | {
        name: _merged(into[name], value)
        if isinstance(value, dict) and isinstance(into.get(name), dict)
        else value
        for name, value in added.items()
    }
