"""The one browser of the dashboard's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.browser import Page
from tests.security.browser import find_chromium


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    """A page; which address it shows, each test says."""
    with Page(find_chromium()) as page:
        yield page
