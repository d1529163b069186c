"""Every page: its blocks are of a known kind, its code runs, and its output and pictures come from that code."""

import re
from pathlib import Path

import benchmark_page
import pytest
from run_pages import check_outputs, check_pictures, read_blocks, run_page, shown_pictures

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
PICTURE_BYTES = 80 * 1024
WIDTH = 88
"""Letters of a line of code that fit on a page without scrolling; output and transcripts are wrapped."""
BENCHMARK = re.compile(r"python -m benchmarks((?:\s+[a-z]+(?:_[a-z]+)*)+)(?=`|\s--|\n|$)")

PHRASES = re.compile(
    r"\b(is|are) (said|told|warned of)\b|\b(has|have) a say\b|look twice|can be told|no longer change|unseen x"
    r"|effective number|(?<!there )\b(is|are) no (array|part|row|number|program|text|result|point|file|column)"
)
"""Phrases that established terms replace; tools/words.txt has the single words."""


def name(page):
    return str(page.relative_to(ROOT))


def shows(page):
    """Tell whether a page has code that runs, or pictures, which such code must have drawn."""
    return any(block.runs for block in read_blocks(page)) or shown_pictures(page)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name)
def test_blocks_are_of_a_known_kind(page):
    for block in read_blocks(page):
        block.check_kind()


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name)
def test_code_needs_no_scrolling(page):
    code = [block for block in read_blocks(page) if block.language not in ("text", "console")]
    lines = [(block.line, line) for block in code for line in block.code.splitlines()]
    assert [line for line in lines if len(line[1]) > WIDTH] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "GLOSSARY.md", *PAGES], ids=name)
def test_pages_use_established_terms(page):
    assert [match[0] for match in PHRASES.finditer(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name)
def test_benchmarks_that_a_page_names_exist(page):
    source = (ROOT / "benchmarks" / "__main__.py").read_text(encoding="utf-8")
    known = set(re.findall(r'^    "(\w+)": \w+\.run,$', source, re.MULTILINE))
    named = BENCHMARK.findall(page.read_text(encoding="utf-8"))
    assert {one for names in named for one in names.split()} <= known


def test_figures_of_benchmarks_are_those_of_the_committed_results():
    written = benchmark_page.PAGE.read_text(encoding="utf-8")
    readme = benchmark_page.README.read_text(encoding="utf-8")
    assert written == benchmark_page.page(), "results have changed; run: python docs/benchmark_page.py"
    assert benchmark_page.TABLE.search(readme)[0] == benchmark_page.at_a_glance()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if shows(page)], ids=name)
def test_page_runs_and_shows_what_its_code_does(page, tmp_path):  # that of README: tests/test_fresh_process.py
    printed = run_page(page, tmp_path, timeout=900)
    check_outputs(page, printed)
    check_pictures(page, tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if shown_pictures(page)], ids=name)
def test_pictures_are_there_and_small(page):
    for picture in shown_pictures(page):
        assert picture.is_file(), f"python docs/run_pages.py {name(page)} --pictures"
        assert picture.stat().st_size < PICTURE_BYTES, picture


def test_every_kept_picture_is_shown():
    shown = {picture for page in PAGES for picture in shown_pictures(page)}
    assert set((ROOT / "docs" / "images").rglob("*.png")) == shown
