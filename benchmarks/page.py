"""docs/performance.md and its Chinese twin: every number on them comes from the one run they are made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .report import cell, markdown

Row = dict[str, Any]
TEXTS = {
    "en": {
        "title": "# Performance",
        "intro": "Every number on this page comes from one run of `python -m benchmarks page`, in which all contenders "
        "took turns on the same arrays with the same number of threads. Times are medians, ± half the distance of the "
        "quartiles. `of sgemm` is the part of what this machine's own float32 matrix product reaches. Causal attention "
        "counts half of the operations. On another machine the ratios differ: run it there.",
        "machine": "## The machine", "attention": "## Attention, 8 heads, float32",
        "backward": "## Forward and backward pass",
        "cached": "## A few queries over a long cache: 32 heads, 8 heads of keys",
        "memory": "## Memory, causal, 8 heads of width 64", "trace": "## What it costs that everything can be watched",
        "import": "## Import and size",
        "prefill": "## SmolLM2-135M: a prompt of 511 tokens", "decode": "## SmolLM2-135M: 64 tokens after it",
        "load": "## SmolLM2-135M: loading from GGUF",
        "packed": "llama.cpp reads the packed numbers as they are: a fifth of the bytes, unpacked in registers inside "
        "each product. Here they are unpacked once, while loading. The table says what lies between: the products of "
        "a token take about as long as their float32 bytes take to be read; reading the packed bytes alone would take "
        "a fraction of that, and unpacking them with NumPy at each token takes many times longer. So llama.cpp's rate "
        "needs what NumPy has not got: a compiled product of packed numbers with a vector.",
        "rule": "## Which path runs\n\nA recorder or `return_weights=True` asks for every score: the definition runs. "
        "So it does up to {tiny} multiply-adds, where it is faster; a single query that may look at all keys takes it "
        "without asking what is hidden. Everything else goes tile by tile, on as many "
        "threads as `QKV_NUM_THREADS` says, else the setting of NumPy's BLAS, else the cores the process may use. "
        "`qkv.ops.config(threads=, query_tile=, key_tile=, force=)` overrides all of it inside a `with` block; results "
        "stay the same beyond rounding.",
    },
    "zh": {
        "title": "# 性能",
        "intro": "本页所有数字都来自同一次 `python -m benchmarks page` 运行：各方轮流使用相同的数组和相同的线程数。"
        "时间取中位数，± 为四分位距的一半。`of sgemm` 是与本机 float32 矩阵乘法速度之比。因果注意力只计一半的运算量。"
        "换一台机器，比值会不同：请在那台机器上运行。",
        "machine": "## 机器", "attention": "## 注意力：8 个头，float32", "backward": "## 前向与反向",
        "cached": "## 少量查询对长缓存：32 个头，8 个键值头", "memory": "## 内存：因果，8 个头，宽 64",
        "trace": "## 一切皆可观察的代价", "import": "## 导入时间与体积",
        "prefill": "## SmolLM2-135M：511 个词元的提示", "decode": "## SmolLM2-135M：其后的 64 个词元",
        "load": "## SmolLM2-135M：从 GGUF 加载",
        "packed": "llama.cpp 直接读打包的数：字节只有五分之一，在每次乘法内部的寄存器里解包。这里则在加载时一次解包。"
        "表里写着两者之间的差距：一个词元的全部乘法所用的时间约等于读完 float32 字节的时间；"
        "只读打包的字节只要它的一小部分；"
        "而用 NumPy 在每个词元都解包则要慢许多倍。因此要达到 llama.cpp 的速度，需要 NumPy 所没有的东西："
        "打包的数与向量相乘的编译内核。",
        "rule": "## 走哪条路径\n\n有记录器或 `return_weights=True` 时需要每一个分数，于是按定义计算;"
        "乘加运算不超过 {tiny} 次时也是，因为那样更快；可以看到所有键的单个查询也按定义算，只是不再问遮住了什么。"
        "其余情况分块计算，"
        "线程数依次取 `QKV_NUM_THREADS`、NumPy 所用 BLAS 的设置、进程可用的核数。"
        "`qkv.ops.config(threads=, query_tile=, key_tile=, force=)` 可在 `with` 块内改变这一切；除舍入外结果不变。",
    },
}  # fmt: skip


def write(folder: Path, machine: dict[str, Any], tables: dict[str, list[Row]], tiny: int) -> list[Path]:
    """Both pages. Returns where they are."""
    written = []
    for lang, name in (("en", "performance.md"), ("zh", "performance.zh.md")):
        text = TEXTS[lang]
        parts = [text["title"], text["intro"], text["machine"]]
        parts.append(markdown([{"": key, " ": cell("", value)} for key, value in machine.items()]))
        for name_of_table, rows in tables.items():
            parts.append(text[name_of_table])
            if name_of_table == "memory":
                parts.append("![n](performance.svg)")
            parts.append(markdown(rows))
            if name_of_table == "decode":
                parts.append(text["packed"])
        parts.append(text["rule"].format(tiny=f"{tiny:,}"))
        path = folder / name
        path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
        written.append(path)
    return written
