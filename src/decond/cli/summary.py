"""What a fit found, in words and in the user's units."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from decond.cli.jobs import Job

__all__ = ["Summary", "as_options", "summarize"]

HELD_OUT = "log density of held-out targets"
OPTIONS = {
    'targets="mean"': "--targets mean",
    'targets="single"': "--targets single",
    'uncertainty="honest"': "--uncertainty honest",
    "group_sizes": "--group-sizes",
}
"""Arguments that sentences of checks name, and the options of the same meaning."""


@dataclass(frozen=True)
class Summary:
    """Learned hyperparameters, evidence, and what to know about them."""

    title: str
    facts: list[str]
    """What the targets were taken for."""
    hyperparameters: dict[str, float]
    """Values by words, in the user's units."""
    ranges: dict[str, tuple[float, float]]
    """95 % ranges by the same words, where hyperparameters were sampled."""
    candidates: dict[str, float]
    """Weights of the candidate models, by name."""
    log_evidence: float | None
    """None where hyperparameters were sampled."""
    held_out_log_density: float | None
    """Log density of each target given the others, summed; None where the log evidence is known."""
    status: str
    message: str
    evaluations: int
    warnings: list[str]
    notes: list[str]

    def parts(self) -> list[Any]:
        """Return what is printed: the title, the table, and sentences."""
        table = Table(show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for words, value in self.hyperparameters.items():
            table.add_row(Text(words), f"{value:.4g}{self._range(words)}")
        table.add_section()
        for words, score in (("log evidence", self.log_evidence), (HELD_OUT, self.held_out_log_density)):
            if score is not None:
                table.add_row(words, f"{score:.4f}")
        warnings = [f"Warning: {text}" for text in self.warnings]
        sentences = [f"{self.status}: {self.message}", *warnings, *self.notes]
        return [self.title, *self.facts, table, *self._candidates(), *sentences]

    def _range(self, words: str) -> str:
        if words not in self.ranges:
            return ""
        low, high = self.ranges[words]
        return f" ({low:.3g} to {high:.3g})"

    def _candidates(self) -> list[Table]:
        """Return the table of candidate models, if there are several."""
        if len(self.candidates) < 2:
            return []
        table = Table("candidate model", "weight")
        table.columns[1].justify = "right"
        for name, weight in self.candidates.items():
            table.add_row(Text(name), f"{weight:.2f}")
        return [table]


def summarize(job: Job, warnings: list[str]) -> Summary:
    """Return the summary of a fitted job."""
    from decond.reports.fit_checks import edges
    from decond.reports.fitted_data import facts_in_words
    from decond.reports.hyperparameters import Names, candidate_weights, hyperparameters, sampled_values

    found = job.estimator.fit_result_
    targets = next((job.data[name] for name in ("z_groups", "z_task") if name in job.data), job.z_of_rows)
    on_edges = edges(found, targets)
    names = Names(job.request.x, job.request.y, job.request.z)
    named = hyperparameters(found, names, sampled_values(job.estimator))
    sampled = found.status == "sampled"
    return Summary(
        title=f"{job.request.z} as a function of {', '.join(job.request.x)}, from {job.words}",
        facts=facts_in_words(job.estimator, job.data),
        hyperparameters={item.name: item.value for item in named},
        ranges={item.name: item.range for item in named if item.range is not None},
        candidates=candidate_weights(job.estimator),
        log_evidence=None if sampled else float(found.log_evidence),
        held_out_log_density=float(found.log_evidence) if sampled else None,
        status=found.status,
        message=_with_options(found.message, job.request.sparse),
        evaluations=found.evaluations,
        warnings=job.warnings + warnings + [edge.sentence for edge in on_edges if not edge.harmless],
        notes=job.notes + [_capital(edge.sentence) for edge in on_edges if edge.harmless],
    )


def as_options(text: str) -> str:
    """Return a sentence with the options of the command in place of arguments of Python.

    >>> as_options('Your targets look like single measurements: see targets="single".')
    'Your targets look like single measurements: see --targets single.'
    """
    for argument, option in OPTIONS.items():
        text = text.replace(argument, option)
    return text


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _with_options(message: str, sparse: bool) -> str:
    """Return what a search says of its end, with the options of the command in place of arguments."""
    from decond.gp.fit import MORE

    options = "more --restarts, or more --max-iterations" if sparse else "more --restarts"
    return message.replace(MORE, options)
