"""Keeps every botocore request from AWS. Does not import botocore itself, because pytest loads this in every run."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

_HTTP = "botocore.httpsession"
_AWS_HOST = re.compile(
    r"(^|\.)(amazonaws\.com|amazonaws\.com\.cn|api\.aws|aws\.dev|on\.aws|sc2s\.sgov\.gov|c2s\.ic\.gov)$"
)
# The hosts from which EC2 instances and containers get their credentials.
_METADATA = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254")


class AwsUnreachable(Exception):
    """A test tried to reach AWS."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"headrace lets no test reach AWS, and this one asked for {url}. Enter headrace.testing.cloud() or take "
            "the fixture headrace_session; or allow AWS: pytest --headrace-cloud aws, or headrace_allow_aws = true"
        )


def is_aws(host: str) -> bool:
    """Whether a host belongs to AWS."""
    return _AWS_HOST.search(host) is not None


def is_metadata(host: str) -> bool:
    """Whether a host is a metadata service, which gives credentials to programs on AWS's machines."""
    return host in _METADATA


class Guard:
    """Refuses botocore's requests to AWS from `put_up` to `take_down`, also when botocore is imported in between."""

    def __init__(self) -> None:
        self._original: Any = None
        self._finder = _Finder(self._cover)

    def put_up(self) -> None:
        """Begin."""
        module = sys.modules.get(_HTTP)
        if module is None:
            sys.meta_path.insert(0, self._finder)
        else:
            self._cover(module)

    def take_down(self) -> None:
        """End."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        module: Any = sys.modules.get(_HTTP)
        if self._original is not None and module is not None:
            module.URLLib3Session.send, self._original = self._original, None

    def _cover(self, module: Any) -> None:
        original = self._original = module.URLLib3Session.send

        def send(session: Any, request: Any) -> Any:
            host = str(urlsplit(str(request.url)).hostname or "").lower()
            if is_aws(host) or is_metadata(host):
                raise AwsUnreachable(request.url.partition("?")[0])
            return original(session, request)

        module.URLLib3Session.send = send


class _Finder(importlib.abc.MetaPathFinder):
    """Guards botocore's HTTP module as soon as it is imported: to import it only for the guard would slow every run."""

    def __init__(self, cover: Any) -> None:
        self._cover = cover

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See MetaPathFinder."""
        if fullname != _HTTP:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._cover)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, cover: Any) -> None:
        self._loader = loader
        self._cover = cover

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """See Loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See Loader."""
        self._loader.exec_module(module)
        self._cover(module)
