"""Draws of the prior where the posterior is: made around the posterior so far, and weighted as draws of the prior."""

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from decond.kernels import Kernel
from decond.lfi.methods.base import Method
from decond.lfi.methods.herded import lengthscales_of

__all__ = ["REFRESHES", "refreshed"]

REFRESHES = 2
"""How often the draws are made anew."""

REFRESHED = 0.75
"""Share of refreshed draws that come from around the posterior so far; the others come from the prior."""

CENTERS = 500
"""Draws of the posterior so far around which new ones are made."""


def refreshed(
    method: Method,
    kernel_theta: Kernel,
    draws: np.ndarray,
    posterior_weights: np.ndarray,
    n: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return up to n draws φ of a proposal around the posterior, mixed with the prior, and weights as prior draws.

    The proposal moves draws of the posterior so far by half a lengthscale of θ. Weights are those of prior draws at
    which a simulation is valid; draws outside the prior's support are left out.
    """
    width = 0.5 * lengthscales_of(kernel_theta, method.phi_)
    centers = draws[rng.choice(len(draws), CENTERS, p=posterior_weights / posterior_weights.sum())]
    near = centers[rng.integers(CENTERS, size=round(REFRESHED * n))]
    near = near + width * rng.standard_normal(near.shape)
    prior = method.prior_
    fresh = np.concatenate([near, prior.to_working(prior.sample(n - len(near), rng))])
    log_prior = prior.log_density_working(fresh)
    fresh, log_prior = fresh[np.isfinite(log_prior)], log_prior[np.isfinite(log_prior)]
    log_near = logsumexp(-0.5 * cdist(fresh / width, centers / width, "sqeuclidean"), axis=1) - np.log(CENTERS)
    log_near -= np.log(np.sqrt(2.0 * np.pi) * width).sum()
    log_proposal = np.logaddexp(np.log(REFRESHED) + log_near, np.log1p(-REFRESHED) + log_prior)
    log_weights = log_prior + method.log_valid_(fresh) - log_proposal
    weights = np.exp(log_weights - log_weights.max())
    return fresh, weights / weights.sum()
