"""`--cloud`: where these tests run; its known differences; what is seen of it, for docs/conformance/clouds.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripts.benchmarks.servers import CannotStart, running, version
from scripts.localstack_host import host
from scripts.localstack_host.installation import ROOT, HostError, Installation
from scripts.pipeline.targets import (
    AWS,
    HEADRACE,
    LOCALSTACK,
    MINISTACK,
    MOTO,
    Target,
    TargetError,
    check_name,
    expect,
    identify,
)
from tests.integration.clouds import CloudUnderTest
from tests.integration.differences import DIFFERENCES, DIFFERS, GONE, SAME, verdict
from tests.support.server import ServerProcess

_TARGET = pytest.StashKey[Target]()
_SEEN = pytest.StashKey[dict[str, dict[str, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SEEN] = {}


@pytest.fixture(scope="session")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """The cloud that `--cloud` names, started when it is a product of this machine."""
    name = check_name(request.config.getoption("--cloud"))
    try:
        for found in _started(name, tmp_path_factory):
            request.config.stash[_TARGET] = found
            yield found
    except (TargetError, HostError, CannotStart) as error:
        pytest.exit(f"headrace: {error}", pytest.ExitCode.USAGE_ERROR)


def _started(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    if name == HEADRACE:
        with ServerProcess(tmp_path_factory.mktemp("integration") / "data") as server:
            yield identify(server.endpoint_url)
    elif name == LOCALSTACK:
        installation = Installation(ROOT / ".localstack")
        was_up = host.running(installation) is not None
        try:
            yield expect(host.up(installation, 0).endpoint_url, LOCALSTACK)
        finally:
            if not was_up:
                host.down(installation)
    elif name in (MINISTACK, MOTO):
        with running(name) as server:
            found = expect(f"http://127.0.0.1:{server.port}", name)
            # moto does not say which it is.
            yield replace(found, version=found.version or version(name))
    elif name == AWS:
        yield Target(AWS, "")
    else:
        yield identify(name)


@pytest.fixture(scope="module")
def cloud(target: Target) -> Iterator[CloudUnderTest]:
    """The cloud, and what the tests of a file make in it, which is removed at the end."""
    under_test = CloudUnderTest(target)
    yield under_test
    under_test.clean()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    """Hold a test against the table of known differences."""
    target = pyfuncitem.funcargs.get("target") or getattr(
        pyfuncitem.funcargs.get("cloud"), "target", None
    )
    if not isinstance(target, Target):
        return (yield)
    name = pyfuncitem.originalname or pyfuncitem.name
    known = DIFFERENCES.get(target.product, {}).get(name)
    seen = pyfuncitem.config.stash[_SEEN]
    place = f"{pyfuncitem.path.stem}::{name}"
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        if known is None or verdict(known, error) != DIFFERS:
            raise
        seen[place] = {"outcome": DIFFERS, "what": known.what}
        pytest.xfail(known.what)
    if known is not None and verdict(known, None) == GONE:
        pytest.fail(
            f"{target.product} is listed as different here and is not any more: {known.what}"
        )
    seen[place] = {"outcome": SAME}
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was seen, when it is asked for."""
    file = session.config.getoption("--seen")
    target = session.config.stash.get(_TARGET, None)
    if file is not None and target is not None:
        # A part of the tests renews its part of what was seen of the same version.
        before = json.loads(Path(file).read_text()) if Path(file).exists() else {}
        tests = before["tests"] if before.get("cloud") == target.title else {}
        tests = dict(sorted((tests | session.config.stash[_SEEN]).items()))
        Path(file).write_text(json.dumps({"cloud": target.title, "tests": tests}, indent=1) + "\n")
