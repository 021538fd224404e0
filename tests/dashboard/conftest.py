"""The one browser of the dashboard's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.browser import Page
from tests.security.browser import find_chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    """The browser's only page."""
    with Page(find_chromium()) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """A page; which address it shows, each test says.

    A test leaves its address: a page would ask for a server that has ended, and the next test read its complaints.
    """
    yield browser
    browser.do("leave")
