"""What is published beside what comes out here: one row a number, with the reason where they differ.

>>> row = Row("figure5", "peak density: DME", 0.168, 0.1676)
>>> row.difference
-0.0004
>>> row.agrees
True
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decond.paper import TABLES
from decond.paper.figure4 import SLIPS
from decond.paper.output import Table
from decond.paper.published import PUBLISHED_RECOVERY, published_bar, uncertainty_of

__all__ = ["NOTES", "Row", "compare", "reasons", "tabulated", "write_comparison"]

TITLE = "# Figures of the paper, published and reproduced"
OURS_ALONE = "Not in the paper."

COLLAPSED = 0.01
"""Width of an interval of log θ₁, in a prior of width 7, below which it is called a point."""

EARLIER = {
    **dict.fromkeys(("REJ-ABC", "MCMC-ABC", "SMC-ABC"), "more than 100,000 in the earlier paper"),
    **dict.fromkeys(("LFVI log", "LFVI hinge"), "and the paper does not state how many there"),
    "MDN": "10,000 in the earlier paper",
}
"""Simulations behind the published bars that were taken over from earlier papers."""

NOTES = {
    "figure1": ["A drawing of how models are related, without numbers. The models are in decond.gp."],
    "figure2": ["A drawing of the task-transformed model, without numbers. It is decond.gp.TaskTransformed."],
    "figure3": [
        "The published figure has curves and no numbers. The reference was computed in plain NumPy from its data "
        "(the draws are known), without decond.",
    ],
    "figure4": ["The published figure has curves and no numbers.", *SLIPS],
    "figure5": [
        "Published numbers are read off the vector graphics of the figure; decond/paper/published_figure5.csv has "
        "the readings with their uncertainty.",
        "As published: the algorithm as its paper has it, with signed weights, herding with the same kernel, "
        "and simulations from the prior. As improved: without negative weights, with a narrow kernel for "
        "herding, and with four rounds of simulations for Lotka–Volterra. DME and KELFI, which weight draws "
        "of the prior, also make new draws where the posterior is; “validated” means that held-out "
        "simulations choose their hyperparameters. For ABC: a regression adjustment, with a tolerance that "
        "suits it.",
        "All kernel methods as published have λ = 0.001, the summaries as they are, and kernels on standardized data "
        "and on the prior's working coordinates; the paper states none of these. A difference is left: DME and KELFI "
        "herd among 2,000 draws of the prior, K-ABC, K2-ABC and KBR among the simulated parameters.",
        "LFVI and MDN follow their papers but for what decision 11 (docs/adr) lists. They have no improved form, nor "
        "have MCMC-ABC and GPS-ABC. Kernel methods and ABC compare the statistics of Lotka–Volterra as they are; the "
        "residual likelihood may replace them by learned summaries.",
        "Left: the text cites a set-up (prior Gamma(0.1, 0.1), 500 draws) that is not the one drawn: the drawn true "
        "posterior is Gamma(17, rate 9.891), which is a prior Gamma(2, 1) and 15 draws of mean 0.5927. That is used "
        "here. The 100 simulations are other draws than in the paper, and others with each seed: ours are the mean "
        "total variation and the median peak over the seeds.",
        "Right: the published bars of REJ-ABC, MCMC-ABC, SMC-ABC, LFVI and MDN were taken over from earlier papers: "
        "more than 100,000 simulations for the ABC methods, 10,000 for MDN. KBR and KELFI had 2,500 simulations, DME "
        "2,000. Here every method has 2,000; ours are medians over the seeds.",
    ],
}
"""What to know about each figure before its numbers are compared."""


@dataclass(frozen=True)
class Row:
    """One number of a figure."""

    figure: str
    quantity: str
    published: float | None
    ours: float | None
    why: str = ""
    """What a difference would come from."""
    reference: float | None = None
    """The number by other means, where none is published."""
    form: str = ""
    """Whether the algorithm is as published or as improved, where that is a question."""
    uncertainty: float | None = None
    """Of the published number, where it was read off a figure."""

    @property
    def other(self) -> float | None:
        """What ours is compared with: the published number, or else the reference."""
        return self.reference if self.published is None else self.published

    @property
    def difference(self) -> float | None:
        """Ours minus the other, to the digits of that one and one more."""
        if self.other is None or self.ours is None:
            return None
        return round(self.ours - self.other, self._decimals + 1)

    @property
    def _decimals(self) -> int:
        """Digits of the other number behind the point."""
        if self.uncertainty is not None:
            return round(-math.log10(2.0 * self.uncertainty))
        return len(repr(self.other).partition(".")[2])

    @property
    def agrees(self) -> bool:
        """Tell whether the difference is within one unit of the other's last digit."""
        return self.difference is not None and abs(self.difference) <= 10.0**-self._decimals

    @property
    def reason(self) -> str:
        """Why they differ; empty where they agree."""
        return "" if self.agrees else self.why

    def texts(self) -> tuple[str, str, str]:
        """Return the other, ours and the difference as they are printed: the digits of the other, and one more."""
        if self.other is None:
            return "–", f"{self.ours:.4g}", "–"
        if self.ours is None:
            return f"{self.other:.{self._decimals}f}", "–", "–"
        digits = self._decimals + 1
        return f"{self.other:.{digits - 1}f}", f"{self.ours:.{digits}f}", f"{self.difference:+.{digits}f}"

    def as_dict(self) -> dict[str, Any]:
        """Return the row for a JSON file."""
        values = {"figure": self.figure, "quantity": self.quantity, "published": self.published}
        values |= {} if self.reference is None else {"reference": self.reference}
        values |= {"form": self.form} if self.form else {}
        return {**values, "ours": self.ours, "difference": self.difference, "explanation": self.reason}


