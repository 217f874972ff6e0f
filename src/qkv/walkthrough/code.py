"""The few lines of NumPy that give the numbers of a walk, for the reader to run."""

from __future__ import annotations

from .setup import Setup


def numpy_code(setup: Setup, n: int) -> str:
    """A program that needs NumPy alone.

    Examples
    --------
    >>> from .setup import EXAMPLES
    >>> print(numpy_code(EXAMPLES["apple-tree"], 7).splitlines()[2])
    np.random.seed(42)
    """
    lines = ["import numpy as np", "", *_drawing(setup, n), "", *_HEAD]
    if setup.causal:
        lines.append(f"    scaled = np.where(np.tri({n}, dtype=bool), scaled, -np.inf)")
    lines += _SOFTMAX
    if setup.heads == 1:
        lines += ["", "weights, output = head(W_Q, W_K, W_V)"]
    else:
        lines += [
            "", "heads = [head(*W) for W in Ws]",
            "weights = heads[0][0]",
            "output = np.concatenate([out for _, out in heads], axis=-1) @ W_O",
        ]  # fmt: skip
    return "\n".join([*lines, "print(weights)", "print(output)", ""])


_HEAD = [
    "def head(W_Q, W_K, W_V):",
    "    Q, K, V = X @ W_Q, X @ W_K, X @ W_V",
    "    scores = Q @ K.T",
    "    scaled = scores / np.sqrt(K.shape[-1])",
]
_SOFTMAX = [
    "    exp = np.exp(scaled - scaled.max(axis=-1, keepdims=True))",
    "    weights = exp / exp.sum(axis=-1, keepdims=True)",
    "    return weights, weights @ V",
]


def _drawing(setup: Setup, n: int) -> list[str]:
    d_model, d_k, d_v, heads, seed = setup.d_model, setup.d_k, setup.d_v, setup.heads, setup.seed
    if setup.rng == "legacy":
        start = [f"np.random.seed({seed})", f"X = np.random.randn({n}, {d_model})"]
        three = [f"np.random.randn({d_model}, {width})" for width in (d_k, d_k, d_v)]
        if heads == 1:
            return [*start, *(f"{name} = {draw}" for name, draw in zip(("W_Q", "W_K", "W_V"), three))]
        return [
            *start, f"Ws = [({', '.join(three)}) for _ in range({heads})]",
            f"W_O = np.random.randn({heads * d_v}, {d_model})",
        ]  # fmt: skip
    start = [
        f"X = np.random.default_rng({seed}).normal(0, 1, ({n}, {d_model}))",
        "",
        "def xavier(rng, d_in, d_out):",
        "    return rng.normal(0, np.sqrt(2 / (d_in + d_out)), (d_in, d_out))",
        "",
    ]
    if heads == 1:
        widths = f"({d_k}, {d_k}, {d_v})"
        return [
            *start, f"rng = np.random.default_rng({seed})",
            f"W_Q, W_K, W_V = (xavier(rng, {d_model}, width) for width in {widths})",
        ]  # fmt: skip
    return [
        *start, f"rngs = [np.random.default_rng({seed} + h) for h in range({heads})]",
        f"Ws = [[xavier(rng, {d_model}, width) for width in ({d_k}, {d_k}, {d_v})] for rng in rngs]",
        f"W_O = xavier(np.random.default_rng({seed + heads}), {heads * d_v}, {d_model})",
    ]  # fmt: skip
