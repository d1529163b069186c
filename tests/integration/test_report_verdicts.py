"""What reports say where it is easy to say too much: kernels of parts, narrow ranges, error bars, draws, edges."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from decond import AggregateGP, DirectGP, SparseGP, TaskTransformedGP, lfi
from decond.cli.jobs import Job, Request
from decond.cli.summary import summarize
from decond.kernels import RBF, Columns, Linear
from decond.learning import FitResult, Model
from decond.regression import Direct, FunctionPrior
from decond.reports import fit_report, inference_report
from decond.reports.checks import LEFT_OUT, _bars, fit_checks, verdict
from decond.reports.fitted_data import fitted_data
from decond.reports.hyperparameters import Names, hyperparameters

BARS = "Do the error bars of targets hold?"


def checks_of(estimator, data):
    """Return the checks of a fit by question."""
    return {check.question: check for check in fit_checks(estimator, fitted_data(estimator, data))}


def numbers_of(report):
    return json.loads(re.search(r'id="data">(.*?)</script>', report.html, re.DOTALL).group(1))


def text_of(report):
    return " ".join(re.sub(r"<[^>]+>", " ", report.html.split("<script")[0]).split())


def waves(n=40, noise=0.1):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, n)
    return x, np.sin(x) + noise * rng.standard_normal(n)


def groups(n=40, noise=0.05):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 4 * n)
    return {
        "x": x,
        "groups": np.repeat(np.arange(n), 4),
        "z_groups": np.sin(x).reshape(n, 4).mean(axis=1) + noise * rng.standard_normal(n),
    }


# ---- kernels of several parts --------------------------------------------------------------------------------


def learned(kernel, columns, parameters):
    """Return what is said of parameters of a function's prior with this kernel."""
    model = Model(FunctionPrior(kernel), Direct(np.zeros((2, len(columns))), noise=0.1))
    values = {f"prior.kernel.{path}": value for path, value in parameters.items()}
    result = FitResult(model, values, 0.0, "converged", "an optimum was found.", 1, 0, (0.0,))
    return {item.name: item for item in hyperparameters(result, Names(columns, ranges=dict.fromkeys(columns, 10.0)))}


def test_a_lengthscale_is_said_of_the_columns_that_its_kernel_sees():
    kernel = Columns(RBF(1.77), [0]) + Columns(RBF(875_444.0), [1])
    paths = {"parts.0.kernel.lengthscale": 1.77, "parts.1.kernel.lengthscale": 875_444.0}
    found = learned(kernel, ["wind", "height"], paths)
    assert {name: item.value for name, item in found.items()} == {
        "lengthscale of wind": 1.77,
        "lengthscale of height": 875_444.0,
    }
    assert "traight" not in found["lengthscale of wind"].sentence
    assert "traight in height" in found["lengthscale of height"].sentence


def test_columns_of_columns_are_followed():
    kernel = 2.0 * Columns(Columns(RBF([3.0]), [1]), [2, 0])
    assert list(learned(kernel, ["a", "b", "c"], {"kernel.kernel.kernel.lengthscale": np.array([3.0])})) == [
        "lengthscale of a"
    ]


def test_parts_with_one_name_are_numbered():
    kernel = 4.0 * RBF(1.0) + 9.0 * RBF(20.0)
    paths = {"parts.0.variance": 4.0, "parts.0.kernel.lengthscale": 1.0, "parts.1.variance": 9.0}
    found = learned(kernel, ["wind"], {**paths, "parts.1.kernel.lengthscale": 30.0})
    assert {name: item.value for name, item in found.items()} == {
        "smooth variation of z (sd), part 1": 2.0,
        "lengthscale of wind, part 1": 1.0,
        "smooth variation of z (sd), part 2": 3.0,
        "lengthscale of wind, part 2": 30.0,
    }
    assert found["lengthscale of wind, part 2"].sentence.startswith("Part 2 of the function: nearly straight")


def test_a_straight_trend_has_no_distance_over_which_it_changes():
    (item,) = learned(Linear(2.0), ["wind"], {"lengthscale": 2.0}).values()
    assert item.name == "lengthscale of wind in the trend"
    assert "similar" not in item.sentence


