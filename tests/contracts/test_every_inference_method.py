"""What every method of likelihood-free inference keeps: the support, the seed, the budget, the time."""

import pickle
import warnings

import numpy as np
import pytest
from expected import refused
from scipy import stats

from decond import lfi, load, save
from decond.errors import ArgumentTypeError
from decond.lfi.exceptions import TimeLimitWarning

PRIOR = lfi.Prior({"share": stats.uniform(0.0, 1.0), "rate": stats.expon()})
OBSERVED = [0.95, 0.1]
QUICKER = {
    "dme": {"n_prior": 300},
    "kelfi": {"n_prior": 300},
    "kbr": {"n_prior": 200},
    "rejection": {"quantile": 0.3, "adjustment": "linear"},
    "gpsabc": {"n_samples": 200},
    "mdn": {"components": 1, "hidden": 10, "rounds": 1, "steps": 100},
    "lfvi": {"rounds": 1, "steps": 100},
}
SIMULATING = ["mcmc", "smc", "gpsabc", "mdn", "lfvi"]


class Counted:
    """A simulator that counts what it ran."""

    def __init__(self):
        self.count = 0

    def __call__(self, theta, rng):
        self.count += len(np.atleast_2d(theta))
        return theta + 0.1 * rng.standard_normal(theta.shape)


def pilot(n=60):
    theta = PRIOR.sample(n, seed=0)
    x = Counted()(theta, np.random.default_rng(1))
    return lfi.Simulations(theta, x, raw=x)


def made(name, **settings):
    if name in SIMULATING:
        settings = {"simulator": Counted(), "n_simulations": 100, "batched": True, **settings}
    return getattr(lfi, lfi.METHODS[name])(**{**QUICKER.get(name, {}), **settings})


def posterior_of(method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        return method.fit(pilot(), PRIOR).posterior(OBSERVED)


@pytest.mark.parametrize("name", lfi.METHODS)
def test_draws_stay_inside_the_support_and_are_decided_by_the_seed(name):
    first, again, other = (posterior_of(made(name, seed=seed)).sample(500) for seed in (4, 4, 5))
    assert first.shape == (500, 2)
    assert PRIOR.contains(first).all()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("name", SIMULATING)
def test_the_budget_is_never_exceeded_and_counts_the_pilot(name, batched):
    method = made(name, batched=batched)
    posterior = posterior_of(method)
    assert method.simulator.count <= 40
    assert method.n_simulations_ == len(posterior.simulations) == 60 + method.simulator.count


@pytest.mark.parametrize("name", SIMULATING)
def test_time_is_bounded(name):
    posterior = posterior_of(made(name, time_limit=0.0))
    late = [(one.stage, one.done) for one in posterior.warnings if isinstance(one, TimeLimitWarning)]
    assert ("simulation", 0) in late
    assert set(late) <= {("simulation", 0), ("training", 0)}
    assert np.isfinite(posterior.mean()).all()


@pytest.mark.parametrize("name", SIMULATING)
def test_a_budget_that_the_pilot_has_spent_is_refused(name):
    with refused("n_simulations"):
        made(name, n_simulations=60).fit(pilot(), PRIOR)


@pytest.mark.parametrize("name", ["mcmc", "smc", "gpsabc"])
def test_a_missing_simulator_is_asked_for(name):
    with refused("simulator", ArgumentTypeError):
        made(name, simulator=None).fit(pilot(), PRIOR)


@pytest.mark.parametrize("name", lfi.METHODS)
def test_a_method_that_is_not_fitted_says_so(name):
    with pytest.raises(RuntimeError):
        made(name).posterior(OBSERVED)


@pytest.mark.parametrize("name", lfi.METHODS)
def test_a_posterior_that_was_kept_answers_as_before(name, tmp_path):
    posterior = posterior_of(made(name, seed=4))
    save(posterior, tmp_path / "posterior.decond")
    theta = PRIOR.sample(5, seed=3)
    for kept in (pickle.loads(pickle.dumps(posterior)), load(tmp_path / "posterior.decond")):
        np.testing.assert_array_equal(kept.quantile([0.1, 0.9]), posterior.quantile([0.1, 0.9]))
        np.testing.assert_array_equal(kept.sample(30, seed=7), posterior.sample(30, seed=7))
        np.testing.assert_array_equal(kept.propose(30, seed=7), posterior.propose(30, seed=7))
        np.testing.assert_array_equal(kept.density(theta), posterior.density(theta))
        np.testing.assert_array_equal(kept.simulations.x, posterior.simulations.x)
        assert (kept.notes, kept.effective, kept.log_evidence) == (
            posterior.notes,
            posterior.effective,
            posterior.log_evidence,
        )


@pytest.mark.parametrize("name", lfi.METHODS)
def test_values_that_were_not_measured_are_as_if_they_had_never_been_simulated(name):
    if name == "k2abc":
        with refused("observed"):
            made(name).fit(pilot(), PRIOR).posterior([[np.nan, 1.0]])
        return
    sims, options = pilot(), {}
    without = lfi.Simulations(sims.theta, sims.x[:, :1])
    if name in SIMULATING:
        options = {"simulator": lambda theta, rng: Counted()(theta, rng)[:, :1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lfi.PosteriorWarning)
        posterior = made(name).fit(sims, PRIOR).posterior([0.5, np.nan])
        expected = made(name, **options).fit(without, PRIOR).posterior([0.5])
    np.testing.assert_array_equal(posterior.samples, expected.samples)


@pytest.mark.parametrize("name", lfi.METHODS)
def test_only_methods_with_a_likelihood_take_independent_observations(name):
    method = made(name).fit(pilot(), PRIOR)
    if name == "residual":
        assert method.posterior([OBSERVED, [0.5, 0.2]], iid=True).mean()[1] < 0.5
    else:
        with refused("iid"):
            method.posterior([OBSERVED, OBSERVED], iid=True)
