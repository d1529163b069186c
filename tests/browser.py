"""The Chromium that tests open pages in, if there is one."""

import contextlib
import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Where it may be; `tools/browser` looks for the same names."""

MISSING = "no Chromium found: browser tests are skipped; `make browser` says how to get one"

FLAGS = (
    "--headless",
    "--no-sandbox",  # root cannot have one, nor can many containers
    "--disable-dev-shm-usage",  # containers often have little of it
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)

PATIENCE = 120_000
"""Milliseconds after which a page that does not react is a failure: no more than a safety net."""


def path_of_browser():
    """Return the path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def find_browser():
    """Return the path of a browser; without one, skip the test, or fail where DECOND_REQUIRE_BROWSER is set."""
    found = path_of_browser()
    if found is None:
        (pytest.fail if os.environ.get("DECOND_REQUIRE_BROWSER") else pytest.skip)(MISSING)
    return found


@contextlib.contextmanager
def running_browser():
    """Yield a headless browser."""
    path = find_browser()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=PATIENCE)
        yield browser
        browser.close()
