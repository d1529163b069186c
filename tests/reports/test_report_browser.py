"""Reports in a real browser: they open without errors and without a network, and their controls work."""

import re

import numpy as np
import pandas as pd
import pytest
from browser import MISSING, PATIENCE, find_browser, running_browser
from playwright.sync_api import expect
from scipy import stats

from decond import AggregateGP, DirectGP, lfi
from decond.kernels import RBF
from decond.reports import fit_report, inference_report

pytestmark = pytest.mark.slow

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def browser():
    """Return a headless browser."""
    with running_browser() as found:
        yield found


@pytest.fixture(scope="module")
def fitted():
    """Return a small model, a naive one, and what they were fitted on."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(20), 4)
    x = pd.DataFrame({"wind": rng.uniform(0, 10, 80)})
    z = pd.Series(10.0 * np.sin(x["wind"] / 3.0)).groupby(day).mean() + 0.5 * rng.standard_normal(20)
    data = {"x": x, "groups": day, "z_groups": z.rename("power")}
    gp = AggregateGP(n_restarts=0, uncertainty="plain").fit(**data)
    naive = DirectGP(16.0 * RBF(3.0), noise=1.0, optimize=False).fit(x.groupby(day).mean(), z)
    return gp, naive, data


@pytest.fixture(scope="module")
def fit_page(fitted, tmp_path_factory):
    """Return the file of a report of a fit."""
    gp, naive, data = fitted
    truth = np.linspace(0, 10, 30)
    report = fit_report(
        gp,
        data,
        baselines={"naive </script>": naive},
        lines={"truth": (truth, 10.0 * np.sin(truth / 3.0))},
        command="decond fit " + "a-long-name-of-a-table " * 12,
        notes=["a" * 300],
    )
    return report.write(tmp_path_factory.mktemp("reports") / "fit.html")


@pytest.fixture(scope="module")
def inference_page(tmp_path_factory):
    """Return the file of a report of an inference of three parameters."""
    names = ["rate", "delay", "share & <b>more</b>"]
    prior = lfi.Prior({name: stats.norm(0.0, 3.0) for name in names})
    shape = np.array([[1.0, 0.6, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 0.5]])
    posterior = lfi.Posterior(prior, lambda n, rng: 1.0 + rng.standard_normal((n, 3)) @ shape)
    report = inference_report(posterior, [0.5, 1.5], truth=[1.0, 1.0, 1.0])
    return report.write(tmp_path_factory.mktemp("reports") / "inference.html")


@pytest.fixture(params=["fit", "inference"])
def file(request):
    """Return one of the two reports."""
    return request.getfixturevalue(f"{request.param}_page")


DRAWN = """() => [...document.querySelectorAll('.chart')].every(
    (one) => one.clientWidth && one.querySelector('svg')?.viewBox.baseVal?.width === one.clientWidth
)"""
"""Charts are drawn once their width is known, a little after the page has loaded; a scroll bar changes it again."""


@pytest.fixture
def opened(browser):
    """Return what opens a file; afterwards no page has said an error or asked for anything but the file."""
    complaints, contexts = [], []

    def open_page(path, viewport=DESK, **options):
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url == path.as_uri() or complaints.append(request.url))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_function(DRAWN)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def shown_in_tip(page, host):
    """Return what the box beside the pointer says, by label, as soon as it is there."""
    expect(page.locator(f"{host} .tip")).to_be_visible()
    rows = page.locator(f"{host} .tip div").all()
    return dict(row.locator("span").all_inner_texts() for row in rows)


def test_opens_without_errors_and_without_requests(opened, file):
    page = opened(file)
    assert page.locator("h1").inner_text() == page.title()
    assert page.locator("[data-series]").count() > 0
    assert page.locator("script").count() == 2
    assert page.locator("main b >> text=more").count() == 0
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert file.stat().st_size < 3_000_000


@pytest.mark.parametrize("viewport", [PHONE, DESK])
def test_nothing_is_wider_than_the_screen(opened, file, viewport):
    page = opened(file, viewport)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    for box in page.evaluate(
        "[...document.querySelectorAll('.chart svg')].map((one) => one.getBoundingClientRect())"
    ):
        assert box["left"] >= 0
        assert box["right"] <= viewport["width"]


def test_every_check_box_switches_its_series_off_and_on(opened, file):
    page = opened(file)
    boxes = page.locator("input[data-key]").all()
    assert len(boxes) >= 4
    for box in boxes:
        key, section = box.get_attribute("data-key"), box.locator("xpath=ancestor::section[1]")
        parameter = key.removeprefix("parameter")
        series = section.locator(f'[data-series="{key}"]' if parameter == key else f'[data-cell^="{parameter},"]')
        checked = box.is_checked()
        for clicks in range(3):
            if clicks:
                box.click()
                checked = not checked
            expect(box).to_be_checked(checked=checked)
            (expect(series).not_to_have_count if checked else expect(series).to_have_count)(0)


def test_hovering_reads_off_what_the_models_predict(opened, fit_page, fitted):
    gp, naive, _ = fitted
    page = opened(fit_page)
    picture = page.locator("[data-chart=function] > svg")
    picture.hover()
    said = shown_in_tip(page, "[data-chart=function]")
    at = pd.DataFrame({"wind": [float(said["wind"])]})
    mean, std = gp.predict(at, return_std=True)
    assert 4.0 < at["wind"][0] < 6.0
    assert float(said["learned function"]) == pytest.approx(mean[0], rel=2e-3)
    low, high = map(float, said["± 2 sd"].split(" to "))
    assert (low, high) == pytest.approx((mean[0] - 2 * std[0], mean[0] + 2 * std[0]), rel=2e-3)
    assert float(said["naive </script>"]) == pytest.approx(naive.predict(at)[0], rel=2e-3)
    assert float(said["truth"]) == pytest.approx(10 * np.sin(at["wind"][0] / 3), rel=5e-3)
    page.mouse.move(2, 2)
    expect(page.locator("[data-chart=function] .tip")).to_be_hidden()


def test_the_keyboard_moves_along_the_curve_too(opened, fit_page):
    page = opened(fit_page)
    page.locator("[data-chart=function] > svg").focus()
    page.keyboard.press("ArrowRight")
    first = shown_in_tip(page, "[data-chart=function]")["wind"]
    shown = page.locator("[data-chart=function] .tip div").first
    page.keyboard.press("ArrowRight")
    expect(shown).not_to_have_text(f"wind{first}")
    assert float(first) < float(shown_in_tip(page, "[data-chart=function]")["wind"])
    page.keyboard.press("ArrowLeft")
    expect(shown).to_have_text(f"wind{first}")
    page.keyboard.press("Escape")
    expect(page.locator("[data-chart=function] .tip")).to_be_hidden()


def test_hovering_over_a_pair_reads_off_both_parameters(opened, inference_page):
    page = opened(inference_page)
    page.locator('[data-cell="1,0"]').hover()
    said = {name: float(value) for name, value in shown_in_tip(page, "[data-pairs]").items()}
    assert set(said) == {"rate", "delay"}
    assert said["rate"] == pytest.approx(1.0, abs=0.6)  # the middle of a panel that spans some deviations
    page.locator('[data-cell="0,0"]').hover()
    expect(page.locator("[data-pairs] .tip")).to_contain_text("draws below")
    below = shown_in_tip(page, "[data-pairs]")
    share = int(re.match(r"\d+", below["draws below"])[0]) / 100
    assert share == pytest.approx(stats.norm(1.0, 1.0).cdf(float(below["rate"])), abs=0.03)


def test_print_has_charts_and_a_legend_but_no_controls(opened, file):
    page = opened(file)
    off = page.locator("input[data-key]").first
    name = page.locator("label:has(input[data-key])").first
    page.emulate_media(media="print")
    expect(page.locator(".chart svg").first).to_be_visible()
    expect(name).to_be_visible()
    expect(page.locator("input:visible")).to_have_count(0)
    page.emulate_media(media="screen")
    off.click()
    page.emulate_media(media="print")
    expect(name).to_be_hidden()


def test_without_scripts_tables_remain(opened, file):
    page = opened(file, java_script_enabled=False)
    expect(page.locator("section > .scroll > table").first).to_be_visible()
    assert page.locator("#trust li").count() >= 2


def test_a_missing_browser_is_a_failure_only_where_one_is_required(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("DECOND_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        find_browser()
    assert skipped.value.msg == MISSING
    monkeypatch.setenv("DECOND_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception):
        find_browser()


@pytest.fixture(scope="module")
def narrow_page(tmp_path_factory):
    """Return the file of a report with ranges that hold one round number, and labels of several digits."""
    ends = {"rate": (0.6, 0.8), "delay": (4.0, 40.0), "share": (0.6, 0.8)}
    prior = lfi.Prior({name: stats.uniform(*pair) for name, pair in ends.items()})
    low, width = np.array(list(ends.values())).T
    posterior = lfi.Posterior(prior, lambda n, rng: low + width * rng.beta(3.0, 3.0, (n, 3)))
    return inference_report(posterior, [0.5]).write(tmp_path_factory.mktemp("reports") / "narrow.html")


@pytest.mark.parametrize(
    ("page_name", "host"),
    [("fit_page", "[data-chart=function]"), ("inference_page", "[data-pairs]")],
)
def test_a_tap_shows_values_and_leaves_them(request, opened, page_name, host):
    page = opened(request.getfixturevalue(page_name), PHONE, has_touch=True, is_mobile=True)
    page.locator(f"{host} > svg").tap(position={"x": 120, "y": 120})
    tip = page.locator(f"{host} .tip")
    expect(tip).to_be_visible()
    first = tip.text_content()
    page.locator(f"{host} > svg").tap(position={"x": 90, "y": 110})
    expect(tip).not_to_have_text(first)
    expect(tip).to_be_visible()
    page.locator("h1").tap()
    expect(tip).to_be_hidden()


@pytest.mark.parametrize("viewport", [PHONE, DESK])
def test_every_axis_has_two_labels_at_least(opened, narrow_page, viewport):
    page = opened(narrow_page, viewport)
    for picture in page.locator("[data-chart=marginals] > svg").all():
        assert picture.locator("text:not(.name)").count() >= 2


@pytest.mark.parametrize("viewport", [PHONE, DESK])
def test_labels_of_pairs_do_not_touch_each_other(opened, narrow_page, viewport):
    page = opened(narrow_page, viewport)
    boxes = page.locator("[data-pairs] > svg > text").evaluate_all(
        "all => all.map((one) => { const b = one.getBoundingClientRect();"
        " return [b.left, b.right, b.top + 2, b.bottom - 2, one.textContent]; })"
    )
    assert len(boxes) > 10
    for i, (left, right, top, bottom, text) in enumerate(boxes):
        for other in boxes[:i]:
            apart = left > other[1] or right < other[0] or top > other[3] or bottom < other[2]
            assert apart, (text, other[4])


def test_correlations_near_zero_can_be_read(opened, narrow_page):
    page = opened(narrow_page)
    faint = page.locator("[data-pairs] text.big").evaluate_all(
        "all => all.map((one) => +getComputedStyle(one).opacity)"
    )
    assert len(faint) == 3
    assert min(faint) >= 0.7


def test_a_narrow_range_far_from_zero_is_drawn_and_labeled(opened, tmp_path):
    """Times in seconds: neither staircases nor NaN, and ticks that differ."""
    prior = lfi.Prior({"onset": stats.norm(1.7e9, 1000.0), "rate": stats.norm()})
    posterior = lfi.Posterior(
        prior, lambda n, rng: np.column_stack([1.7e9 + 30.0 * rng.standard_normal(n), 0.3 * rng.standard_normal(n)])
    )
    page = opened(inference_report(posterior, [0.5]).write(tmp_path / "times.html"))
    assert "NaN" not in page.inner_html("main")
    labels = [text for text in page.locator(".chart svg text").all_text_contents() if text.startswith(("16", "17"))]
    assert len(set(labels)) >= 3
    page.locator('[data-cell="1,0"]').hover()
    assert abs(float(shown_in_tip(page, "[data-pairs]")["onset"]) - 1.7e9) < 90.0


def test_draws_that_are_all_the_same_are_drawn_without_errors(opened, tmp_path):
    prior = lfi.Prior({"a": stats.norm(1e17, 1.0), "b": stats.norm()})
    posterior = lfi.Posterior(prior, lambda n, rng: np.tile([1e17, 0.0], (n, 1)))
    page = opened(inference_report(posterior, [0.5]).write(tmp_path / "same.html"))
    assert "NaN" not in page.inner_html("main")
