"""Kernel Bayes' rules: the third-order relatives of the deconditional operator."""

from typing import Self

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
from decond.embeddings.mean_embedding import MeanEmbedding
from decond.errors import ArgumentError
from decond.features import FeatureMap, as_kernel
from decond.kernels.kernel import Kernel
from decond.linalg import Factor, add_to_diagonal, cholesky, multiply, solve_general

__all__ = ["KernelBayesRule"]


class KernelBayesRule(Operator):
    """Posterior of Y given X = x from pairs (x, y) and prior draws, in the forms of the paper's Table F.1.

    With A = (L + nλI)⁻¹ L̃ and D = diag(A1), weights for a query x are

    - variant "a", regularizer "I":  Aᵀ [KD + mεI]⁻¹ k(x), on the prior draws;
    - variant "a", regularizer "II": Aᵀ [(KD)² + m²εI]⁻¹ KD k(x), on the prior draws;
    - variant "b": the same with D in place of Aᵀ, on the pairs' y;
    - variant "importance" (Xu et al. 2022): (b)-I with negative entries of D set to zero, so that D is a density
      ratio and the matrix to invert is positive definite.

    D^½ is real where D has no negative entry. Then, with S = D^½KD^½, the rules on the pairs' y are solved in the
    symmetric forms of appendix F, D^½ [S + mεI]⁻¹ D^½ k(x) and D^½ [S² + m²εI]⁻¹ S D^½ k(x), by Cholesky. Weights of
    a smoother may be negative, and then the general forms above are solved: the numbers are the same, the work more.

    `regularization` is λ, `evidence_regularization` ε. As ε goes to zero variant "b" forgets the prior; the
    deconditional operator does not.

    >>> from decond.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(-3, 3, 200)
    >>> x = y + 0.1 * rng.standard_normal(200)
    >>> kbr = KernelBayesRule(RBF(0.5), RBF(0.5), variant="importance", evidence_regularization=1e-4)
    >>> posterior = kbr.fit(x, y, rng.uniform(-3, 3, 300)).embedding([1.0])
    >>> abs(posterior.normalized().expectation(lambda y: y[:, 0]) - 1.0) < 0.1
    True
    """

    settings = ("variant", "regularizer", "regularization", "evidence_regularization")

    def __init__(
        self,
        kernel_x: Kernel | FeatureMap,
        kernel_y: Kernel | FeatureMap,
        variant: str = "b",
        regularizer: str = "I",
        regularization: float = 1e-3,
        evidence_regularization: float = 1e-3,
    ) -> None:
        check_choice(variant, "variant", ("a", "b", "importance"))
        check_choice(regularizer, "regularizer", ("I", "II"))
        if variant == "importance" and regularizer == "II":
            raise ArgumentError(
                "regularizer",
                'regularizer is "II" but the importance-weighted rule has one regularizer only. Use "I".',
            )
        self.kernel_x, self.kernel_y = as_kernel(kernel_x, "kernel_x"), as_kernel(kernel_y, "kernel_y")
        self.variant, self.regularizer = variant, regularizer
        self.regularization = check_regularization(regularization, "regularization")
        self.evidence_regularization = check_regularization(evidence_regularization, "evidence_regularization")

    def fit(self, x: ArrayLike, y: ArrayLike, y_prior: ArrayLike) -> Self:
        """Estimate the rule from paired rows (x, y) and draws of the prior of Y.

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
        self.x_, self.y_ = likelihood.x_, likelihood.y_
        self.y_prior_: np.ndarray = prior_rows
        transformation = likelihood.weights(self.y_prior_)
        ratio = transformation.sum(axis=1)
        self.ratio_ = np.maximum(ratio, 0.0) if self.variant == "importance" else ratio
        if self.variant == "a":
            self.transformation_ = transformation
        self.gram_ = self.kernel_x.gram(self.x_, self.x_)
        self.evidence_factor_ = self._symmetric_factor()
        return self

    def weights(self, x_query: ArrayLike) -> np.ndarray:
        """Return the weights for each query: (m, q) on the prior draws for "a", else (n, q) on y."""
        fitted(self, "gram_")
        queries = query_rows(self.kernel_x, x_query, "x_query", self.x_)
        cross = self.kernel_x.gram(self.x_, queries)
        if self.evidence_factor_ is not None:
            return self._symmetric_weights(self.evidence_factor_, cross)
        solved = self._solve(cross)
        return multiply(self.transformation_.T, solved) if self.variant == "a" else self.ratio_[:, None] * solved

    def embedding(self, x_query_row: ArrayLike) -> MeanEmbedding:
        """Return the posterior of Y given X = x."""
        row = as_row(x_query_row, "x_query_row", labels=self.kernel_x.accepts_labels)
        weights = self.weights(row)[:, 0]
        return MeanEmbedding(self.kernel_y, self.y_prior_ if self.variant == "a" else self.y_, weights)

    def joint_operator(self) -> CrossCovarianceOperator:
        """Return the joint operator C̄_XY of Table F.1 of the paper.

        Variant "a" has Ĉ_X|Y C̃_YY = (1/m) Φ A Ψ̃ᵀ, between x and the prior draws; "b" has Ĉ_XY|Y μ̃_Y = (1/m) Φ D Ψᵀ,
        on the pairs; "importance" the same with its clipped D.

        Returns
        -------
        CrossCovarianceOperator
            With weights A/m (n, m), or the diagonal D/m (n,).

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> y = np.linspace(0, 6, 50)
        >>> kbr = KernelBayesRule(RBF(), RBF(), regularization=1e-6).fit(np.sin(y), y, [1.0, 2.0])
        >>> round(kbr.joint_operator().expectation(np.sin(y), y), 3)  # E[X Y], Y = 1 or 2
        1.33
        """
        fitted(self, "gram_")
        m = len(self.y_prior_)
        if self.variant == "a":
            weights = self.transformation_ / m
            return CrossCovarianceOperator(self.kernel_x, self.kernel_y, self.x_, self.y_prior_, weights)
        return CrossCovarianceOperator(self.kernel_x, self.kernel_y, self.x_, self.y_, self.ratio_ / m)

    def evidence_operator(self) -> CovarianceOperator:
        """Return the evidence operator Ĉ_XX|Y μ̃_Y = (1/m) Φ D Φᵀ of Table F.1 of the paper.

        Unlike that of the deconditional operator it embeds X itself: ⟨f, C̄_XX f⟩ = E[f(X)²].

        Returns
        -------
        CovarianceOperator
            On x, with the diagonal D/m (n,) as weights; the clipped D for "importance".

        Examples
        --------
        >>> from decond.kernels import RBF
        >>> y = np.linspace(0, 6, 50)
        >>> kbr = KernelBayesRule(RBF(), RBF(), regularization=1e-6).fit(np.sin(y), y, [1.0, 2.0])
        >>> round(kbr.evidence_operator().expectation(np.sin(y), np.sin(y)), 3)  # E[X²], Y = 1 or 2
        0.767
        """
        fitted(self, "gram_")
        return CovarianceOperator(self.kernel_x, self.x_, self.ratio_ / len(self.y_prior_))

    def _solve(self, cross: np.ndarray) -> np.ndarray:
        """Apply the regularized inverse of the evidence operator; KD is not symmetric."""
        m = len(self.y_prior_)
        weighted = self.gram_ * self.ratio_  # KD
        if self.regularizer == "I":
            matrix, right = weighted.copy(), cross
            add_to_diagonal(matrix, m * self.evidence_regularization)
        else:
            matrix, right = multiply(weighted, weighted), multiply(weighted, cross)
            add_to_diagonal(matrix, m**2 * self.evidence_regularization)
        return solve_general(matrix, right, "the evidence operator of the kernel Bayes' rule")

    def _symmetric_factor(self) -> Factor | None:
        """Factor S + mεI or S² + m²εI with S = D^½KD^½; None for variant "a", and where D has negative entries."""
        if self.variant == "a" or self.ratio_.min() < 0.0:
            return None
        root, m = np.sqrt(self.ratio_), len(self.y_prior_)
        S = root[:, None] * self.gram_ * root
        if self.regularizer == "I":
            add_to_diagonal(S, m * self.evidence_regularization)
            return cholesky(S, "D^½KD^½ + mεI")
        squared = multiply(S, S)
        add_to_diagonal(squared, m**2 * self.evidence_regularization)
        return cholesky(squared, "(D^½KD^½)² + m²εI")

    def _symmetric_weights(self, factor: Factor, cross: np.ndarray) -> np.ndarray:
        """Return D^½ [S + mεI]⁻¹ D^½ k(x), or D^½ [S² + m²εI]⁻¹ D^½ K D k(x) (appendix F)."""
        root = np.sqrt(self.ratio_)[:, None]
        right = cross if self.regularizer == "I" else multiply(self.gram_, self.ratio_[:, None] * cross)
        return root * factor.solve(root * right)
