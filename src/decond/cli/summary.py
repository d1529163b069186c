"""What a fit found, in words and in the user's units."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from decond.cli.jobs import Job

__all__ = ["Summary", "summarize"]


@dataclass(frozen=True)
class Summary:
    """Learned hyperparameters, evidence, and what to know about them."""

    title: str
    hyperparameters: dict[str, float]
    """Values by words, in the user's units."""
    log_evidence: float
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
            table.add_row(Text(words), f"{value:.4g}")
        table.add_section()
        table.add_row("log evidence", f"{self.log_evidence:.4f}")
        warnings = [f"Warning: {text}" for text in self.warnings]
        return [self.title, table, f"{self.status}: {self.message}", *warnings, *self.notes]


def summarize(job: Job, warnings: list[str]) -> Summary:
    """Return the summary of a fitted job."""
    from decond.reports.edges import edges
    from decond.reports.hyperparameters import Names, hyperparameters

    found = job.estimator.fit_result_
    targets = next((job.data[name] for name in ("z_groups", "z_task") if name in job.data), job.z_of_rows)
    on_edges = edges(found, targets)
    named = hyperparameters(found, Names(job.request.x, job.request.y, job.request.z))
    return Summary(
        title=f"{job.request.z} as a function of {', '.join(job.request.x)}, from {job.words}",
        hyperparameters={item.name: item.value for item in named},
        log_evidence=float(found.log_evidence),
        status=found.status,
        message=_with_options(found.message, job.request.sparse),
        evaluations=found.evaluations,
        warnings=job.warnings + warnings + [edge.sentence for edge in on_edges if not edge.harmless],
        notes=job.notes + [_capital(edge.sentence) for edge in on_edges if edge.harmless],
    )


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _with_options(message: str, sparse: bool) -> str:
    """Return what a search says of its end, with the options of the command in place of arguments."""
    from decond.learning.fit import MORE

    options = "more --restarts, or more --max-iterations" if sparse else "more --restarts"
    return message.replace(MORE, options)
