"""Worked problems with known truth."""

from decond.problems.epidemic import sir
from decond.problems.exponential_gamma import exponential_gamma
from decond.problems.gaussian_linear_uniform import gaussian_linear_uniform
from decond.problems.latent_function import LatentFunctionProblem, latent_function
from decond.problems.lotka_volterra import lotka_volterra
from decond.problems.simulator_problem import SimulatorProblem
from decond.problems.two_moons import two_moons

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
