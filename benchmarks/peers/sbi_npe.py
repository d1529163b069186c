"""Neural posterior estimation by sbi, with its defaults."""

from typing import Any

import numpy as np
import torch
from quadratic import NAMES, OBSERVED, score, simulator
from sbi.inference import NPE
from sbi.utils import BoxUniform
from serving import serve


def prepare(problem: dict[str, Any]) -> dict[str, Any]:
    def evaluate() -> dict[str, Any]:
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        prior = BoxUniform(-torch.ones(len(NAMES)), torch.ones(len(NAMES)))
        theta = prior.sample((problem["simulations"],))
        x = torch.tensor(np.array([simulator(row, rng) for row in theta.numpy()]), dtype=torch.float32)
        trainer = NPE(prior, show_progress_bars=False)
        trainer.append_simulations(theta, x).train()
        posterior = trainer.build_posterior()
        observed = torch.tensor(OBSERVED, dtype=torch.float32)
        draws = posterior.sample((problem["draws"],), x=observed, show_progress_bars=False).numpy()
        return {**score(draws.mean(axis=0), draws.std(axis=0)), "simulations": len(theta)}

    return {"evaluate": evaluate}


if __name__ == "__main__":
    serve(prepare)
