"""Wrong answers written by hand in many styles, apart from the judge's own bank, each with the name that it should get.

A program that is right, and what to exchange in it. `no_match` stands where the bank has no such mistake.
"""

# ruff: noqa: E501  (what is exchanged in a program stays on one line)
from __future__ import annotations

SDPA_LOOPS = (
    "scaled_dot_product_attention",
    '''
import math

import numpy as np


def scaled_dot_product_attention(Q, K, V, mask=None):
    if Q.ndim > 2:
        parts = [scaled_dot_product_attention(q, k, v, mask) for q, k, v in zip(Q, K, V)]
        return np.array([o for o, _ in parts]), np.array([w for _, w in parts])
    out, weights = [], []
    for i in range(len(Q)):
        row = []
        for j in range(len(K)):
            s = sum(float(a) * float(b) for a, b in zip(Q[i], K[j])) / math.sqrt(Q.shape[1])
            if mask is not None and not mask[i, j]:
                s = -math.inf
            row.append(s)
        top = max(row)
        if top == -math.inf:
            w = [0.0] * len(row)
        else:
            e = [math.exp(s - top) for s in row]
            w = [x / sum(e) for x in e]
        weights.append(w)
        out.append([sum(w[j] * V[j, c] for j in range(len(K))) for c in range(V.shape[1])])
    return np.array(out), np.array(weights)
''',
    {
        "no_scale": [(" / math.sqrt(Q.shape[1])", "")],
        "scale_by_d": [("math.sqrt(Q.shape[1])", "Q.shape[1]")],
        "scale_wrong_size": [("math.sqrt(Q.shape[1])", "math.sqrt(V.shape[1])")],
        "mask_inverted": [("not mask[i, j]", "mask[i, j]")],
        "mask_transposed": [("mask[i, j]", "mask.T[i, j]")],
        "mask_fill_zero": [("                s = -math.inf", "                s = 0.0")],
        "mask_fill_small": [("                s = -math.inf", "                s = -10000.0")],
        "mask_ignored": [("if mask is not None and not mask[i, j]", "if False")],
    },
)  # fmt: skip
SDPA_CHINESE = (
    "scaled_dot_product_attention",
    '''
import numpy as np


def 归一化(分数):
    最大 = np.max(分数, axis=-1, keepdims=True)
    指数 = np.exp(分数 - np.where(np.isfinite(最大), 最大, 0))
    总和 = np.sum(指数, axis=-1, keepdims=True)
    return 指数 / np.where(总和 == 0, 1, 总和)


def scaled_dot_product_attention(Q, K, V, mask=None):
    分数 = np.einsum("...ik,...jk->...ij", Q, K) / np.sqrt(Q.shape[-1])
    if mask is not None:
        分数 = np.where(mask, 分数, -np.inf)
    权重 = 归一化(分数)
    return np.einsum("...ij,...jv->...iv", 权重, V), 权重
''',
    {
        "softmax_no_max": [("分数 - np.where(np.isfinite(最大), 最大, 0)", "分数")],
        "softmax_global_max": [("np.max(分数, axis=-1, keepdims=True)", "np.max(分数)")],
        "softmax_wrong_axis": [("axis=-1, keepdims=True", "axis=-2, keepdims=True")],
        "mask_after_softmax": [("        分数 = np.where(mask, 分数, -np.inf)\n    权重 = 归一化(分数)",
                                "        权重 = 归一化(分数) * mask\n    else:\n        权重 = 归一化(分数)")],
        "scale_after_softmax": [(" / np.sqrt(Q.shape[-1])", ""),
                                ("    权重 = 归一化(分数)", "    权重 = 归一化(分数) / np.sqrt(Q.shape[-1])")],
        "scale_hard_coded": [("np.sqrt(Q.shape[-1])", "np.sqrt(64)")],
        "kv_swapped": [('ik,...jk->...ij", Q, K', 'ik,...jk->...ij", Q, V'), ('iv", 权重, V', 'iv", 权重, K')],
        "qk_swapped": [('ij", Q, K)', 'ij", K, Q)')],
    },
)  # fmt: skip
CAUSAL_CLASS = (
    "causal_attention",
    '''
import numpy as np


class Attention:
    def __init__(self, d):
        self.scale = d ** -0.5

    def visible(self, n):
        return np.arange(n)[:, None] >= np.arange(n)[None, :]

    def weights(self, q, k):
        logits = np.matmul(q, np.swapaxes(k, -2, -1)) * self.scale
        logits[..., ~self.visible(logits.shape[-1])] = -np.inf
        logits -= logits.max(-1, keepdims=True)
        np.exp(logits, out=logits)
        return logits / logits.sum(-1, keepdims=True)

    def __call__(self, q, k, v):
        return np.matmul(self.weights(q, k), v)


def causal_attention(Q, K, V):
    return Attention(Q.shape[-1])(Q, K, V)
''',
    {
        "causal_off_by_one": [("[:, None] >= np", "[:, None] + 1 >= np")],
        "causal_inverted": [("[:, None] >= np", "[:, None] <= np")],
        "causal_missing": [("        logits[..., ~self.visible(logits.shape[-1])] = -np.inf\n", "")],
        "no_scale": [("d ** -0.5", "1.0")],
        "scale_multiplied": [("d ** -0.5", "d ** 0.5")],
        "mask_fill_zero": [("] = -np.inf", "] = 0")],
        "softmax_wrong_axis": [("logits.max(-1, keepdims=True)", "logits.max(-2, keepdims=True)"),
                               ("logits.sum(-1, keepdims=True)", "logits.sum(-2, keepdims=True)")],
    },
)  # fmt: skip
MASK_LOOPS = (
    "causal_mask",
    '''
import numpy as np


def causal_mask(n):
    表 = []
    for i in range(n):
        表.append([j <= i for j in range(n)])
    return np.array(表)
''',
    {
        "causal_off_by_one": [("j <= i", "j < i")],
        "causal_inverted": [("j <= i", "j >= i")],
        "wrong_dtype": [("j <= i", "int(j <= i)")],
    },
)  # fmt: skip
SOFTMAX = (
    "softmax",
    '''
import numpy as np


def softmax(x, axis=-1):
    z = np.moveaxis(np.asarray(x, float), axis, -1)
    z = z - np.amax(z, -1)[..., np.newaxis]
    e = np.e ** z
    return np.moveaxis(e / np.add.reduce(e, -1)[..., np.newaxis], -1, axis)
''',
    {
        "softmax_no_max": [("z - np.amax(z, -1)[..., np.newaxis]", "z")],
        "softmax_global_max": [("np.amax(z, -1)[..., np.newaxis]", "np.amax(z)")],
        "softmax_wrong_axis": [("axis, -1)\n    z = z", "-1, -1)\n    z = z"), ("-1, axis)", "-1, -1)")],
        "integer_result": [("    return np.moveaxis(e / np.add.reduce(e, -1)[..., np.newaxis], -1, axis)",
                            "    y = np.zeros_like(x)\n"
                            "    y[...] = np.moveaxis(e / np.add.reduce(e, -1)[..., np.newaxis], -1, axis)\n    return y")],
    },
)  # fmt: skip
HEADS = (
    "multi_head_attention",
    '''
import numpy as np


def softmax(s):
    s = np.exp(s - s.max(-1, keepdims=True))
    return s / s.sum(-1, keepdims=True)


class 多头:
    def __init__(self, n_heads):
        self.h = n_heads

    def 分(self, x):
        n, d = x.shape
        return np.transpose(x.reshape(n, self.h, d // self.h), (1, 0, 2))

    def 合(self, y):
        h, n, dh = y.shape
        return np.transpose(y, (1, 0, 2)).reshape(n, h * dh)

    def 算(self, q, k, v, mask):
        s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])
        if mask is not None:
            s = np.where(mask[None], s, -1e30)
        return np.einsum("hij,hjd->hid", softmax(s), v)


def multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    m = 多头(n_heads)
    q, k, v = (m.分(x @ W) for W in (W_Q, W_K, W_V))
    return m.合(m.算(q, k, v, mask)) @ W_O
''',
    {
        "heads_reshape_only": [("np.transpose(x.reshape(n, self.h, d // self.h), (1, 0, 2))",
                                "x.reshape(self.h, n, d // self.h)")],
        "heads_interleaved": [("np.transpose(x.reshape(n, self.h, d // self.h), (1, 0, 2))",
                               "np.transpose(x.reshape(n, d // self.h, self.h), (2, 0, 1))")],
        "heads_not_split": [("多头(n_heads)", "多头(1)")],
        "heads_merge_no_transpose": [("np.transpose(y, (1, 0, 2)).reshape", "y.reshape")],
        "no_output_projection": [(" @ W_O", "")],
        "scale_by_d_model": [("np.sqrt(q.shape[-1])", "np.sqrt(q.shape[-1] * q.shape[0])")],
        "mask_inverted": [("np.where(mask[None], s, -1e30)", "np.where(mask[None], -1e30, s)")],
        "mask_times_inf": [("np.where(mask[None], s, -1e30)", "s + (1.0 - mask) * -np.inf")],
        "weights_transposed": [("m.分(x @ W)", "m.分(x @ W.T)")],
        "kv_swapped": [("m.算(q, k, v, mask)", "m.算(q, v, k, mask)")],
        "heads_not_in_front": [
            ("np.transpose(x.reshape(n, self.h, d // self.h), (1, 0, 2))", "x.reshape(n, self.h, d // self.h)"),
            ("        h, n, dh = y.shape\n        return np.transpose(y, (1, 0, 2)).reshape(n, h * dh)",
             "        return y.reshape(len(y), -1)"),
        ],
    },
)  # fmt: skip
GROUPS = (
    "grouped_query_attention",
    '''
import numpy as np


def grouped_query_attention(Q, K, V, causal=False):
    B, H, T, d = Q.shape
    Hkv = K.shape[1]
    out = np.zeros((B, H, T, d))
    for b in range(B):
        for h in range(H):
            g = h // (H // Hkv)
            s = Q[b, h] @ K[b, g].T / d**0.5
            if causal:
                s[np.triu_indices(T, 1)] = -np.inf
            s = np.exp(s - s.max(1)[:, None])
            out[b, h] = s / s.sum(1)[:, None] @ V[b, g]
    return out
''',
    {
        "gqa_tile": [("h // (H // Hkv)", "h % Hkv")],
        "gqa_one_group": [("h // (H // Hkv)", "0")],
        "causal_not_asked": [("if causal", "if True")],
        "causal_missing": [("if causal", "if False")],
        "causal_off_by_one": [("triu_indices(T, 1)", "triu_indices(T, 2)")],
        "no_scale": [(" / d**0.5", "")],
        "scale_by_d_model": [("d**0.5", "(d * H) ** 0.5")],
        "softmax_no_max": [("s - s.max(1)[:, None]", "s")],
    },
)  # fmt: skip
WINDOW = (
    "sliding_window_attention",
    '''
import numpy as np


def sliding_window_attention(Q, K, V, window):
    n = Q.shape[-2]
    rows = []
    for i in range(n):
        start = max(0, i - window + 1)
        keys, values = K[..., start:i + 1, :], V[..., start:i + 1, :]
        s = np.einsum("...d,...jd->...j", Q[..., i, :], keys) / np.sqrt(Q.shape[-1])
        p = np.exp(s - s.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        rows.append(np.einsum("...j,...jd->...d", p, values))
    return np.stack(rows, axis=-2)
''',
    {
        "window_off_by_one": [("i - window + 1", "i - window")],
        "window_not_causal": [("start:i + 1", "start:i + window")],
        "window_ignored": [("max(0, i - window + 1)", "0")],
        "scale_by_d": [("np.sqrt(Q.shape[-1])", "Q.shape[-1]")],
    },
)  # fmt: skip
SINES = (
    "sinusoidal_positions",
    '''
import math

import numpy as np


def sinusoidal_positions(n, d_model):
    table = np.zeros((n, d_model))
    for pos in range(n):
        for i in range(d_model):
            angle = pos / 10000 ** ((i - i % 2) / d_model)
            table[pos, i] = math.cos(angle) if i % 2 else math.sin(angle)
    return table
''',
    {
        "positions_sin_cos_swapped": [("if i % 2 else", "if i % 2 == 0 else")],
        "positions_exponent": [("(i - i % 2) / d_model", "i / d_model")],
        "positions_wrong_base": [("10000 **", "1000 **")],
        "positions_from_one": [("pos / 10000", "(pos + 1) / 10000")],
    },
)  # fmt: skip
ROPE = (
    "rope",
    '''
import numpy as np


def rope(x, positions, base=10000.0):
    d = x.shape[-1]
    omega = 1.0 / base ** (2 * np.arange(d // 2) / d)
    angle = np.multiply.outer(positions, omega)
    z = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], axis=-1)
''',
    {
        "rope_wrong_sign": [("np.exp(1j * angle)", "np.exp(-1j * angle)")],
        "rope_positions_from_zero": [("np.multiply.outer(positions", "np.multiply.outer(np.arange(len(positions))")],
        "rope_frequency": [("2 * np.arange(d // 2) / d", "np.arange(d // 2) / d")],
        "rope_wrong_base": [("/ base **", "/ 1000.0 **")],
        "rope_rotates_pairs_wrong": [("np.concatenate([z.real, z.imag], axis=-1)",
                                      "np.stack([z.real, z.imag], axis=-1).reshape(x.shape)")],
    },
)  # fmt: skip
NORM = (
    "layer_norm",
    '''
import numpy as np


class 层归一化:
    def __init__(self, 增益, 偏置, eps):
        self.增益, self.偏置, self.eps = 增益, 偏置, eps

    def __call__(self, x):
        均值 = np.sum(x, axis=-1, keepdims=True) / x.shape[-1]
        偏差 = x - 均值
        方差 = np.sum(偏差**2, axis=-1, keepdims=True) / x.shape[-1]
        return self.增益 * 偏差 / np.sqrt(方差 + self.eps) + self.偏置


def layer_norm(x, gamma, beta, eps=1e-5):
    return 层归一化(gamma, beta, eps)(x)
''',
    {
        "norm_unbiased_variance": [("True) / x.shape[-1]\n        return", "True) / (x.shape[-1] - 1)\n        return")],
        "norm_eps_outside_root": [("np.sqrt(方差 + self.eps)", "(np.sqrt(方差) + self.eps)")],
        "norm_no_root": [("np.sqrt(方差 + self.eps)", "(方差 + self.eps)")],
        "norm_no_affine": [(" + self.偏置", "")],
        "norm_no_mean": [("偏差 = x - 均值", "偏差 = x")],
        "norm_no_eps": [("方差 + self.eps", "方差")],
    },
)  # fmt: skip
RMS = (
    "rms_norm",
    '''
import numpy as np


def rms_norm(x, gamma, eps=1e-6):
    n = x.shape[-1]
    return np.einsum("...i,i->...i", x, gamma) * (np.einsum("...i,...i->...", x, x * 1.0)[..., None] / n + eps) ** -0.5
''',
    {
        "norm_sum_not_mean": [(" / n + eps", " + eps")],
        "norm_no_affine": [('np.einsum("...i,i->...i", x, gamma)', "x")],
        "norm_multiplied": [("** -0.5", "** 0.5")],
        "norm_no_root": [("** -0.5", "** -1.0")],
    },
)  # fmt: skip
GELU = (
    "gelu",
    '''
import math

import numpy as np


def gelu(x):
    flat = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in np.asarray(x, float).ravel().tolist()]
    return np.reshape(flat, np.shape(x))
''',
    {
        "gelu_sigmoid": [("0.5 * v * math.erfc(-v / math.sqrt(2))",
                          "v / (1 + math.exp(-1.702 * v)) if v > -400 else 0.0")],
        "gelu_tanh": [("0.5 * v * math.erfc(-v / math.sqrt(2))",
                       "v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))")],
        "gelu_no_root": [("-v / math.sqrt(2)", "-v")],
        "gelu_relu": [("0.5 * v * math.erfc(-v / math.sqrt(2))", "max(v, 0.0)")],
    },
)  # fmt: skip
SWIGLU = (
    "swiglu",
    '''
import numpy as np


def sigmoid(z):
    return 0.5 * (1 + np.tanh(z / 2))


def swiglu(x, W_gate, W_up, W_down):
    gate = np.einsum("...d,df->...f", x, W_gate)
    up = np.einsum("...d,df->...f", x, W_up)
    return np.einsum("...f,fd->...d", gate * sigmoid(gate) * up, W_down)
''',
    {
        "gate_up_swapped": [("gate * sigmoid(gate) * up", "up * sigmoid(up) * gate")],
        "no_gate_activation": [("gate * sigmoid(gate) * up", "gate * up")],
        "gate_wrong_activation": [("gate * sigmoid(gate) * up", "sigmoid(gate) * up")],
        "gate_added": [("gate * sigmoid(gate) * up", "gate * sigmoid(gate) + up")],
    },
)  # fmt: skip
CACHE = (
    "kv_cache",
    '''
import numpy as np


class KVCache:
    def __init__(self):
        self.history = []

    def step(self, q, k, v):
        rows = []
        old = len(self.history)
        self.history = self.history + list(zip(k, v))
        for t, query in enumerate(q):
            seen = self.history[: old + t + 1]
            s = np.array([query @ key for key, _ in seen]) / np.sqrt(len(query))
            p = np.exp(s - s.max())
            rows.append(sum(w * value for w, (_, value) in zip(p / p.sum(), seen)))
        return np.array(rows)
''',
    {
        "cache_forgets": [("old = len(self.history)", "old = 0"), ("self.history + list(zip", "list(zip")],
        "cache_not_causal": [("self.history[: old + t + 1]", "self.history")],
        "no_scale": [(" / np.sqrt(len(query))", "")],
        "softmax_no_max": [("s - s.max()", "s")],
    },
)  # fmt: skip
FLASH = (
    "flash_attention",
    '''
import numpy as np


def flash_attention(Q, K, V, block_size, causal=False):
    lead = Q.shape[:-1]
    m = np.full(lead, -1e300)
    l = np.zeros(lead)
    acc = np.zeros(lead + V.shape[-1:])
    positions = np.arange(Q.shape[-2])[:, None]
    for lo in range(0, K.shape[-2], block_size):
        k, v = K[..., lo:lo + block_size, :], V[..., lo:lo + block_size, :]
        s = np.einsum("...id,...jd->...ij", Q, k) / np.sqrt(Q.shape[-1])
        if causal:
            s = np.where(np.arange(lo, lo + k.shape[-2]) <= positions, s, -np.inf)
        new = np.maximum(m, s.max(-1))
        a = np.exp(m - new)
        p = np.exp(s - new[..., None])
        l = l * a + p.sum(-1)
        acc = acc * a[..., None] + np.einsum("...ij,...jd->...id", p, v)
        m = new
    return acc / l[..., None]
''',
    {
        "flash_no_rescale": [("a = np.exp(m - new)", "a = np.ones(lead)")],
        "flash_no_division": [("acc / l[..., None]", "acc")],
        "flash_causal_in_block": [("np.arange(lo, lo + k.shape[-2])", "np.arange(k.shape[-2])")],
        "causal_missing": [("if causal", "if False")],
        "no_scale": [(" / np.sqrt(Q.shape[-1])", "")],
        "flash_no_running_max": [("new = np.maximum(m, s.max(-1))", "new = s.max(-1)")],
    },
)  # fmt: skip
LINEAR = (
    "linear_attention",
    '''
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0)))


def linear_attention(Q, K, V):
    q, k = phi(Q), phi(K)
    state = np.einsum("...jd,...jv->...dv", k, V)
    norm = np.einsum("...id,...d->...i", q, k.sum(-2))
    return np.einsum("...id,...dv->...iv", q, state) / norm[..., None]
''',
    {
        "linear_no_normaliser": [(" / norm[..., None]", "")],
        "linear_other_map": [("np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0)))", "np.maximum(x, 0) + 1e-6")],
        "linear_no_plus_one": [("x + 1.0, np.exp(np.minimum(x, 0))", "x, np.exp(np.minimum(x, 0)) - 1")],
    },
)  # fmt: skip
ROUTER = (
    "moe_router",
    '''
import numpy as np


def moe_router(logits, k):
    编号, 权重 = [], []
    for 行 in logits:
        选中 = sorted(range(len(行)), key=lambda e: -行[e])[:k]
        分 = np.array([行[e] for e in 选中], float)
        指数 = np.exp(分 - 分.max())
        编号.append(选中)
        权重.append(指数 / 指数.sum())
    return np.array(编号), np.array(权重)
''',
    {
        "router_worst_experts": [("-行[e]", "行[e]")],
        "router_softmax_before_top_k": [("        编号.append", "        全 = np.exp(行 - 行.max()).sum()\n        编号.append"),
                                        ("指数 / 指数.sum()", "指数 / 全")],
        "results_swapped": [("np.array(编号), np.array(权重)", "np.array(权重), np.array(编号)")],
        "top_k_off_by_one": [("[:k]", "[:k + 1]")],
    },
)  # fmt: skip
LORA = (
    "lora_linear",
    '''
import numpy as np


class LoRA:
    def __init__(self, W, A, B, alpha):
        self.W, self.A, self.B = W, A, B
        self.s = alpha / A.shape[-1]

    def __call__(self, x):
        return np.dot(x, self.W) + self.s * np.dot(np.dot(x, self.A), self.B)


def lora_linear(x, W, A, B, alpha):
    return LoRA(W, A, B, alpha)(x)
''',
    {
        "lora_no_scaling": [("self.s * np.dot", "np.dot")],
        "lora_wrong_rank": [("A.shape[-1]", "A.shape[0]")],
        "lora_no_base": [("np.dot(x, self.W) + ", "")],
        "lora_root_of_rank": [("alpha / A.shape[-1]", "alpha / A.shape[-1] ** 0.5")],
    },
)  # fmt: skip
ENTROPY = (
    "cross_entropy",
    '''
import math

import numpy as np


def cross_entropy(logits, targets):
    loss = 0.0
    for row, t in zip(logits.tolist(), targets.tolist()):
        top = max(row)
        loss += top + math.log(sum(math.exp(v - top) for v in row)) - row[t]
    return loss / len(targets)
''',
    {
        "loss_sum": [("loss / len(targets)", "loss")],
        "loss_sign": [("loss / len(targets)", "-loss / len(targets)")],
        "loss_log_base": [("math.log(sum", "math.log2(sum")],
    },
)  # fmt: skip
BACKWARD = (
    "softmax_backward",
    '''
import numpy as np


def softmax_backward(p, dp):
    jacobian = np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - p[..., :, None] * p[..., None, :]
    return np.einsum("...ij,...j->...i", jacobian, dp)
''',
    {
        "backward_missing_row_sum": [(" - p[..., :, None] * p[..., None, :]", "")],
        "backward_sign": [("jacobian, dp)", "-jacobian, dp)")],
    },
)  # fmt: skip
MERGE = (
    "merge_heads",
    '''
import numpy as np


def merge_heads(x):
    return np.concatenate([head for head in x], axis=-1)
''',
    {
        "heads_merge_no_transpose": [("np.concatenate([head for head in x], axis=-1)", "x.reshape(x.shape[1], -1)")],
        "heads_along_tokens": [("axis=-1", "axis=0")],
    },
)  # fmt: skip
ALIBI = (
    "alibi_bias",
    '''
import math

import numpy as np


def slopes(n):
    if n & (n - 1) == 0:
        return [2 ** (-8 * (h + 1) / n) for h in range(n)]
    near = 2 ** int(math.log2(n))
    return slopes(near) + slopes(2 * near)[0::2][: n - near]


def alibi_bias(n_heads, n):
    bias = np.zeros((n_heads, n, n))
    for h, slope in enumerate(slopes(n_heads)):
        for i in range(n):
            for j in range(i + 1):
                bias[h, i, j] = -slope * (i - j)
    return bias
''',
    {
        "alibi_sign": [("-slope * (i - j)", "slope * (i - j)")],
        "alibi_slope": [("    if n & (n - 1) == 0:\n", "    if True:\n")],
        "alibi_above_diagonal": [("range(i + 1)", "range(n)")],
    },
)  # fmt: skip

