"""The built site: no warning, every link inside it leads somewhere, and nothing is loaded from elsewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADING = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("object", "data")}


class Page(HTMLParser):
    """What a built page links to, what it loads, and which anchors it has."""

    def __init__(self, path):
        super().__init__()
        self.path, self.links, self.loaded, self.anchors = path, [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(filter(None, (values.get("id"), values.get("name") if tag == "a" else None)))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(values["href"])
        self.loaded += [value for key, value in attributes if (tag, key) in LOADING]
        self.loaded += re.findall(r"url\(([^)]+)\)", values.get("style") or "")

    def target(self, link):
        """Return the file and the anchor that a link of this page leads to."""
        parts = urlsplit(link)
        path = (self.path.parent / unquote(parts.path)).resolve() if parts.path else self.path
        return path, unquote(parts.fragment)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Build the site with warnings as errors; return where it lies."""
    folder = tmp_path_factory.mktemp("site").resolve()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="session")
def site(folder):
    """Return the built pages by path."""
    return {path: Page(path) for path in folder.rglob("*.html") if path.name != "404.html"}


def test_every_source_page_is_built(site):
    assert len(site) == len(list((ROOT / "docs").rglob("*.md")))


def test_every_link_inside_the_site_leads_somewhere(site):
    broken, followed = [], 0
    for page in site.values():
        for link in page.links:
            if urlsplit(link).scheme in ("http", "https", "mailto"):
                continue
            path, anchor = page.target(link)
            found = path in site if path.suffix == ".html" else path.is_file()
            if not found or (anchor and anchor not in site[path].anchors):
                broken.append(f"{page.path.name} → {link}")
            followed += 1
    assert broken == []
    assert followed > 10 * len(site)


def test_nothing_is_loaded_from_elsewhere(folder, site):
    outside, missing = [], []
    for page in site.values():
        for resource in page.loaded:
            if urlsplit(resource).netloc:
                outside.append(f"{page.path.name} loads {resource}")
            elif not resource.startswith("data:") and not page.target(resource)[0].is_file():
                missing.append(f"{page.path.name} loads {resource}")
    for sheet in folder.rglob("*.css"):
        outside += re.findall(
            r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^)'\"]+)", sheet.read_text(encoding="utf-8")
        )
    assert (outside, missing) == ([], [])


def test_no_page_asks_for_what_the_theme_would_fetch(site):
    assert [path.name for path in site if 'class="mermaid"' in path.read_text(encoding="utf-8")] == []
