"""A real browser for the tests of the report's page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic_payload import Synthetic, make_large, make_synthetic

from nearfold.report.page_file import write_page

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


@pytest.fixture(scope="module")
def made() -> Synthetic:
    return make_synthetic()


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


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """visit(payload, ...) → the open page. At the end: no error, no warning, no request."""
    contexts, problems = [], []

    def opened(payload: dict[str, Any], lang: str = "en", query: str = "", **options: Any) -> Any:
        path = write_page(payload, tmp_path / f"report-{len(contexts)}.html", lang=lang)
        options = {"viewport": {"width": 1400, "height": 1000}, **options}
        context = browser.new_context(accept_downloads=True, **options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        address = path.as_uri() + query
        page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda request: request.url == address or problems.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        if page.query_selector("#pictures"):
            page.evaluate(
                "document.getElementById('pictures').scrollIntoView({behavior: 'instant'})"
            )
        return page

    yield opened
    for context in contexts:
        context.close()
    # A program that plays the graphics card is slow, and the browser says so; a test asked for it.
    own = [one for one in problems if "GPU stall due to ReadPixels" not in one]
    assert own == []