PROGRAMS = (
    SDPA_LOOPS, SDPA_CHINESE, CAUSAL_CLASS, MASK_LOOPS, SOFTMAX, HEADS, GROUPS, WINDOW, SINES, ROPE, NORM, RMS, GELU,
    SWIGLU, CACHE, FLASH, LINEAR, ROUTER, LORA, ENTROPY, BACKWARD, MERGE, ALIBI,
)  # fmt: skip


def changed(source: str, exchanges: list[tuple[str, str]]) -> str:
    """A program with some of its text exchanged; text that is not there is an error of this file."""
    for old, new in exchanges:
        assert old in source, old
        source = source.replace(old, new)
    return source


RIGHT = [(task, source) for task, source, _ in PROGRAMS]
WRONG = [(task, name, changed(source, how)) for task, source, cases in PROGRAMS for name, how in cases.items()]

HEAD = "import numpy as np\n\n\n"

# Wrong in ways that nobody planned: none of them may get the name of a mistake.
RANDOM = [
    ("softmax", "def softmax(x, axis=-1):\n    return np.tanh(x) / (1 + abs(x).sum(axis, keepdims=True))"),
    ("softmax", "def softmax(x, axis=-1):\n    return np.sort(x, axis=axis) * 0.25"),
    ("softmax", "def softmax(x, axis=-1):\n    e = np.exp(-abs(x))\n    return e / e.sum(axis, keepdims=True)"),
    ("scaled_dot_product_attention", """def scaled_dot_product_attention(Q, K, V, mask=None):
    w = 1 / (1 + np.exp(-Q @ K.mT / 9))
    return w @ V, w"""),
    ("scaled_dot_product_attention", """def scaled_dot_product_attention(Q, K, V, mask=None):
    w = np.argsort(Q @ K.mT, axis=-1) / K.shape[-2]
    return w @ V, w"""),
    ("scaled_dot_product_attention", """def scaled_dot_product_attention(Q, K, V, mask=None):
    w = np.ones(Q.shape[:-1] + K.shape[-2:-1]) / K.shape[-2]
    return w @ V, w"""),
    ("causal_attention", """def causal_attention(Q, K, V):
    return np.cumsum(V * (Q * K).sum(-1, keepdims=True), axis=-2)"""),
    ("causal_attention", "def causal_attention(Q, K, V):\n    return V - V.mean(axis=-2, keepdims=True)"),
    ("causal_mask", "def causal_mask(n):\n    return np.add.outer(np.arange(n), np.arange(n)) % 3 == 1"),
    ("multi_head_attention", """def multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    return np.tanh(x @ W_Q + x @ W_K) * (x @ W_V) @ W_O / n_heads"""),
    ("grouped_query_attention", """def grouped_query_attention(Q, K, V, causal=False):
    return Q + np.repeat(K * V, Q.shape[1] // K.shape[1], axis=1)"""),
    ("sliding_window_attention", """def sliding_window_attention(Q, K, V, window):
    return np.roll(V, window, axis=-2) * 0.5 + V * 0.5"""),
    ("rope", "def rope(x, positions, base=10000.0):\n    return x * np.cos(positions[:, None] / 7) + 0.1"),
    ("sinusoidal_positions", """def sinusoidal_positions(n, d_model):
    return np.sin(np.outer(np.arange(n), np.arange(1, d_model + 1)) ** 1.3)"""),
    ("layer_norm", "def layer_norm(x, gamma, beta, eps=1e-5):\n    return gamma * np.tanh(x) + beta + 0.01"),
    ("rms_norm", "def rms_norm(x, gamma, eps=1e-6):\n    return x * gamma / np.abs(x).max(-1, keepdims=True).clip(1e-9)"),
    ("gelu", "def gelu(x):\n    return x * np.clip(x / 6 + 0.45, 0, 1)"),
    ("swiglu", "def swiglu(x, W_gate, W_up, W_down):\n    return np.sin(x @ W_gate) * np.cos(x @ W_up) @ W_down"),
    ("kv_cache", """class KVCache:
    def __init__(self):
        self.total = 0.0

    def step(self, q, k, v):
        self.total = self.total + (k.sum() + q.sum()) / 10
        return v * self.total"""),
    ("online_softmax", "def online_softmax(chunks):\n    x = list(chunks)[-1]\n    return np.median(x), np.ptp(x) + 1"),
    ("flash_attention", """def flash_attention(Q, K, V, block_size, causal=False):
    return np.cumsum(V, axis=-2)[..., : Q.shape[-2], :] / block_size"""),
    ("linear_attention", "def linear_attention(Q, K, V):\n    return np.sin(Q) @ (np.sin(K).mT @ V) / K.shape[-2]"),
    ("moe_router", """def moe_router(logits, k):
    i = np.tile(np.arange(k), (len(logits), 1))
    return i, np.full(i.shape, 1 / (k + 1))"""),
    ("lora_linear", "def lora_linear(x, W, A, B, alpha):\n    return np.maximum(x @ A, 0) @ B * alpha + x @ W / 2"),
    ("cross_entropy", "def cross_entropy(logits, targets):\n    return float(np.abs(logits.argmax(-1) - targets).mean() + 0.3)"),
    ("softmax_backward", "def softmax_backward(p, dp):\n    return dp * np.sqrt(p) - 0.1"),
    ("attention_backward", """def attention_backward(Q, K, V, d_output):
    return Q * 0.1, K * 0.2, V * 0.3"""),
    ("top_k_top_p", """def top_k_top_p(logits, k=None, p=None):
    e = np.exp(np.tanh(logits))
    return e / e.sum()"""),
    ("speculative_accept", "def speculative_accept(p, q, tokens, u):\n    return int(len(u) // 2), np.sort(p[0])"),
    ("transformer_block", "def transformer_block(x, p, n_heads):\n    return x + np.tanh(x @ p['W_Q']) @ p['W_O'] / n_heads"),
    ("latent_attention", """def latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads):
    return x * n_heads + np.cos(x @ W_Q).mean()"""),
    ("cross_attention", """def cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads):
    return (x @ W_Q) * (context @ W_K).mean(0) @ W_O"""),
    ("alibi_bias", "def alibi_bias(n_heads, n):\n    return np.ones((n_heads, 1, 1)) * -np.arange(n)[:, None] ** 0.5 * np.ones(n)"),
    ("split_heads", "def split_heads(x, n_heads):\n    return np.sort(x, axis=0).reshape(n_heads, len(x), -1) + 1"),
    ("merge_heads", "def merge_heads(x):\n    return np.sort(x.reshape(x.shape[1], -1), axis=0) * 2"),
]  # fmt: skip
RANDOM = [(task, HEAD + source + "\n") for task, source in RANDOM]
