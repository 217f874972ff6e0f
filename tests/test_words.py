"""What a person reads: the same keys and facts in each language, nothing missing, nothing left over."""

from __future__ import annotations

import ast
import re
import string

import pytest
from tests.source import PACKAGE, WATCHED, callee, constants, literals, nodes, parameters, pieces

from qkv import words
from qkv.contract import OPS
from qkv.errors import MESSAGES, ArgumentError, DtypeError, FileError, ShapeError

# English errors live where they are raised, so these keys are Chinese alone.
TRANSLATED = ("error.", "fact.")
# Keys of ops and messages, each with a test of its own below.
NAMED = ("value.", "error.", "fact.")
FORMATTER = string.Formatter()


def keys(lang: str) -> set[str]:
    return {key for key in words.texts(lang) if not key.startswith(TRANSLATED)}


def placeholders(text: str) -> set[tuple[str, str, str]]:
    """Each placeholder as name, format and conversion."""
    return {(name, spec or "", how or "") for _, name, spec, how in FORMATTER.parse(text) if name is not None}


def variables() -> list[tuple[str, str]]:
    return [(op, name) for op in WATCHED for name in OPS[op].axes]


# both languages


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_each_language_has_the_same_keys(lang):
    assert keys(lang) == keys("en")
    assert len(keys(lang)) > 100


@pytest.mark.parametrize("key", sorted(keys("en") & keys("zh")))
def test_each_language_names_the_same_facts(key):
    assert placeholders(words.texts("zh")[key]) == placeholders(words.texts("en")[key])


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_no_text_is_empty(lang):
    assert [key for key, text in words.texts(lang).items() if not text.strip()] == []


# values and formulas


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_every_declared_variable_is_explained_and_nothing_else(lang):
    explained = {key for key in words.texts(lang) if key.startswith("value.")}
    assert explained == {f"value.{op}.{name}" for op, name in variables()}


@pytest.mark.parametrize("lang", words.LANGUAGES)
@pytest.mark.parametrize(("op", "name"), variables())
def test_an_explanation_is_short_and_names_only_axes_of_its_variable(op, name, lang):
    text = words.texts(lang)[f"value.{op}.{name}"]
    assert len(text) <= 200
    assert text.count("." if lang == "en" else "。") <= 3
    assert {fact for fact, _, _ in placeholders(text)} <= set(OPS[op].axes[name])
    sizes = dict.fromkeys(OPS[op].axes[name], 7)
    assert "{" not in words.meaning(op, name, lang, sizes)


def test_every_computed_variable_has_a_formula_and_no_input_has():
    computed = {f"formula.{op}.{name}" for op, name in variables() if name not in parameters(OPS[op])}
    assert {key for key in words.texts("any") if key.startswith("formula.")} == computed


# errors


def test_every_error_is_said_in_chinese():
    assert {key for key in words.texts("zh") if key.startswith("error.")} == {f"error.{key}" for key in MESSAGES}


@pytest.mark.parametrize("key", MESSAGES)
def test_an_error_names_the_same_facts_in_chinese(key):
    assert placeholders(words.texts("zh")[f"error.{key}"]) == placeholders(MESSAGES[key])


# Facts that hold words, not names, shapes or what others wrote; and what is a word in them, not a piece of code.
PHRASES = ("expected", "name", "reason", "what", "kind", "scores", "near")
WORD = re.compile(r"(?<![\w.{'\"=])(?!inf\b|nan\b)[a-z]{2,}(?![\w.=(])")


def normal(text: str) -> str:
    return re.sub(r"{\w+}", "{}", text)


def given_as_facts() -> set[tuple[str, str]]:
    """Every English phrase that the package puts into an error, with the fact that it is."""
    found: set[tuple[str, str]] = set()
    functions = [node for node in nodes() if isinstance(node, ast.FunctionDef)]
    takes = [(f.name, [a.arg for a in f.args.args if a.arg not in ("self", "cls")]) for f in functions]
    for node in nodes():
        if isinstance(node, ast.Call) and callee(node).endswith("Error"):
            found |= {(k.arg or "", text) for k in node.keywords for text in literals(k.value)}
        elif isinstance(node, ast.Call):  # of a function that goes on to raise: its arguments are the facts
            positional = [pair for name, taken in takes if name == callee(node) for pair in zip(taken, node.args)]
            found |= {(name, text) for name, value in positional for text in literals(value) if " " in text}
        elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            found |= {(target.id.lower(), text) for text in literals(node.value) if " " in text}
        elif isinstance(node, ast.FunctionDef) and node.name in PHRASES:
            returns = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
            found |= {(node.name, text) for value in returns for text in literals(value)}
    phrases = {(fact, text) for fact, text in found if fact in PHRASES and WORD.search(text)}
    return {(fact, text) for fact, text in phrases if fact != "name" or " " in text}


def translated_facts() -> set[tuple[str, str]]:
    parts = [key.split(".", 2) for key in words.texts("zh") if key.startswith("fact.")]
    return {(fact, normal(text)) for _, fact, text in parts}


def test_every_english_phrase_in_an_error_is_translated():
    assert sorted(given_as_facts() - translated_facts()) == []


def test_no_translated_phrase_is_left_over():
    assert sorted(translated_facts() - given_as_facts()) == []


