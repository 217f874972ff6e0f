"""Chat templates that want more than a chat: time, memory, what they were not given."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from qkv.errors import FileError
from qkv.io.tokens import sandbox
from qkv.io.tokens.chat import ChatTemplate

MESSAGES = [{"role": "user", "content": "hello"}]


def rendered(source: str, content: str = "hello") -> str:
    return ChatTemplate(Path("a template"), source, bos_token="<s>").render([{"role": "user", "content": content}])


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ ('a ' * 50000) | urlize }}",
        "{{ range(99999) | map('string') | map('center', 100000) | join }}",
    ],
)
def test_a_template_without_end_is_stopped(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 0.1)
    before, start = sys.gettrace(), time.thread_time()
    with pytest.raises(FileError, match=r"the chat template of a template cannot be used: more than 0\.1 s of comput"):
        rendered(source)
    assert time.thread_time() - start < 1.5
    assert sys.gettrace() is before


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 10**10 }}",
        "{{ [0] * 10**9 }}",
        "{{ 10 ** (10 ** 3) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:>{}}'.format(1, 1000000000) }}",
        "{{ 'x'.center(10**9) }}",
        "{{ 'x' | center(1000000000) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ 'x' | indent(10**9, true) }}",
        "{{ [1] | tojson(indent=10**9) }}",
        "{{ ('x' * 100000).replace('x', 'y' * 100000) }}",
        "{{ ('x' * 100000) | replace('x', 'y' * 100000) }}",
        "{{ ('x' * 100000) | join('y' * 1000000) }}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=3) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}"
        "{% set x %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = x %}{% endfor %}",
        "{{ range(10**12) }}",
    ],
)
def test_a_template_makes_nothing_huge(source: str) -> None:
    start = time.thread_time()
    with pytest.raises(FileError, match="the chat template of a template cannot be used: ") as caught:
        rendered(source)
    assert "MemoryError" not in str(caught.value)  # refused beforehand
    assert time.thread_time() - start < 1


@pytest.mark.parametrize(
    "source",
    [
        "{{ ().__class__.__bases__[0].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ self.__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'content': 'other'}) }}",
        "{% include '/etc/hostname' %}",
        "{% import 'os' as os %}",
        "{{ lipsum(n=1000000) }}",
    ],
)
def test_a_template_has_what_it_is_given(source: str) -> None:
    with pytest.raises(FileError, match="the chat template of a template cannot be used: "):
        rendered(source)


def test_what_templates_do_is_done() -> None:
    source = (
        "{{ bos_token ~ messages[0].content ~ 1 }}{{ '-' * 3 }}{{ [1] + [2] }}{{ 2 ** 3 }}{{ '%02d' % 5 }}"
        "{{ '{:>4}'.format('a') }}{{ 'a' | center(3) }}|"
        "{{ messages | tojson(indent=None) }}{{ 'a-b'.replace('-', '+') }}"
        "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('é') }}{{ [1, 2] | join(', ') }}{{ 7 % 4 }}"
    )
    expected = '<s>hello1---[1, 2]805   a a |[{"role": "user", "content": "hello"}]a+b<é>1, 23'
    assert rendered(source) == expected


def test_what_is_said_may_be_anything() -> None:
    said = "100%1000000 {:>1000000000} {{ 'x' * 10**10 }} " + "x" * 10**5
    assert rendered("{{ (messages[0].content | trim).replace('é', 'e') ~ '.' }}", said) == f"{said}."
