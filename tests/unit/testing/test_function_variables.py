"""The environment variables of functions in the test's own process, and who sees them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest

from headrace.testing.function_variables import (
    FunctionVariables,
    default_session_of,
    fresh_default_session,
    harmless,
    session,
    variables,
)

NAME = "HEADRACE_TEST_VARIABLE"
OTHER = "HEADRACE_TEST_OTHER_VARIABLE"
PRINT = [sys.executable, "-c", f"import os; print(os.environ.get('{NAME}'))"]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = {**os.environ, "PYTEST_CURRENT_TEST": ""}
    yield
    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == before


def program_output() -> str:
    return subprocess.run(PRINT, check=True, capture_output=True, text=True).stdout.strip()


def test_the_thread_and_its_programs_have_them_inside_only() -> None:
    with variables({OTHER: "the test's"}):
        own = FunctionVariables({NAME: "the function's", OTHER: None})
        with own.entered():
            assert os.environ[NAME] == os.getenv(NAME) == "the function's"
            assert os.environb[NAME.encode()] == b"the function's"
            assert OTHER not in os.environ
            assert program_output() == "the function's"
        assert NAME not in os.environ
        assert os.environ[OTHER] == "the test's"
        assert program_output() == "None"


def test_another_thread_goes_on_iterating_when_a_function_ends() -> None:
    """botocore iterates over `os.environ` for each client: that raised KeyError('LAMBDA_TASK_ROOT') in a fixture."""
    is_entered, may_end = threading.Event(), threading.Event()

    def run(own: FunctionVariables) -> None:
        with own.entered():
            is_entered.set()
            assert may_end.wait(30)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, FunctionVariables({NAME: "the function's"}))
        assert is_entered.wait(30)
        names = iter(os.environ.items())
        first = next(names)
        assert NAME not in os.environ
        os.environ[OTHER] = "set meanwhile"
        may_end.set()
        running.result(30)
        rest = list(names)
    assert NAME not in dict([first, *rest])
    assert os.environ.pop(OTHER) == "set meanwhile"


def test_a_functions_own_threads_have_them_too() -> None:
    own = FunctionVariables({NAME: "the function's"})
    with own.entered(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(os.environ.get, NAME).result(30) == "the function's"
        # The pool outlives the invocation, as one in a module does.
        pool.submit(os.getpid).result(30)
    with own.entered(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(os.environ.get, NAME).result(30) == "the function's"


def test_a_pool_of_the_function_has_them_at_the_next_invocation() -> None:
    own = FunctionVariables({NAME: "the function's"})
    with own.entered():
        pool = ThreadPoolExecutor(1)
        pool.submit(os.getpid).result(30)
    try:
        assert pool.submit(os.environ.get, NAME).result(30) is None
        with own.entered():
            assert pool.submit(os.environ.get, NAME).result(30) == "the function's"
    finally:
        pool.shutdown()


def test_what_a_function_sets_is_there_at_its_next_invocation_only() -> None:
    one, two = FunctionVariables({}), FunctionVariables({})
    with one.entered():
        os.environ[NAME] = "set"
        assert program_output() == "set"
    assert NAME not in os.environ
    assert program_output() == "None"
    with two.entered():
        assert NAME not in os.environ
    with one.entered():
        assert os.environ[NAME] == program_output() == "set"
        del os.environ[NAME]
    with one.entered():
        assert NAME not in os.environ


def test_a_function_that_calls_another_gets_its_own_back() -> None:
    outer, inner = (
        FunctionVariables({NAME: "outer", OTHER: "outer"}),
        FunctionVariables({NAME: "inner"}),
    )
    with outer.entered():
        with inner.entered():
            assert os.environ[NAME] == program_output() == "inner"
            assert OTHER not in os.environ
        assert os.environ[NAME] == program_output() == "outer"
        assert os.environ[OTHER] == "outer"


def test_they_end_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), FunctionVariables({NAME: "x"}).entered():
        1 / 0  # noqa: B018
    assert NAME not in os.environ


def test_the_default_session_is_the_functions_for_its_threads_only() -> None:
    own = session()
    keys = FunctionVariables({"AWS_ACCESS_KEY_ID": "the function's", "AWS_SECRET_ACCESS_KEY": "x"})
    wanted = {"AWS_ACCESS_KEY_ID": "the test's", "AWS_SECRET_ACCESS_KEY": "x"}

    def run() -> str:
        with keys.entered(), default_session_of(own):
            is_entered.set()
            assert may_end.wait(30)
            return boto3._get_default_session().get_credentials().access_key

    is_entered, may_end = threading.Event(), threading.Event()
    with variables(wanted), fresh_default_session(), ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        assert is_entered.wait(30)
        found = boto3._get_default_session().get_credentials().access_key
        may_end.set()
        assert (found, running.result(30)) == ("the test's", "the function's")


def test_a_default_session_is_made_when_a_client_first_asks() -> None:
    before, set_up = boto3.DEFAULT_SESSION, boto3.setup_default_session
    with variables(harmless()), fresh_default_session():
        assert boto3.DEFAULT_SESSION is None
        boto3.client("sts", region_name="us-east-1")
        first = boto3.DEFAULT_SESSION
        assert first is not None
        assert first._session.get_component("data_loader") is session()._session.get_component(
            "data_loader"
        )
        boto3.client("sts", region_name="us-east-1")
        assert boto3.DEFAULT_SESSION is first
        boto3.setup_default_session(region_name="eu-west-1")
        assert boto3.DEFAULT_SESSION.region_name == "eu-west-1"
    assert (boto3.DEFAULT_SESSION, boto3.setup_default_session) == (before, set_up)
