"""The data that come with the package."""

import numpy as np
from expected import refused

from decond.datasets import load_wind, wind_day


def test_wind_tables_are_whole_and_agree_with_each_other():
    wind = load_wind()
    assert list(wind.hourly) == [
        "time_utc",
        "day",
        "ws_hub",
        "power_kw",
        "merra_u50",
        "merra_v50",
        "merra_ws50",
        "downtime",
    ]
    assert not wind.hourly.isna().any(axis=None)
    assert wind.hourly["time_utc"].is_monotonic_increasing
    days = wind.hourly.groupby("day")
    np.testing.assert_allclose(days["power_kw"].mean(), wind.daily["power_kw_mean"], atol=6e-4)
    np.testing.assert_array_equal(days.size(), wind.daily["n_hours"])
    np.testing.assert_array_equal(days["downtime"].sum(), wind.daily["downtime_hours"])
    first = wind.hourly["time_utc"].dt.normalize().min()
    np.testing.assert_array_equal((wind.hourly["time_utc"] - first).dt.days, wind.hourly["day"])
    for name in ("ENGIE", "Etalab Open Licence 2.0", "NASA", "MERRA-2"):
        assert name in wind.attribution


def test_tables_can_be_changed_without_harm_to_others():
    table = load_wind().hourly
    table["ws_hub"] = 0.0
    assert load_wind().hourly["ws_hub"].mean() > 5.0


def test_wind_day_shows_the_model_only_its_roles():
    problem, wind = wind_day(), load_wind()
    hours = wind.hourly.set_index("day")
    assert list(problem.x) == ["ws_hub"]
    days, counts = np.unique(problem.groups, return_counts=True)
    assert len(days) == 120
    assert set(counts) == {8}
    np.testing.assert_array_equal(problem.z.index, days)
    np.testing.assert_array_equal(problem.z, wind.daily.set_index("day").loc[days, "power_kw_mean"])
    for day in days[:10]:
        running = hours.loc[day][lambda table: table["downtime"] == 0]["ws_hub"]
        assert set(problem.x["ws_hub"][problem.groups == day]) <= set(running)
    others = hours[(hours["downtime"] == 0) & ~hours.index.isin(days)]
    np.testing.assert_array_equal(problem.x_true["ws_hub"], others["ws_hub"])
    np.testing.assert_array_equal(problem.z_true, others["power_kw"])


def test_wind_day_repeats_with_its_seed():
    one, two, other = wind_day(seed=3, n_days=9), wind_day(seed=3, n_days=9), wind_day(seed=4, n_days=9)
    assert one.x.equals(two.x)
    assert one.z.equals(two.z)
    assert set(one.z.index) != set(other.z.index)


def test_wind_day_that_leaves_nothing_to_score_is_refused():
    assert len(wind_day(n_days=727).z) == 727  # 728 days have eight readings
    with refused("n_days"):
        wind_day(n_days=728)
    with refused("readings"):
        wind_day(readings=0)
