"""The pytest plug-in: fixtures for clouds, functions and stacks, and a guard that lets no test reach AWS.

Its imports are few: pytest loads it in every run, also of tests that have nothing to do with AWS.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.testing.guard import Guard

if TYPE_CHECKING:
    from headrace.testing.access import CloudAccess
    from headrace.testing.code import TestedFunction
    from headrace.testing.stacks import DeployedStacks

_AWS = "aws"
# A worker of pytest-xdist sends its denials to the controller under this name.
_DENIED = "headrace_denied"
_STATE = pytest.StashKey["_State"]()  # pyrefly: ignore[not-a-type]


class _State:
    """The plug-in's state for one test run."""

    def __init__(self) -> None:
        self.before: dict[str, str | None] = {}
        self.guard: Guard | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    """See pytest."""
    group = parser.getgroup("headrace", "AWS streaming in the test's own process")
    group.addoption(
        "--headrace-cloud",
        metavar="URL",
        default=None,
        help="run on a cloud that is up (http://host:port), or on AWS itself (aws), which costs money",
    )
    parser.addini(
        "headrace_allow_aws",
        "let tests that do not use headrace's fixtures reach AWS",
        type="bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep every test from AWS, unless allowed. Raises pytest.UsageError when --headrace-cloud names no cloud."""
    _check_target(config)
    state = config.stash[_STATE] = _State()
    if config.getoption("--headrace-cloud") == _AWS or config.getini("headrace_allow_aws"):
        return
    state.guard = Guard()
    state.guard.put_up()
    state.before = {name: os.environ.get(name) for name in _HARMLESS}
    for name, value in _HARMLESS.items():
        _put(name, value)


def _check_target(config: pytest.Config) -> None:
    """Check once, before any test, which cloud --headrace-cloud names; workers of pytest-xdist skip the check."""
    target = config.getoption("--headrace-cloud")
    if target is None or hasattr(config, "workerinput"):
        return
    from headrace.testing.access import CloudUnusable, RemoteCloud

    try:
        RemoteCloud(target)
    except CloudUnusable as error:
        raise pytest.UsageError(str(error)) from None


def _failure(sentence: object) -> BaseException:
    """Return an exception that fails a test or its fixture with one sentence and no traceback."""
    return pytest.fail.Exception(str(sentence), pytrace=False)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the environment variables."""
    state = config.stash.get(_STATE, None)
    if state is None or state.guard is None:
        return
    state.guard.take_down()
    state.guard = None
    for name, value in state.before.items():
        _put(name, value)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist: send the denials to the controller, which reports them."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_DENIED] = _list_denied()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the denials that a worker has collected."""
    rows: list[dict[str, Any]] = getattr(node, "workeroutput", {}).get(_DENIED) or []
    if rows:
        from headrace.testing import denials

        denials.add(rows)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report in a few lines what AWS would deny."""
    rows = _list_denied()
    if not rows:
        return
    from headrace.testing.denials import lines

    terminalreporter.section("headrace: permissions")
    for line in lines(rows):
        terminalreporter.line(line)


def _list_denied() -> list[dict[str, Any]]:
    """Return the denials that the clouds of this process have noted."""
    denials = sys.modules.get("headrace.testing.denials")
    return [] if denials is None else denials.take()


# With these variables no SDK finds an account of the user; `headrace.testing.function_variables` imports too much here.
_HARMLESS: dict[str, str | None] = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_SESSION_TOKEN": None,
    "AWS_PROFILE": None,
    "AWS_DEFAULT_PROFILE": None,
    "AWS_ROLE_ARN": None,
    "AWS_WEB_IDENTITY_TOKEN_FILE": None,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


# --- fixtures -----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def headrace_options() -> Mapping[str, Any]:
    """The options of `headrace_cloud`; override it in the top conftest.py: see `headrace.testing.LocalCloud`."""
    return {}


@pytest.fixture(scope="session")
def headrace_cloud(
    pytestconfig: pytest.Config, headrace_options: Mapping[str, Any]
) -> Generator[CloudAccess]:
    """A cloud for the whole session (with xdist: for each worker), on a free port, with temporary data."""
    target = pytestconfig.getoption("--headrace-cloud")
    if target is not None:
        from headrace.testing.access import CloudUnusable, RemoteCloud

        try:
            remote = RemoteCloud(target)
        except CloudUnusable as error:
            raise _failure(error) from None
        _OptionsOf.options[remote] = dict(headrace_options)
        yield remote
        return
    from headrace.testing.clouds import ServedCloud
    from headrace.testing.in_process import UnknownOption

    try:
        cloud = ServedCloud(**headrace_options)
    except UnknownOption as error:
        raise _failure(f"headrace_options: {error}") from None
    _OptionsOf.options[cloud] = dict(headrace_options)
    with cloud:
        yield cloud


class _OptionsOf:
    """The options of each cloud of this process."""

    options: dict[Any, dict[str, Any]] = {}  # noqa: RUF012 - shared by the whole process


_numbers = itertools.count(1)


def _new_account(config: pytest.Config) -> str:
    """Return an unused account id; each worker's ids begin with its own number."""
    worker = str(getattr(config, "workerinput", {}).get("workerid", "gw0"))
    number = int("".join(c for c in worker if c.isdigit()) or 0)
    return f"{1 + number % 899:03d}{next(_numbers):09d}"


@pytest.fixture
def headrace_account(
    request: pytest.FixtureRequest, headrace_cloud: CloudAccess, headrace_options: Mapping[str, Any]
) -> str:
    """A new account for each test, which replaces cleaning up; on AWS, the account of the credentials."""
    made_with = _OptionsOf.options.get(headrace_cloud, {})
    if made_with != dict(headrace_options):
        raise _failure(
            f"There is one headrace_cloud a session: it was made with {made_with}, and {request.node.nodeid} wants"
            f" {dict(headrace_options)}; set headrace_options in one place, or use headrace.testing.cloud()."
        )
    return (
        headrace_cloud.account if headrace_cloud.product == _AWS else _new_account(request.config)
    )


@pytest.fixture
def headrace_aws(headrace_cloud: CloudAccess, headrace_account: str) -> Generator[CloudAccess]:
    """The cloud as this test's account sees it: clients, records_of(), until_drained(). SDKs find it by themselves."""
    from headrace.testing.access import AccountView
    from headrace.testing.function_variables import fresh_default_session, pointing_at, variables

    view = AccountView(headrace_cloud, headrace_account)
    if view.endpoint_url is None:
        yield view
        return
    variables_given = pointing_at(view.endpoint_url, account=view.account, region=view.region)
    with variables(variables_given), fresh_default_session():
        yield view


@pytest.fixture
def headrace_session(headrace_aws: CloudAccess) -> Any:
    """A boto3 session of this test's account."""
    return headrace_aws.session()


@pytest.fixture
def headrace_function(headrace_aws: CloudAccess) -> Callable[..., TestedFunction]:
    """Creates a function from a folder: `headrace_function("lambdas/enrich", source="orders")`."""
    from headrace.testing.code import StreamMissing, make_importable_function
    from headrace.testing.handlers import FunctionNotLoadable

    def make(folder: str | Path, **settings: Any) -> TestedFunction:
        try:
            return make_importable_function(headrace_aws, Path(folder), **settings)
        except (FunctionNotLoadable, StreamMissing) as error:
            raise _failure(error) from None

    return make


@pytest.fixture(scope="session")
def headrace_stack(headrace_cloud: CloudAccess) -> Callable[..., DeployedStacks]:
    """Deploys a CDK app's folder or a template, once per session, into its own account."""
    from headrace.testing.access import AccountView
    from headrace.testing.stacks import StackFailed, deploy

    done: dict[str, Any] = {}

    def deployed(source: Any, **settings: Any) -> DeployedStacks:
        key = repr((source, sorted(settings.items(), key=repr)))
        if key not in done:
            account = f"9{len(done):011d}"
            is_aws = headrace_cloud.product == _AWS
            view = AccountView(headrace_cloud, headrace_cloud.account if is_aws else account)
            try:
                done[key] = deploy(view, source, **settings)
            except StackFailed as error:
                done[key] = error
        outcome = done[key]
        if isinstance(outcome, StackFailed):
            raise _failure(outcome)
        return outcome

    return deployed
