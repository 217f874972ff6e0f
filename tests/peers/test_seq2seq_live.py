"""The same random encoder-decoders in transformers and here, made on the spot, and sound as it hears it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.seq2seq_fixture import CLOSE

from qkv.models import load
from qkv.models.log_mel import Hearing
from qkv.ops.biases import t5_buckets

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from scripts.make_tiny_seq2seq import FAMILIES, SECONDS, features_of, made, sound  # noqa: E402

SAME_DEPTH = {"num_decoder_layers": 2}  # transformers' cache of T5 has as many layers as the encoder
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in FAMILIES),
    ("t5", {"feed_forward_proj": "gated-silu"}),
    ("t5", {"feed_forward_proj": "gelu", "num_decoder_layers": None}),
    ("t5", {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}),
    ("t5_v1_1", {"tie_word_embeddings": True}),
    ("mt5", {"feed_forward_proj": "gated-relu"}),
    ("bart", {"scale_embedding": False, "activation_function": "relu"}),
    ("mbart", {"scale_embedding": False, "activation_function": "gelu_new"}),
    ("marian", {"encoder_layers": 1, "scale_embedding": False}),
    ("whisper", {"num_mel_bins": 128, "activation_function": "gelu_new"}),
    ("whisper", {"encoder_layers": 3, "decoder_layers": 1}),
]  # fmt: skip


def saved(family: str, changes: dict[str, Any], directory: Path) -> Any:
    peer = made(family, seed=len(changes) + 1, **changes)
    peer.float().save_pretrained(directory)
    return peer.double()


def source_of(family: str, seed: int, peer: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """What is given here, and there."""
    if family == "whisper":
        features = features_of(sound(seed, 0.3), peer.config.num_mel_bins, SECONDS)
        return features[0].numpy().astype(np.float32), {"input_features": features}
    ids = np.random.default_rng(seed).integers(2, 67, 5 + 13 * seed)
    return ids, {"input_ids": torch.tensor(ids)[None]}


@pytest.mark.parametrize(("family", "changes"), VARIANTS, ids=[f"{f}-{'-'.join(c)}" for f, c in VARIANTS])
def test_random_encoder_decoders(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    peer = saved(family, changes, tmp_path)
    model, worst = load(tmp_path), 0.0
    for seed in (1, 2):
        given, theirs = source_of(family, seed, peer)
        written = np.random.default_rng(seed + 10).integers(2, 67, 3 + 7 * seed)
        with torch.no_grad():
            expected = peer(**theirs, decoder_input_ids=torch.tensor(written)[None]).logits[0].numpy()
        worst = max(worst, float(np.abs(model.logits(given, decoder_ids=written) - expected).max()))
    print(f"{family} {worst:.1e}")
    assert worst < CLOSE["atol"]


@pytest.mark.parametrize(
    ("family", "changes"), [("t5", SAME_DEPTH), ("bart", {}), ("mbart", {"forced_bos_token_id": 5})]
)
def test_greedy_and_beams(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """Where both round, a tie could go either way: these seeds have none."""
    peer = saved(family, {"eos_token_id": 2, **changes}, tmp_path)
    model = load(tmp_path)
    for seed in range(4):
        ids = np.random.default_rng(seed).integers(3, 67, 9)
        for beams, penalty in ((1, 1.0), (3, 1.0), (4, 0.3)):
            how: dict[str, Any] = {"num_beams": beams} | ({"length_penalty": penalty} if beams > 1 else {})
            with torch.no_grad():
                out = peer.generate(torch.tensor(ids)[None], do_sample=False, max_new_tokens=9, **how)[0, 1:]
            expected = [token for token in out.tolist() if token not in (1, 2)]  # padding and the end
            ours = {"n_beams": beams, "length_penalty": penalty} if beams > 1 else {}
            assert model.generate(ids, max_new_tokens=9, **ours) == expected


@pytest.mark.parametrize(("name", "family"), [("T5Model", "t5"), ("BartModel", "bart"), ("WhisperModel", "whisper")])
def test_models_without_a_head(name: str, family: str, tmp_path: Path) -> None:
    peer = getattr(transformers, name)(made(family).config).eval()
    peer.save_pretrained(tmp_path)
    given, theirs = source_of(family, 1, peer)
    theirs = {key: value if key == "input_ids" else value.float() for key, value in theirs.items()}
    with torch.no_grad():
        expected = peer(**theirs, decoder_input_ids=torch.tensor([[3, 5, 11]])).last_hidden_state[0].numpy()
    np.testing.assert_allclose(load(tmp_path)(given, decoder_ids=[3, 5, 11]), expected, **CLOSE)


def test_an_encoder_alone(tmp_path: Path) -> None:
    peer = transformers.T5EncoderModel(made("t5").config).eval()
    peer.save_pretrained(tmp_path)
    ids = np.arange(3, 26)
    with torch.no_grad():
        expected = peer(torch.tensor(ids)[None]).last_hidden_state[0].numpy()
    np.testing.assert_allclose(load(tmp_path).encode_source(ids).states, expected, **CLOSE)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("n_buckets", "farthest"), [(32, 128), (8, 17), (64, 256)])
def test_the_buckets_of_every_distance(bidirectional: bool, n_buckets: int, farthest: int) -> None:
    """transformers takes its logarithms in float32; at no distance up to 3000 does that change a bucket."""
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = np.arange(-3000, 3001)
    theirs = T5Attention._relative_position_bucket(torch.tensor(distance), bidirectional, n_buckets, farthest).numpy()
    np.testing.assert_array_equal(t5_buckets(distance, n_buckets, farthest, bidirectional), theirs)


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.31, 29.9])
def test_features_of_sound(n_mels: int, seconds: float) -> None:
    """Float64 here, float32 there."""
    samples = sound(3, seconds)
    expected = features_of(samples, n_mels, 30)[0].numpy()
    features = Hearing(n_mels).features(samples)
    assert features.shape == expected.shape == (n_mels, 3000)
    print(f"{np.abs(features - expected).max():.1e}")
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-4)


def test_features_of_loud_noise_and_of_what_is_cut() -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, 17000).astype(np.float32)
    expected = features_of(samples, 80, 1)[0].numpy()
    np.testing.assert_allclose(Hearing(seconds=1).features(samples, cut=True), expected, rtol=0, atol=1e-4)
