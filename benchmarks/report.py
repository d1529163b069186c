"""Results as files: figures in JSON, tables in Markdown beside a description of the machine, and a picture."""

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import matrix_gigaflops
from decond.plotting import COLORS

OURS = "decond"
LIMIT = "limit"
LIBRARIES = ("numpy", "scipy", "scikit-learn")
PEER_LIBRARIES = ("jax", "torch", "gpytorch", "coreax", "pyabc", "sbi")
STYLES = {
    OURS: (COLORS["model"], "o-"),
    LIMIT: (COLORS["truth"], "--"),
    "GPyTorch": (COLORS["observed"], "s-"),
    "GPyTorch, LU": (COLORS["observed"], "d:"),
    "GPyTorch SGPR": (COLORS["observed"], "s-"),
    "scikit-learn": (COLORS["density"], "^-"),
    "Nyström + ridge": (COLORS["density"], "^-"),
    "plain JAX": (COLORS["initial"], "v-"),
    "plain NumPy": (COLORS["initial"], "v-"),
    "coreax": (COLORS["observed"], "s-"),
    "pyABC SMC": (COLORS["observed"], "s-"),
    "sbi NPE": (COLORS["density"], "^-"),
}
"""Color and line of every system, the same in all pictures."""


def with_ratios(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of seconds by system with ratios added: us to the limit, and every peer to us."""
    ratios = {}
    if _is_time(row.get(LIMIT)) and _is_time(row.get(OURS)):
        ratios[f"{OURS} / {LIMIT}"] = row[OURS] / row[LIMIT]
    for name in STYLES:
        if name not in (OURS, LIMIT) and _is_time(row.get(name)) and _is_time(row.get(OURS)):
            ratios[f"{name} / {OURS}"] = row[name] / row[OURS]
    return {**row, **ratios}


def show(result: Mapping[str, Any]) -> str:
    """Return a result as text: its tables and figures."""
    return "\n".join([f"# {result['benchmark']}", "", *_notes(result), *_tables(result), *_figures(result)])


def write(
    folder: Path,
    name: str,
    result: Mapping[str, Any],
    computer: Mapping[str, Any],
    plot: Callable[[Mapping[str, Any]], Any] | None,
) -> None:
    """Write NAME.json, NAME.md and, where there is a plot, NAME.png."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": computer, **result}, indent=2, ensure_ascii=False, default=float)
    (folder / f"{name}.json").write_text(text + "\n")
    page = [show(result), "", "## Machine", "", *(f"- {key}: {value}" for key, value in computer.items())]
    if plot is not None:
        plot(result).savefig(folder / f"{name}.png", dpi=130)
        shown = (plot.__doc__ or "Seconds by system").splitlines()[0].removeprefix("Draw ").rstrip(".")
        page += ["", f"![{shown}]({name}.png)"]
    (folder / f"{name}.md").write_text("\n".join(page) + "\n")


def machine(peers: str | None) -> dict[str, Any]:
    """Describe the computer and the versions that figures depend on; nothing that names it or its folders."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    described = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": f"{memory:.0f} GB",
        "matrix products, float64": f"{matrix_gigaflops():.0f} · 10⁹ operations a second",
        "system": platform.system(),
        "Python": platform.python_version(),
        "BLAS": _blas(),
    }
    described.update({name: importlib.metadata.version(name) for name in LIBRARIES})
    return {**described, **_peer_versions(peers)}


def plot_times(ax: Any, rows: list[dict[str, Any]], size: str, title: str) -> None:
    """Draw seconds against a size, both logarithmic, a line for each system in the rows."""
    for name, (color, style) in STYLES.items():
        timed = [(row[size], row[name]) for row in rows if _is_time(row.get(name))]
        if timed:
            ax.plot(*np.transpose(timed), style, color=color, label=name, lw=1.6, ms=4.5)
    ax.set(xscale="log", yscale="log", xlabel=size, ylabel="seconds")
    ax.set_title(title, fontsize=9, loc="left")
    ax.grid(alpha=0.25, lw=0.5)
    ax.legend(frameon=False, fontsize=8)
    ax.tick_params(which="both", labelsize=8)
    sizes = sorted({row[size] for row in rows})
    ax.set_xticks(sizes, [_short(count) for count in sizes])
    ax.xaxis.minorticks_off()


def _short(count: int) -> str:
    """Return a count as few letters: a power of ten as such."""
    power = len(str(count)) - 1
    return f"$10^{power}$" if power > 3 and count == 10**power else f"{count:,}"


def markdown_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as the lines of a Markdown table; columns in the order in which they first appear."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---:|" * len(names)]
    return lines + ["| " + " | ".join(_cell(row.get(name, "")) for name in names) + " |" for row in rows]


def _notes(result: Mapping[str, Any]) -> list[str]:
    return [line for note in result.get("notes", []) for line in (f"- {note}",)] + [""]


def _tables(result: Mapping[str, Any]) -> list[str]:
    tables = {name: value for name, value in result.items() if _is_table(value)}
    return [line for name, rows in tables.items() for line in (f"## {name}", "", *markdown_table(rows), "")]


def _figures(result: Mapping[str, Any]) -> list[str]:
    figures = {k: v for k, v in result.items() if k not in ("benchmark", "notes") and not _is_table(v)}
    if not figures:
        return []
    return ["| figure | value |", "|---|---|", *(f"| {name} | {_cell(value)} |" for name, value in figures.items())]


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _is_time(value: Any) -> bool:
    return isinstance(value, float)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100.0 else f"{value:.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).replace("|", r"\|")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _blas() -> str:
    import scipy.linalg  # noqa: F401  (loads the library that is then described)
    from threadpoolctl import threadpool_info

    found = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    described = {
        f"{p['internal_api']} {p['version']} ({p['architecture']}, {p['num_threads']} threads)" for p in found
    }
    return ", ".join(sorted(described))


def _peer_versions(peers: str | None) -> dict[str, str]:
    """Ask the peers' interpreter for the versions of what it has."""
    if peers is None:
        return {}
    program = (
        "import importlib.metadata, json, sys\n"
        "have = {d.metadata['Name'].lower(): d.version for d in importlib.metadata.distributions()}\n"
        "print(json.dumps({f'{n} (peer)': have[n] for n in sys.argv[1:] if n in have}))"
    )
    done = subprocess.run([peers, "-c", program, *PEER_LIBRARIES], check=True, capture_output=True, text=True)
    versions: dict[str, str] = json.loads(done.stdout)
    return versions
