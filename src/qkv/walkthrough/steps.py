"""The steps of a walk, one function each: what is shown of a run, in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ops.precision import Array
from .experiments import overflow, saturation
from .parts import Heat, Line, Matrix, Part, Shapes, Step, Table, word
from .run import Run

FEW = 12  # rows of numbers that are listed one by one


def lay_out(run: Run) -> list[Step]:
    """All steps of a run, in order; the mask only if there is one, several heads only if there are."""
    steps = [embedding(run), projections(run), qkv(run), scores(run), scaling(run), why_scaling(run)]
    if run.setup.causal:
        steps.append(mask(run))
    steps += [softmax(run), why_maximum(run), output(run)]
    if run.setup.heads > 1:
        steps.append(multi_head(run))
    return [*steps, heat_map(run), observations(run)]


def one_head(run: Run) -> list[Step]:
    """The steps from queries, keys and values to the output of one head of a larger model."""
    Q, K, V = (run.values[name] for name in "QKV")
    m = _axes(run)[-1]
    shapes = Shapes((("Q", "(n, d_k)", Q.shape), ("K", f"({m}, d_k)", K.shape), ("V", f"({m}, d_v)", V.shape)))
    token = Line("walk.row_of", {"token": run.tokens[run.row], "number": run.row})
    start = Step("qkv", "q, k, v", (shapes, token, *_three_rows(run)), tuple(_by_feature(run, name) for name in "QKV"))
    between = [on_the_way(run) if run.stages else scaling(run), *([] if run.visible is None else [mask(run)])]
    steps = [start, scores(run), *between, softmax(run)]
    return [*steps, weighted_sum(run), heat_map(run)]


def _three_rows(run: Run) -> tuple[Part, ...]:
    """Query, key and value of the chosen token, under each other where they are equally wide."""
    if run.keys:  # a token that looks at others has a query alone
        return (Matrix("", run.values["Q"][run.row : run.row + 1], ("q",), run.numbered(run.setup.d_k)),)
    if run.setup.d_k != run.setup.d_v:
        single = {name: run.values[name][run.row : run.row + 1] for name in "QKV"}
        return tuple(Matrix("", x, (name.lower(),), run.numbered(x.shape[1])) for name, x in single.items())
    three = np.stack([run.values[name][run.row] for name in "QKV"])
    return (Matrix("", three, ("q", "k", "v"), run.numbered(run.setup.d_k)),)


def _by_feature(run: Run, name: str) -> Matrix:
    value = run.values[name]
    rows = run.looked_at if name in ("K", "V") else run.tokens
    return Matrix(name, value, rows, run.numbered(value.shape[1]))


def _axes(run: Run) -> str:
    """Queries and keys: two letters where they are two sequences."""
    return "n, m" if run.keys else "n, n"


def _by_token(run: Run, name: str, visible: Array | None = None) -> Matrix:
    return Matrix(name, run.values[name], run.tokens, run.looked_at, visible)


def embedding(run: Run) -> Step:
    facts = {"n": run.n, "d_model": run.setup.d_model, "seed": run.setup.seed}
    return Step("embedding", "X (n, d_model)", (Line("walk.embedding", facts), _by_feature(run, "X")))


def projections(run: Run) -> Step:
    widths = {"W_Q": "(d_model, d_k)", "W_K": "(d_model, d_k)", "W_V": "(d_model, d_v)"}
    shapes = Shapes(tuple((name, axes, run.values[name].shape) for name, axes in widths.items()))
    several = (Line("walk.first_head"),) if run.setup.heads > 1 else ()
    roles = tuple(Line(f"walk.role_{name}") for name in "QKV")
    details = tuple(
        Matrix(name, run.values[name], run.numbered(run.setup.d_model), run.numbered(run.values[name].shape[1]))
        for name in widths
    )
    return Step("projections", "W_Q, W_K, W_V", (Line("walk.projections"), *roles, *several, shapes), details)


def qkv(run: Run) -> Step:
    n, d_model = run.values["X"].shape
    axes = {"Q": "(n, d_k)", "K": "(n, d_k)", "V": "(n, d_v)"}
    shapes = Shapes(tuple((name, axes[name], run.values[name].shape) for name in "QKV"))
    facts = {"n": n, "d_model": d_model, "d_k": run.setup.d_k, "d_v": run.setup.d_v}
    shape = Line("walk.qkv" if run.setup.d_k == run.setup.d_v else "walk.qkv_wide", facts)
    token = Line("walk.row_of", {"token": run.tokens[run.row], "number": run.row})
    details = tuple(_by_feature(run, name) for name in "QKV")
    parts: tuple[Part, ...] = (shape, shapes, token, *_three_rows(run))
    return Step("qkv", "Q = X W_Q   K = X W_K   V = X W_V", parts, details)


def scores(run: Run) -> Step:
    Q, K, raw = run.values["Q"], run.values["K"], run.values["scores"]
    i, j = (2, 0) if run.n > 2 else (run.n - 1, 0)
    facts = {"i": i, "j": j, "query": run.tokens[i], "key": run.looked_at[j], "score": raw[i, j]}
    sizes = {"n": run.n, "m": len(run.looked_at), "d_k": run.setup.d_k}
    terms = tuple((d, Q[i, d], K[j, d], Q[i, d] * K[j, d]) for d in range(run.setup.d_k))
    total = (word("sum"), "", "", raw[i, j])
    product = Table((word("dimension"), "q", "k", "q k"), terms, total, (None, 4, 4, 4))
    parts = (Line("walk.scores", sizes), Line("walk.scores_meaning", facts), _by_token(run, "scores"))
    return Step("scores", "scores = Q Kᵀ", parts, (Line("walk.dot_product", facts), product))


def scaling(run: Run) -> Step:
    raw, root = run.values["scores"], np.sqrt(run.setup.d_k)
    ranges = tuple(
        (name, values.min(), values.max(), values.std()) for name, values in (("scores", raw), ("scaled", raw / root))
    )
    table = Table(("", word("smallest"), word("largest"), word("spread")), ranges, digits=(None, 4, 4, 4))
    facts = {"d_k": run.setup.d_k, "root": root}
    scaled = Matrix("scaled", raw / root, run.tokens, run.looked_at)
    return Step("scaling", "scaled = scores / √d_k", (Line("walk.scaling", facts), table), (scaled,))


def on_the_way(run: Run) -> Step:
    """What a model does to the scores besides, or instead of, dividing them by √d_k."""
    ranges = tuple((name, values.min(), values.max(), values.std()) for name, values in run.stages)
    table = Table(("", word("smallest"), word("largest"), word("spread")), ranges, digits=(None, 4, 4, 4))
    raw, scaled = (values for _, values in run.stages[:2])
    largest = np.unravel_index(np.abs(raw).argmax(), raw.shape)
    facts = {"scale": scaled[largest] / raw[largest]}
    name, last = run.stages[-1]
    formula = " → ".join(name for name, _ in run.stages)
    details = (Matrix(name, last, run.tokens, run.looked_at),)
    return Step("scaling", formula, (Line("see.stages", facts), table), details)


def why_scaling(run: Run) -> Step:
    n_keys = min(max(run.n, 2), 16)  # one key alone always weighs 1, and a long sentence adds nothing
    cases = saturation(n_keys, seed=run.setup.seed)
    rows = tuple((c.d_k, word("yes") if c.scaled else word("no"), c.spread, c.largest, c.gradient) for c in cases)
    table = Table(
        ("d_k", word("scaled"), word("spread"), word("largest_weight"), word("slope")),
        rows,
        digits=(None, None, 2, 2, 3),
    )
    _, narrow, wide, rescued = cases
    facts = {
        "n": n_keys, "d_k": wide.d_k, "spread": wide.spread, "largest": wide.largest, "slope": wide.gradient,
        "slope_scaled": rescued.gradient, "narrow": narrow.d_k, "slope_narrow": narrow.gradient,
    }  # fmt: skip
    return Step(
        "why_scaling", "Var(q · k) = d_k", (Line("walk.why_scaling", facts), table, Line("walk.saturated", facts))
    )


def mask(run: Run) -> Step:
    seen = np.tri(run.n, dtype=bool) if run.visible is None else run.visible
    parts: tuple[Part, ...] = (Line("walk.mask"),)
    formula = "scaled[i, j] = -inf,  j > i"
    if not seen[np.tri(run.n, dtype=bool)].all():
        size = int(seen.sum(axis=-1).max())
        parts, formula = (*parts, Line("see.window", {"window": size})), f"{formula}  ∨  j ≤ i - {size}"
    return Step("mask", formula, (*parts, _by_token(run, "scaled", run.visible)))


def softmax(run: Run) -> Step:
    row, w = run.values["scaled"][run.row], run.values["weights"]
    shifted = row - row.max()
    exp = np.exp(shifted)
    rows = tuple((key, row[j], shifted[j], exp[j], w[run.row, j]) for j, key in enumerate(run.looked_at))
    total = (word("sum"), "", "", exp.sum(), w[run.row].sum())
    table = Table(
        (word("key"), word("scaled"), word("minus_max"), "exp", word("weight")),
        rows,
        total,
        (None, 4, 4, 4, 8),
    )
    sums = w.sum(axis=-1)
    listed = "  ".join(f"{x:.12g}" for x in sums[:FEW]) + ("  …" if run.n > FEW else "")
    facts = {"token": run.tokens[run.row], "number": run.row}
    all_sums = Line("walk.row_sums", {"n": run.n, "sums": listed, "error": np.abs(sums - 1).max()})
    said = "walk.softmax_masked" if run.setup.causal else "walk.softmax"
    parts = (Line(said), Line("walk.row_of", facts), table, all_sums)
    return Step("softmax", "weights = exp(scaled - max) / Σ", parts, (_by_token(run, "weights", run.visible),))


def why_maximum(run: Run) -> Step:
    rows = tuple(
        (str(case.scores.dtype), *numbers)
        for case in overflow()
        for numbers in zip(case.scores, case.naive_exp, case.naive, case.stable)
    )
    table = Table(("dtype", "s", "exp(s)", word("naive"), word("with_max")), rows)
    parts = (Line("walk.why_maximum"), table, Line("walk.overflow"))
    return Step("why_maximum", "exp(s) / Σ exp(s) = exp(s - m) / Σ exp(s - m)", parts)


def weighted_sum(run: Run) -> Step:
    """The values of one row, each with its weight, and their sum."""
    V, w, out = run.values["V"], run.values["weights"][run.row], run.values["output"]
    shown = min(V.shape[1], 6)
    heads = (word("key"), word("weight"), *(f"w·v[{d}]" for d in range(shown)))
    rows = tuple((key, w[j], *(w[j] * V[j, :shown])) for j, key in enumerate(run.looked_at))
    total = (word("sum"), w.sum(), *out[run.row, :shown])
    table = Table(heads, rows, total, (None, 4, *(4,) * shown))
    token = Line("walk.row_of", {"token": run.tokens[run.row], "number": run.row})
    return Step("output", "output = weights V", (Line("walk.output"), token, table), (_by_feature(run, "output"),))


def output(run: Run) -> Step:
    X, out = run.values["X"], run.values["output"]
    shapes = Shapes((("X", "(n, d_model)", X.shape), ("output", "(n, d_v)", out.shape)))
    same = "walk.same_shape" if out.shape == X.shape else "walk.other_shape"
    step = weighted_sum(run)
    compared = (shapes, Line(same, {"d_v": out.shape[1], "d_model": X.shape[1]}))
    return replace(step, parts=(*step.parts, *compared))


def multi_head(run: Run) -> Step:
    assert run.multi_head_output is not None
    assert run.W_O is not None
    heads, setup = run.setup.heads, run.setup
    joined = (run.n, heads * setup.d_v)
    shapes = Shapes((
        ("head h", "(n, d_v)", (run.n, setup.d_v)), ("concat", "(n, heads · d_v)", joined),
        ("W_O", "(heads · d_v, d_model)", run.W_O.shape), ("output", "(n, d_model)", run.multi_head_output.shape),
    ))  # fmt: skip
    maps = tuple(Heat(f"head {h}", w, run.tokens, run.tokens, run.visible) for h, w in enumerate(run.heads))
    apart = np.mean([np.abs(a - b).sum(axis=-1).mean() / 2 for h, a in enumerate(run.heads) for b in run.heads[:h]])
    facts = {"heads": heads, "d_model": setup.d_model, "d_k": setup.d_k, "d_v": setup.d_v, "apart": apart}
    out = Matrix("output", run.multi_head_output, run.tokens, run.numbered(setup.d_model))
    between = ", " if heads == 2 else ", ..., "
    formula = f"output = concat(head_0{between}head_{heads - 1}) W_O"
    parts: tuple[Part, ...] = (Line("walk.multi_head", facts), shapes, *maps, Line("walk.heads_apart", facts))
    return Step("multi_head", formula, parts, (out,))


def heat_map(run: Run) -> Step:
    name = "weights" if run.setup.heads == 1 else "weights[0]"
    heat = Heat(name, run.values["weights"], run.tokens, run.looked_at, run.visible)
    return Step("heat_map", f"weights ({_axes(run)})", (Line("walk.heat_map"), heat))


def observations(run: Run) -> Step:
    w, n, d = run.values["weights"], run.n, run.setup.d_k
    best = w.argmax(axis=-1)
    strongest = tuple((run.tokens[i], run.tokens[best[i]], w[i, best[i]]) for i in range(n))
    links = Table((word("query"), word("strongest"), word("weight")), strongest, digits=(None, None, 4))
    lengths = (n, 512, 4096, 131072)
    costs = tuple((m, m * m, 2 * m * m * d, _size(4 * m * m)) for m in lengths)
    cost = Table(("n", word("scores_count"), word("products"), word("memory")), costs)
    joined = run.multi_head_output is not None
    facts = {"n": n, "d_model": run.setup.d_model, "d_out": run.setup.d_model if joined else run.setup.d_v}
    products = Line("walk.six_products" if joined else "walk.five_products")
    lines = (Line("walk.in_out", facts), Line("walk.middle", facts), products, Line("walk.cost"))
    return Step("observations", "O(n²)", (*lines, cost), (links,))


def _size(n_bytes: int) -> str:
    """Bytes in a unit that keeps the number short."""
    size, units = float(n_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.4g} {units[0]}"
