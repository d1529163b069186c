"""Worked problems with known truth."""

from decond.problems.latent_function import LatentFunctionProblem, latent_function
from decond.problems.predator_prey import lotka_volterra
from decond.problems.tasks import (
    SimulatorProblem,
    exponential_gamma,
    gaussian_linear_uniform,
    sir,
    two_moons,
)

__all__ = [
    "LatentFunctionProblem",
    "SimulatorProblem",
    "exponential_gamma",
    "gaussian_linear_uniform",
    "latent_function",
    "lotka_volterra",
    "sir",
    "two_moons",
]
