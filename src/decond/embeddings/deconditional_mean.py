"""The deconditional mean operator: a function from its conditional means, and Bayes' rule with kernels."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from decond.checks import as_row, check_choice, frozen
from decond.embeddings.conditional_mean import (
    ConditionalMeanOperator,
    Operator,
    check_regularization,
    fitted,
    query_rows,
)
from decond.embeddings.covariance import CovarianceOperator, CrossCovarianceOperator
from decond.embeddings.mean_embedding import MeanEmbedding, weights_expectation
from decond.errors import ArgumentError
from decond.features import FeatureKernel, FeatureMap, as_kernel
from decond.kernels.kernel import Kernel
from decond.linalg import LowRankPlusNoise, add_to_diagonal, cholesky, multiply

__all__ = ["DeconditionalMeanOperator"]

FORMS = ("auto", "task", "transformation", "features")


class DeconditionalMeanOperator(Operator):
    """C̄'_X|Y = Ψ̃ [AᵀKA + mεI]⁻¹ AᵀΦᵀ with A = (L + nλI)⁻¹ L̃ (Definition 4.3, Theorem 4.3 of the paper).

    Estimated from pairs (x, y), from any joint distribution with the right p(x | y), and separate draws `y_prior`
    of Y. `regularization` is the paper's λ, `evidence_regularization` its ε. Three computational forms give the
    same answer; ``form="auto"`` takes the cheapest: "task" (m x m), "transformation" (n x n, or of the size of
    the features of y if these are fewer) and "features" (p x p, when `kernel_x` is a feature map).

    As Bayes' rule: X is observed, Y unknown, `y_prior` are draws of the prior, and `embedding(x)` is the posterior
    of Y given X = x, on the prior draws.

    >>> from decond.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(-3, 3, 200)
    >>> x = y + 0.1 * rng.standard_normal(200)
    >>> dmo = DeconditionalMeanOperator(RBF(0.5), RBF(0.5), 1e-4, 1e-4).fit(x, y, rng.uniform(-3, 3, 300))
    >>> abs(dmo.embedding([1.0]).normalized().expectation(lambda y: y[:, 0]) - 1.0) < 0.05
    True
    """

    settings = ("regularization", "evidence_regularization", "form")

    def __init__(
        self,
        kernel_x: Kernel | FeatureMap,
        kernel_y: Kernel | FeatureMap,
        regularization: float = 1e-3,
        evidence_regularization: float = 1e-3,
        form: str = "auto",
    ) -> None:
        check_choice(form, "form", FORMS)
        self.kernel_x, self.kernel_y = as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_y, "kernel_y")
        self.regularization = check_regularization(regularization, "regularization")
        self.evidence_regularization = check_regularization(evidence_regularization, "evidence_regularization")
        self.form = form

    def fit(self, x: ArrayLike, y: ArrayLike, y_prior: ArrayLike) -> Self:
        """Estimate the operator from paired rows (x, y) and draws of the prior of Y.

        Parameters
        ----------
        x : array_like of shape (n, d)
            First half of the pairs.
        y : array_like of shape (n, e)
            Second half of the pairs.
        y_prior : array_like of shape (m, e)
            Draws of the prior of Y.

        Returns
        -------
        self
        """
        likelihood = ConditionalMeanOperator(self.kernel_x, self.kernel_y, self.regularization).fit(x, y)
        prior_rows = frozen(query_rows(self.kernel_y, y_prior, "y_prior", likelihood.y_))
        self.x_, self.y_, self.smoother_ = likelihood.x_, likelihood.y_, likelihood.smoother_
        self.y_prior_: np.ndarray = prior_rows
        self.form_ = self._cheapest_form() if self.form == "auto" else self.form
        noise = len(self.y_prior_) * self.evidence_regularization
        rows = self.smoother_.rows(self.y_prior_)
        if self.form_ == "task":
            self._fit_task(self.smoother_.bridge_transposed(rows), noise)
        else:
            self._fit_low_rank(rows, noise)
        return self

    def weights(self, x_query: ArrayLike) -> np.ndarray:
        """Return [AᵀKA + mεI]⁻¹ Aᵀ k(x_query), shape (m, q): weights on the prior draws for each query."""
        fitted(self, "form_")
        queries = query_rows(self.kernel_x, x_query, "x_query", self.x_)
        if self.form_ == "features":
            features = self._feature_kernel().features.transform(queries).T
            return self.evidence_.solve_rows(self._feature_kernel().variance * features)
        cross = self.kernel_x.gram(self.x_, queries)
        if self.form_ == "task":
            return self.evidence_factor_.solve(multiply(self.transformation_.T, cross))
        return self.evidence_.solve_rows(self.smoother_.bridge(cross))

    def deconditional_mean(self, g_values: ArrayLike, x_query: ArrayLike) -> np.ndarray:
        """Return f(x) at the queries, given g(y) = E[f(X) | Y = y] at the prior draws.

        Parameters
        ----------
        g_values : array_like of shape (m,) or (m, t)
            g, or several functions, at the prior draws.
        x_query : array_like of shape (q, d)
            Where f is wanted.

        Returns
        -------
        ndarray of shape (q,) or (q, t)
        """
        return weights_expectation(self.weights(x_query), g_values, "g_values", "y_prior")

    def embedding(self, x_query_row: ArrayLike) -> MeanEmbedding:
        """Return the posterior of Y given X = x, a `MeanEmbedding` on the prior draws."""
        row = as_row(x_query_row, "x_query_row", labels=self.kernel_x.accepts_labels)
        weights = self.weights(row)[:, 0]
        return MeanEmbedding(self.kernel_y, self.y_prior_, weights)

    def joint_operator(self) -> CrossCovarianceOperator:
        """Return the joint operator Ĉ_X|Y C̃_YY = (1/m) Φ A Ψ̃ᵀ, of weights A/m between x and the prior draws.

        Equation B.5 and the rows DMO of Table F.1 of the paper. It embeds the joint distribution of the likelihood
        and the prior.

        Returns
        -------
        CrossCovarianceOperator
            On x (n points) and `y_prior` (m points), with weights (n, m).

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> y = np.linspace(0, 6, 50)
        >>> dmo = DeconditionalMeanOperator(RBF(), RBF(), 1e-6).fit(np.sin(y), y, [1.0, 2.0])
        >>> round(dmo.joint_operator().expectation(np.sin(y), [1.0, 2.0]), 3)  # E[X Y], Y = 1 or 2
        1.33
        """
        A = self._transformation()
        return CrossCovarianceOperator(self.kernel_x, self.kernel_y, self.x_, self.y_prior_, A / A.shape[1])

    def evidence_operator(self) -> CovarianceOperator:
        """Return the evidence operator Ĉ_X|Y C̃_YY Ĉ_X|Yᵀ = (1/m) Φ A Aᵀ Φᵀ, of weights AAᵀ/m on x.

        Equation B.6 and the rows DMO of Table F.1 of the paper. It encodes the second moment of conditional means,
        ⟨f, C′_XX f⟩ = E[E[f(X) | Y]²]; it is that of X itself only if X is a function of Y (Theorem 6.1).

        Returns
        -------
        CovarianceOperator
            On x, with weights (n, n).

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> y = np.linspace(0, 6, 50)
        >>> dmo = DeconditionalMeanOperator(RBF(), RBF(), 1e-6).fit(np.sin(y), y, [1.0, 2.0])
        >>> round(dmo.evidence_operator().expectation(np.sin(y), np.sin(y)), 3)  # E[X²], Y = 1 or 2
        0.767
        """
        A = self._transformation()
        return CovarianceOperator(self.kernel_x, self.x_, multiply(A, A.T) / A.shape[1])

    def _transformation(self) -> np.ndarray:
        """Return A = (L + nλI)⁻¹ L̃ (n, m)."""
        fitted(self, "form_")
        return self.transformation_ if self.form_ == "task" else self.smoother_.weights(self.y_prior_)

    def _fit_task(self, transformation: np.ndarray, noise: float) -> None:
        """Factor AᵀKA + mεI, m x m (equation 4.4)."""
        gram = self.kernel_x.gram(self.x_, self.x_)
        evidence = multiply(transformation.T, multiply(gram, transformation))
        add_to_diagonal(evidence, noise)
        self.transformation_ = transformation
        self.evidence_factor_ = cholesky(evidence, "AᵀKA + mεI")

    def _fit_low_rank(self, rows: np.ndarray, noise: float) -> None:
        """Factor the same matrix through n x n (the alternative form) or p x p (the parametric form)."""
        if self.form_ == "transformation":
            prior = self.smoother_.sandwich(self.kernel_x.gram(self.x_, self.x_))
        else:
            kernel = self._feature_kernel()
            features = kernel.features.transform(self.x_)  # Φᵀ
            rows = multiply(self.smoother_.bridge(features).T, rows)  # ΦA, p x m
            prior = kernel.variance * np.eye(features.shape[1])
        self.evidence_ = LowRankPlusNoise(rows, prior, noise, "the evidence operator + εI")

    def _cheapest_form(self) -> str:
        sizes = {"task": len(self.y_prior_), "transformation": self.smoother_.rank}
        if isinstance(self.kernel_x, FeatureKernel):
            sizes["features"] = self.kernel_x.features.transform(self.x_[:1]).shape[1]
        return min(sizes, key=lambda form: sizes[form])

    def _feature_kernel(self) -> Any:
        if not isinstance(self.kernel_x, FeatureKernel):
            raise ArgumentError(
                "form",
                f'form="features" needs a feature map as kernel_x, but it is {self.kernel_x!r}. Pass for example '
                'features.RandomFourier(...), or use form="auto".',
            )
        return self.kernel_x
