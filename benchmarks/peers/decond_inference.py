"""Our likelihood-free inference with its default method; simulations in a store are taken from there."""

from typing import Any

from quadratic import NAMES, OBSERVED, score, simulator
from scipy import stats
from serving import serve

from decond import lfi


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    prior = lfi.Prior({name: stats.uniform(-1, 2) for name in NAMES})

    def evaluate() -> dict[str, Any]:
        sims = lfi.simulate(simulator, prior, problem["simulations"], seed=0, store=problem.get("store"))
        draws = lfi.ResidualLikelihood(seed=0).fit(sims, prior).posterior(OBSERVED).sample(problem["draws"])
        return {**score(draws.mean(axis=0), draws.std(axis=0)), "simulations": len(sims.theta)}

    return {"evaluate": evaluate}


if __name__ == "__main__":
    serve(prepare)
