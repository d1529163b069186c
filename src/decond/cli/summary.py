"""What a fit found, in words and in the user's units."""

from dataclasses import dataclass
from typing import Any

from rich.table import Table

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
            table.add_row(words, f"{value:.4g}")
        table.add_section()
        table.add_row("log evidence", f"{self.log_evidence:.4f}")
        warnings = [f"Warning: {text}" for text in self.warnings]
        return [self.title, table, f"{self.status}: {self.message}", *warnings, *self.notes]


def summarize(job: Job, warnings: list[str]) -> Summary:
    """Return the summary of a fitted job."""
    from decond.reports.checks import edge_name
    from decond.reports.hyperparameters import Names, hyperparameters

    found = job.estimator.fit_result_
    named = hyperparameters(found, Names(job.request.x, job.request.y, job.request.z))
    return Summary(
        title=f"{job.request.z} as a function of {', '.join(job.request.x)}, from {job.words}",
        hyperparameters={item.name: item.value for item in named},
        log_evidence=float(found.log_evidence),
        status=found.status,
        message=found.message,
        evaluations=found.evaluations,
        warnings=warnings + [_on_edge(edge_name(name)) for name in found.on_bounds],
        notes=job.notes,
    )


def _on_edge(name: str) -> str:
    """Return what to know about a parameter on the edge of its range."""
    return (
        f"the learned {name} sits on the edge of the range that was searched: these tables say little about it. "
        "Look at the picture, and trust the error bars there less."
    )
