"""Run the benchmarks and print their figures: ``python -m benchmarks``."""

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import (
    calibration,
    cold_start,
    evidence,
    exponential_gamma,
    herding,
    honest_bands,
    inference_speed,
    lotka_volterra,
    real_data,
    sbi_tasks,
    sparse,
)

RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    "evidence": evidence.run,
    "herding": herding.run,
    "honest_bands": honest_bands.run,
    "real_data": real_data.run,
    "cold_start": cold_start.run,
    "sparse": sparse.run,
    "exponential_gamma": exponential_gamma.run,
    "lotka_volterra": lotka_volterra.run,
    "calibration": calibration.run,
    "sbi_tasks": sbi_tasks.run,
    "inference_speed": inference_speed.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and accuracy, side by side.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run, of {', '.join(RUNS)}; all by default"
    )
    parser.add_argument("--data", type=Path, help="real_data: folder with the files that decond does not come with")
    parser.add_argument("--tasks", type=Path, help="sbi_tasks: folder with observations and reference posteriors")
    parser.add_argument("--peers", help="inference_speed: a Python that has the packages of benchmarks/peers.txt")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in RUNS]
    if unknown:
        parser.error(f"{unknown[0]} is no benchmark; choose from {', '.join(RUNS)}")
    options: dict[str, dict[str, Any]] = {
        "real_data": {"folder": arguments.data},
        "sbi_tasks": {"tasks": arguments.tasks},
        "inference_speed": {"peers": arguments.peers},
    }
    results = []
    for name in arguments.names or RUNS:
        result = RUNS[name](**options.get(name, {}))
        results.append(result)
        print(f"\n{result['benchmark']}")
        for key, value in result.items():
            if key != "benchmark":
                print(f"  {key:32s} {value:.3f}" if isinstance(value, float) else f"  {key:32s} {value}")
    if arguments.json:
        report = {"machine": platform.processor() or platform.machine(), "results": results}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
