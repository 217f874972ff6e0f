"""Write the texts that the terminal views must keep giving: `python scripts/make_terminal_goldens.py`.

Read the difference before you commit it (`cat` shows the coloured ones as they look).
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qkv.views.heatmap import HeatmapWords, heatmap
from qkv.views.screen import Depth, Screen
from qkv.views.tables import TableWords, matrix

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "terminal"
WIDTHS = (40, 80, 120)
DEPTHS: tuple[Depth, ...] = ("none", "256", "truecolor")
SENTENCES = {"zh": list("远方有颗苹果树"), "en": ["The", "cat", "sat", "on", "the", "mat"]}
CASES = list(product(SENTENCES, WIDTHS, DEPTHS))
ZH = HeatmapWords(
    "查询", "键", "权重", "分数", "已掩蔽", "不是数", "无穷", "接近 0 但不是 0", "每格取 {rows} × {columns} 中最大者"
)
ZH_TABLE = TableWords("第 {first}–{last} 行未显示，共 {total} 行", "第 {first}–{last} 列未显示，共 {total} 列")


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that sum to 1."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def scores_of(n: int) -> NDArray[np.float64]:
    """Scores of n tokens by the plain recipe: X, then W_Q and W_K, all of width 4, from seed 42."""
    random = np.random.RandomState(42)
    x, w_q, w_k = random.randn(n, 4), random.randn(4, 4), random.randn(4, 4)
    return (x @ w_q) @ (x @ w_k).T / 2


def render(language: str, width: int, depth: Depth) -> str:
    """All views of one sentence, on one screen."""
    tokens, screen = SENTENCES[language], Screen(width=width, depth=depth)
    words, table_words = (ZH, ZH_TABLE) if language == "zh" else (HeatmapWords(), TableWords())
    scores = scores_of(len(tokens))
    causal = np.tril(np.ones(scores.shape, dtype=bool))
    masked = softmax(np.where(causal, scores, -np.inf))
    odd = masked.copy()
    odd[3, 1], odd[4, 0], odd[5, 5] = np.nan, 0.0, np.inf
    long = tokens * (2 if depth == "none" else 9)
    long_scores = scores_of(len(long))
    long_causal = np.tril(np.ones(long_scores.shape, dtype=bool))
    weights = softmax(np.where(long_causal, long_scores, -np.inf))
    ramp = Screen(width=width, ascii=True)
    return "\n\n".join(
        [
            heatmap(softmax(scores), tokens, tokens, screen, title=" ".join(tokens), words=words),
            heatmap(scores, tokens, tokens, screen, scale="signed", words=words),
            heatmap(odd, tokens, tokens, screen, visible=causal, words=words),
            heatmap(odd, tokens, tokens, ramp, visible=causal, words=words),
            heatmap(weights, long, long, screen, visible=long_causal, compact=language == "en", words=words),
            matrix(scores, tokens, tokens, screen, words=table_words),
            matrix(long_scores, long, long, screen, words=table_words) + "\n",
        ]
    )


def path_of(language: str, width: int, depth: Depth) -> Path:
    """Where the text of a case is kept."""
    return FOLDER / f"{language}-{width}-{depth}.txt"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        path_of(*case).write_text(render(*case), encoding="utf-8", newline="\n")
