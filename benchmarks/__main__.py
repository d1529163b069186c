"""Run the benchmarks and print their figures: ``python -m benchmarks``."""

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import cold_start, evidence, herding, honest_bands, real_data, sparse

RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    "evidence": evidence.run,
    "herding": herding.run,
    "honest_bands": honest_bands.run,
    "real_data": real_data.run,
    "cold_start": cold_start.run,
    "sparse": sparse.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed and accuracy, side by side.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run, of {', '.join(RUNS)}; all by default"
    )
    parser.add_argument("--data", type=Path, help="real_data: folder with the files that decond does not come with")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in RUNS]
    if unknown:
        parser.error(f"{unknown[0]} is no benchmark; choose from {', '.join(RUNS)}")
    results = []
    for name in arguments.names or RUNS:
        result = RUNS[name](**({"folder": arguments.data} if name == "real_data" else {}))
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
