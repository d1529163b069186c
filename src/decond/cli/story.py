"""What `decond demo` tells in the terminal: the problem, the answer beside the truth, and what to do next."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Curves", "tell_answer", "tell_next", "tell_problem"]

NEAR = 0.1
"""Difference in m/s up to which two days count as having the same mean wind."""

GUSTIER = 2.0
"""Difference in m/s from which the spread of one day's readings counts as larger."""

HEIGHT = 14
"""Lines of the chart."""

TEXT = 80
"""Letters of a line of text at most."""

KNOWN = (
    "A wind turbine on {n_days} days. One table has {readings} wind speeds of each day, taken at random hours; the "
    "other has the mean power of each day."
)
WANTED = (
    "Power as a function of wind: the turbine's power curve, with error bars. No row of either table has a wind "
    "speed together with the power of that hour."
)
SHORTCUTS = (
    "So the mean power of a day is not the power at its mean wind. Two shortcuts act as if it were:\n"
    "- {}: one dot a day, and a curve through the dots;\n"
    "- {}: and a curve through the readings."
)
FITTING = (
    "decond looks for a curve whose mean over all 24 hours of each day is the power of that day, and knows that the "
    "readings are only a sample of these hours. Fitting it and both shortcuts, and checking it, takes less than a "
    "minute."
)
REPORT = (
    "the same curve to explore, what was learned, and checks of the fit. The two tables are there too. The same fit "
    "from files:"
)
OTHER_DATA = {
    "Tables that share a measured column instead of a label (--targets mean if each z is a mean, not one reading):": (
        "decond fit pairs.csv task.csv --x wind --y pressure --z power --targets single --report fit.html"
    ),
    "A simulator and an observation (docs/tutorials/epidemic.md makes these three files):": (
        "decond infer school:simulate --prior prior.toml --observed observed.csv"
    ),
}


class Curves(NamedTuple):
    """The answers at wind speeds from zero in even steps, in kW."""

    wind: np.ndarray
    truth: np.ndarray
    ours: np.ndarray
    half: np.ndarray
    """Two standard deviations of ours."""
    naive: dict[str, np.ndarray]


