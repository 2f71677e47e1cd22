"""A real browser for the tests of the report's page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from synthetic_payload import Synthetic, make_large

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Nothing but the page itself may speak to a network, the browser included.
_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--enable-unsafe-swiftshader",  # WebGL without a graphics card
)


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


def launch_browser(playwright: Any) -> Any:
    """Chromium, with a new and empty profile."""
    return playwright.chromium.launch(
        executable_path=find_browser(), args=list(_FLAGS), headless=True, chromium_sandbox=False
    )


@pytest.fixture(scope="session")
def large() -> Synthetic:
    """A report of 100,000 points."""
    return make_large()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests; without any, CI fails and others skip."""
    if find_browser() is None:
        message = f"The report is tested in a browser, and none of {', '.join(_NAMES)} is here."
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = launch_browser(playwright)
        yield launched
        launched.close()
