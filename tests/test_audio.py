"""Sound: from a file to samples, from samples to features, from features through a convolution, and what is refused."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.seq2seq_fixture import TINY, Copy, given, known, tiny, write_wav

from qkv.cli.commands import qkv as command
from qkv.errors import QkvError
from qkv.io.audio import read_wav
from qkv.layers import Convolution
from qkv.models.log_mel import Hearing, log_mel, mel_filters

RATE = 16000
TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(3001) / RATE)).astype(np.float32)


# files


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_what_a_file_holds(width: int, tmp_path: Path) -> None:
    samples = read_wav(write_wav(tmp_path / "a.wav", TONE, width), RATE)
    assert samples.shape == TONE.shape
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, TONE, rtol=0, atol=2.0 ** (1 - 8 * min(width, 3)))


def test_the_ends_of_the_range(tmp_path: Path) -> None:
    for width, lowest in ((1, -127 / 128), (2, -32767 / 32768), (3, -1 + 2**-23), (4, -1)):
        found = read_wav(write_wav(tmp_path / "a.wav", np.array([-1.0, 0.0, 1.0]), width), RATE)
        np.testing.assert_allclose(found, [lowest, 0, -lowest], rtol=0, atol=1e-7)


def test_channels_are_mixed(tmp_path: Path) -> None:
    both = np.stack([TONE, -0.5 * TONE], axis=1)
    found = read_wav(write_wav(tmp_path / "a.wav", both), RATE)
    np.testing.assert_allclose(found, 0.25 * TONE, rtol=0, atol=1e-4)


def test_a_file_that_ends_too_early_gives_what_is_there(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", TONE)
    path.write_bytes(path.read_bytes()[:-1001])
    assert len(read_wav(path, RATE)) == len(TONE) - 501


def header(**changes: int) -> bytes:
    """A WAV of one sample, with fields of its header changed."""
    f = {"kind": 1, "channels": 1, "rate": RATE, "bits": 16, "data": 2, "size": 38} | changes
    step = f["channels"] * f["bits"] // 8
    parts = struct.pack("<HHIIHH", f["kind"], f["channels"], f["rate"], f["rate"] * step & 0xFFFFFFFF, step & 0xFFFF,
                        f["bits"])  # fmt: skip
    return b"RIFF" + struct.pack("<I", f["size"]) + b"WAVEfmt " + struct.pack("<I", 16) + parts + b"data" + struct.pack(
        "<I", f["data"]) + b"\x00\x40"  # fmt: skip


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"", "damaged"), (b"RIFF", "damaged"), (b"RIFX" + header()[4:], "damaged"), (header()[:20], "damaged"),
        (header()[:-2], "damaged"), (header(kind=3), "damaged"), (header(channels=0), "damaged"),
        (header(bits=0), "damaged"), (header(bits=64), "damaged"), (header(rate=8000), "wav_rate"),
        (header(data=2**31), "wav_long"), (header(data=0), "damaged"), (b"\x80\x04K\x01.", "damaged"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_heard_is_one_line(data: bytes, key: str, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    with pytest.raises(QkvError) as caught:
        read_wav(path, RATE)
    assert caught.value.key == key
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_channels_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(header(channels=17, data=34) + bytes(32))
    with pytest.raises(QkvError, match="17 channels"):
        read_wav(tmp_path / "a.wav", RATE)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.wav")
    with pytest.raises(QkvError, match="is not a file"):
        read_wav(tmp_path / "a.wav", RATE)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(QkvError, match="no such file"):
        tiny("whisper").encode_source(tmp_path / "none.wav")


# features


@pytest.mark.parametrize("length", [7, 23])
def test_features_equal_those_of_transformers(length: int) -> None:
    """The goldens are kept in float16."""
    features = tiny("whisper").hearing.features(given("whisper", length))
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, known("whisper")[f"{length}.features"], rtol=0, atol=1e-3)


def test_a_tone_is_in_its_band() -> None:
    filters = mel_filters(80, RATE, 400)
    for hertz in (200, 1000, 3000, 7000):
        picture = log_mel(np.sin(2 * np.pi * hertz * np.arange(RATE) / RATE))
        band = int(picture[:, 50].argmax())
        assert filters[band, round(hertz / 40)] == filters[:, round(hertz / 40)].max()


def test_the_filters_have_one_area() -> None:
    """Each triangle has area 1 in hertz; summed over bins of 40 Hz the narrow ones are only roughly that."""
    filters = mel_filters(80, RATE, 400)
    assert filters.shape == (80, 201)
    np.testing.assert_allclose(filters[60:].sum(axis=1) * 40, 1, atol=0.02)
    assert (filters >= 0).all()
    assert mel_filters(128, RATE, 400).shape == (128, 201)


def test_loud_and_quiet() -> None:
    picture = log_mel(TONE)
    assert picture.max() - picture.min() == pytest.approx(2, abs=1e-6)  # 8 in log10, divided by 4
    assert log_mel(np.zeros(RATE)).max() == pytest.approx((-10 + 4) / 4)


def test_silence_behind_changes_nothing_but_the_end() -> None:
    hearing = Hearing(seconds=1)
    whole = hearing.features(np.concatenate([TONE, np.zeros(RATE - len(TONE))]))
    np.testing.assert_array_equal(hearing.features(TONE), whole)


def test_nothing_is_cut_unless_it_is_asked_for() -> None:
    hearing, long = Hearing(seconds=1), np.resize(TONE, RATE + 1)
    with pytest.raises(QkvError, match=r"lasts 1\.0 s, but the model hears at most 1 s"):
        hearing.features(long)
    np.testing.assert_array_equal(hearing.features(long, cut=True), hearing.features(long[:RATE]))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"feature_size": 79}, "feature_size"), ({"dither": 0.1}, "dither"), ({"hop_length": 0}, "hop_length"),
        ({"n_samples": 5}, "n_samples"), ({"do_normalize": True}, "do_normalize"), ({"volume": 2}, "volume"),
        ({"feature_extractor_type": "SpeechT5FeatureExtractor"}, "feature_extractor_type"),
    ],
)  # fmt: skip
def test_how_it_hears_must_be_understood(changes: dict[str, Any], name: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "whisper")
    copy.json("preprocessor_config.json", **changes)
    with pytest.raises(QkvError, match=name):
        copy.load()


def test_how_long_it_hears_must_fit_the_model(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "whisper")
    copy.json("preprocessor_config.json", chunk_length=2, n_samples=32000, nb_max_frames=200)
    with pytest.raises(QkvError, match="chunk_length"):
        copy.load()


# a model that hears


def test_a_file_its_samples_and_its_features_are_the_same(tmp_path: Path) -> None:
    model, path = tiny("whisper"), write_wav(tmp_path / "a.wav", TONE)
    samples = read_wav(path, RATE)
    expected = model.encode_source(samples).states
    for same in (path, str(path), samples.tolist(), model.hearing.features(samples)):
        np.testing.assert_allclose(model.encode_source(same).states, expected, rtol=0, atol=1e-6)
    both = model.encode_source([path, samples]).states
    assert len(both) == 2
    np.testing.assert_allclose(both[1], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("sound", "key"),
    [
        (np.zeros((80, 99), np.float32), "shape"), (np.zeros((79, 100), np.float32), "shape"), ([], "empty_audio"),
        (np.zeros(0, np.float32), "empty_audio"), (np.zeros(16001, np.float32), "audio_long"),
        (np.zeros(5, np.int16), "dtype"), (np.array([0.5, np.nan]), "number"), (5, "model_input"),
        (np.zeros((1, 2, 80, 100)), "shape"), ([[0.5], [0.5, 0.25]], "audio"),
    ],
)  # fmt: skip
def test_sound_that_is_none_is_one_line(sound: Any, key: str) -> None:
    if key == "audio":  # two short sounds
        assert len(tiny("whisper").encode_source(sound).states) == 2
        return
    with pytest.raises(QkvError) as caught:
        tiny("whisper").generate(sound, max_new_tokens=3)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)


LANGUAGES = {"<|en|>": 31, "<|zh|>": 37, "<|fr|>": 43}


def speaking(tmp_path: Path, **changes: Any) -> Any:
    copy = Copy(tmp_path, "whisper")
    values = {"lang_to_id": LANGUAGES, "task_to_id": {"transcribe": 47, "translate": 53}, "no_timestamps_token_id": 59}
    copy.json("generation_config.json", **values | changes)
    return copy.load()


def test_transcribing_begins_with_language_and_task(tmp_path: Path) -> None:
    model, sound = speaking(tmp_path), given("whisper", 23)
    asked = model.transcribe(sound, language="zh", task="translate", max_new_tokens=5)
    assert asked == model.generate(sound, decoder_ids=[3, 37, 53, 59], max_new_tokens=5)
    logits = model.logits(sound, decoder_ids=[3])[-1]
    likeliest = max(LANGUAGES.values(), key=lambda token: logits[token])
    heard = model.transcribe(sound, max_new_tokens=5)
    assert heard == model.generate(sound, decoder_ids=[3, likeliest, 47, 59], max_new_tokens=5)
    assert model.transcribe([sound, given("whisper", 7)], max_new_tokens=5)[0] == heard
    for wrong in ({"language": "xx"}, {"task": "sing"}):
        with pytest.raises(QkvError) as caught:
            model.transcribe(sound, **wrong)
        assert caught.value.key == "choice"


def test_transcribing_with_a_model_of_one_language(tmp_path: Path) -> None:
    model, sound = speaking(tmp_path, lang_to_id=..., task_to_id=...), given("whisper", 7)
    assert model.transcribe(sound, max_new_tokens=5) == model.generate(sound, decoder_ids=[3, 59], max_new_tokens=5)
    with pytest.raises(QkvError, match="language has no effect when the model knows one language"):
        model.transcribe(sound, language="en")


def test_from_the_command_line(tmp_path: Path) -> None:
    path, model = write_wav(tmp_path / "a.wav", TONE), speaking(tmp_path)
    options = ["--model", str(model.directory), "--max-new-tokens", "4"]
    run = CliRunner().invoke(command("en"), ["generate", str(path), *options, "--language", "en"])
    expected = model.transcribe(path, language="en", max_new_tokens=4)
    assert run.output.split() == [str(token) for token in expected]
    run = CliRunner().invoke(command("en"), ["generate", "a cat", "--model", str(TINY / "bart"), "--language", "en"])
    assert isinstance(run.exception, QkvError)
    assert run.exception.key == "unused"


# convolution


def test_a_convolution_by_hand() -> None:
    """Two features in, one out; the windows of three rows stand at every second row."""
    W = np.array([[[1.0], [10.0]], [[2.0], [20.0]], [[3.0], [30.0]]])
    x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    every = Convolution(W, np.array([0.5]), padding=1)(x)[:, 0]
    np.testing.assert_array_equal(
        every, [0.5 + 2 + 30, 0.5 + 1 + 20 + 33, 0.5 + 10 + 22 + 6, 0.5 + 11 + 4 + 90, 0.5 + 2 + 60]
    )
    np.testing.assert_array_equal(Convolution(W, np.array([0.5]), stride=2, padding=1)(x)[:, 0], every[::2])
    np.testing.assert_array_equal(Convolution(W)(x)[:, 0], every[1:-1] - 0.5)


def test_a_convolution_of_a_batch_and_of_the_wrong_width() -> None:
    layer = Convolution.init(5, 7, 3, stride=2, padding=1, seed=3)
    x = np.random.default_rng(0).normal(size=(2, 11, 5))
    np.testing.assert_allclose(layer(x)[1], layer(x[1]), rtol=0, atol=1e-12)
    for wrong in (x[..., :4], x[:, :0], x[0, 0]):
        with pytest.raises(QkvError):
            Convolution(layer.W)(wrong)


def test_without_a_file_it_hears_as_the_paper_says(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "whisper")
    assert copy.load().hearing == Hearing(80, RATE, 400, 160, 1)
    (copy.directory / "preprocessor_config.json").unlink()
    assert copy.load().hearing == Hearing(80, RATE, 400, 160, 1)
