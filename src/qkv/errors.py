"""What can go wrong, as a key with its facts: one English line here, the Chinese one in `qkv.words`.

A caller who meets one of these reads what was expected and what came. A program reads `key` and `facts`.
"""

from __future__ import annotations

from typing import Any
from unicodedata import category

MESSAGES = {
    # arrays and their shapes
    "axes": "{name} must have at least {expected} axes {axes}, but its shape is {shape}",
    "dtype": "{name} must be {expected}, but its dtype is {dtype}",
    "same_size": "{name} has {axis}={size} but {other} has {axis}={other_size}",
    "groups": "q has {n_heads} heads, which is no multiple of the {n_kv_heads} heads of k and v",
    "batch": "the leading axes of {names} do not broadcast: {shapes}",
    "broadcast": "{name} has shape {shape}, which does not broadcast to the scores {scores}",
    "width": "{name} is {size} wide, but its weights {weights} take {expected}",
    "watched": "{name} is for qkv.attention; this returns its output alone, and qkv.record() shows the rest",
    "rows": "{name} has shape {shape}, which does not fit the rows {rows} of x",
    "shape": "{name} must have shape {expected}, but its shape is {shape}",
    "table": "{name} says {expected} {axis}, but {shape} came with {size}",
    "ragged": "{name} is no array: its rows are not of one length",
    "masked": "{name} is a masked array, whose mask would be ignored; give {name}.data, or {name}.filled(...)",
    # arguments of attention
    "mask_dtype": "mask must be boolean (True = may look), but its dtype is {dtype}; "
    "to add numbers to the scores use bias=",
    "bias_dtype": "bias must be a number to add to each score, but its dtype is {dtype}; to hide keys use mask=",
    "attn_mask_dtype": "attn_mask must be boolean (True = may look) or floating-point (added to the scores), "
    "but its dtype is {dtype}: attn_mask.astype(bool) or attn_mask.astype(float) says which",
    "rule_truth": "the rule {rule} is neither true nor false; combine rules with & | ~, not with and, or, not",
    "offset_needed": "q has Tq={Tq} but k has Tk={Tk}, so {rule} needs offset=: "
    "{continued} (Tk - Tq) to continue a sequence, 0 to align the first query with the first key",
    "number": "{name} must be {expected}, but it is {value!r}",
    "choice": "{name} must be one of {choices}, but it is {value!r}",
    "divides": "{name}={size} must be a multiple of {by}={by_size}",
    "positions": "{name} reaches position {last}, but {known} positions are known",
    "together": "{one} cannot be given together with {other}",
    "unused": "{name} has no effect when {reason}",
    # watching
    "contract": "{op}: {name} has {axis}={size}, but {axis} is {other_size} in {other}",
    "rank": "{op}: {name} is declared {axes}, but its shape is {shape}",
    "no_entry": "the trace holds no {path!r}; near it: {near}",
    "never_fired": "edit: nothing ran at {paths}; what ran: {near}",
    "edit_shape": "edit at {path!r} must keep the shape {expected}, but returned {shape}",
    "frozen": "edit at {path!r}: the other run has shape {other_shape} there, this one {shape}",
    # the walk-through
    "too_many_numbers": "{name} would hold {size} numbers, but an array of a walk may hold {limit} at most",
    "empty_text": "there is no token in the text: give at least one character or word",
    "no_step": "there is no step {name!r}; the steps are: {choices}",
    "no_token": "there is no token {token!r} in the sentence; its tokens are: {tokens}",
    # files
    "no_benchmarks": "the measurements come with the source of qkv, not with the installed package",
    "no_file": "no such file: {path}",
    "not_a_file": "{path} is not a {kind}",
    "pickle": "{path} is a pickle, which can run code when it is opened; convert it to safetensors first",
    "damaged": "{path} is damaged or not what it says: {reason}",
    "no_architecture": "{path} asks for architecture {architecture!r}; known are: {known}",
    "config_missing": "{path} has no {name!r}",
    "config_unknown": "{path}: {name!r} is not a setting that is understood; it would have been ignored",
    "config_value": "{path}: {name!r} must be {expected}, but it is {value!r}",
    "tensor_missing": "{path} has no tensor {names}",
    "tensor_left_over": "{path} has tensors that no part of the model uses: {names}",
    "tensor_shape": "{path}: tensor {name!r} must have shape {expected}, but its shape is {shape}",
    "tensor_value": "{path}: tensor {name!r} holds {what}",
    "tensor_dtype": "{path}: tensor {name!r} must hold floating-point numbers, but its dtype is {dtype}",
    "not_a_directory": "{path} is not a directory with a model in it",
    "exists": "there is a file {path} already; it was left as it is",
    "cannot_write": "{path} cannot be written: {reason}",
    "memory": "there is not enough memory for this",
    "cannot_read": "{path} cannot be read: {reason}",
    "too_large": "{path} has {size} bytes, but at most {limit} are read of such a file",
    "too_many_pixels": "{path} asks for an image of {height} x {width} pixels, but at most {limit} are computed",
    "no_preprocessing": "{path} has no preprocessor_config.json to say how an image becomes numbers; "
    "give an array of floats (channels, height, width), ready as the model takes it",
    "module": "{path} asks for {name!r}; known are, in this order: {known}",
    "no_ids": "{path} does not say which token ids were run",
    "other_model": "{path} is a trace of a {other!r}, but the model is a {model!r}",
    "other_layers": "{path} is a trace of a model of {other} layers, but this one has {n}",
    "nothing_shared": "{path} holds no step of this model",
    "not_of_text": "this is for an encoder or a decoder of text, and the model is of another kind ({kind}); "
    "qkv see shows the heads of all kinds",
    # fetching models
    "no_model_there": "no such file: {path}, and no model of that name was fetched; "
    "qkv models list shows those that were",
    "no_model": "no model was named: say --model PATH, or fetch a small one first: qkv models pull {small}",
    "hub": "{name} cannot be fetched: {reason}",
    "hub_file": "{name} has no file {file!r} that is a GGUF; there are: {known}",
    "hub_no_weights": "{name} has no config.json with safetensors; of its GGUF files name one with --file: {known}",
    "hash": "{path} is not what it should be, and was thrown away: its hash is {found}, not {expected}",
    "package": "the package {package} cannot be fetched: {reason}",
    "no_tokenizer": "{path} has no tokenizer.json, so it cannot read text; give token ids",
    "tokenizer_kind": "{path} asks for a tokenizer of the kind {kind!r}; known are: {known}",
    "more_tokens": "{path}: the tokenizer has {size} words, but the model has rows for {rows} only",
    # what goes into a model
    "model_input": "{name} must be {expected}, but {what} came",
    "token_id": "token ids must lie from 0 to {last}, but {value} came",
    "empty_text_at": "there is no token in text {index} of the list (counted from 0)",
    "no_pooling": "{path} has no modules.json to say how the vectors of tokens become one; "
    "say it with pooling=, or --pooling on the command line: one of {choices}",
    "image_size": "the image is {height} x {width} pixels with {channels} channels, but the model takes "
    "{expected_height} x {expected_width} with {expected_channels}",
    "no_labels": "{path} has no head that classifies",
    "no_end_token": "text {index} of the list (counted from 0) has no end token {end}, at which it is read off",
    "too_long": "the text has {size} tokens, but the model takes at most {limit}; nothing is cut silently",
    "too_long_to_go_on": "the prompt has {size} tokens and {new} more are asked for, but the model takes at most "
    "{limit}; ask for fewer, or say slide=True (--slide) to forget the older ones",
    "logits": "the logits hold {what}; qkv verify says from which step on there are such numbers",
    "no_head": "the model came without a head: it gives hidden states, but no logits and no text",
    "no_task_head": "the model has no head {head!r}, which this needs; the heads that it has: {there}",
    "no_task_heads": "the model has no head {head!r}, which this needs; it has no head at all",
    "no_mask": "there is no mask in the text: write {mask} where a word is hidden",
    "no_mask_token": "{path} names no mask token, so there is no way to hide a word from it",
    "not_an_encoder": "{path} holds another kind of model than this needs: give an encoder of text",
    "not_a_classifier": "{path} holds a model that gives no labels: give one with a head that classifies",
    "cannot_generate": "{path} holds a model that writes no text: give a decoder or an encoder-decoder",
    "other_regime": "the caches hold {seen} tokens, whose positions are encoded otherwise in a sequence of {size}; "
    "give the whole sequence to new caches",
    "other_context": "the cache holds keys and values of another context; each context needs a new one",
    "decoder_ids_needed": "an encoder-decoder needs decoder_ids=: what has been written so far, "
    "which begins with {start}",
    "other_source": "the source was encoded by another model; give what it was made of",
    "no_decoder": "this model only reads: encode_source(...).states are what it gives",
    "no_start": "{path} does not say with which token an answer begins; give decoder_ids=",
    "answer_long": "an answer begins with {size} tokens and {new} more are asked for, but the model writes at most "
    "{limit}; ask for fewer",
    "cannot_hear": "{path} holds a model that reads text; a speech model is needed to transcribe",
    "empty_audio": "there is no sample in the sound",
    "audio_long": "the sound lasts {seconds:.1f} s, but the model hears at most {limit} s; cut it into pieces",
    "wav_rate": "{path} has {rate} samples a second, but the model hears {expected}; convert it first, for example "
    "with ffmpeg -i in.wav -ar {expected} out.wav",
    "wav_long": "{path} lasts {seconds:.0f} s, but at most {limit} s are read of a file; cut it into pieces",
    "other_vocabulary": "a draft must have the vocabulary of the model, {size} tokens, but it has {other_size}",
    "other_token": "a draft must have the vocabulary of the model, but token {id} is another one there",
    "full": "the chat has {size} tokens, and the model takes {limit} at most: there is no room for an answer; "
    "/reset begins anew, --slide forgets the older half",
    "no_answer": "there is no answer yet to look into",
    "no_text": "what came on standard input is no text in UTF-8",
    "no_partner": "{path} holds no decoder, and only a decoder can continue a chat",
    "no_chat": "{path} has no chat template, so it was not taught to answer; --plain continues the text all the same",
    "no_chat_template": "{path} has no chat template; give the prompt as text",
    "chat": "the chat template of {path} cannot be used: {reason}",
    # progress, quizzes, grading
    "set_aside": "{path} was damaged ({reason}); it was set aside as {aside}, and progress begins anew",
    "store_version": "{path} is of version {version}, which another qkv wrote; this one knows {known}. "
    "Nothing was changed",
    "store_busy": "{path} was kept locked by another process for {seconds} s",
    "not_solved": "{task} is not solved yet: qkv hint {task} helps, or show the solution all the same with --reveal",
    "no_folder": "no such folder: {path}",
    "no_submissions": "{path} holds no submission: expected STUDENT/TASK.py or STUDENT_TASK.py",
    "extra": "this needs the package {package!r}: pip install 'qkv[{extra}]'",
}


