"""Each equation of "Bayesian Deconditional Kernel Mean Embeddings" (Hsu & Ramos 2019) in plain NumPy.

The paper's convention holds here: columns are points. Phi is (p, n), Psi is (q, n), Psi_tilde is (q, m);
K and L are (n, n), L_tilde is (n, m), L_tilde_tilde is (m, m), and k_star is (n, number of queries).
Inverses are explicit and nothing is reused from the library, so that an agreement means something.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import inv
from numpy.typing import NDArray
from oracle_kernels import rbf

Array = NDArray[np.float64]


# Section 2: mean embeddings and covariance operators


def mean_embedding(Psi: Array, weights: Array | None = None) -> Array:
    """mu_Y = sum_i w_i psi(y_i), with w_i = 1/n (section 2)."""
    n = Psi.shape[1]
    return Psi @ (np.full(n, 1.0 / n) if weights is None else weights)


def cross_covariance(Phi: Array, Psi: Array, weights: Array | None = None) -> Array:
    """C_XY = sum_i w_i phi(x_i) psi(y_i)^T, with w_i = 1/n (section 2)."""
    n = Phi.shape[1]
    return Phi @ np.diag(np.full(n, 1.0 / n) if weights is None else weights) @ Psi.T


def covariance(Psi: Array, weights: Array | None = None) -> Array:
    """C_YY = sum_i w_i psi(y_i) psi(y_i)^T, with w_i = 1/n (section 2)."""
    return cross_covariance(Psi, Psi, weights)


# Section 3: conditional mean operators


def cmo(C_XY: Array, C_YY: Array, lam: float = 0.0) -> Array:
    """C_{X|Y} = C_XY (C_YY + lambda I)^-1 (Theorem 3.1; lambda > 0 relaxes its assumption)."""
    return C_XY @ inv(C_YY + lam * np.eye(len(C_YY)))


def empirical_cmo(Phi: Array, Psi: Array, lam: float) -> Array:
    """The empirical conditional mean operator in feature space (Definition 3.3)."""
    return cmo(cross_covariance(Phi, Psi), covariance(Psi), lam)


def empirical_cmo_nonparametric(Phi: Array, Psi: Array, lam: float) -> Array:
    """Phi (L + n lambda I)^-1 Psi^T (Theorem 3.3)."""
    n = Phi.shape[1]
    return Phi @ inv(Psi.T @ Psi + n * lam * np.eye(n)) @ Psi.T


def transformation(L: Array, L_tilde: Array, lam: float) -> Array:
    """A = (L + n lambda I)^-1 L_tilde (Theorem 4.3); with one column, the weights of the empirical CME."""
    n = len(L)
    return inv(L + n * lam * np.eye(n)) @ L_tilde


def transformation_parametric(Psi: Array, Psi_tilde: Array, lam: float) -> Array:
    """A = Psi^T (Psi Psi^T + n lambda I)^-1 Psi_tilde (Definition 4.5)."""
    q, n = Psi.shape
    return Psi.T @ inv(Psi @ Psi.T + n * lam * np.eye(q)) @ Psi_tilde


# Section 4: deconditional mean operators and estimators


def dmo(C_X_given_Y: Array, C_YY: Array, eps: float = 0.0) -> Array:
    """C'_{X|Y} = (C_{X|Y} C_YY)^T (C_{X|Y} C_YY C_{X|Y}^T + epsilon I)^-1 (Theorem 4.1, Definition 4.3)."""
    joint = C_X_given_Y @ C_YY
    evidence = joint @ C_X_given_Y.T
    return joint.T @ inv(evidence + eps * np.eye(len(evidence)))


def pseudo_inverse(C: Array) -> Array:
    """(C^T C)^-1 C^T (Theorem 4.2)."""
    return inv(C.T @ C) @ C.T


