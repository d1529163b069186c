"""Predators and prey: four rates of a random process, seen through nine statistics of its course."""

import numpy as np

from decond.checks import frozen
from decond.problems.simulator_problem import SimulatorProblem

__all__ = ["gillespie", "lotka_volterra", "statistics"]

START = (50, 100)
TRUE_RATES = (0.01, 0.5, 1.0, 0.01)
END, INTERVAL, N_RECORDS = 30.0, 0.2, 151
MAX_REACTIONS = 10_000
AT_ONCE = 2048  # simulations that step together: enough to spread the cost of a step, few enough for memory

OBSERVED = np.array(
    [95.2251656, 51.9668874, 8.67364561, 8.05149566, 0.980002316, 0.934987651, 0.977287472, 0.926921876, 0.0229361846]
)
PILOT_MEAN = np.array(
    [219.801775, 5.83081457, 6.63660858, 4.44470002, 0.840878342, 0.737991900, 0.135018407, 0.0747472691, 0.124835855]
)
PILOT_SD = np.array(
    [592.326107, 54.6649982, 2.96936149, 0.901873258, 0.179811764, 0.256786090, 0.266208554, 0.202996380, 0.375751613]
)


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

    return SimulatorProblem(
        name="lotka_volterra",
        prior=Prior({f"log_theta_{i}": stats.uniform(-5.0, 7.0) for i in (1, 2, 3, 4)}),
        simulator=lambda log_rates, rng: _summarize(_simulate(log_rates, rng)),
        batched=True,
        observed=frozen((OBSERVED - PILOT_MEAN) / PILOT_SD),
        true_parameters=frozen(np.log(TRUE_RATES)),
        raw_simulator=_simulate,
        summarize=_summarize,
    )


def statistics(series: np.ndarray) -> np.ndarray:
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


def gillespie(rates: np.ndarray, rng: np.random.Generator, max_reactions: int = MAX_REACTIONS) -> np.ndarray:
    """Return the numbers of predators and prey at the 151 record times for each row of rates, shape (n, 151, 2).

    All runs take their reactions together, one each in a step; a run that has ended leaves. Runs of more than
    `max_reactions` are NaN.
    """
    parts = [_step_together(rates[at : at + AT_ONCE], rng, max_reactions) for at in range(0, len(rates), AT_ONCE)]
    return np.concatenate(parts) if parts else np.empty((0, N_RECORDS, 2))


def _step_together(rates: np.ndarray, rng: np.random.Generator, max_reactions: int) -> np.ndarray:
    """Run Gillespie's algorithm: the state after a reaction is written at the next record time, gaps are filled."""
    n = len(rates)
    records = np.full((n, N_RECORDS, 2), np.nan)
    records[:, 0] = START
    run = np.arange(n)
    predators, prey = (np.full(n, float(number)) for number in START)
    time = np.zeros(n)
    born, died, bred, eaten = np.ascontiguousarray(rates.T)
    for _ in range(max_reactions + 1):
        pairs = predators * prey
        first = born * pairs
        second = first + died * predators
        third = second + bred * prey
        total = third + eaten * pairs
        with np.errstate(divide="ignore"):
            time += rng.standard_exponential(len(run)) / total
        going = time < END
        if not going.all():
            run, time, predators, prey = run[going], time[going], predators[going], prey[going]
            born, died, bred, eaten = born[going], died[going], bred[going], eaten[going]
            first, second, third, total = first[going], second[going], third[going], total[going]
            if not len(run):
                break
        event = rng.random(len(run)) * total
        is_first, is_second, is_third = event < first, event < second, event < third
        predators += is_first
        predators -= is_second ^ is_first
        prey += is_third ^ is_second
        prey -= ~is_third
        next_record = np.ceil(time / INTERVAL).astype(np.intp)
        records[run, next_record, 0] = predators
        records[run, next_record, 1] = prey
    records = _filled(records)
    records[run] = np.nan
    return records


def _filled(records: np.ndarray) -> np.ndarray:
    """Return records with each gap filled by the last record before it."""
    written = ~np.isnan(records[:, :, 0])
    last = np.maximum.accumulate(np.where(written, np.arange(records.shape[1]), 0), axis=1)
    return np.take_along_axis(records, last[:, :, None], axis=1)


def _simulate(log_rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return gillespie(np.exp(log_rates), rng)


def _summarize(series: np.ndarray) -> np.ndarray:
    return (statistics(series) - PILOT_MEAN) / PILOT_SD
