"""Likelihood-free inference, 1,000 simulations, from a fresh process to a posterior: us, pyABC's SMC, sbi's NPE."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peer import NOT_RUN, Peer
from benchmarks.report import OURS, STYLES
from decond.plotting import COLORS
from decond.plotting.display import new_figure

STORED = "decond, simulations stored"
SYSTEMS = {
    OURS: "decond_inference",
    STORED: "decond_inference",
    "pyABC SMC": "pyabc_smc",
    "sbi NPE": "sbi_npe",
}


def run(peers: str | None = None, quick: bool = False) -> dict[str, Any]:
    """Time fresh processes in turn; the best of some rounds."""
    problem = {"simulations": 200 if quick else 1000, "draws": 10_000}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SYSTEMS}
    with tempfile.TemporaryDirectory() as folder:
        stored = {**problem, "store": str(Path(folder) / "runs.sqlite")}
        _cold("decond_inference", stored, sys.executable)
        for _ in range(1 if quick else 3):
            for name, script in SYSTEMS.items():
                python = sys.executable if name in (OURS, STORED) else peers
                if python is not None:
                    found[name].append(_cold(script, stored if name == STORED else problem, python))
                    print(name, found[name][-1], flush=True)
    rows = [_row(name, runs) for name, runs in found.items()]
    ours = rows[0]["seconds"]
    for row in rows[1:]:
        row["times ours"] = row["seconds"] / ours if isinstance(row["seconds"], float) else ""
    return {
        "benchmark": "likelihood-free inference from a cold start",
        "notes": [
            f"Seconds of a fresh process, imports included, that runs {problem['simulations']:,} simulations of 4 "
            f"parameters and draws {problem['draws']:,} samples of the posterior; the best of three rounds in turn. "
            "`simulations stored` takes them from a file instead.",
            "Means and standard deviations of the first round's posterior are compared with the exact ones.",
            "pyABC: ABCSMC, population 100, stopped at the generation that passes the number of simulations; its "
            "posterior is a weighted population. sbi: NPE with its defaults, single round.",
        ],
        "systems": rows,
    }


def plot(result: dict[str, Any]) -> Any:
    """Draw the seconds as bars, and how far means and deviations are from the exact ones."""
    rows = [row for row in result["systems"] if isinstance(row["seconds"], float)][::-1]
    names = [row["system"] for row in rows]
    colors = [STYLES.get(name, (COLORS["band"], ""))[0] for name in names]
    figure, axes = new_figure(3, size=(11.0, 2.6))
    panels = (("seconds", None), ("error of means, in sd", 0.0), ("sd / exact sd", 1.0))
    for ax, (figure_name, ideal) in zip(axes, panels, strict=True):
        bars = ax.barh(names, [row[figure_name] for row in rows], color=colors, alpha=0.8)
        ax.bar_label(bars, fmt="%.2g", fontsize=8, padding=2)
        ax.margins(x=0.15)
        ax.set_title(figure_name, fontsize=9, loc="left")
        ax.tick_params(labelsize=8, labelleft=ax is axes[0])
        if ideal:
            ax.axvline(ideal, color=COLORS["truth"], lw=0.8, ls="--")
    return figure


def _cold(script: str, problem: dict[str, Any], python: str) -> dict[str, Any]:
    with Peer(script, problem, python) as peer:
        answer = peer.ask()
        return {"seconds": peer.age(), **answer}


def _row(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    if not runs:
        return {"system": name, "seconds": NOT_RUN}
    return {"system": name, **runs[0], "seconds": min(run["seconds"] for run in runs)}
