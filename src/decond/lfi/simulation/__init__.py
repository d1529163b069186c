"""Simulations: `run` plans and collects them, `backend` distributes, `worker` makes one call, `store` keeps rows."""

from decond.lfi.simulation.run import SimulationOptions, batched, simulate, simulate_with, takes_batches
from decond.lfi.simulation.store import SimulationStore, open_store

__all__ = [
    "SimulationOptions",
    "SimulationStore",
    "batched",
    "open_store",
    "simulate",
    "simulate_with",
    "takes_batches",
]