def test_a_fit_with_a_kernel_of_parts_is_said_of_the_right_columns():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(0, 10, 60), rng.uniform(0, 100, 60)])
    kernel = Columns(RBF(1.0), [0]) + Columns(RBF(20.0), [1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = DirectGP(kernel, n_restarts=0, uncertainty="plain").fit(x, np.sin(x[:, 0])).fit_result_
    found = {item.name: item.value for item in hyperparameters(result, Names(["wind", "height"]))}
    assert found["lengthscale of wind"] == result.parameters["prior.kernel.parts.0.kernel.lengthscale"]
    assert found["lengthscale of height"] == result.parameters["prior.kernel.parts.1.kernel.lengthscale"]


# ---- narrow ranges far from zero -----------------------------------------------------------------------------


def test_times_keep_the_digits_that_change():
    x, z = waves()
    time = 1.7e9 + 360.0 * x
    gp = DirectGP(RBF(600.0), noise=0.1, optimize=False).fit(pd.DataFrame({"time": time}), z)
    report = fit_report(gp, {"X": pd.DataFrame({"time": time}), "y": z})
    (chart,) = numbers_of(report)["groups"]["function"]
    drawn = next(series for series in chart["series"] if series["key"] == "model")["x"]
    steps = np.diff(drawn)
    assert len(drawn) == 161
    np.testing.assert_allclose(steps, np.ptp(time) / 160, rtol=1e-3)
    assert f"{time.min():.0f} to {time.max():.0f}" in text_of(report)


def test_draws_far_from_zero_keep_their_ranges_and_a_small_neighbour_its_digits():
    prior = lfi.Prior({"onset": stats.norm(1.7e9, 1000.0), "rate": stats.gamma(2, scale=1e-3)})
    posterior = lfi.Posterior(
        prior, lambda n, rng: np.column_stack([1.7e9 + 30.0 * rng.standard_normal(n), rng.gamma(9.0, 1e-4, n)])
    )
    report = inference_report(posterior, [0.5], truth=[1.7e9 + 12.0, 9e-4])
    pairs = numbers_of(report)["pairs"]
    np.testing.assert_allclose(
        np.ptp(pairs["intervals"], axis=1), np.ptp(posterior.interval(0.95), axis=0), rtol=1e-3
    )
    np.testing.assert_allclose(pairs["draws"], posterior.samples[: len(pairs["draws"])], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(np.std(pairs["draws"], axis=0)[0], np.std(posterior.samples[:400, 0]), rtol=1e-3)
    assert pairs["truth"] == [1.7e9 + 12.0, 9e-4]
    assert "1700000012" in text_of(report)


# ---- do the error bars hold? ---------------------------------------------------------------------------------


def test_plain_error_bars_are_never_called_good():
    data = groups()
    plain = AggregateGP(n_restarts=0, uncertainty="plain").fit(**data)
    found = checks_of(plain, data)
    assert plain.resolution() > 3.0
    assert found[BARS].state == "open"
    assert found["Did deconditioning help?"].state == "open"
    state, sentence = verdict(list(found.values()), "learned")
    assert (state, sentence) == (
        "open",
        "Learned, but plain error bars leave out what is not known of x within a group and of hyperparameters.",
    )
    assert 'use uncertainty="honest"' in found[BARS].sentence


def test_good_error_bars_are_said_to_be_those_of_targets():
    errors = np.random.default_rng(0).standard_normal(300)
    check = _bars(errors, "target", "predicted from the others", LEFT_OUT)
    assert (check.state, check.finding) == ("good", "the error bars of targets hold where each was left out")


def test_wide_error_bars_of_targets_tell_nothing_about_the_function():
    check = _bars(
        0.4 * np.random.default_rng(0).standard_normal(300), "target", "predicted from the others", LEFT_OUT
    )
    assert check.state == "open"
    assert check.finding.endswith("wider than they have to be; those of the function may be right")


def test_a_few_targets_far_outside_are_seen():
    errors = np.concatenate([np.random.default_rng(0).standard_normal(297), [60.0] * 3])
    check = _bars(errors, "target", "predicted from the others", LEFT_OUT)
    assert (check.state, check.finding) == ("doubt", "some targets lie far outside their error bars")


@pytest.mark.parametrize(("rows", "checked"), [(60, False), (99, False), (100, True)])
def test_rows_that_were_learned_from_judge_only_a_model_with_few_points(rows, checked):
    x, z = waves(rows)
    gp = SparseGP(n_inducing=10, kernel=RBF(1.0), noise=0.1, optimize=False).fit(x[:, None], z)
    check = checks_of(gp, {"X": x[:, None], "y": z})[BARS]
    assert ("its own row among the data" in check.sentence) == checked
    assert (check.state == "open" and check.finding == "the error bars were not checked") != checked


def test_labels_are_counted_as_labels():
    rng = np.random.default_rng(0)
    y, y_task = rng.integers(0, 2, 40), rng.integers(0, 2, 30)
    data = {"x": y + 0.3 * rng.standard_normal(40), "y": y.astype(str), "y_task": y_task.astype(str)}
    data["z_task"] = y_task + 0.1 * rng.standard_normal(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        gp = TaskTransformedGP(n_restarts=0).fit(**data)
    check = checks_of(gp, data)[BARS]
    assert check.sentence.startswith("There are only 2 distinct labels, too few to tell.")


def test_a_resolution_that_cannot_be_told_is_left_open():
    rng = np.random.default_rng(0)
    y, y_task = rng.uniform(0, 1, 30), rng.uniform(3, 4, 30)  # no pair tells anything about these mediators
    data = {"x": y, "y": y, "y_task": y_task, "z_task": rng.standard_normal(30)}
    with pytest.warns(UserWarning, match="100% of the task rows lie outside what the pairs tell of"):
        gp = TaskTransformedGP(RBF(1.0), RBF(0.1), noise=1.0, optimize=False).fit(**data)
    with pytest.raises(ValueError, match="only for targets that are averages"):
        gp.resolution()
    check = checks_of(gp, data)["Did deconditioning help?"]
    assert (check.state, check.finding) == ("open", "whether deconditioning helped is not known")
    assert "only for targets that are averages" in check.sentence


# ---- numbers on the edge of their range ----------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "state", "edge"), [(None, "good", "lower"), (3.0, "doubt", "upper")])
def test_check_and_warnings_agree_on_a_noise_on_the_edge(noise, state, edge):
    x = np.linspace(0.0, 9.0, 20)
    data = {"X": x[:, None], "y": np.sin(x)}
    gp = DirectGP(n_restarts=0, uncertainty="plain").fit(**data)  # there is no noise: it ends on its lower edge
    assert gp.fit_result_.on_bounds == ("observation.noise",)
    if noise is not None:
        parameters = {**gp.fit_result_.parameters, "observation.noise": noise}
        gp.fit_result_ = replace(gp.fit_result_, parameters=parameters)
    check = checks_of(gp, data)["Is the optimum inside the range that was searched?"]
    assert check.state == state
    assert f"The learned noise sits on the {edge} edge of its range" in check.sentence
    warned = summarize(Job(Request([], ["wind"], [], "power"), "20 rows", gp, data, z_of_rows=data["y"]), []).warnings
    assert [f"{text[:1].upper()}{text[1:]}" for text in warned] == ([] if state == "good" else [check.sentence])


# ---- an inference --------------------------------------------------------------------------------------------


PRIOR = lfi.Prior({"rate": stats.norm(), "delay": stats.norm()})


def test_a_known_truth_outside_is_wrong():
    posterior = lfi.Posterior(PRIOR, lambda n, rng: 0.1 * rng.standard_normal((n, 2)))
    assert "truth" not in inference_report(posterior, [0.5], truth=[0.0, 0.1]).verdict
    report = inference_report(posterior, [0.5], truth=[5.0, 0.1])
    assert report.verdict.startswith("Use with care: the truth of rate lies outside the 99 % interval")


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        (lambda n, rng: rng.integers(0, 4, (n, 1)) * np.ones(2), "hardly any distinct draws"),
        (lambda n, rng: np.zeros((n, 2)), "hardly any distinct draws"),
        (
            lambda n, rng: 1.0 + rng.standard_normal((n, 2)) * [1e-12, 0.1],
            "the posterior of rate has next to no width",
        ),
    ],
)
def test_draws_without_width_are_doubted(draws, words):
    report = inference_report(lfi.Posterior(PRIOR, draws), [0.5])
    assert report.verdict.startswith("Look twice: ")
    assert words in report.verdict


# ---- data that do not belong together ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"groups": np.repeat(np.arange(5), 4)}, "x has length 40 and groups has 20"),
        ({"z_groups": np.ones(7)}, "the distinct groups has length 10 and z_groups has 7"),
    ],
)
def test_groups_of_another_length_are_refused(change, words):
    data = groups(n=10)
    gp = AggregateGP(RBF(1.5), noise=0.1, optimize=False).fit(**data)
    with pytest.raises(ValueError, match=words):
        fit_report(gp, {**data, **change}, baselines={})


def test_rows_and_targets_of_different_lengths_are_refused():
    x, z = waves()
    gp = DirectGP(RBF(1.0), noise=0.1, optimize=False).fit(x[:, None], z)
    with pytest.raises(ValueError, match="X has length 40 and y has 39, but they belong together row by row"):
        fit_report(gp, {"X": x[:, None], "y": z[:-1]})
