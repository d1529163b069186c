"""Predators and prey: four rates of a random process, seen through nine statistics of its course."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decond.checks import frozen
from decond.problems.tasks import SimulatorProblem

__all__ = ["LotkaVolterra", "gillespie", "lotka_volterra", "statistics"]


@dataclass(frozen=True)
class LotkaVolterra:
    """The setting of the paper's Figure 5, as in Papamakarios and Murray (2016).

    `observed`, `pilot_mean` and `pilot_sd` are the published statistics of the observation and of 1000 simulations.
    """

    start: tuple[int, int] = (50, 100)
    true_rates: tuple[float, ...] = (0.01, 0.5, 1.0, 0.01)
    end: float = 30.0
    interval: float = 0.2
    n_records: int = 151
    max_reactions: int = 10_000
    at_once: int = 2048
    """Simulations that step together: enough to spread the cost of a step, few enough for memory."""
    observed: tuple[float, ...] = (
        *(95.2251656, 51.9668874, 8.67364561, 8.05149566),
        *(0.980002316, 0.934987651, 0.977287472, 0.926921876, 0.0229361846),
    )
    pilot_mean: tuple[float, ...] = (
        *(219.801775, 5.83081457, 6.63660858, 4.44470002),
        *(0.840878342, 0.737991900, 0.135018407, 0.0747472691, 0.124835855),
    )
    pilot_sd: tuple[float, ...] = (
        *(592.326107, 54.6649982, 2.96936149, 0.901873258),
        *(0.179811764, 0.256786090, 0.266208554, 0.202996380, 0.375751613),
    )

    def normalized(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return statistics (..., 9) in units of the pilot's standard deviations from its means."""
        return (np.asarray(values, dtype=np.float64) - self.pilot_mean) / np.asarray(self.pilot_sd)


def lotka_volterra() -> SimulatorProblem:
    """Return the problem of finding four log rates of predators and prey from nine statistics (paper's Figure 5).

    From 50 predators x and 100 prey y the reactions x+1, x−1, y+1, y−1 happen at rates θ·(xy, x, y, xy). Both numbers
    are recorded every 0.2 up to time 30, summarized by `statistics` and normalized by the mean and the standard
    deviation of a pilot of 1000 simulations. The parameters are log θ, each uniform on (−5, 2). A run of more than
    10,000 reactions is a failed simulation: a row of NaN.

    >>> problem = lotka_volterra()
    >>> problem.true_parameters.round(3)
    array([-4.605, -0.693,  0.   , -4.605])
    """
    from scipy import stats

    from decond.lfi import Prior

    setting = LotkaVolterra()
    return SimulatorProblem(
        name="lotka_volterra",
        prior=Prior({f"log_theta_{i}": stats.uniform(-5.0, 7.0) for i in (1, 2, 3, 4)}),
        simulator=lambda log_rates, rng: _summarize(_simulate(log_rates, rng)),
        observed=frozen(setting.normalized(setting.observed)),
        true_parameters=frozen(np.log(setting.true_rates)),
        raw_simulator=_simulate,
        summarize=_summarize,
    )


def statistics(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nine statistics of courses (..., records, 2), of shape (..., 9).

    Means of x and y, log(variance + 1) of both, autocorrelations of x at lags 1 and 2, of y at lags 1 and 2, and the
    cross-correlation. Correlations of a constant course are 0.
    """
    length = series.shape[-2]
    mean = series.mean(axis=-2)
    deviation = series - mean[..., None, :]
    variance = (deviation**2).sum(axis=-2) / (length - 1)
    sd = np.sqrt(variance)
    scaled = np.divide(deviation, sd[..., None, :], out=np.zeros_like(deviation), where=sd[..., None, :] != 0.0)
    lag_1, lag_2 = ((scaled[..., lag:, :] * scaled[..., :-lag, :]).sum(axis=-2) / (length - 1) for lag in (1, 2))
    cross = (scaled[..., 0] * scaled[..., 1]).sum(axis=-1) / (length - 1)
    auto = np.stack([lag_1, lag_2], axis=-1).reshape(*mean.shape[:-1], 4)  # x at lags 1, 2, then y
    return np.concatenate([mean, np.log(variance + 1.0), auto, cross[..., None]], axis=-1)


def gillespie(
    rates: NDArray[np.float64], rng: np.random.Generator, setting: LotkaVolterra | None = None
) -> NDArray[np.float64]:
    """Return the numbers of predators and prey at the 151 record times for each row of rates, shape (n, 151, 2).

    All runs take their reactions together, one each in a step; a run that has ended leaves. Runs of more than
    `max_reactions` are NaN.

    Parameters
    ----------
    rates : ndarray of shape (n, 4)
        Rates of the reactions x+1, x−1, y+1, y−1.
    rng : numpy.random.Generator
        The source of all randomness.
    setting : LotkaVolterra, optional
        Start, end and limits.
    """
    setting = setting or LotkaVolterra()
    size = setting.at_once
    chunks = [_step_together(rates[at : at + size], rng, setting) for at in range(0, len(rates), size)]
    return np.concatenate([np.empty((0, setting.n_records, 2)), *chunks])


def _step_together(
    rates: NDArray[np.float64], rng: np.random.Generator, setting: LotkaVolterra
) -> NDArray[np.float64]:
    """Run Gillespie's algorithm: the state after a reaction is written at the next record time, gaps are filled."""
    n = len(rates)
    records = np.full((n, setting.n_records, 2), np.nan)
    records[:, 0] = setting.start
    run = np.arange(n)
    predators, prey = (np.full(n, float(number)) for number in setting.start)
    time = np.zeros(n)
    birth, death, growth, predation = np.ascontiguousarray(rates.T)
    for _ in range(setting.max_reactions + 1):
        pairs = predators * prey
        first = birth * pairs
        second = first + death * predators
        third = second + growth * prey
        total = third + predation * pairs
        with np.errstate(divide="ignore"):
            time += rng.standard_exponential(len(run)) / total
        going = time < setting.end
        if not going.all():
            run, time, predators, prey = run[going], time[going], predators[going], prey[going]
            birth, death, growth, predation = birth[going], death[going], growth[going], predation[going]
            first, second, third, total = first[going], second[going], third[going], total[going]
            if not len(run):
                break
        event = rng.random(len(run)) * total
        is_first, is_second, is_third = event < first, event < second, event < third
        predators += is_first
        predators -= is_second ^ is_first
        prey += is_third ^ is_second
        prey -= ~is_third
        next_record = np.ceil(time / setting.interval).astype(np.intp)
        records[run, next_record, 0] = predators
        records[run, next_record, 1] = prey
    records = _filled(records)
    records[run] = np.nan
    return records


def _filled(records: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return records with each gap filled by the last record before it."""
    written = ~np.isnan(records[:, :, 0])
    last = np.maximum.accumulate(np.where(written, np.arange(records.shape[1]), 0), axis=1)
    return np.take_along_axis(records, last[:, :, None], axis=1)


def _simulate(log_rates: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    return gillespie(np.exp(log_rates), rng)


def _summarize(series: NDArray[np.float64]) -> NDArray[np.float64]:
    return LotkaVolterra().normalized(statistics(series))
