"""The base of all methods of likelihood-free inference: checks, scales, learned summaries, failed simulations."""

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from decond.checks import as_row, as_seed, check_choice, frozen, value_names
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import (
    ExtrapolationWarning,
    FailedSimulationsWarning,
    PosteriorWarning,
    RepeatedSimulationsWarning,
)
from decond.lfi.posterior_draws import Observation, Origin, Posterior, Seed
from decond.lfi.prior import Prior
from decond.lfi.simulation.worker import summarized
from decond.lfi.simulations import Simulations
from decond.lfi.summaries import LearnedSummary, Standardizer
from decond.lfi.validity import ValidityModel
from decond.parameters import Kept

__all__ = [
    "Method",
    "SummaryOption",
    "check_measured",
    "check_simulations",
    "nearest_distances",
    "summarized_observation",
]

SummaryOption = Literal["auto", "none", "learned"]


class Method(Kept, ABC):
    """A way from simulations to a posterior: ``method.fit(sims, prior).posterior(observed)``.

    A subclass is a dataclass of settings with `seed` and `summary` among them. It implements `_fit`, which learns
    what needs no observation, and `_posterior`.

    Attributes
    ----------
    seed : int, Generator or None
        Seed of everything random.
    summary : {"auto", "none", "learned"}
        What the method sees of the data. "none" takes them as they are; "learned" replaces them by estimates of
        the parameters learned from the simulations; "auto" does so if there are more than twice as many columns
        of data as parameters.
    needs_prior_draws : bool
        Whether simulations have to be at draws of the prior, so that there are no rounds.
    takes_iid : bool
        Whether it has a likelihood, so that it takes several independent observations.
    runs_simulator : bool
        Whether the method runs the simulator itself, after a pilot.
    takes_raw : bool
        Whether observations are raw data sets, like those in `Simulations.raw`, not rows of summaries.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond.lfi import RejectionABC
    >>> prior = Prior({"mean": stats.norm(0, 1)})
    >>> theta = prior.sample(2000, seed=0)
    >>> sims = Simulations(theta, theta + 0.1 * np.random.default_rng(1).standard_normal(theta.shape))
    >>> method = RejectionABC().fit(sims, prior)
    >>> bool(abs(method.posterior([1.0]).mean()[0] - 1.0) < 0.1), method.probability_valid([[0.0]]).round(1)
    (True, array([1.]))
    """

    seed: Seed
    summary: SummaryOption
    needs_prior_draws: bool = False
    takes_iid: bool = False
    runs_simulator: bool = False
    takes_raw: bool = False
    columns_: tuple[NDArray[np.bool_], Sequence[str] | None] | None = None
    """Which of the simulator's values were measured, and the names of all of them; None where all were."""

    @staticmethod
    def n_needed(dim: int) -> int:
        """Return how many valid simulations every method needs for `dim` parameters."""
        return 10 + 2 * dim

    def fit(self, sims: Simulations, prior: Prior) -> Self:
        """Learn from simulations what needs no observation.

        Parameters
        ----------
        sims : Simulations
            The simulations, at draws of the prior or of any other proposal (see `needs_prior_draws`).
        prior : Prior
            The prior of the parameters.

        Returns
        -------
        Self
            The method itself.
        """
        check_simulations(sims, prior)
        _check_enough(sims, prior, self.n_needed(prior.dim))
        check_choice(self.summary, "summary", ("auto", "none", "learned"))
        self.prior_, self.sims_ = prior, _distinct(sims)
        self.n_repeats_ = len(sims) - len(self.sims_)
        self.n_simulations_ = len(self.sims_)
        kept = self.sims_.valid
        self.theta_ = self.sims_.theta[kept]
        self.phi_ = prior.to_working(self.theta_)
        self._validity: ValidityModel | None = None
        self._scale = Standardizer(self.sims_.x[kept])
        self._learn_summary(self._scale.apply(self.sims_.x[kept]))
        self._fit()
        return self

    def posterior(self, observed: Observation, *, iid: bool = False) -> Posterior:
        """Return the posterior of the parameters given one observation, like what one simulation gives.

        Parameters
        ----------
        observed : array_like or dict
            Its values, in the order of the simulation's. The names of a dict, a Series or a frame go into messages;
            if the simulations' summaries have names too, they put the values into that order. NaN stands for a value
            that was not measured: it is left out.
        iid : bool, optional
            Whether `observed` has several rows (t, s): independent observations at the same parameters, any number
            of them, each like what one simulation gives.

        Returns
        -------
        Posterior
        """
        self._check_fitted()
        data = self.check_observation(observed, self.sims_, iid)
        names = self.sims_.summary_names or value_names(observed)
        if not iid and np.isnan(data).any():
            kept = ~np.isnan(data[0])
            names = None if names is None else [name for name, is_kept in zip(names, kept, strict=True) if is_kept]
            return self._without(kept)._posterior_given(data[:, kept], names)
        posterior = self._posterior_given(data, names)
        posterior.repeats = len(data) if iid else 1
        return posterior

    def check_observation(self, observed: Observation, sims: Simulations, iid: bool = False) -> NDArray[np.float64]:
        """Return an observation as this method takes it; raise unless it is of the same kind as the simulations.

        Parameters
        ----------
        observed : array_like or dict
            The observation.
        sims : Simulations
            The simulations that it is compared with.
        iid : bool, optional
            Whether it has several rows, one for each independent observation.
        """
        if iid and not self.takes_iid:
            raise ArgumentError(
                "iid",
                f"iid is True, but {type(self).__name__} has no likelihood of a single observation, so it cannot "
                "take several. Use the default method, or simulate as many as were observed and summarize them "
                "together.",
            )
        return self._as_observation(observed, sims, iid)

    def observation(self, sims: Simulations, row: int) -> NDArray[np.float64]:
        """Return what one simulation gave, as `posterior` takes it: its summaries, or its raw data set.

        Parameters
        ----------
        sims : Simulations
            The simulations.
        row : int
            The number of the simulation among them.
        """
        if not self.takes_raw:
            return np.asarray(sims.x[row])
        if sims.raw is None:
            raise ArgumentError(
                "sims",
                f"{type(self).__name__} takes raw data sets, but the simulations have none. Give them as "
                "Simulations(theta, x, raw=...), or simulate with summarize=..., which keeps them.",
            )
        return np.asarray(sims.raw[row])

    def probability_valid(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Return P(valid | θ) at rows of parameters: how likely a simulation there is to give a result."""
        self._check_fitted()
        return np.exp(self.log_valid_(self.prior_.to_working(self.prior_.rows(theta))))

    def log_valid_(self, phi: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log P(valid | θ) at working coordinates."""
        if self._validity is None:  # learned when first asked for: not every method asks
            self._learn_validity(self.sims_)
        assert self._validity is not None
        return self._validity.log_probability(phi)

    def __repr__(self) -> str:
        """Show the settings that are not the defaults.

        >>> from decond.lfi import RejectionABC
        >>> RejectionABC(), RejectionABC(quantile=0.2)
        (RejectionABC(), RejectionABC(quantile=0.2))
        """
        settings = inspect.signature(type(self)).parameters
        name = type(self).__name__
        if not all(hasattr(self, key) for key in settings):  # a method of somebody else, who keeps them elsewhere
            return name
        changed = {
            key: getattr(self, key)
            for key, setting in settings.items()
            if repr(getattr(self, key)) != repr(setting.default)
        }
        shown = (f"{key}={getattr(value, '__name__', repr(value))}" for key, value in changed.items())
        return f"{name}({', '.join(shown)})"

    @abstractmethod
    def _fit(self) -> None:
        """Learn from valid simulations: `theta_`, `phi_` (θ in working coordinates) and `x_` (standardized data)."""

    @abstractmethod
    def _posterior(self, observed: np.ndarray) -> Posterior:
        """Return the posterior given a standardized row (1, s)."""

    def _posterior_given(self, data: np.ndarray, names: Sequence[str] | None) -> Posterior:
        posterior = self._posterior(self._summarize(data))
        posterior.simulations, posterior.observed = getattr(self, "simulations_", self.sims_), frozen(data)
        if posterior.log_evidence is not None:
            posterior.origin = Origin(self._settings(), self.prior_, self.sims_, data)
        for note in [*self._failure_notes(), *self._outside_notes(data, names)]:
            posterior.note(note)
        return posterior

    def _settings(self) -> Self:
        """Return the method as it was before it was fitted."""
        if not is_dataclass(self):
            return self
        seed = self.seed
        return replace(self, seed=as_seed(seed) if isinstance(seed, np.random.Generator) else seed)

    def _without(self, kept: NDArray[np.bool_]) -> Self:
        """Return the method fitted to some of the columns of the simulations' data."""
        method = copy.copy(self)
        method.columns_ = kept, self.sims_.summary_names
        return method.fit(self.sims_.columns(kept), self.prior_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "sims_"):
            raise RuntimeError(f"this {type(self).__name__} is not fitted yet; call .fit(sims, prior) first.")

    def _as_observation(self, observed: Observation, sims: Simulations, iid: bool) -> np.ndarray:
        row = sims.observed_row(observed, iid)
        width = sims.x.shape[1]
        if row.shape[1] != width:
            names = value_names(observed)
            called = f" ({', '.join(names)})" if names else ""
            raise ArgumentError(
                "observed",
                f"observed has {row.shape[1]} value(s){called} but each simulation has {width}; give the same "
                "summaries, in the same order.",
            )
        return check_measured(row)

    def _learn_validity(self, sims: Simulations) -> None:
        self._validity = ValidityModel(self.prior_.to_working(sims.theta), sims.valid)

    def _learn_summary(self, x: np.ndarray) -> None:
        crowded = x.shape[1] > 2 * self.prior_.dim
        self._learned: LearnedSummary | None = None
        if self.summary == "learned" or (self.summary == "auto" and crowded):
            self._learned = LearnedSummary().fit(x, self.phi_)
            x = self._learned.training_values_
        self._summary_scale = Standardizer(x)
        self.x_ = self._summary_scale.apply(x)

    def _summarize(self, row: np.ndarray) -> np.ndarray:
        x = self._scale.apply(row)
        return self._summary_scale.apply(self._learned.apply(x) if self._learned is not None else x)

    def _failure_notes(self) -> list[PosteriorWarning]:
        """Return warnings of simulations that are repeats, and of those that failed."""
        notes: list[PosteriorWarning] = []
        if self.n_repeats_:
            text = (
                f"{self.n_repeats_} simulations are exact repeats of others, parameters and data; each counts once."
            )
            notes.append(RepeatedSimulationsWarning(text, self.n_repeats_))
        sims = self.sims_
        if sims.n_failed:
            reasons = "; ".join(f"{count} x {reason}" for reason, count in list(sims.failures.items())[:4])
            text = (
                f"{sims.n_failed} of {len(sims)} simulations failed ({reasons}). Their probability is part of the "
                f"likelihood; P(valid) is {sims.n_valid / len(sims):.2f} over the simulations (see "
                "probability_valid)."
            )
            notes.append(FailedSimulationsWarning(text, sims.n_failed, len(sims), sims.failures))
        return notes

    def _outside_notes(self, row: np.ndarray, names: Sequence[str] | None) -> list[PosteriorWarning]:
        """Return a warning if the observation lies outside what was simulated."""
        x, row = self._scale.apply(self.sims_.x[self.sims_.valid]), self._scale.apply(row)
        if len(row) > 1:
            return []
        beyond = np.flatnonzero((row[0] < x.min(axis=0)) | (row[0] > x.max(axis=0)))
        nearest, between = nearest_distances(x, row)
        usual = np.sort(between)[int(0.995 * (len(x) - 1))]  # not the largest: one wild simulation would hide it
        if nearest <= usual and (beyond.size == 0 or nearest <= usual / 2.0):
            return []
        summary = int(beyond[0]) if beyond.size else None
        name = names[summary] if summary is not None and names is not None and len(names) == x.shape[1] else None
        called = "" if name is None else f", {name},"
        where = "" if summary is None else f" (summary {summary + 1}{called} lies beyond all simulations)"
        text = (
            f"the observation lies outside what was simulated{where}: its nearest simulation is {nearest:.3g} away, "
            "in units of the simulations' spread. The posterior is an extrapolation; check the model, or widen the "
            "prior."
        )
        return [ExtrapolationWarning(text, nearest, summary, name)]


def nearest_distances(x: NDArray[np.float64], row: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return how far a row is from the nearest of others, and how far each of those is from its nearest neighbor.

    Parameters
    ----------
    x : ndarray of shape (n, s)
        Standardized simulations.
    row : ndarray of shape (1, s)
        The standardized observation.
    """
    tree = KDTree(x)
    return float(tree.query(row)[0][0]), tree.query(x, k=2)[0][:, 1]


def check_measured(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows of observations as they are; raise if one of them has no value."""
    empty = np.isnan(rows).all(axis=1)
    if empty.any():
        raise ArgumentError(
            "observed",
            f"observed has no value in row {int(np.argmax(empty))}, only NaN, which stands for values that were not "
            "measured; give at least one that was.",
        )
    return rows


def summarized_observation(
    observed: Observation, summarize: Callable[..., ArrayLike]
) -> NDArray[np.float64] | dict[str, float]:
    """Return the summaries of a raw observation, made as those of simulations are.

    Parameters
    ----------
    observed : array_like or dict
        The raw observation, without names.
    summarize : callable
        The function that makes the summaries.

    Returns
    -------
    ndarray or dict
        A row (1, s), or a dict where the summaries have names.
    """
    if isinstance(observed, Mapping):
        raise ArgumentTypeError(
            "observed",
            f"observed is a dict with {', '.join(map(str, observed))}, but summarize gets values without names. Give "
            "an array, its values in the order in which the simulator returns them.",
        )
    found = summarized(np.asarray(observed, dtype=np.float64), summarize)
    if found.x is None or found.reason:
        raise ArgumentError(
            "observed",
            f"observed has no summaries: {found.reason}. Give raw data, as the simulator returns them.",
        )
    return as_row(found.x, "observed") if found.names is None else dict(zip(found.names, found.x, strict=True))


def check_simulations(sims: Simulations, prior: Prior, name: str = "sims") -> None:
    """Raise unless simulations go with a prior: the same parameters, all inside its support.

    Parameters
    ----------
    sims : Simulations
        The simulations.
    prior : Prior
        The prior of the parameters.
    name : str, optional
        What the simulations are called.
    """
    if not isinstance(sims, Simulations):
        raise ArgumentTypeError(
            name,
            f"{name} is {type(sims).__name__}; give lfi.Simulations, from lfi.simulate(...) or as "
            "lfi.Simulations(theta=..., x=...).",
        )
    if not isinstance(prior, Prior):
        raise ArgumentTypeError("prior", f"prior is {type(prior).__name__}; give an lfi.Prior.")
    if sims.theta.shape[1] != prior.dim:
        raise ArgumentError(
            name,
            f"the simulations have {sims.theta.shape[1]} parameter(s) but the prior has {prior.dim} "
            f"({', '.join(prior.names)}).",
        )
    if sims.named and sims.names != prior.names:
        raise ArgumentError(
            name,
            f"the simulations' parameters are called {', '.join(sims.names)} but the prior's "
            f"{', '.join(prior.names)}; give the columns of theta in the prior's order, and names to match.",
        )
    outside = int((~prior.contains(sims.theta)).sum())
    if outside:
        raise ArgumentError(
            name,
            f"{outside} of {len(sims)} simulations have parameters outside the prior's support {prior!r}. They tell "
            "nothing about the posterior; leave them out, or widen the prior.",
        )


def _check_enough(sims: Simulations, prior: Prior, needed: int) -> None:
    if sims.n_valid < needed:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in sims.failures.items())
        raise ArgumentError(
            "sims",
            f"only {sims.n_valid} of {len(sims)} simulations are valid, but at least {needed} are needed for "
            f"{prior.dim} parameter(s).{' Failures: ' + reasons + '.' if reasons else ''} Run more simulations.",
        )


def _distinct(sims: Simulations) -> Simulations:
    """Return the simulations without exact repeats, which leave-one-out would take for evidence.

    Counts may repeat by chance at repeated parameters; rows of whole numbers stay.
    """
    continuous = np.flatnonzero(sims.valid & (sims.x != np.round(sims.x)).any(axis=1))
    rows = np.column_stack([sims.theta, sims.x])[continuous]
    first = np.unique(rows, axis=0, return_index=True)[1]
    if len(first) == len(rows):
        return sims
    kept = np.ones(len(sims), dtype=bool)
    kept[continuous] = False
    kept[continuous[first]] = True
    return sims.take(kept)