def compare(figure: str, numbers: dict[str, Any]) -> list[Row]:
    """Return the rows of one figure from the numbers that it wrote."""
    return list(COMPARISONS[figure](numbers))


def reasons(rows: list[Row]) -> dict[str, int]:
    """Return the reasons for differences, numbered in the order of the rows."""
    found = dict.fromkeys(row.reason for row in rows if row.reason)
    return {reason: number for number, reason in enumerate(found, 1)}


def tabulated(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and cells of one figure's table; reasons are there by number, if there are any."""
    found = reasons(rows)
    other = "published" if all(row.reference is None for row in rows) else "reference"
    has_forms = any(row.form for row in rows)
    headings = ["number", *(["form"] if has_forms else []), other, "ours", "difference", *(["why"] if found else [])]
    cells = [
        [row.quantity, *([row.form] if has_forms else []), *row.texts(), str(found.get(row.reason, ""))]
        for row in rows
    ]
    return headings, [line[: len(headings)] for line in cells]


def write_comparison(folder: Path, rows: list[Row], numbers: dict[str, Any] | None = None) -> list[Path]:
    """Write ``figures.md`` and ``figures.json``: all rows, tables of the figures' numbers, and what to know."""
    table, data = folder / "figures.md", folder / "figures.json"
    table.write_text(_as_markdown(rows, numbers or {}), encoding="utf-8")
    content = {"rows": [row.as_dict() for row in rows], "notes": NOTES}
    data.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return [table, data]


def _figure3(numbers: dict[str, Any]) -> Iterable[Row]:
    for name, known in PUBLISHED_RECOVERY.items():
        answer = numbers["answers"][name]
        ours = {**answer, **(answer["hyperparameters"] or {})}
        for key, value in known.items():
            words = "coverage of two sd" if key == "coverage_2sd" else key.replace("_", " ")
            yield Row(
                "figure3",
                f"{words}: {name}",
                None,
                ours[key],
                "The grid on which f is compared has 500 points.",
                reference=value,
            )


def _figure4(numbers: dict[str, Any]) -> Iterable[Row]:
    keys = {"rmse_within_data": "rmse within the data", "negative_log_evidence": "negative log evidence"}
    names = {"random": "random points", "jointly": "everything learned", "points": "points learned"}
    why = "The published panel shows predictions from five points instead of 100 rows."
    for name, answer in numbers["answers"].items():
        for key, words in keys.items():
            yield Row("figure4", f"{words}: {names[name]}", None, answer[key], why)
    for key, truth in (("lengthscale", 1.0), ("noise", 0.25)):
        why = f"Not printed in the paper; the data were made with {truth:g}."
        yield Row("figure4", f"{key}: everything learned", None, numbers["answers"]["jointly"][key], why)


def _figure5(numbers: dict[str, Any]) -> Iterable[Row]:
    seeds = len(numbers["seeds"])
    for answer in numbers["answers"].values():
        name, form, why = answer["algorithm"], answer["form"], _why_curve(answer, seeds)
        for key, words in (("total_variation", "total variation"), ("peak", "peak density")):
            for published in answer[f"published_{key}"] or [None]:
                digits = None if published is None else uncertainty_of("left", name, key, published)
                yield Row("figure5", f"{words}: {name}", published, answer[key], why, form=form, uncertainty=digits)
    for bar in numbers["lotka_volterra"].values():
        name, form, why = bar["algorithm"], bar["form"], _why_bar(bar, seeds)
        for key, words in (("low", "2.5"), ("high", "97.5")):
            published = bar[f"published_{key}"]
            digits = None if published is None else uncertainty_of("right", name, key, published)
            quantity = f"log θ₁, {words} %: {name}"
            yield Row("figure5", quantity, published, bar[key], why, form=form, uncertainty=digits)
    for label, reason in numbers["left_out"].items():
        algorithm, _, form = label.rpartition(", ")
        for end, words in enumerate(("2.5", "97.5")):
            known = published_bar(algorithm)
            yield Row("figure5", f"log θ₁, {words} %: {algorithm}", known and known[end], None, reason, form=form)


COMPARISONS = {"figure3": _figure3, "figure4": _figure4, "figure5": _figure5}


def _why_curve(answer: dict[str, Any], seeds: int) -> str:
    """Return why densities of the left panel are not the published one."""
    if not answer["published_peak"]:
        return OURS_ALONE
    name, low, high = answer["algorithm"], answer["lowest_total_variation"], answer["highest_total_variation"]
    spread = f"Other simulations: over {seeds} seeds total variations are from {low:.2f} to {high:.2f}."
    if answer["form"] == "as improved":
        return f"{spread} The published curve is the algorithm without our changes."
    if name.startswith(("DME", "KELFI")):
        return (
            f"{spread} The paper keeps λ fixed without saying at what, here 0.001. The approximate marginal "
            "likelihood scores the density at one point: its optimum depends on the draws and on λ, and may collapse "
            "the posterior onto few of them. One curve that comes near says little."
        )
    if name == "GPS-ABC":
        return f"{spread} The paper shows its best two runs."
    if name == "K2-ABC":
        return f"{spread} The paper does not state ε; here a tenth of the simulations lies within it."
    return f"{spread} Median distances as in the paper; it does not state its regularization, here 0.001."


def _why_bar(ours: dict[str, Any], seeds: int) -> str:
    """Return why intervals of the right panel are not the published one."""
    if ours["published_low"] is None:
        return OURS_ALONE
    ratio = ours["width"] / (ours["published_high"] - ours["published_low"])
    held = f"hold the true value in {ours['times_covered']} of {seeds} runs"
    found = f"Ours are {ratio:.1f} times as wide on average, and {held}"
    points = sum(run["intervals"][0][1] - run["intervals"][0][0] < COLLAPSED for run in ours["runs"])
    if points:
        found += f"; {points} collapsed onto a point"
    if ours["algorithm"] in EARLIER:
        return f"{found}: {ours['n_simulations']:,.0f} simulations here, {EARLIER[ours['algorithm']]}."
    return f"{found}. The paper states neither where its simulations were placed nor its hyperparameters."


def _as_markdown(rows: list[Row], numbers: dict[str, Any]) -> str:
    """Return a page with a table for each figure, after what to know about it."""
    lines = [TITLE, ""]
    for figure, notes in NOTES.items():
        shown = [row for row in rows if row.figure == figure]
        if figure in COMPARISONS and not shown:
            continue
        lines += [f"## Figure {figure.removeprefix('figure')}", "", *(f"- {note}" for note in notes), ""]
        if shown:
            lines += Table("", *tabulated(shown)).as_markdown()
            lines += ["", *(f"{number}. {reason}" for reason, number in reasons(shown).items())]
            lines += ["", f"![Figure {figure.removeprefix('figure')}]({figure}.png)", ""]
        for table in TABLES[figure](numbers[figure]) if figure in TABLES and figure in numbers else ():
            lines += [f"### {table.title}", "", *table.as_markdown(), ""]
    return "\n".join(lines)