SAID = [
    (ShapeError("same_size", name="k", axis="d_k", size=5, other="q", other_size=3), "k 的 d_k=5，但 q 的 d_k=3"),
    (ArgumentError("number", name="targets", expected="from 0 to 6", value=7), "targets 应为从 0 到 6 的数，实际是 7"),
    (
        DtypeError("dtype", name="the right side of &", expected="a rule", dtype="list"),
        "& 的右边：应为规则（Rule），实际是 list",
    ),
    (
        ShapeError("shape", name="sinks", expected="(3,), one per head", shape=(2,)),
        "sinks 的形状应为 (3,)，每个头一个，实际是 (2,)",
    ),
    (
        ArgumentError("number", name="length", expected="from 0 to 5, in a cache without a window", value=9),
        "length 应为从 0 到 5 的数，而且缓存不能带窗口，实际是 9",
    ),
    # what a caller gave is never translated, even if it is one of the phrases
    (ArgumentError("choice", name="layout", choices="half", value="integer"), "layout：只能是 half，实际是 'integer'"),
]


@pytest.mark.parametrize(("error", "said"), SAID)
def test_what_an_error_says_in_chinese(error, said):
    assert words.message(error, "zh") == said
    assert words.message(error, "en") == str(error)


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_a_message_is_one_line_whatever_it_holds(lang):
    """What a file holds must not move a cursor, change a colour or turn a line round."""
    name = "w\n\r\x1b[2J\x9b\u2028\u202e\ud800"
    error = FileError("tensor_missing", path="模型 👩\u200d👧", names=name)
    assert words.message(error, lang).endswith(r" w\n\r\x1b[2J\x9b\u2028\u202e\ud800")
    assert "模型 👩\u200d👧" in words.message(error, lang)
    assert error.facts["names"] == name


# the glossary


def test_the_glossary_has_the_words_of_the_field():
    terms = words.glossary()
    assert len(terms) >= 45
    assert terms["query"].word == {"en": "query", "zh": "查询"}
    for term in terms.values():
        assert set(term.meaning) == set(words.LANGUAGES)
        assert all(0 < len(line) <= 120 and "\n" not in line for line in term.meaning.values())
        assert not set(term.avoid) & set(term.word.values())
    for lang in words.LANGUAGES:
        assert len({term.word[lang] for term in terms.values()}) == len(terms)


def test_no_other_word_is_used_for_a_term():
    chinese = words.texts("zh") | {f"glossary.{name}": term.meaning["zh"] for name, term in words.glossary().items()}
    avoided = {word: name for name, term in words.glossary().items() for word in term.avoid}
    assert [(key, word) for key, text in chinese.items() for word in avoided if word in text] == []


# Terms whose English word means nothing else, so that where it stands the Chinese word must stand too.
UNMISTAKABLE = (
    "token", "query", "causal_mask", "residual_stream", "feed_forward", "cross_attention", "softmax", "kv_cache",
    "embedding", "dot_product", "gradient", "vocabulary", "activation",
)  # fmt: skip


@pytest.mark.parametrize("name", UNMISTAKABLE)
def test_a_term_has_the_same_word_in_every_text(name):
    english, chinese = (words.glossary()[name].word[lang] for lang in ("en", "zh"))
    stem = english.removesuffix("y") + "(y|ies)" if english.endswith("y") else english + "s?"
    spoken = re.compile(rf"(?<![\w-]){stem}(?!\w)", re.IGNORECASE)
    plain = {key: re.sub(r"{.*?}", "", words.texts("en")[key]) for key in keys("en") & keys("zh")}
    using = [key for key, text in plain.items() if spoken.search(text)]
    assert using
    assert [key for key in using if chinese.lower() not in words.texts("zh")[key].lower()] == []


# keys and the code that says them


def tables() -> set[str]:
    return {key.split(".")[0] for key in keys("en")}


def joined_keys() -> set[str]:
    """The f-strings that begin like a key, with a zero character for each value: `step.\\0`."""
    found = [pieces(node) for node in nodes() if isinstance(node, ast.JoinedStr)]
    keyed = [parts for parts in found if parts and (parts[0] or "").split(".")[0] in tables() and "." in parts[0]]
    return {"".join("\0" if part is None else part for part in parts) for parts in keyed}


def speakable() -> set[str]:
    """What may stand in such a gap: a string or a name that is written somewhere, an option, Q, K or V."""
    options = {
        text.strip("-.").replace("-", "_") for text in constants() if text.startswith("--") or text.endswith(".")
    }
    fields = {n.target.id for n in nodes() if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return constants() | options | fields | set("QKV")


def test_every_key_is_said_somewhere():
    gaps = [re.compile("(.+)".join(map(re.escape, text.split("\0")))) for text in joined_keys()]
    can_say, written = speakable(), constants()

    def is_said(key: str) -> bool:
        fillings = [found.groups() for gap in gaps if (found := gap.fullmatch(key))]
        return any(all(part in can_say for text in parts for part in text.split(".")) for parts in fillings)

    left = [key for key in keys("en") if key not in written and not key.startswith(NAMED)]
    assert [key for key in left if not is_said(key)] == []


def test_every_key_that_is_said_exists():
    written = constants("walkthrough", "views", "cli", "trace") - {text.split("\0")[0] for text in joined_keys()}
    like_keys = {text for text in written if re.fullmatch(r"[a-z]+\.\w+", text) and text.split(".")[0] in tables()}
    names_of_files = {file.name for file in PACKAGE.rglob("*")}
    assert sorted(like_keys - keys("en") - names_of_files) == []
