"""What a fit found, in words and in the user's units."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from decond.cli.jobs import Job
from decond.kernels import Categorical, Columns, Linear

__all__ = ["Summary", "summarize"]

NOISES = {"noise": "noise", "individual_noise": "noise in a single row", "mediator_noise": "noise of the mediator"}


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
    found = job.estimator.fit_result_
    named: dict[str, float] = {}
    for path, value in found.parameters.items():
        named.update(_in_words(path, value, found.model, job))
    return Summary(
        title=f"{job.request.z} as a function of {', '.join(job.request.x)}, from {job.words}",
        hyperparameters=named,
        log_evidence=float(found.log_evidence),
        status=found.status,
        message=found.message,
        evaluations=found.evaluations,
        warnings=warnings + [_on_edge(name, job) for name in found.on_bounds],
        notes=job.notes,
    )


def _in_words(path: str, value: Any, model: Any, job: Job) -> dict[str, float]:
    """Return one parameter by words: a lengthscale for each column, deviations instead of variances."""
    owner, _, name = path.rpartition(".")
    target = job.request.z
    if name == "lengthscale":
        columns = job.request.y if "kernel_y" in path else job.request.x
        values = np.broadcast_to(value, len(columns)) if np.size(value) in (1, len(columns)) else np.empty(0)
        return {f"lengthscale of {column}": float(v) for column, v in zip(columns, values, strict=False)}
    if name == "variance":
        return {f"{_part(_find(model, owner))} of {target} (sd)": float(np.sqrt(value))}
    return {f"{NOISES[name]} of {target} (sd)": float(value)} if name in NOISES else {}


def _on_edge(name: str, job: Job) -> str:
    """Return what to know about a parameter on the edge of its range."""
    what = name.partition(" ")[0].rpartition(".")[2].replace("_", " ")
    return (
        f"the learned {what} sits on the edge of the range that was searched: these tables say little about it. "
        "Look at the picture, and trust the error bars there less."
    )


def _find(model: Any, path: str) -> Any:
    """Return the module at a path such as "prior.kernel.parts.0"."""
    for step in path.split("."):
        model = model[int(step)] if step.isdigit() else getattr(model, step)
    return model


def _part(scaled: Any) -> str:
    """Return what a scaled kernel contributes to the function, in words."""
    inner = getattr(scaled, "kernel", None)
    inner = inner.kernel if isinstance(inner, Columns) else inner
    if isinstance(inner, Linear):
        return "linear trend"
    return "effect of the labels" if isinstance(inner, Categorical) else "smooth variation"
