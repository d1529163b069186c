"""Real data that come with decond: two years of a wind turbine, hourly wind speed and power, and daily means.

Turbine R80711 of the La Haute Borne wind farm (ENGIE, Etalab Open Licence 2.0); wind of the MERRA-2 reanalysis
(NASA). See ``ATTRIBUTION.md`` beside this file.
"""

from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from decond.checks import as_count
from decond.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Wind", "WindDay", "load_wind", "wind_day"]


@dataclass(frozen=True)
class Wind:
    """The two tables of `load_wind`, and whom to name when you use them.

    >>> wind = load_wind()
    >>> wind.daily.loc[0, ["power_kw_mean", "n_hours"]].round(1).to_dict()
    {'power_kw_mean': 878.1, 'n_hours': 24.0}
    """

    hourly: "pd.DataFrame" = field(repr=False)
    """One row an hour: `time_utc`; `day`, a number from 0; `ws_hub`, wind speed at the hub in m/s; `power_kw`;
    `merra_u50`, `merra_v50` and `merra_ws50`, wind at 50 m from a weather model, in m/s; `downtime`, 1 if the
    turbine was stopped."""
    daily: "pd.DataFrame" = field(repr=False)
    """One row a day: `day`, `power_kw_mean`, `n_hours` and `downtime_hours`."""
    attribution: str
    """Sources and licenses of the data."""


@dataclass(frozen=True)
class WindDay:
    """A turbine's power curve from daily means: what a model may see, and the truth that scores it.

    The model sees a few wind speeds of each day (`x`), their day (`groups`) and the mean power of that day
    (`z`), but never a wind speed with its power. The truth is hourly, on other days.

    >>> problem = wind_day(n_days=10, readings=3)
    >>> problem.x.shape, sorted(set(problem.groups)) == list(problem.z.index)
    ((30, 1), True)
    """

    x: "pd.DataFrame" = field(repr=False)
    """Wind speeds in m/s, one column `ws_hub`."""
    groups: np.ndarray = field(repr=False)
    """The day of each row of x."""
    z: "pd.Series" = field(repr=False)
    """Mean power in kW, by day."""
    x_true: "pd.DataFrame" = field(repr=False)
    """Hourly wind speeds on the days that the model does not see."""
    z_true: np.ndarray = field(repr=False)
    """Hourly power in kW at `x_true`."""

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return wind speeds and the true power there: means in bins of 0.5 m/s with at least 20 hours.

        >>> speeds, power = wind_day().curve()
        >>> bool(power[speeds > 12.0].min() > 1500.0)
        True
        """
        wind = self.x_true["ws_hub"].to_numpy()
        index = (wind / 0.5).astype(int)
        hours = np.bincount(index)
        known = hours >= 20
        speeds, powers = (np.bincount(index, v)[known] / hours[known] for v in (wind, self.z_true))
        return speeds, powers


def load_wind() -> Wind:
    """Return hourly and daily readings of a wind turbine in 2014 and 2015.

    >>> wind = load_wind()
    >>> wind.hourly.shape, wind.daily.shape
    ((17439, 8), (730, 4))
    >>> "Etalab" in wind.attribution
    True
    """
    import pandas as pd

    folder = resources.files("decond.datasets")
    tables = []
    for name in ("wind_hourly", "wind_daily"):
        with (folder / f"{name}.csv.gz").open("rb") as stream:
            tables.append(pd.read_csv(stream, compression="gzip"))
    hourly, daily = tables
    hourly["time_utc"] = pd.to_datetime(hourly["time_utc"], utc=True)
    return Wind(hourly, daily, (folder / "ATTRIBUTION.md").read_text(encoding="utf-8"))


def wind_day(seed: int = 0, n_days: int = 120, readings: int = 8) -> WindDay:
    """Draw the problem of recovering the power curve: `n_days` days with `readings` wind speeds each.

    Hours in which the turbine was stopped are left out, and so are days with too few hours left. The readings are a
    random sample of the 24 hours of a day: fit with ``group_sizes=24``.

    Parameters
    ----------
    seed : int
        Of the choice of days and hours.
    n_days : int
        How many days the model sees.
    readings : int
        How many wind speeds of each of them.

    Returns
    -------
    WindDay

    Examples
    --------
    >>> problem = wind_day()
    >>> problem.x.shape, problem.z.shape
    ((960, 1), (120,))
    """
    as_count(n_days, "n_days")
    as_count(readings, "readings")
    wind = load_wind()
    hours = wind.hourly[wind.hourly["downtime"] == 0]
    counts = hours["day"].value_counts(sort=False)
    days = counts.index[counts >= readings].to_numpy()
    if n_days >= len(days):
        raise ArgumentError(
            "n_days",
            f"n_days is {n_days}, but {len(days)} days have {readings} readings, and one has to stay hidden. "
            "Ask for fewer days or readings.",
        )
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(days, n_days, replace=False))
    seen = hours[hours["day"].isin(chosen)]
    seen = seen.iloc[_pick_of_each(seen["day"].to_numpy(), readings, rng)]
    hidden = hours[~hours["day"].isin(chosen)]
    return WindDay(
        x=seen[["ws_hub"]].reset_index(drop=True),
        groups=seen["day"].to_numpy(),
        z=wind.daily.set_index("day").loc[chosen, "power_kw_mean"],
        x_true=hidden[["ws_hub"]].reset_index(drop=True),
        z_true=hidden["power_kw"].to_numpy(),
    )


def _pick_of_each(groups: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of `count` random rows of each group, in order."""
    positions = [rng.choice(np.flatnonzero(groups == group), count, replace=False) for group in np.unique(groups)]
    return np.sort(np.concatenate(positions))
