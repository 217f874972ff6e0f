"""`python -m benchmarks NAME`, one measurement of those below; `python -m benchmarks page`, all of them, into docs/."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from qkv.ops.attention import TINY
from qkv.ops.settings import allowed_cores

from . import machine, models, page, peers, report, space, speed

MEASUREMENTS = {
    "attention": speed.attention,
    "backward": speed.backward,
    "cached": speed.cached,
    "memory": space.memory,
    "trace": speed.trace,
    "import": space.imports,
    "prefill": models.prefill,
    "decode": models.decode,
    "load": models.load,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", choices=[*MEASUREMENTS, "page"])
    parser.add_argument("--threads", type=int, default=allowed_cores(), help="for every contender; default: all cores")
    parser.add_argument("--quick", action="store_true", help="the small cases alone")
    parser.add_argument("--out", type=Path, help="a directory for JSON, Markdown and SVG (page: default docs/)")
    asked = parser.parse_args(arguments)
    os.environ["QKV_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    peers.use_threads(asked.threads)
    facts = machine.description(asked.threads)
    names = list(MEASUREMENTS) if asked.what == "page" else [asked.what]
    with threadpool_limits(asked.threads, user_api="blas"):
        tables = {name: MEASUREMENTS[name](asked.threads, asked.quick) for name in names}
    for key, value in facts.items():
        print(f"{key}: {value}")
    for name, rows in tables.items():
        print(f"\n{name}\n\n{report.markdown(rows)}")
    if asked.what == "page" or asked.out:
        save(asked.out or Path("docs"), asked.what, facts, tables)


def save(folder: Path, what: str, facts: dict[str, Any], tables: dict[str, list[dict[str, Any]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = "performance" if what == "page" else what
    (folder / f"{stem}.json").write_text(report.as_json(facts, tables), encoding="utf-8")
    if "memory" in tables:
        (folder / f"{stem}.svg").write_text(report.plot(tables["memory"]), encoding="utf-8")
    if what == "page":
        page.write(folder, facts, tables, TINY)
    else:
        (folder / f"{stem}.md").write_text(report.markdown(tables[what]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
