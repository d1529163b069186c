"""Run the benchmarks and print their figures: ``python -m benchmarks``."""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import (
    attack,
    calibration,
    cold_start,
    conditional,
    dual_embedding,
    evidence,
    exponential_gamma,
    herding,
    honest_bands,
    inference_facts,
    inference_speed,
    lotka_volterra,
    mean_embedding,
    mutants,
    out_of_core,
    real_data,
    report,
    sbi_tasks,
    sparse,
    sparse_bands,
    stability,
    task_features,
    two_samples,
    uci,
    zoo,
)
from benchmarks.zoo_problems import KINDS, MULTIPLICATIVE, SMALL_NOISE

RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    "evidence": evidence.run,
    "herding": herding.run,
    "honest_bands": honest_bands.run,
    "real_data": real_data.run,
    "cold_start": cold_start.run,
    "sparse": sparse.run,
    "sparse_bands": sparse_bands.run,
    "exponential_gamma": exponential_gamma.run,
    "lotka_volterra": lotka_volterra.run,
    "calibration": calibration.run,
    "sbi_tasks": sbi_tasks.run,
    "stability": stability.run,
    "inference_facts": inference_facts.run,
    "inference_speed": inference_speed.run,
    "out_of_core": out_of_core.run,
    "task_features": task_features.run,
    "mean_embedding": mean_embedding.run,
    "two_samples": two_samples.run,
    "dual_embedding": dual_embedding.run,
    "conditional": conditional.run,
    "zoo": zoo.run,
    "uci": uci.run,
    "mutants": mutants.run,
    "attack": attack.run,
}
PLOTS: dict[str, Callable[[Any], Any]] = {
    "evidence": evidence.plot,
    "herding": herding.plot,
    "sparse": sparse.plot,
    "inference_speed": inference_speed.plot,
    "mean_embedding": mean_embedding.plot,
    "two_samples": two_samples.plot,
    "dual_embedding": dual_embedding.plot,
    "uci": uci.plot,
}
"""Pictures of results, for those that have one."""

AGAINST_PEERS = ("evidence", "herding", "sparse", "inference_speed")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and accuracy, side by side.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run, of {', '.join(RUNS)}; all by default"
    )
    parser.add_argument(
        "--data", type=Path, help="real_data, uci: folder with the files that decond does not come with"
    )
    parser.add_argument("--points", type=int, nargs="+", default=[128, 256, 512], help="uci: inducing points")
    parser.add_argument("--splits", type=int, default=3, help="uci: how many splits of each table")
    parser.add_argument("--tasks", type=Path, help="sbi_tasks: folder with observations and reference posteriors")
    parser.add_argument("--budgets", type=int, nargs="+", default=[100, 1000, 10_000], help="sbi_tasks: simulations")
    parser.add_argument(
        "--observations", type=int, nargs="+", default=[1, 2, 3], help="sbi_tasks: which of each task"
    )
    parser.add_argument(
        "--peers", help=f"{', '.join(AGAINST_PEERS)}: a Python that has the packages of benchmarks/peers.txt"
    )
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(AGAINST_PEERS)}: small sizes, to try them")
    problems = parser.add_argument_group("zoo")
    problems.add_argument(
        "--kinds",
        nargs="+",
        choices=(*KINDS, MULTIPLICATIVE, SMALL_NOISE),
        help="kinds of problems and small sets; all by default",
    )
    problems.add_argument("--draws", type=int, default=20, help="problems of each kind")
    problems.add_argument("--first-seed", type=int, default=zoo.FIRST_SEED, help="below 1000 to choose settings on")
    problems.add_argument("--jobs", type=int, default=1, help="processes, with one BLAS thread each")
    problems.add_argument("--check", action="store_true", help="count hints of model.check() as well")
    campaign = parser.add_argument_group("attack")
    campaign.add_argument("--tries", type=float, default=0.02, help="the fraction of a whole campaign; 1: all of it")
    campaign.add_argument("--parts", nargs="+", choices=attack.FULL, help="parts of the campaign; all by default")
    parser.add_argument("--results", type=Path, help="folder for NAME.json, NAME.md and NAME.png")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in RUNS]
    if unknown:
        parser.error(f"{unknown[0]} is no benchmark; choose from {', '.join(RUNS)}")
    if arguments.peers and shutil.which(arguments.peers) is None:
        parser.error(f"--peers {arguments.peers} is no program; give the Python of an environment with the peers.")
    against_peers = {"peers": arguments.peers, "quick": arguments.quick}
    options: dict[str, dict[str, Any]] = {
        "real_data": {"folder": arguments.data},
        "uci": {
            "folder": arguments.data,
            "peers": arguments.peers,
            "splits": arguments.splits,
            "points": arguments.points,
        },
        "sbi_tasks": {
            "tasks": arguments.tasks,
            "budgets": arguments.budgets,
            "observations": arguments.observations,
        },
        "zoo": {
            "kinds": arguments.kinds,
            "draws": arguments.draws,
            "first_seed": arguments.first_seed,
            "check": arguments.check,
            "n_jobs": arguments.jobs,
        },
        "attack": {"tries": arguments.tries, "first_seed": arguments.first_seed, "parts": arguments.parts},
        **dict.fromkeys(AGAINST_PEERS, against_peers),
    }
    for name in arguments.names or RUNS:
        computer = report.machine(arguments.peers) if arguments.results else {}
        result = RUNS[name](**options.get(name, {}))
        print(f"\n{report.show(result)}", flush=True)
        if arguments.results:
            report.write(arguments.results, name, result, computer, PLOTS.get(name))


if __name__ == "__main__":
    main()
