"""The posterior: named draws inside the prior's support, and every answer that comes from them."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from decond.checks import Seed, as_count, as_generator, as_number, as_seed, as_values, frozen
from decond.embeddings import MeanEmbedding
from decond.errors import ArgumentError, ArgumentTypeError
from decond.lfi.exceptions import PosteriorWarning
from decond.lfi.prior import Prior
from decond.lfi.sampling import resampled_rows
from decond.lfi.simulations import Simulations
from decond.messages import card, warn
from decond.parameters import Kept
from decond.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from decond.lfi.diagnostics import Report
    from decond.lfi.methods.method import Method
    from decond.plotting import PairsDisplay

__all__ = [
    "FromWorking",
    "ModelProbabilities",
    "Observation",
    "Origin",
    "Posterior",
    "Seed",
    "ToParameters",
    "WeightedDraws",
    "model_probabilities",
    "reflected_density",
]

Observation = ArrayLike | Mapping[str, float]
Sampler = Callable[[int, np.random.Generator], np.ndarray]


@dataclass(frozen=True, eq=False)
class WeightedDraws(Kept):
    """Draws among parameters (k, d), each as often as its weight says up to one."""

    theta: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.theta[resampled_rows(self.weights, n, rng)]


@dataclass(frozen=True, eq=False)
class ToParameters(Kept):
    """The map from a prior's working coordinates to its parameters."""

    prior: Prior

    def __call__(self, phi: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.prior.from_working(phi)


class _WorkingSampler(Protocol):
    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return draws (n, d) in working coordinates.

        Parameters
        ----------
        n : int
        rng : numpy.random.Generator
        """


@dataclass(frozen=True, eq=False)
class FromWorking(Kept):
    """Draws of a distribution in a prior's working coordinates, as parameters."""

    prior: Prior
    source: _WorkingSampler

    def __call__(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.prior.from_working(self.source.sample(n, rng))


@dataclass(frozen=True, eq=False)
class Origin(Kept):
    """What a posterior was computed from: a method's settings, simulations, and rows of observations."""

    method: "Method"
    prior: Prior
    simulations: Simulations
    observed: NDArray[np.float64]

    def again(self, rows: NDArray[np.bool_]) -> "Posterior":
        """Return the posterior from some of the simulations; its warnings are not issued."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PosteriorWarning)
            fitted = self.method.fit(self.simulations.take(rows), self.prior)
            return fitted.posterior(self.observed, iid=len(self.observed) > 1)


class Posterior(Kept):
    """What the observation says about the parameters, as draws and, where a method has it, as a density.

    Parameters
    ----------
    prior : Prior
        The prior.
    sampler : callable
        Returns draws of the parameters, in random order or in the order of herding, given how many and a
        generator.
    embedding : MeanEmbedding, optional
        The weighted points behind the draws, for methods that have them.
    log_likelihood : callable, optional
        The log-likelihood as a function of rows of parameters.
    log_evidence : float, optional
        The log of the evidence.
    log_normalizer : float, optional
        The integral of likelihood times prior, where the likelihood is not one of the data.
    effective : float, optional
        The effective sample size.
    notes : list of str, optional
        Reasons why the answer may be wrong; each is issued as a warning.
    proposer : callable, optional
        Like `sampler`, of a wider distribution for further rounds.
    seed : int, Generator or None, optional
        Seed of `samples`.

    Attributes
    ----------
    simulations
        The simulations that it was made from.
    observed
        The observation as rows of summaries, or raw where the method takes raw data.
    repeats
        How many independent observations there were.
    origin
        What it was computed from, where it has a log evidence of the data; else None.
    warnings
        The reasons why the answer may be wrong; `notes` are their texts.
    stability
        The error to expect from the number of simulations, where a method checks it: of a mean in posterior
        deviations, or of the logarithm of a deviation in units of log 1.5, whichever is larger.
    n_draws
        Draws behind means, quantiles and pictures.
    jackknife
        Groups of simulations that are left out in turn for the error of the log evidence.
    prior_share
        Share of the prior in the proposal of a further round, so that no region is given up for good (defensive
        mixture, Hesterberg 1995).

    Examples
    --------
    >>> from scipy import stats
    >>> prior = Prior({"rate": stats.gamma(2)})
    >>> posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
    >>> posterior.mean().round(1), posterior.sample(5).shape
    (array([2.]), (5, 1))
    """

    n_draws = 10_000
    jackknife = 5
    prior_share = 0.1

    def __init__(
        self,
        prior: Prior,
        sampler: Sampler,
        *,
        embedding: MeanEmbedding | None = None,
        log_likelihood: Callable[[np.ndarray], np.ndarray] | None = None,
        log_evidence: float | None = None,
        log_normalizer: float | None = None,
        effective: float | None = None,
        notes: Iterable[str | PosteriorWarning] = (),
        proposer: Sampler | None = None,
        seed: Seed = 0,
    ) -> None:
        self.prior, self.names = prior, prior.names
        self.embedding, self.log_likelihood, self.log_evidence = embedding, log_likelihood, log_evidence
        self._log_normalizer = log_evidence if log_normalizer is None else log_normalizer
        self.effective = effective
        self.stability: float | None = None
        self.simulations: Simulations | None = None
        self.observed: NDArray[np.float64] | None = None
        self.repeats = 1
        self.origin: Origin | None = None
        self._evidence_error: float | None = None
        self.warnings: list[PosteriorWarning] = []
        self._sampler, self._proposer = sampler, proposer or sampler
        self._seed = as_seed(seed) if isinstance(seed, np.random.Generator) else seed
        self._samples: NDArray[np.float64] | None = None
        for note in notes:
            self.note(note)

    def _fields(self) -> dict[str, Any]:
        for part in (self._sampler, self._proposer, self.log_likelihood):
            if part is not None and not isinstance(part, Kept):
                raise ArgumentTypeError(
                    "posterior",
                    "this posterior was made from functions of your own, and a file never holds code. Keep its draws "
                    "instead, for example posterior.frame().to_csv(path).",
                )
        return {
            "prior": self.prior,
            "sampler": self._sampler,
            "embedding": self.embedding,
            "log_likelihood": self.log_likelihood,
            "log_evidence": self.log_evidence,
            "log_normalizer": self._log_normalizer,
            "effective": self.effective,
            "proposer": self._proposer,
            "seed": self._seed,
            "attributes": {
                "simulations": self.simulations,
                "observed": self.observed,
                "repeats": self.repeats,
                "origin": self.origin,
                "warnings": self.warnings,
                "stability": self.stability,
                "_samples": self.samples,
                "_evidence_error": self._evidence_error,
            },
        }

    @classmethod
    def _restored(cls, **fields: Any) -> Self:
        attributes = fields.pop("attributes")
        restored = cls(**fields)
        for name, value in attributes.items():
            setattr(restored, name, value)
        return restored

    def note(self, warning: str | PosteriorWarning) -> None:
        """Keep a warning for the user, and issue it; a sentence becomes a `PosteriorWarning`."""
        kept = PosteriorWarning(warning) if isinstance(warning, str) else warning
        self.warnings.append(kept)
        warn(kept)

    @property
    def notes(self) -> list[str]:
        """The texts of `warnings`, sentences that a user should read."""
        return [str(warning) for warning in self.warnings]

    @property
    def samples(self) -> NDArray[np.float64]:
        """The draws (10,000, d) behind every summary."""
        if self._samples is None:
            self._samples = frozen(self._draw(self.n_draws, self._seed))
        return self._samples

    def sample(self, n: int, seed: Seed = None) -> NDArray[np.float64]:
        """Return draws of the posterior.

        Parameters
        ----------
        n : int
            How many.
        seed : int, Generator or None, optional
            Seed of the draws; without one always the same ones.

        Returns
        -------
        ndarray
            The draws (n, d), columns in the prior's order.
        """
        count = as_count(n, "n")
        if seed is None:
            return self.samples[:count].copy() if count <= self.n_draws else self._draw(count, self._seed)
        return self._draw(count, seed)

    def propose(self, n: int, seed: Seed | np.random.SeedSequence = 0) -> NDArray[np.float64]:
        """Return parameters worth simulating next: draws of a widened posterior, and a tenth of the prior.

        Parameters
        ----------
        n : int
            How many.
        seed : int, Generator or None or np.random.SeedSequence, optional
            Seed of the draws.

        Returns
        -------
        ndarray
            The parameters (n, d).
        """
        rng = as_generator(seed)
        count = as_count(n, "n")
        from_prior = rng.random(count) < self.prior_share
        theta = self.prior.sample(count, rng)
        if not from_prior.all():
            theta[~from_prior] = self._proposer(int((~from_prior).sum()), rng)
        return theta

    def mean(self) -> NDArray[np.float64]:
        """Return the posterior mean (d,)."""
        return self.samples.mean(axis=0)

    def cov(self) -> NDArray[np.float64]:
        """Return the posterior covariance (d, d)."""
        return np.atleast_2d(np.cov(self.samples, rowvar=False))

    def std(self) -> NDArray[np.float64]:
        """Return the posterior standard deviations (d,)."""
        return np.sqrt(np.diag(self.cov()))

    def quantile(self, q: ArrayLike) -> NDArray[np.float64]:
        """Return quantiles of each parameter: (d,) for a number, (len(q), d) for a list."""
        levels = np.asarray(q, dtype=np.float64)
        if levels.size == 0 or not ((levels >= 0.0) & (levels <= 1.0)).all():
            raise ArgumentError("q", f"q is {q!r}; give numbers between 0 and 1, for example [0.025, 0.5, 0.975].")
        return np.quantile(self.samples, levels, axis=0)

    def interval(self, level: float = 0.95) -> NDArray[np.float64]:
        """Return the central interval of each parameter, (2, d): its low and its high ends."""
        if not 0.0 < as_number(level, "level") < 1.0:
            raise ArgumentError("level", f"level is {level!r}; give a number between 0 and 1, for example 0.95.")
        return self.quantile([(1.0 - level) / 2.0, (1.0 + level) / 2.0])

    def log_evidence_error(self) -> float:
        """Return the standard error of `log_evidence`, by the jackknife: refits that leave out a fifth each."""
        if self.origin is None:
            raise ArgumentError("posterior", f"this posterior has no log evidence of the data. {_HOW_EVIDENCE}")
        if self._evidence_error is None:
            groups = np.arange(len(self.origin.simulations)) % self.jackknife
            refits = [self.origin.again(groups != group).log_evidence for group in range(self.jackknife)]
            found = np.array(refits, dtype=np.float64)
            self._evidence_error = float(np.sqrt((self.jackknife - 1) * found.var()))
        return self._evidence_error

    def check(self, diagnosis: "Report | None" = None, *, truth: ArrayLike | None = None) -> Verdict:
        """Return whether the posterior can be relied on, as the command line and the report say it.

        Parameters
        ----------
        diagnosis : lfi.diagnostics.Report, optional
            What `lfi.diagnose` found. Without it calibration is not checked, only what costs nothing.
        truth : array_like of shape (d,), optional
            The parameters that made the observation, where they are known.

        Returns
        -------
        Verdict

        Examples
        --------
        >>> from scipy import stats
        >>> prior = Prior({"rate": stats.gamma(2)})
        >>> posterior = Posterior(prior, lambda n, rng: rng.gamma(4.0, 0.25, (n, 1)))
        >>> posterior.check(truth=[1.0]).sentence
        'Nothing was found wrong, but the calibration of the posterior was not checked.'
        """
        from decond.lfi.diagnostics.posterior_checks import check_posterior

        known = None if truth is None else self.prior.rows(truth, "truth")[0]
        return check_posterior(self, diagnosis, known)

    def expectation(self, function: Callable[[np.ndarray], ArrayLike]) -> NDArray[np.float64]:
        """Return E[f(θ) | observation] for a function of rows of parameters."""
        values = as_values(function(self.samples), "function(samples)", len(self.samples), "samples")
        return np.asarray(values.mean(axis=0))

    def density(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Return the posterior density at rows of parameters.

        It is likelihood times prior where both are known, else a kernel estimate from the draws.
        """
        rows = self.prior.rows(theta)
        if self.log_likelihood is not None and self._log_normalizer is not None:
            return np.exp(self._log_joint(rows) - self._log_normalizer)
        return self._kernel_density(rows)

    def marginal_density(self, parameter: str | int, grid: ArrayLike) -> NDArray[np.float64]:
        """Return the density of one parameter on a grid of its values, estimated from the draws.

        Parameters
        ----------
        parameter : str or int
            Its name or its number.
        grid : array_like of shape (g,)
            The values.

        Returns
        -------
        ndarray
            The densities (g,).
        """
        column = self._column(parameter)
        values = np.asarray(grid, dtype=np.float64).ravel()
        return reflected_density(self.samples[:, column], values, self.prior.low[column], self.prior.high[column])

    def map(self) -> NDArray[np.float64]:
        """Return the most probable parameters (d,): the best of the draws, improved by a short local search."""
        from scipy.optimize import minimize

        rows = self.samples[:: max(1, len(self.samples) // 2000)]
        score = self._log_joint if self.log_likelihood is not None else self._log_kernel_density
        best = rows[int(np.argmax(score(rows)))]
        if self.log_likelihood is None:
            return best.copy()

        def loss(phi: np.ndarray) -> float:
            theta = self.prior.from_working(phi[None, :])
            return float(-score(theta)[0]) if self.prior.contains(theta)[0] else np.inf

        found = minimize(loss, self.prior.to_working(best), method="Nelder-Mead", options={"maxfev": 200})
        return self.prior.from_working(found.x)

    def predictive(self, simulator: Callable[..., Any], n: int = 100, **options: Any) -> Simulations:
        """Simulate at draws of the posterior.

        Parameters
        ----------
        simulator : callable
            The simulator.
        n : int, optional
            How many simulations.
        options : object
            Options of `lfi.simulate`.
        """
        from decond.lfi.simulation import simulate

        label = {"round": "predictive", **options}  # random numbers of their own, not those of the fit
        return simulate(simulator, self.prior, n, proposal=self.sample(n), **label)

    def frame(self, n: int | None = None) -> "pd.DataFrame":
        """Return the draws as a pandas frame with the parameters' names."""
        import pandas as pd

        return pd.DataFrame(self.samples if n is None else self.sample(n), columns=list(self.names))

    def to_arviz(self) -> Any:
        """Return the draws in ArviZ's form, for its plots and tables; ArviZ has to be installed."""
        try:
            import arviz
        except ImportError:
            raise ImportError("to_arviz needs ArviZ. Install it with: pip install 'decond[arviz]'") from None
        draws = {name: column[None, :].copy() for name, column in zip(self.names, self.samples.T, strict=True)}
        if int(arviz.__version__.split(".")[0]) < 1:
            return arviz.from_dict(posterior=draws)
        return arviz.from_dict({"posterior": draws})

    def plot(self, truth: ArrayLike | None = None, ax: "Axes | NDArray[np.object_] | None" = None) -> "PairsDisplay":
        """Draw marginals on the diagonal and pairs below it.

        Parameters
        ----------
        truth : array_like, optional
            The true parameters, where they are known; drawn as lines.
        ax : Axes or ndarray of shape (d, d), optional
            One of your axes, or an array of them; without it a new figure is made.

        Returns
        -------
        PairsDisplay
            The display.

        Examples
        --------
        >>> from scipy import stats
        >>> posterior = Posterior(Prior({"rate": stats.gamma(2)}), lambda n, rng: rng.gamma(4.0, 0.5, (n, 1)))
        >>> posterior.plot(truth=[2.0]).ax_.get_xlabel()
        'rate'
        """
        from decond.plotting import PairsDisplay

        known = None if truth is None else self.prior.rows(truth, "truth")
        if known is not None and len(known) != 1:
            raise ArgumentError("truth", f"truth has {len(known)} rows; give one value for each parameter.")
        return PairsDisplay.from_posterior(self, None if known is None else known[0], ax=ax)

    def summary(self) -> "pd.DataFrame":
        """Return mean, standard deviation, median and the 95 % interval of each parameter as a pandas frame."""
        import pandas as pd

        low, middle, high = self.quantile([0.025, 0.5, 0.975])
        columns = {"mean": self.mean(), "std": self.std(), "2.5 %": low, "median": middle, "97.5 %": high}
        return pd.DataFrame(columns, index=list(self.names))

    def __repr__(self) -> str:
        """Show mean and deviation of each parameter, and the number of notes."""
        if self._samples is None:
            parts = ", ".join(self.names)
        else:
            rows = zip(self.names, self.mean(), self.std(), strict=True)
            parts = ", ".join(f"{name} = {mean:.4g} ± {std:.2g}" for name, mean, std in rows)
        return f"Posterior({parts}{f'; {len(self.notes)} note(s)' if self.notes else ''})"

    def _repr_html_(self) -> str:
        """Show the summary and the notes, for notebooks; draws are made if there are none yet."""
        sims = self.simulations
        words = "" if sims is None else f"from {len(sims)} simulations ({sims.n_failed} failed)"
        if self.effective is not None:
            words += f"{', ' if words else ''}effective sample size {self.effective:.0f}"
        return card("Posterior", words, self.summary(), self.notes)

    def _draw(self, n: int, seed: Seed) -> np.ndarray:
        draws = self._sampler(n, as_generator(seed))
        return np.clip(draws, self.prior.low, self.prior.high)

    def _log_joint(self, theta: np.ndarray) -> np.ndarray:
        assert self.log_likelihood is not None
        return self.prior.log_density(theta) + self.log_likelihood(theta)

    def _log_kernel_density(self, theta: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self._kernel_density(theta))

    def _kernel_density(self, theta: np.ndarray) -> np.ndarray:
        """Return a Gaussian kernel estimate in the parameters' own units, zero outside the support."""
        from scipy.stats import gaussian_kde

        if len(self.names) == 1:
            return self.marginal_density(0, theta[:, 0])
        rows = np.unique(self.samples[:: max(1, len(self.samples) // 2000)], axis=0, return_counts=True)
        dim = len(self.names)
        if np.linalg.matrix_rank(rows[0] - rows[0].mean(axis=0), tol=1e-9 * np.ptp(rows[0])) < dim:
            raise ValueError(
                "the draws lie on a line or a point, so they have no density. The posterior rests on too few "
                "simulations; see .notes."
            )
        estimate = gaussian_kde(rows[0].T, bw_method=len(rows[0]) ** (-1.0 / (dim + 4)), weights=rows[1])
        values = sum(estimate(image.T) for image in _images(theta, self.prior.low, self.prior.high))
        return np.where(self.prior.contains(theta), values, 0.0)

    def _column(self, parameter: str | int) -> int:
        if isinstance(parameter, str):
            if parameter not in self.names:
                raise ArgumentError(
                    "parameter", f"there is no parameter {parameter!r}; choose from {', '.join(self.names)}."
                )
            return self.names.index(parameter)
        if not 0 <= parameter < len(self.names):
            raise ArgumentError(
                "parameter", f"parameter is {parameter}; give a number from 0 to {len(self.names) - 1}, or a name."
            )
        return parameter


_HOW_EVIDENCE = (
    "Use a method that has one, such as the default with summary='none': learned summaries are other data in each "
    "model, so their densities cannot be compared."
)


class ModelProbabilities(dict[str, float]):
    """The probability of each model by its name, with what is behind it.

    Attributes
    ----------
    log_evidence, standard_error : dict
        The log evidence of each model and its standard error.
    interval : dict
        A 95 % interval of each probability, from the errors of all log evidences.

    Examples
    --------
    >>> found = ModelProbabilities(np.array([0.5, 0.5]), {"a": 0.0, "b": np.log(3.0)}, {"a": 0.1, "b": 0.1})
    >>> round(found["b"], 2)
    0.75
    """

    def __init__(self, prior: NDArray[np.float64], log_evidence: dict[str, float], error: dict[str, float]) -> None:
        self.log_evidence, self.standard_error = log_evidence, error
        logs, errors = np.array(list(log_evidence.values())), np.array(list(error.values()))
        super().__init__(zip(log_evidence, softmax(np.log(prior) + logs).tolist(), strict=True))
        noise = np.random.default_rng(0).standard_normal((Posterior.n_draws, len(logs)))
        draws = softmax(np.log(prior) + logs + errors * noise, axis=1)
        ends = np.quantile(draws, [0.025, 0.975], axis=0).T
        self.interval = {name: (float(low), float(high)) for name, (low, high) in zip(self, ends, strict=True)}

    def frame(self) -> "pd.DataFrame":
        """Return a pandas frame, one row for each model."""
        import pandas as pd

        low, high = zip(*self.interval.values(), strict=True)
        columns = {"probability": list(self.values()), "2.5 %": low, "97.5 %": high}
        columns |= {"log evidence": list(self.log_evidence.values()), "error": list(self.standard_error.values())}
        return pd.DataFrame(columns, index=list(self))

    def __repr__(self) -> str:
        """Show probabilities and their intervals."""
        parts = (f"{name}: {self[name]:.3g} [{low:.3g}, {high:.3g}]" for name, (low, high) in self.interval.items())
        return f"ModelProbabilities({', '.join(parts)})"


def model_probabilities(
    posteriors: Mapping[str, Posterior], prior: Mapping[str, float] | None = None
) -> ModelProbabilities:
    """Return the probability of each model given one observation, from the log evidences.

    The errors of the log evidences come from refits, which takes a few seconds for each model.

    Parameters
    ----------
    posteriors : mapping of str to Posterior
        The posterior under each model, given the same observation.
    prior : mapping of str to float, optional
        Prior weights of the models; without them all are equal.

    Returns
    -------
    ModelProbabilities
        A dict of probabilities, with `log_evidence`, `standard_error` and `interval`.

    Raises
    ------
    ArgumentError
        If a posterior has no log evidence of the data, or the observations differ.

    Examples
    --------
    >>> from scipy import stats
    >>> from decond import lfi
    >>> prior, method = lfi.Prior({"mean": stats.norm()}), lfi.ResidualLikelihood()
    >>> def posterior(noise):
    ...     sims = lfi.simulate(lambda theta, rng: theta + noise * rng.standard_normal(1), prior, 200)
    ...     return method.fit(sims, prior).posterior([2.0])
    >>> found = lfi.model_probabilities({"narrow": posterior(0.1), "wide": posterior(3.0)})
    >>> found["wide"] > found["narrow"]
    True
    """
    if len(posteriors) < 2:
        raise ArgumentError("posteriors", f"posteriors has {len(posteriors)} model(s); give at least two by name.")
    seen: NDArray[np.float64] | None = None
    for name, posterior in posteriors.items():
        if posterior.log_evidence is None or posterior.origin is None:
            raise ArgumentError("posteriors", f"{name!r} has no log evidence of the data. {_HOW_EVIDENCE}")
        seen = posterior.origin.observed if seen is None else seen
        if not np.array_equal(seen, posterior.origin.observed, equal_nan=True):
            raise ArgumentError(
                "posteriors",
                f"{name!r} is given another observation than {next(iter(posteriors))!r}; evidences can be compared "
                "only for the same data. Give both models the same observation, with its values in one order.",
            )
    weights = {name: 1.0 if prior is None else prior.get(name, 0.0) for name in posteriors}
    if (prior is not None and set(prior) - set(posteriors)) or min(weights.values()) <= 0.0:
        raise ArgumentError("prior", f"prior is {prior!r}; give one positive weight for each of {list(posteriors)}.")
    return ModelProbabilities(
        np.array(list(weights.values())),
        {name: float(posterior.log_evidence or 0.0) for name, posterior in posteriors.items()},
        {name: posterior.log_evidence_error() for name, posterior in posteriors.items()},
    )


def _images(theta: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Return the points and their mirror images at the faces of the support; at its corners too in two dimensions."""
    images = [theta]
    for column in range(theta.shape[1]):
        seen = images if theta.shape[1] <= 2 else images[:1]
        mirrored = []
        for end in (low[column], high[column]):
            if np.isfinite(end):
                for image in seen:
                    other = image.copy()
                    other[:, column] = 2.0 * end - image[:, column]
                    mirrored.append(other)
        images = images + mirrored
    return images


def reflected_density(
    draws: NDArray[np.float64], grid: NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """Return a kernel estimate of a density that keeps its mass inside a range by reflection at the ends.

    Parameters
    ----------
    draws : ndarray of shape (n,)
        Draws of one parameter.
    grid : ndarray of shape (g,)
        Where the density is wanted.
    low : float
        Least possible value.
    high : float
        Largest possible value.
    """
    from scipy.stats import gaussian_kde

    if np.ptp(draws) == 0.0:
        raise ValueError("all draws of this parameter are equal, so it has no density; see the posterior's notes.")
    distinct = len(np.unique(draws))  # repeated draws tell nothing about the shape
    estimate = gaussian_kde(draws, bw_method=distinct**-0.2)
    values = estimate(grid)
    for end in (low, high):
        if np.isfinite(end):
            values += estimate(2.0 * end - grid)
    return np.where((grid >= low) & (grid <= high), values, 0.0)