# Direction marks that can turn a line round, so that it reads as something else.
TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


LONGEST = 2000  # characters of a message; what a file holds may be longer than anybody reads


def one_line(text: str) -> str:
    r"""A message that names what a file or a caller holds: whatever controls a terminal or ends a line is spelled out,
    and of what is very long the middle is left out.

    Examples
    --------
    >>> print(one_line("two\nlines, \x1b[31mred"))
    two\nlines, \x1b[31mred
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    if text.isprintable():
        return text
    hidden = (category(c) in ("Cc", "Cs", "Zl", "Zp") or ord(c) in TURNING for c in text)
    return "".join(c.encode("unicode_escape").decode() if hide else c for c, hide in zip(text, hidden))


class QkvError(Exception):
    """Something a caller did, or a file holds, that cannot be right.

    Parameters
    ----------
    key : str
        Which message: a key of `MESSAGES`.
    **facts
        What the message names. They stay as they came; the message is one line whatever they hold.

    Examples
    --------
    >>> print(ShapeError("same_size", name="k", axis="d_k", size=64, other="q", other_size=32))
    k has d_k=64 but q has d_k=32
    """

    def __init__(self, key: str, **facts: Any) -> None:
        super().__init__(one_line(MESSAGES[key].format(**facts)))
        self.key = key
        self.facts = facts

    def __str__(self) -> str:
        return str(self.args[0])


class ShapeError(QkvError, ValueError):
    """Arrays whose shapes do not fit."""


class DtypeError(QkvError, TypeError):
    """An array of a kind that cannot be used here."""


class ArgumentError(QkvError, ValueError):
    """An argument outside what it may be."""


class WatchError(QkvError, KeyError):
    """A path that was never computed, or an edit that cannot be applied."""


class FileError(QkvError, ValueError):
    """A file that is missing, damaged, hostile or not understood."""


class MissingExtraError(QkvError, ImportError):
    """A package of an extra that is not installed."""
