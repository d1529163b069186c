"""Worked problems with known truth."""

from decond.problems.latent_function import LatentFunctionProblem, latent_function

__all__ = ["LatentFunctionProblem", "latent_function"]
