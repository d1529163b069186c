"""Run the benchmarks and print one table: ``python -m benchmarks``."""

import argparse
import json
import platform
from pathlib import Path

from benchmarks import evidence, herding

RUNS = {"evidence": evidence.run, "herding": herding.run}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed as ratios within one run.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run, of {', '.join(RUNS)}; all by default"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in RUNS]
    if unknown:
        parser.error(f"{unknown[0]} is no benchmark; choose from {', '.join(RUNS)}")
    results = []
    for name in arguments.names or RUNS:
        result = RUNS[name]()
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