def empirical_dmo(Phi: Array, Psi: Array, Psi_tilde: Array, lam: float, eps: float) -> Array:
    """The empirical deconditional mean operator in feature space (Definition 4.3)."""
    return dmo(empirical_cmo(Phi, Psi, lam), covariance(Psi_tilde), eps)


def dmo_weights(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """[A^T K A + m epsilon I]^-1 A^T k(x), the weights of Theorem 4.3 over the prior points."""
    m = A.shape[1]
    return inv(A.T @ K @ A + m * eps * np.eye(m)) @ A.T @ k_star


def dmo_weights_woodbury(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """A^T [K A A^T + m epsilon I]^-1 k(x), the weights of DMO(W) (Table F.1)."""
    n, m = A.shape
    return A.T @ inv(K @ A @ A.T + m * eps * np.eye(n)) @ k_star


def dme_dual_weights(K: Array, A: Array, z: Array, eps: float) -> Array:
    """alpha_bar = A [A^T K A + m epsilon I]^-1 z (Definition 4.4)."""
    m = A.shape[1]
    return A @ inv(A.T @ K @ A + m * eps * np.eye(m)) @ z


def dme_nonparametric(K: Array, A: Array, z: Array, k_star: Array, eps: float) -> Array:
    """f_bar(x) = z^T [A^T K A + m epsilon I]^-1 A^T k(x) (Definition 4.4)."""
    return z.T @ dmo_weights(K, A, k_star, eps)


def dme_alternative(K: Array, A: Array, z: Array, k_star: Array, eps: float) -> Array:
    """f_bar(x) = z^T A^T [K A A^T + m epsilon I]^-1 k(x) (Definition 4.4, alternative form)."""
    return z.T @ dmo_weights_woodbury(K, A, k_star, eps)


def dme_primal_weights(Phi: Array, A: Array, z: Array, eps: float) -> Array:
    """w_bar = [Phi A A^T Phi^T + m epsilon I]^-1 Phi A z (Definition 4.5)."""
    m = A.shape[1]
    return inv(Phi @ A @ A.T @ Phi.T + m * eps * np.eye(len(Phi))) @ Phi @ A @ z


def dme_parametric(Phi: Array, A: Array, z: Array, Phi_star: Array, eps: float) -> Array:
    """f_bar(x) = z^T A^T Phi^T [Phi A A^T Phi^T + m epsilon I]^-1 phi(x) (Definition 4.5)."""
    m = A.shape[1]
    return z.T @ A.T @ Phi.T @ inv(Phi @ A @ A.T @ Phi.T + m * eps * np.eye(len(Phi))) @ Phi_star


# Section 5: chained losses, transformed and task transformed regression


def inner_loss(v: Array, w: Array, Phi: Array, Psi: Array, lam: float) -> float:
    """(1/n) sum_i (w^T phi(x_i) - v^T psi(y_i))^2 + lambda |v|^2 (Theorem 5.1, first loss)."""
    return ((w @ Phi - v @ Psi) ** 2).mean() + lam * (v @ v)


def inner_solution(w: Array, Phi: Array, Psi: Array, lam: float) -> Array:
    """v_hat[w] = (Psi Psi^T + n lambda I)^-1 Psi Phi^T w (proof of Theorem 5.1)."""
    q, n = Psi.shape
    return inv(Psi @ Psi.T + n * lam * np.eye(q)) @ Psi @ Phi.T @ w


def outer_loss(w: Array, z: Array, Phi: Array, Psi: Array, Psi_tilde: Array, lam: float, eps: float) -> float:
    """(1/m) sum_j (z_j - v_hat[w]^T psi(y_j))^2 + epsilon |w|^2 (Theorem 5.1, second loss)."""
    return ((z - inner_solution(w, Phi, Psi, lam) @ Psi_tilde) ** 2).mean() + eps * (w @ w)


def log_normal(z: Array, mean: Array, covariance: Array) -> float:
    """log N(z; mean, covariance)."""
    r = z - mean
    log_determinant = np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    return float(-0.5 * (r @ inv(covariance) @ r + log_determinant))


def tbkr_evidence(K: Array, M: Array, Sigma: Array, z: Array) -> float:
    """log N(z; 0, M^T K M + Sigma) (Table C.1, evidence of TBKR)."""
    return log_normal(z, np.zeros(len(z)), M.T @ K @ M + Sigma)


def tbkr_posterior(K: Array, M: Array, Sigma: Array, z: Array) -> tuple[Array, Array]:
    """Mean K M S^-1 z and covariance K - K M S^-1 M^T K of f at x (Table C.1, posterior of TBKR)."""
    S_inverse = inv(M.T @ K @ M + Sigma)
    return K @ M @ S_inverse @ z, K - K @ M @ S_inverse @ M.T @ K


def tbkr_predictive(
    K: Array, M: Array, Sigma: Array, z: Array, K_star: Array, K_star_star: Array
) -> tuple[Array, Array]:
    """Mean K*^T M S^-1 z and covariance K** - K*^T M S^-1 M^T K* (Table C.1, predictive of TBKR)."""
    S_inverse = inv(M.T @ K @ M + Sigma)
    return K_star.T @ M @ S_inverse @ z, K_star_star - K_star.T @ M @ S_inverse @ M.T @ K_star


def tblr_posterior(Phi: Array, M: Array, Sigma: Array, z: Array, gamma: float = 1.0) -> tuple[Array, Array]:
    """Mean m = C Phi M Sigma^-1 z and covariance C of the weights (Table C.1, posterior of TBLR)."""
    Theta = Phi @ M
    C = inv(Theta @ inv(Sigma) @ Theta.T + np.eye(len(Phi)) / gamma**2)
    return C @ Theta @ inv(Sigma) @ z, C


def tblr_evidence(Phi: Array, M: Array, Sigma: Array, z: Array, gamma: float = 1.0) -> float:
    """log N(z; 0, [Sigma^-1 - Sigma^-1 M^T Phi^T C Phi M Sigma^-1]^-1) (Table C.1, evidence of TBLR)."""
    Theta, precision = Phi @ M, inv(Sigma)
    C = tblr_posterior(Phi, M, Sigma, z, gamma)[1]
    return log_normal(z, np.zeros(len(z)), inv(precision - precision @ Theta.T @ C @ Theta @ precision))


def tblr_predictive(
    Phi: Array, M: Array, Sigma: Array, z: Array, Phi_star: Array, gamma: float = 1.0
) -> tuple[Array, Array]:
    """Mean Phi*^T m and covariance Phi*^T C Phi* (Table C.1, predictive of TBLR)."""
    m, C = tblr_posterior(Phi, M, Sigma, z, gamma)
    return Phi_star.T @ m, Phi_star.T @ C @ Phi_star


def ttbkr(L: Array, L_tilde: Array, L_tilde_tilde: Array, sigma: float) -> tuple[Array, Array]:
    """M and Sigma of the task transformed kernel model (Theorem 5.3, part 2)."""
    n, m = L_tilde.shape
    inverse = inv(L + sigma**2 * np.eye(n))
    return inverse @ L_tilde, L_tilde_tilde + sigma**2 * np.eye(m) - L_tilde.T @ inverse @ L_tilde


def ttblr(Psi: Array, Psi_tilde: Array, sigma: float, beta: float = 1.0) -> tuple[Array, Array]:
    """M and Sigma of the task transformed linear model (Theorem 5.3, part 1)."""
    q, m = Psi_tilde.shape
    inverse = inv(Psi @ Psi.T + (sigma / beta) ** 2 * np.eye(q))
    return Psi.T @ inverse @ Psi_tilde, sigma**2 * (Psi_tilde.T @ inverse @ Psi_tilde + np.eye(m))


def map_noise(m: int, sigma: float) -> Array:
    """Sigma = sigma^2 I when g is a point estimate (Theorem 5.3, part 4)."""
    return sigma**2 * np.eye(m)


def ttbkr_alternative_evidence(K: Array, A: Array, z: Array, sigma: float) -> float:
    """log N(z; 0, sigma^2 [I - A^T (K A A^T + sigma^2 I)^-1 K A]^-1) (Theorem 5.3, part 4)."""
    n, m = A.shape
    shrinkage = np.eye(m) - A.T @ inv(K @ A @ A.T + sigma**2 * np.eye(n)) @ K @ A
    return log_normal(z, np.zeros(m), sigma**2 * inv(shrinkage))


def leave_one_out(K: Array, M: Array, Sigma: Array, z: Array) -> tuple[Array, Array]:
    """Means and variances of each z_j given all the others, one regression for each j."""
    S = M.T @ K @ M + Sigma
    means, variances = np.empty(len(z)), np.empty(len(z))
    for j in range(len(z)):
        rest = np.arange(len(z)) != j
        gain = S[j, rest] @ inv(S[np.ix_(rest, rest)])
        means[j], variances[j] = gain @ z[rest], S[j, j] - gain @ S[rest, j]
    return means, variances


# Honest error bars (docs/adr/0014): noise of rows that are not listed, smoothness from the pairs, mixtures


def averaging(groups: Array, weights: Array | None = None) -> Array:
    """M (n, m): column j holds the weights of the rows of group j, scaled to sum to one."""
    weights = np.ones(len(groups)) if weights is None else weights
    M = np.array([[w * (g == label) for label in np.unique(groups)] for g, w in zip(groups, weights, strict=True)])
    return M / M.sum(0)


def within_noise(K: Array, M: Array) -> Array:
    """Diagonal of the prior variances of f under the weights in each column of M: what one row says of the mean."""
    n, m = M.shape
    noise = np.zeros((m, m))
    for j in range(m):
        within = sum(M[i, j] * K[i, i] for i in range(n))
        between = sum(M[i, j] * M[k, j] * K[i, k] for i in range(n) for k in range(n))
        noise[j, j] = max(within - between, 0.0)
    return noise


def sampled_groups_noise(K: Array, groups: Array, weights: Array | None = None) -> Array:
    """Diagonal covariance of averages over a sample of each group: (variance within the group) / (sample size).

    The variance is that of the sample times n / (n - 1), n = 1 / sum of squared weights; a group of one row takes
    the mean variance of the others.
    """
    M = averaging(groups, weights)
    sizes = [1.0 / (column**2).sum() for column in M.T]
    several = [size > 1.5 for size in sizes]
    biased = np.diag(within_noise(K, M))
    variances = [v * n / (n - 1.0) for v, n, use in zip(biased, sizes, several, strict=True) if use]
    pooled = np.mean(variances) if variances else 0.0
    own = iter(variances)
    return np.diag([next(own) / n if use else pooled for n, use in zip(sizes, several, strict=True)])


def aggregated_noise(
    groups: Array,
    noise: float,
    individual_noise: float = 0.0,
    weights: Array | None = None,
    repeats: Array | None = None,
) -> Array:
    """Diagonal covariance of noise^2 / repeats + individual_noise^2 sum_i w_ij^2."""
    M = averaging(groups, weights)
    repeats = np.ones(M.shape[1]) if repeats is None else repeats
    return np.diag([noise**2 / r + individual_noise**2 * (w**2).sum() for r, w in zip(repeats, M.T, strict=True)])


def leave_one_pair_out_loss(K: Array, L: Array, ridge: float) -> float:
    """Mean squared RKHS distance of k(x_i, .) to its conditional embedding at y_i, learned from the other pairs."""
    losses = []
    for i in range(len(K)):
        rest = np.arange(len(K)) != i
        w = inv(L[np.ix_(rest, rest)] + ridge * np.eye(len(K) - 1)) @ L[rest, i]
        losses.append(K[i, i] - 2.0 * w @ K[rest, i] + w @ K[np.ix_(rest, rest)] @ w)
    return float(np.mean(losses))


def mixture(means: Array, covariances: Array, weights: Array, center: Array) -> Array:
    """Second moments of a mixture about a center: sum_s w_s [C_s + (m_s - center)(m_s - center)^T]."""
    return sum(
        w * (C + np.outer(m - center, m - center)) for m, C, w in zip(means, covariances, weights, strict=True)
    )


# Section 7 and appendix F: kernel Bayes' rules


def third_order(Features: Array, Phi: Array, Psi: Array, mu: Array, lam: float) -> Array:
    """C_{UX|Y} mu for U with the given features: the tensor E[u phi^T | Y] applied to mu (Table F.1)."""
    n = Phi.shape[1]
    outer = np.einsum("pi,qi->pqi", Features, Phi)
    return outer @ inv(Psi.T @ Psi + n * lam * np.eye(n)) @ Psi.T @ mu


def posterior_operator_I(joint: Array, evidence: Array, eps: float) -> Array:
    """C_XY^T (C_XX + epsilon I)^-1 (Table F.1, regularizer I)."""
    return joint.T @ inv(evidence + eps * np.eye(len(evidence)))


def posterior_operator_II(joint: Array, evidence: Array, eps: float) -> Array:
    """C_XY^T (C_XX^2 + epsilon I)^-1 C_XX (Table F.1, regularizer II)."""
    return joint.T @ inv(evidence @ evidence + eps * np.eye(len(evidence))) @ evidence


def kbr_a_I(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """A^T [K D + m epsilon I]^-1 k(x) over the prior points, D = diag(A 1) (Table F.1, KBR(a)-I)."""
    n, m = A.shape
    return A.T @ inv(K @ np.diag(A.sum(1)) + m * eps * np.eye(n)) @ k_star


def kbr_a_II(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """A^T [(K D)^2 + m^2 epsilon I]^-1 K D k(x) over the prior points (Table F.1, KBR(a)-II)."""
    n, m = A.shape
    KD = K @ np.diag(A.sum(1))
    return A.T @ inv(KD @ KD + m**2 * eps * np.eye(n)) @ KD @ k_star


def kbr_b_I(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """D [K D + m epsilon I]^-1 k(x) over the joint points (Table F.1, KBR(b)-I)."""
    n, m = A.shape
    D = np.diag(A.sum(1))
    return D @ inv(K @ D + m * eps * np.eye(n)) @ k_star


def kbr_b_II(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """D [(K D)^2 + m^2 epsilon I]^-1 K D k(x) over the joint points (Table F.1, KBR(b)-II)."""
    n, m = A.shape
    D = np.diag(A.sum(1))
    return D @ inv(K @ D @ K @ D + m**2 * eps * np.eye(n)) @ K @ D @ k_star


def kbr_b_I_symmetric(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """D^1/2 [D^1/2 K D^1/2 + m epsilon I]^-1 D^1/2 k(x) (appendix F, symmetric form of KBR(b)-I)."""
    n, m = A.shape
    R = np.diag(np.sqrt(A.sum(1)))
    return R @ inv(R @ K @ R + m * eps * np.eye(n)) @ R @ k_star


def kbr_b_II_symmetric(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """D^1/2 [D^1/2 K D K D^1/2 + m^2 epsilon I]^-1 D^1/2 K D k(x) (appendix F, symmetric KBR(b)-II)."""
    n, m = A.shape
    R = np.diag(np.sqrt(A.sum(1)))
    D = R @ R
    return R @ inv(R @ K @ D @ K @ R + m**2 * eps * np.eye(n)) @ R @ K @ D @ k_star


def kbr_importance(K: Array, A: Array, k_star: Array, eps: float) -> Array:
    """Importance-weighted kernel Bayes' rule (Xu et al. 2022), density ratio (n/m) A 1 clipped at zero."""
    n, m = A.shape
    R = np.diag(np.sqrt(np.maximum(n / m * A.sum(1), 0.0)))
    return R @ inv(R @ K @ R + n * eps * np.eye(n)) @ R @ k_star


def dmo_degenerate(K: Array, A: Array, k_star: Array) -> Array:
    """A^T [A A^T]^-1 K^-1 k(x) over the prior points (Table F.2, DMO(W))."""
    return A.T @ inv(A @ A.T) @ inv(K) @ k_star


def kbr_a_degenerate(K: Array, A: Array, k_star: Array) -> Array:
    """A^T D^-1 K^-1 k(x) over the prior points (Table F.2, KBR(a))."""
    return A.T @ np.diag(1.0 / A.sum(1)) @ inv(K) @ k_star


def kbr_b_degenerate(K: Array, k_star: Array) -> Array:
    """K^-1 k(x) over the joint points: no prior left (Table F.2, KBR(b))."""
    return inv(K) @ k_star


# Section 8 and appendix G: likelihood-free inference


def herd(mu: Array, gram_prime: Array, size: int) -> list[int]:
    """Indices of the super-samples: argmax_r mu_r - a_r / s, then a += ell'(., chosen) (Algorithm 8.1)."""
    a, chosen = np.zeros(len(mu)), []
    for s in range(1, size + 1):
        chosen.append(int(np.argmax(mu - a / s)))
        a = a + gram_prime[:, chosen[-1]]
    return chosen


def epsilon_kernel(observed: Array, x: Array, eps: float) -> Array:
    """kappa_eps(y, x_i) = N(y; x_i, eps^2 I) for each row x_i (appendix G)."""
    squared = ((x - observed) ** 2).sum(1)
    return np.exp(-squared / (2.0 * eps**2)) / (2.0 * np.pi * eps**2) ** (x.shape[1] / 2)


def q_bar(kappa: Array, A: Array) -> float:
    """(1/m) kappa^T A 1 = mean(A^T kappa), the approximate marginal likelihood (Theorem G.1)."""
    return float(np.mean(A.T @ kappa))


# Section 8: the toy processes


def gp_mean(x: Array, z: Array, x_star: Array, lengthscale: float = 1.0, sigma: float = 0.0) -> Array:
    """Mean of Gaussian process regression with a unit-amplitude Gaussian kernel."""
    K = rbf(x, x, lengthscale) + sigma**2 * np.eye(len(x))
    return rbf(x_star, x, lengthscale) @ inv(K) @ z


def toy_f(x: Array) -> Array:
    """The latent function of the paper's toy process, (n, 1) to (n,)."""
    return gp_mean(np.array([[-4.0], [-3.0], [-1.0], [0.0], [2.0]]), np.array([-2.0, 0.0, 1.0, 2.0, -1.0]), x)


def toy_r(y: Array) -> Array:
    """The mean of X given Y in the paper's toy process, (n, 1) to (n, 1)."""
    return gp_mean(
        np.array([[-5.0], [-3.0], [-1.0], [1.0], [4.0]]), np.array([[-4.0], [-2.0], [-6.0], [4.0], [6.0]]), y
    )


def toy_data() -> tuple[Array, Array, Array, Array]:
    """x, y, y_tilde, z of the task transformed toy: 100 pairs and 150 tasks."""
    random = np.random.RandomState(100)
    y = random.uniform(-6, 6, (100, 1))
    x = toy_r(y) + 0.25 * random.randn(100, 1)
    random = np.random.RandomState(0)
    y_tilde = random.uniform(-6, 6, (150, 1))
    x_tilde = toy_r(y_tilde) + 0.25 * random.randn(150, 1)
    return x, y, y_tilde, toy_f(x_tilde) + 0.25 * random.randn(150)


def toy_negative_log_evidence(lengthscale_x: float, lengthscale_y: float, sigma: float) -> float:
    """Full-covariance negative log evidence of the toy data (Theorem 5.3, part 3)."""
    x, y, y_tilde, z = toy_data()
    L, L_tilde = rbf(y, y, lengthscale_y), rbf(y, y_tilde, lengthscale_y)
    M, Sigma = ttbkr(L, L_tilde, rbf(y_tilde, y_tilde, lengthscale_y), sigma)
    return -tbkr_evidence(rbf(x, x, lengthscale_x), M, Sigma, z)


def cascade(x: Array, y: Array, y_tilde: Array, z: Array, x_star: Array) -> Array:
    """Regress Y on X, then Z on Y, and compose the two means (section 8.1)."""
    return gp_mean(y_tilde, z, gp_mean(x, y, x_star, sigma=0.25), sigma=0.25)


def impute(x: Array, y: Array, y_tilde: Array, z: Array, x_star: Array) -> Array:
    """Regress Z on Y, predict it at y, then regress those predictions on x (section 8.1)."""
    return gp_mean(x, gp_mean(y_tilde, z, y, sigma=0.25), x_star, sigma=0.25)


def sparse_toy_data() -> tuple[Array, Array, Array]:
    """y_tilde, z and the starting inducing points of the sparse representation toy (section 8.2)."""
    random = np.random.RandomState(100)
    y_tilde = random.uniform(-5, 5, (100, 1))
    z = toy_f(y_tilde) + 0.25 * random.randn(100)
    return y_tilde, z, np.random.RandomState(100).uniform(-5, 5, (5, 1))


def sparse_log_evidence(K: Array, L_tilde: Array, z: Array, sigma: float) -> float:
    """Alternative log evidence with x = y = u and k = l, so K = L, through n x n matrices only (section 8.2).

    The determinant of S = A^T K A + sigma^2 I is sigma^(2(m - n)) |K A A^T + sigma^2 I|, and its inverse is that of
    Theorem 5.3, part 4.
    """
    n, m = L_tilde.shape
    A = transformation(K, L_tilde, sigma**2 / n)
    inner = K @ A @ A.T + sigma**2 * np.eye(n)
    quadratic = (z @ z - z @ A.T @ inv(inner) @ K @ A @ z) / sigma**2
    log_determinant = (m - n) * np.log(sigma**2) + np.linalg.slogdet(inner)[1]
    return float(-0.5 * (quadratic + log_determinant + m * np.log(2.0 * np.pi)))


# Section 7: the marginal likelihood of a conditional mean embedding


def cmo_log_evidence(L: Array, F: Array, lam: float) -> float:
    """sum_t log N(f_t; 0, L + n lambda I), f_t the columns of F (Theorem 5.3, M = I and Sigma = n lambda I)."""
    n = len(L)
    return sum(log_normal(f, np.zeros(n), L + n * lam * np.eye(n)) for f in F.T)


def cmo_log_evidence_of_features(L: Array, K: Array, rank: int, lam: float) -> float:
    """-1/2 tr[(L + n lambda I)^-1 K] - rank/2 log|2 pi (L + n lambda I)|: the same for features of x."""
    n = len(L)
    covariance = L + n * lam * np.eye(n)
    log_determinant = np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    return float(-0.5 * np.trace(inv(covariance) @ K) - 0.5 * rank * log_determinant)


# Appendix B and Table F.1: joint and evidence operators


def dmo_joint(Phi: Array, Psi: Array, Psi_tilde: Array, lam: float) -> Array:
    """C_{X|Y} C_YY with C_YY from the prior points (equation B.5)."""
    return empirical_cmo(Phi, Psi, lam) @ covariance(Psi_tilde)


def dmo_evidence(Phi: Array, Psi: Array, Psi_tilde: Array, lam: float) -> Array:
    """C_{X|Y} C_YY C_{X|Y}^T (equation B.6)."""
    return dmo_joint(Phi, Psi, Psi_tilde, lam) @ empirical_cmo(Phi, Psi, lam).T
