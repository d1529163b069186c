"""Learning from conditional distributions as a saddle point: a neighbor of the paper, on the same two tables."""

from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from decond.checks import as_count, as_number, as_rows, as_seed, as_targets
from decond.conditional.mediator import linked_mediators
from decond.errors import DataWarning
from decond.estimators.coded import CodedMediator, coded, fourier
from decond.estimators.feature_rows import feature_rows
from decond.estimators.regressor import IndirectRegressor
from decond.estimators.saddle import Saddle, descend
from decond.estimators.saddle_choice import RIDGES, choose, dual_ridge, pair_weights
from decond.messages import warn
from decond.threads import one_blas_thread

__all__ = ["DualEmbedding"]

SAMPLE = 2_000
"""Pairs that first say how long steps are; with no more than these, one step ends in the saddle point."""

LEAST_FOR_A_LABEL = 4
"""Features for each label beside numbers, with fewer of which a warning is given."""


class DualEmbedding(IndirectRegressor):
    """f from pairs (x, y) and task rows (y, z) by the dual embedding of Dai, He, Pan, Boots & Song (2017).

    E[f(x) | y] is never estimated. A second function u, of the mediator, asks where it differs from E[z | y], and f
    is what leaves u nothing to say: min over f, max over u of E[f(x) u(y)] - E[z u(y)] - ½ E[u(y)²]. Both are linear
    in random Fourier features of Gaussian kernels (u in indicators if y is labels), with a ridge each, ν and η, and
    are found by stochastic updates on minibatches of both tables. There are no error bars.

    The published u is a function of mediator and target. With a squared loss one of the mediator alone has the same
    f: the objective changes by a constant. The published method has triples; here the first mean is over pairs and
    the others over task rows, so pairs are weighted by how frequent their y is among task rows: by a density ratio,
    which for labels is a ratio of counts. Labels beside numbers share features: a warning says if these are too few
    to keep the labels apart. Lengthscales and ν are chosen on held-out task rows, from at most 1,000 rows of each
    table; η is fixed. If the largest ν that is tried does best, a warning says that f is hardly more than a constant.

    Variance is reduced as by Palaniappan & Bach (2016), and steps are scaled by covariances of the features: from
    2,000 pairs, and from more where updates get stuck. With no more pairs than that the first step ends in the
    saddle point. With more it could be had in closed form too, at no higher cost: the updates are there because the
    method is.

    Parameters:
        n_features: how many random features f and u have each.
        regularization: ν, the ridge of f, times the number of rows of the shorter table; None chooses it.
        batch_size: rows of each table that an update sees.
        max_epochs: epochs at most. One is two passes over the tables: all rows at once, then minibatches.
        tolerance: updates end when f is nearer to the saddle point than this share of the targets' deviation, as far
            as gradients over all rows and steps scaled by some tell.
        seed: of features, samples and minibatches.

    Fitted attributes: `features_x_` and `weights_` of f, `regularization_` (ν times rows), `lengthscale_x_` and
    `lengthscale_y_` (None for labels), `n_epochs_`, and `distance_` from the saddle point, estimated as in
    `tolerance`.

    >>> from decond.problems import latent_function
    >>> p = latent_function()
    >>> DualEmbedding().fit(p.x, p.y, p.y_task, p.z_task).predict(p.x[:5]).shape
    (5,)
    """

    def __init__(
        self,
        n_features: int = 200,
        regularization: float | None = None,
        batch_size: int = 1000,
        max_epochs: int = 50,
        tolerance: float = 1e-3,
        seed: int = 0,
    ) -> None:
        self.n_features = n_features
        self.regularization = regularization
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.tolerance = tolerance
        self.seed = seed

    @one_blas_thread()
    def fit(self, x: Any, y: Any, y_task: Any, z_task: Any) -> Self:
        """Learn from pairs (x, y) and task rows (y_task, z_task)."""
        self._check_settings()
        rows = as_rows(self._remember_columns(x, "x"), "x")
        y, y_task = linked_mediators(rows, y, y_task)
        z = as_targets(z_task, "z_task", len(y_task), "y_task")
        mediator, pairs, task = coded(y, y_task, z)
        self._warn_of_crowded_labels(mediator)
        rows, z = rows[pairs], z[task]
        standard, offset, scale = self._standardized(z.reshape(len(z), -1))
        self.offset_ = offset.reshape(z.shape[1:])
        seed = as_seed(self.seed)
        saddle = self._saddle(rows, mediator, standard, seed)
        rng = np.random.default_rng(seed)
        found = descend(saddle, self.batch_size, self.max_epochs, self.tolerance, SAMPLE, rng)
        self.weights_ = (found.point.w * scale).reshape(-1, *z.shape[1:])
        self.n_epochs_, self.distance_ = found.epochs, found.distance
        if found.distance > self.tolerance:
            warn(
                f"after {found.epochs} epochs f is still about {found.distance:.1e} deviations of the targets away "
                f"from the saddle point, more than the tolerance of {self.tolerance:g}. Raise max_epochs or "
                "batch_size.",
                ConvergenceWarning,
            )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return f at the rows of X."""
        rows = as_rows(self._known_columns(X), "x")
        return self.features_x_.transform(rows) @ self.weights_ + self.offset_

    def _check_settings(self) -> None:
        for name in ("n_features", "batch_size", "max_epochs"):
            as_count(getattr(self, name), name)
        as_number(self.tolerance, "tolerance", minimum=0.0, strict=True)
        if self.regularization is not None:
            as_number(self.regularization, "regularization", minimum=0.0, strict=True, remedy="None chooses it.")

    def _warn_of_crowded_labels(self, mediator: CodedMediator) -> None:
        if not mediator.only_labels and self.n_features < LEAST_FOR_A_LABEL * mediator.n_labels:
            warn(
                DataWarning(
                    "y",
                    f"y has {mediator.n_labels} labels beside numbers, for which n_features={self.n_features} is too "
                    f"few: u mixes the labels up. Give n_features={10 * mediator.n_labels} or more, or leave the "
                    "numbers out.",
                )
            )

    def _standardized(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the targets less their mean, in units of their deviation; the mean; and these units."""
        offset = z.mean(axis=0)
        deviation = z.std(axis=0)
        moves = deviation > 1e-12 * np.abs(z).max(axis=0)
        scale = np.where(moves, deviation, 1.0)
        return np.where(moves, (z - offset) / scale, 0.0), offset, scale

    def _saddle(self, x: np.ndarray, mediator: CodedMediator, z: np.ndarray, seed: int) -> Saddle:
        """Return the saddle with the chosen lengthscales and ridge."""
        ridges = RIDGES if self.regularization is None else np.array([float(self.regularization)])
        chosen = choose(x, mediator, z, self.n_features, seed, ridges)
        if self.regularization is None and chosen.ridge == RIDGES[-1]:
            _warn_of_a_constant(chosen.ridge)
        self.lengthscale_x_, self.lengthscale_y_ = chosen.lengthscale_x, chosen.lengthscale_y
        self.regularization_ = chosen.ridge
        self.features_x_ = fourier(chosen.lengthscale_x, self.n_features, seed)
        features_y = mediator.features(chosen.lengthscale_y, self.n_features, seed + 1)
        psi, psi_task = (feature_rows(features_y, table) for table in (mediator.pairs, mediator.task))
        ratio = pair_weights(mediator, chosen.lengthscale_y, self.n_features, seed + 1)
        nu = self.regularization_ / min(len(x), len(z))
        phi = feature_rows(self.features_x_, x)
        return Saddle(phi, psi, psi_task, z, ratio, nu, dual_ridge(mediator))

    def _fitted_state(self) -> dict[str, Any]:
        names = ("features_x", "weights", "offset", *KEPT)
        return {**self._fitted_columns(), **{name: getattr(self, f"{name}_") for name in names}}

    def _restore(self, state: dict[str, Any]) -> None:
        self._restore_columns(state)
        for name in ("features_x", "weights", "offset", *KEPT):
            setattr(self, f"{name}_", state[name])


KEPT = ("regularization", "lengthscale_x", "lengthscale_y", "n_epochs", "distance")
"""What a file keeps beside what predictions need."""


def _warn_of_a_constant(ridge: float) -> None:
    warn(
        DataWarning(
            "x",
            f"the largest ridge that is tried, {ridge:g}, does best on held-out task rows, so f is hardly more than "
            "a constant: the tables say little about f, or it has too many columns for their rows. Give more rows or "
            "fewer columns, or regularization.",
        )
    )
