"""Independent slow reference of the method: NumPy, one layer at a time, exact SVD."""

import numpy as np


class Reference:
    """The sheet's seven steps, written out; `layers` is a list of (kind, array)."""

    def __init__(
        self,
        layers,
        *,
        matrix_norm,
        other_norm,
        aggregation,
        constrained,
        truncate,
        lr,
        beta=0.95,
        beta2=0.95,
        eps=1e-8,
        weight_decay=0.1,
        ratio=10.0,
        f_star=0.0,
        scales=None,
    ):
        self.kinds = [kind for kind, _ in layers]
        self.w = [np.array(w, dtype=np.float64) for _, w in layers]
        self.norms = [matrix_norm if k == "matrix" else other_norm for k in self.kinds]
        own = scales or [1.0] * len(layers)
        s = ratio if constrained else np.sqrt(ratio)
        self.s = [o * (s if n == "spectral" else 1.0) for o, n in zip(own, self.norms)]
        self.aggregation, self.constrained, self.truncate = aggregation, constrained, truncate
        self.lr, self.beta, self.beta2, self.eps = lr, beta, beta2, eps
        self.weight_decay, self.f_star = weight_decay, f_star
        self.m = self.v = self.Fbar = self.F = None

    def dual_and_lmo(self, i):
        m, v, s = self.m[i], self.v[i], self.s[i]
        if self.norms[i] == "spectral":
            U, S, Vh = np.linalg.svd(m.reshape(m.shape[0], -1), full_matrices=False)
            keep = 1e-7 * S.max() < S
            return s * S.sum(), s * (U[:, keep] @ Vh[keep]).reshape(m.shape)
        if self.norms[i] == "linf":
            return s * np.abs(m).sum(), s * np.sign(m)
        if self.norms[i] == "adam_inf":
            return s * (m**2 / (np.sqrt(v) + self.eps)).sum(), s * m / (np.sqrt(v) + self.eps)
        if self.norms[i] == "adam_2":
            D = np.sqrt((m**2 / (np.sqrt(v) + self.eps)).sum())
            return s * D, s * m / ((np.sqrt(v) + self.eps) * D)
        D = np.linalg.norm(m)
        return s * D, s * m / D

    def step(self, gradients, loss=None):
        g = [np.asarray(x, dtype=np.float64) for x in gradients]
        if self.m is None:
            self.m, self.v = [x.copy() for x in g], [x * x for x in g]
        self.m = [self.beta * m + (1 - self.beta) * x for m, x in zip(self.m, g)]
        self.v = [self.beta2 * v + (1 - self.beta2) * x * x for v, x in zip(self.v, g)]
        gw = sum((x * w).sum() for x, w in zip(g, self.w))
        mw = sum((m * w).sum() for m, w in zip(self.m, self.w))
        pairs = [self.dual_and_lmo(i) for i in range(len(self.w))]
        D = [dual for dual, _ in pairs]
        matrix = [kind == "matrix" for kind in self.kinds]
        self.S = sum(d for d, is_m in zip(D, matrix) if is_m)
        if self.aggregation == "linf":
            G, a = sum(D), [1.0] * len(D)
        elif self.aggregation == "l2":
            G = np.sqrt(sum(d * d for d in D))
            a = [d / G for d in D]
        else:
            G = np.sqrt(self.S**2 + sum(d * d for d, is_m in zip(D, matrix) if not is_m))
            a = [(self.S if is_m else d) / G for d, is_m in zip(D, matrix)]
        eta = self.lr
        if self.truncate:
            q = loss - gw
            self.Fbar = q if self.Fbar is None else self.beta * self.Fbar + (1 - self.beta) * q
            self.F = self.Fbar + mw
            eta = min(eta, max(self.F - self.f_star, 0) / (G if self.constrained else G * G))
        self.D, self.G, self.a, self.eta = D, G, a, eta
        self.lmo = [lmo for _, lmo in pairs]
        length = eta * (1 if self.constrained else G)
        self.moves = [-length * a_l * lmo for a_l, lmo in zip(a, self.lmo)]
        decay = 1 - self.lr * self.weight_decay
        self.w = [decay * w + d for w, d in zip(self.w, self.moves)]

    def product_norm(self, z):
        """The product norm of a move, from the table's definitions of each layer norm."""
        lengths = [self.layer_norm(i, x) for i, x in enumerate(z)]
        if self.aggregation == "linf":
            return max(lengths)
        if self.aggregation == "l2":
            return np.sqrt(sum(x * x for x in lengths))
        of = {True: [0.0], False: [0.0]}
        for kind, x in zip(self.kinds, lengths):
            of[kind == "matrix"].append(x)
        return np.sqrt(max(of[True]) ** 2 + sum(x * x for x in of[False]))

    def layer_norm(self, i, z):
        m, v, s = self.m[i], self.v[i], self.s[i]
        if self.norms[i] == "spectral":
            return np.linalg.svd(z.reshape(z.shape[0], -1), compute_uv=False).max() / s
        if self.norms[i] == "linf":
            return np.abs(z).max() / s
        if self.norms[i] == "adam_inf":
            return ((np.sqrt(v) + self.eps) * np.abs(z) / np.abs(m)).max() / s
        if self.norms[i] == "adam_2":
            return np.sqrt(((np.sqrt(v) + self.eps) * z * z).sum()) / s
        return np.linalg.norm(z) / s