def tell_problem(console: Console, hours: "pd.DataFrame", days: "pd.DataFrame", naive: list[str]) -> None:
    """Tell what is known, what is wanted, and why averaging misleads."""
    _heading(console, "1. What is known")
    _say(console, KNOWN.format(n_days=len(days), readings=len(hours) // len(days)))
    tables = Table.grid(padding=(0, 4))
    tables.add_row(
        _first_rows(hours, "hours.csv", {"day": "day", "wind": "wind (m/s)"}),
        _first_rows(days, "days.csv", {"day": "day", "power": "mean power (kW)"}),
    )
    console.print(tables)
    _heading(console, "2. What is wanted")
    _say(console, WANTED)
    _heading(console, "3. Why averaging misleads")
    _say(console, _contrast(hours, days))
    _say(console, SHORTCUTS.format(*naive))
    _heading(console, "4. Fitting")
    _say(console, FITTING)


def tell_answer(console: Console, curves: Curves, numbers: dict[str, dict[str, Any]]) -> None:
    """Show the curve beside the truth, as a chart and as numbers, and the scores."""
    _heading(console, "5. The answer beside the truth")
    console.print(_chart(curves))
    console.print(_numbers(curves))
    _say(console, "The truth is hourly and from other days; nothing was fitted to it.")
    console.print(_scores(numbers))


def tell_next(console: Console, folder: Path) -> None:
    """Say how to look further, and how to do the same with other tables."""
    _heading(console, "6. With your own data")
    _say(console, f"Open {folder / 'report.html'} in a browser: {REPORT}")
    tables = shlex.join([str(folder / "hours.csv"), str(folder / "days.csv")])
    _show_command(
        console, f"decond fit {tables} --x wind --y day --z power --aggregate --group-sizes 24 --report fit.html"
    )
    for words, example in OTHER_DATA.items():
        _say(console, words)
        _show_command(console, example)
    console.print()


def _heading(console: Console, words: str) -> None:
    console.print(Text(f"\n{words}", "bold cyan"))


def _say(console: Console, words: str) -> None:
    """Print a paragraph that is not wider than people like to read."""
    console.print(Text(words), width=min(TEXT, console.width))


def _show_command(console: Console, command: str) -> None:
    console.print(Text(f"  {command}", "bold"), soft_wrap=True)


def _first_rows(frame: "pd.DataFrame", name: str, headings: dict[str, str]) -> Table:
    table = Table(title=f"{name}, {len(frame)} rows")
    for heading in headings.values():
        table.add_column(heading, justify="right")
    for _, row in frame.head(4).iterrows():
        table.add_row(*(f"{row[column]:g}" if column == "day" else f"{row[column]:.1f}" for column in headings))
    table.add_row(*("…" for _ in headings))
    return table


def _contrast(hours: "pd.DataFrame", days: "pd.DataFrame") -> str:
    """Return a sentence about the two days, one steady and one gusty, that show it best."""
    wind = hours.groupby("day")["wind"].agg(["mean", "std"])
    wind["power"] = days.set_index("day")["power"]
    mean, spread, power = wind.to_numpy().T
    alike = (np.abs(mean[:, None] - mean) < NEAR) & (spread[:, None] - spread > GUSTIER)
    contrast = np.where(alike, power[:, None] / power, 0.0)
    gusty, steady = (wind.iloc[i] for i in np.unravel_index(np.argmax(contrast), contrast.shape))
    return (
        f"Days {steady.name} and {gusty.name} had the same mean wind, {steady['mean']:.1f} m/s. One was steady "
        f"(the readings vary by {steady['std']:.1f} m/s) and gave {steady['power']:.0f} kW; the other came in gusts "
        f"({gusty['std']:.1f} m/s) and gave {gusty['power']:.0f} kW."
    )


def _chart(curves: Curves) -> Text:
    """Return a chart in letters: power over wind."""
    top = 500.0 * np.ceil(max(curves.truth.max(), curves.ours.max()) / 500.0)
    cells = [[" "] * len(curves.wind) for _ in range(HEIGHT)]
    last = list(curves.naive)[-1]
    for values, sign, every in ((curves.naive[last], "×", 2), (curves.truth, "·", 1), (curves.ours, "●", 4)):
        rows = np.clip(np.round(values / top * (HEIGHT - 1)), 0, HEIGHT - 1).astype(int)
        for column in range(0, len(rows), every):
            cells[HEIGHT - 1 - rows[column]][column] = sign
    labels = {0: f"{top:,.0f} kW", HEIGHT - 1: "0"}
    lines = [f"{labels.get(row, ''):>9} │{''.join(cells[row])}" for row in range(HEIGHT)]
    step = int(np.argmin(np.abs(curves.wind - 2.0)))
    ticks = "".join(f"{curves.wind[column]:<{step}.0f}" for column in range(0, len(curves.wind), step))
    text = Text("\n".join([*lines, f"{'':>9} └{'─' * len(curves.wind)}", f"{'m/s':>9}  {ticks}"]))
    text.append(f"\n{'':>11}● decond   · truth   × {last}")
    text.highlight_words(["●"], "bold blue")
    text.highlight_words(["×"], "red")
    return text


def _numbers(curves: Curves) -> Table:
    """Return the answers at even wind speeds."""
    table = Table(title="power (kW) at a wind speed")
    for heading in ("wind (m/s)", "truth", "decond ± 2 sd", *curves.naive):
        table.add_column(heading, justify="right")
    for at, speed in enumerate(curves.wind):
        if speed > 0.0 and speed % 2.0 == 0.0:
            ours = f"{curves.ours[at]:,.0f} ± {curves.half[at]:3,.0f}"
            others = (f"{values[at]:,.0f}" for values in curves.naive.values())
            table.add_row(f"{speed:.0f}", f"{curves.truth[at]:,.0f}", ours, *others)
    return table


def _scores(numbers: dict[str, dict[str, Any]]) -> Table:
    table = Table(title="Error for each hour on days that were not seen")
    for heading in ("answer", "RMSE (kW)", "true curve inside ± 2 sd", "seconds"):
        table.add_column(heading, justify="left" if heading == "answer" else "right")
    for name, row in numbers.items():
        inside = row["coverage_2sd"]
        share = "no error bars" if inside is None else f"{inside:.0%}"
        table.add_row(name, f"{row['rmse_kw']:.0f}", share, f"{row['seconds']:.1f}")
    return table
