"""Fetching a model from a hub, through the `huggingface_hub` library (extra `hub`): only what is read, and checked."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ...errors import FileError, MissingExtraError
from .stored import Stored, finish, unfinished

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
WHOLE, PARTS = "model.safetensors", ("model.safetensors.index.json", "model-*.safetensors")
SETTINGS = (
    "config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json", "chat_template.jinja",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "modules.json",
    "sentence_bert_config.json", "config_sentence_transformers.json", "*_Pooling/config.json",
)  # fmt: skip
CHUNK, PART = 1 << 20, ".part"  # bytes that are hashed at once; how the name of what is not complete ends


def pull(name: str, file: str | None = None) -> Stored:
    """Fetch a model and keep it.

    Parameters
    ----------
    name : str
        `owner/name`, as the hub calls it. Which hub, the environment variable HF_ENDPOINT says.
    file : str, optional
        A GGUF file in it, instead of its safetensors.

    Returns
    -------
    Stored

    Raises
    ------
    ArgumentError, FileError
        hub for what the hub refuses or a connection that breaks; hash for a file that is not what the hub says. What
        was complete is kept, and the next attempt goes on from there.
    MissingExtraError
    """
    if not NAME.fullmatch(name) or "--" in name or ".." in name:
        raise FileError("hub", name=name, reason="a name has the form OWNER/NAME")
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError("extra", package="huggingface_hub", extra="hub") from None
    endpoint = os.environ.get("HF_ENDPOINT") or None
    stored = name if file is None else f"{name}/{file}"
    try:
        about = huggingface_hub.HfApi(endpoint=endpoint).model_info(name, files_metadata=True)
    except Exception as error:  # of the library, of what it uses, of the connection
        raise _refused(name, error) from None
    wanted = _wanted(name, {one.rfilename: one for one in about.siblings or []}, file)
    folder = unfinished(stored)
    try:
        for one in wanted:
            _fetch(name, one, about.sha or "main", folder)
        _forget_others(folder, {one.rfilename for one in wanted})
    except OSError as error:  # the disk, or another qkv that fetches the same
        raise _refused(name, error) from None
    return finish(stored)


def _fetch(name: str, one: Any, revision: str, folder: Path) -> None:
    """One file into its place; what an earlier attempt got of it is not asked for again."""
    from huggingface_hub import hf_hub_url, utils
    from huggingface_hub.file_download import http_get

    tools: Any = utils
    path = folder / one.rfilename
    part = path.with_name(f".{path.name}.{revision[:12]}{PART}")
    if path.exists() and _hash(path, one) == _expected(one):
        return
    try:
        path.parent.mkdir(exist_ok=True)
        if part.exists() and part.stat().st_size > (one.size or 0):
            part.unlink()
        url = hf_hub_url(name, one.rfilename, revision=revision, endpoint=os.environ.get("HF_ENDPOINT") or None)
        with part.open("ab") as file:
            http_get(url, file, resume_size=file.tell(), headers=tools.build_hf_headers(), expected_size=one.size,
                     displayed_filename=one.rfilename)  # fmt: skip
    except Exception as error:  # of the library, of what it uses, of the connection, of the disk
        raise _refused(name, error) from None
    if (found := _hash(part, one)) != _expected(one):
        part.unlink()
        raise FileError("hash", path=one.rfilename, expected=_expected(one), found=found)
    part.replace(path)


def _wanted(name: str, files: dict[str, Any], file: str | None) -> list[Any]:
    """The files that are read, the small ones first; none outside of the folder, and no pickle."""
    if file is not None:
        if file not in files or not file.endswith(".gguf") or "/" in file:
            raise FileError("hub_file", name=name, file=file, known=_packed(files))
        return [files[file]]
    weights = (WHOLE,) if WHOLE in files else PARTS
    found = [one for path, one in files.items() if any(fnmatchcase(path, known) for known in (*SETTINGS, *weights))]
    found = [one for one in found if one.rfilename.count("/") <= 1 and not one.rfilename.startswith((".", "/"))
             and "\\" not in one.rfilename]  # fmt: skip
    if not any(one.rfilename.endswith(".safetensors") for one in found) or "config.json" not in files:
        raise FileError("hub_no_weights", name=name, known=_packed(files))
    return sorted(found, key=lambda one: (one.size or 0, one.rfilename))


def _packed(files: Iterable[str]) -> str:
    """The GGUF files among them, for a message."""
    return ", ".join(sorted(name for name in files if name.endswith(".gguf") and "/" not in name)) or "-"


def _expected(one: Any) -> str | None:
    """The hash in the hub's list: SHA-256 of a large file, git's own of a small one."""
    if one.lfs:
        return str(one.lfs["sha256"] if isinstance(one.lfs, dict) else one.lfs.sha256)
    return one.blob_id or None


def _hash(path: Path, one: Any) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256() if one.lfs else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _forget_others(folder: Path, wanted: set[str]) -> None:
    """What an earlier attempt at another revision left."""
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in wanted:
            path.unlink()


def _refused(name: str, error: BaseException) -> FileError:
    if isinstance(error, MemoryError):
        raise error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return FileError("hub", name=name, reason=" ".join(lines)[:300] or type(error).__name__)
