"""Fixtures that all tests share."""

from __future__ import annotations

import argparse
import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from headrace.cli.interrupts import let_children_be_interrupted
from tests.support import schedule
from tests.support.clock import FakeClock
from tests.support.java import compile_little, interpret_queries

# No test may reach AWS, whatever the machine is configured for.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_ACCESS_KEY_ID"] = "test"
os.environ["AWS_SECRET_ACCESS_KEY"] = "test"
os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
for _name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
    os.environ.pop(_name, None)

# As in cdk/app.py: jsii would print a notice about Node.js 20 after the tests' results.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

# Environments of Sparks: of the tests' own, made by linking what is installed; no test fetches one.
_ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("HEADRACE_SPARK_CACHE", str(_ROOT / ".spark" / "cache"))

# Tests that are run in the background, too, start programs that can be interrupted.
let_children_be_interrupted()

compile_little()

# Nothing of what is loaded and collected dies: looking for it again and again is a fifth of a worker's processor time.
gc.disable()
_CONTAINERS_BETWEEN_LOOKS = 20_000

# A busy machine is no failure: no property is held to a time. The default run looks at the same examples every time, so
# that it fails for what was changed and for nothing else; `--nightly` draws new ones, and more.
hypothesis.settings.register_profile("nightly", deadline=None)
hypothesis.settings.register_profile("default", deadline=None, derandomize=True)


def draw_no_constants_of_modules() -> None:
    """Keep property tests from drawing the constants of the modules that this worker has loaded so far.

    Which these are differs by worker and by file, so the examples would; and to read a thousand modules takes a second
    of each worker. Nightly draws them.
    """
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly",
        action="store_true",
        help="the long forms: 200 kills, 10,000 fuzzed requests an action, tests marked slow",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help="only what takes no Spark, no process that is killed, no socket and no seconds",
    )
    parser.addoption(
        "--cloud",
        default=_HEADRACE,
        type=_cloud,
        help="of tests/integration: headrace, localstack, ministack, moto, http://host:port, or aws (costs money)",
    )
    parser.addoption("--fuzz-requests", type=int, help="so many fuzzed requests an action")
    parser.addoption("--fuzz-seed", default=1, type=int, help="other fuzzed requests")
    parser.addoption("--seen", help="a file for what tests/integration sees of the cloud")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their length: gzip writes the time into its own, and every worker collects the same names."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("nightly" if config.option.nightly else "default")
    if not config.option.nightly:
        draw_no_constants_of_modules()
        interpret_queries()


_HEADRACE = "headrace"


def _cloud(name: str) -> str:
    if name == _HEADRACE:
        return name  # without the import: Pythons of other Sparks run tests, too
    from scripts.pipeline.targets import TargetError, check_name

    try:
        return check_name(name)
    except TargetError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# What takes processes, sockets or seconds, by folder or file, or by a name that its module imports.
_SLOW_PLACES = (
    "api/emr", "cdk", "clients", "fuzz", "integration", "pipeline", "scripts", "security/test_browser.py",
    "security/test_function_walls.py", "security/test_patterns.py", "security/test_templates.py", "server", "soak",
    "unit/moto/test_storage.py", "unit/moto/test_reference_model.py",
    # Whole tables of answers and of types, and clouds by the hundred: a third of the files' time is theirs.
    "conformance", "lambdas/test_convergence.py", "unit/testing", "unit/lint/test_known_defects.py",
    "unit/dynamodb/test_dynamodb", "unit/stepfunctions/test_executions.py", "unit/store/test_losses.py",
    "unit/store/test_repair_database.py", "unit/cli/test_other_answers.py", "spark/test_versions.py",
    "api/cloudformation", "api/redshift", "api/lambda_/test_concurrency.py", "api/firehose/test_bad_input.py",
    "api/kinesis/test_addressing.py", "api/kinesis/test_subscribe_live.py", "unit/aws/test_body_bounds.py",
    "api/lambda_/test_functions.py", "api/lambda_/test_event_source_sources.py", "api/firehose/test_destinations.py",
    "api/lambda_/test_bounds.py", "api/lambda_/test_event_source_mappings.py", "api/lambda_/test_invoke.py",
    "api/lambda_/test_event_source_failures.py", "api/lambda_/test_isolation.py", "api/lambda_/test_urls.py",
    "api/s3/test_keys.py", "api/test_strict.py",
)  # fmt: skip
_SLOW_NAMES = ("ServerProcess", "subprocess")
# How many examples a property test looks at, at most; all that it asks for nightly.
_QUICK_EXAMPLES = 10
_DEFAULT_EXAMPLES = 20


def _is_slow_place(path: Path) -> bool:
    return path.relative_to(Path(__file__).parent).as_posix().startswith(_SLOW_PLACES)


def _is_quick(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in ("spark", "crash", "slow")):
        return False
    module = getattr(item, "module", None)
    return not _is_slow_place(item.path) and not any(hasattr(module, name) for name in _SLOW_NAMES)


def _try_few_examples(item: pytest.Item, most: int) -> None:
    """Have a property test look at so many examples at most."""
    test: Any = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    if getattr(test, "is_hypothesis_test", False):
        full = getattr(test, "_hypothesis_internal_use_settings", None) or hypothesis.settings()
        few = min(full.max_examples, most)
        # What the decorator sets; it refuses to do so twice.
        test._hypothesis_internal_use_settings = hypothesis.settings(full, max_examples=few)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare --quick the imports of what it leaves out."""
    if config.getoption("--quick") and _is_slow_place(collection_path):
        return True
    return None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> schedule.LongestFirst | None:
    """Schedule by `tests.support.schedule` where whole files are asked for."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return schedule.LongestFirst(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: schedule.place_in_order(item.nodeid))
    if config.getoption("--quick"):
        left_out = [item for item in items if not _is_quick(item)]
        items[:] = [item for item in items if _is_quick(item)]
        config.hook.pytest_deselected(items=left_out)
        for item in items:
            _try_few_examples(item, _QUICK_EXAMPLES)
        return
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="takes minutes: --nightly")
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(skip)
        else:
            _try_few_examples(item, _DEFAULT_EXAMPLES)


def pytest_collection_finish() -> None:
    """Look for garbage from now on, among what tests make."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(_CONTAINERS_BETWEEN_LOOKS, 10, 20)


def pytest_sessionfinish() -> None:
    """Spare pytest's last collections all that is left: they look for errors in destructors, which it ignores."""
    gc.freeze()


@pytest.fixture(scope="session")
def nightly(request: pytest.FixtureRequest) -> bool:
    """Whether the long form of a test is wanted."""
    return bool(request.config.getoption("--nightly"))


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record may be a test's own: Py4J logs when an earlier test's session is collected late."""
    return "py4j" not in Path(record.pathname).parts


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """See pytest's; without what Py4J logs of other tests."""
    caplog.handler.addFilter(_is_not_of_py4j)
    return caplog


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves only when told."""
    return FakeClock()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of one PostgreSQL for all tests of this process, for `--redshift`."""
    from tests.support.postgres import SharedPostgres

    shared = SharedPostgres()
    yield shared.url
    shared.stop()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """An empty data directory."""
    return tmp_path / "data"
