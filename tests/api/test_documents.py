"""Documents through a real model: an untrained one, since the search keeps spans anyway."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from clearhead import api
from clearhead.api.documents import translate_file, translated_data
from clearhead.api.loading import load_translator
from clearhead.api.translator import Translator
from clearhead.decoding.ctranslate2_engine import AutoEngine
from clearhead.decoding.engine import Hypothesis
from clearhead.decoding.texts import translate_texts, warn_of_hypotheses
from clearhead.errors import ConfigError, DataError, TextWarning
from clearhead.inspect.alignment import pair_of
from clearhead.inspect.recording import masked_pair
from clearhead.settings import SearchConfig
from clearhead.text.spans import SYMBOLS
from small_runs import small_run

SPANS = re.compile(r"%[sd]|\{\w*\}|</?\w+[^<>]*>|https?://[\w./]+")

PO = """\
msgid ""
msgstr ""
"Language: \\n"

msgid "a %s b <b>c</b> {name}"
msgstr ""

msgid "a %d"
msgid_plural "b %d c"
msgstr[0] ""
msgstr[1] ""

msgid "done"
msgstr "fertig"
"""
HTML = '<html><p id="x">a <b>b <i>c</i></b> a<br>b %s.</p><img alt="c b"><pre>a</pre></html>'


@pytest.fixture(scope="module")
def protecting(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    config = small_run(tmp_path_factory.mktemp("run"), max_steps=2)
    tokenizer = replace(config.tokenizer, protect=("software",))
    config = replace(config, tokenizer=tokenizer)
    api.train(config, observers=())
    return load_translator(config.folder, engine="torch")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    config = small_run(tmp_path_factory.mktemp("plain"), max_steps=2)
    api.train(config, observers=())
    return load_translator(config.folder, engine="torch")


def spans(text: str) -> Counter[str]:
    return Counter(SPANS.findall(text))


@pytest.mark.parametrize("method", ["beam", "sampling"])
def test_the_search_keeps_placeholders(protecting: Translator, method: str) -> None:
    texts = ["a %s b", "c", "{x} a {x} {y}", "a https://a.b/c %d %s"]
    choices: Any = {"method": method, "n_best": 2} | ({"beam_size": 2} if method == "beam" else {})
    for text, hypotheses in zip(texts, protecting.translate(texts, **choices), strict=True):
        for hypothesis in hypotheses:
            assert spans(hypothesis.text) == spans(text)
            assert not set(SYMBOLS) & set(hypothesis.text)
            assert "spans" not in [remark.kind for remark in hypothesis.warnings]


@pytest.mark.parametrize("name", ["protecting", "plain"])
def test_a_catalogue(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    translator: Translator = request.getfixturevalue(name)
    path, output = tmp_path / "app.po", tmp_path / "app.de.po"
    path.write_text(PO, encoding="utf-8")
    result = translate_file(translator, path, output, beam_size=1)
    written = output.read_text(encoding="utf-8")
    assert result.texts == 3
    assert [each.reason for each in result.skipped] == ["translated already"]
    assert spans(written) == Counter({k: 2 * n for k, n in spans(PO).items()}) + Counter()
    assert 'msgstr "fertig"' in written


@pytest.mark.parametrize("name", ["protecting", "plain"])
def test_a_page(name: str, request: pytest.FixtureRequest) -> None:
    translator: Translator = request.getfixturevalue(name)
    done = translator.translate_text(HTML, format="html", beam_size=1)
    tags = re.findall(r"<[^>]*>", done)
    assert [re.sub('alt="[^"]*"', "", tag) for tag in tags] == [
        re.sub('alt="[^"]*"', "", tag) for tag in re.findall(r"<[^>]*>", HTML)
    ]
    assert "<pre>a</pre>" in done


def test_an_output_is_written_only_if_all_is_well(plain: Translator, tmp_path: Path) -> None:
    path, output = tmp_path / "bad.json", tmp_path / "out.json"
    path.write_text("{", encoding="utf-8")
    output.write_text("before")
    with pytest.raises(DataError):
        translate_file(plain, path, output)
    assert output.read_text() == "before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad.json", "out.json"]


def test_a_format_is_known_or_named(plain: Translator, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("a b")
    for form in (None, "pdf"):
        with pytest.raises(ConfigError):
            translate_file(plain, path, tmp_path / "out", form)
    translate_file(plain, path, tmp_path / "out", "text", beam_size=1)
    with pytest.raises(ConfigError):
        translated_data(plain, b"a", "text", column="b")
    with pytest.raises(DataError):
        translate_file(plain, tmp_path / "missing.txt", tmp_path / "out")


def test_long_sentences_are_divided(plain: Translator) -> None:
    text = "a b c, " * 400
    result = translated_data(plain, text.encode(), "text", beam_size=1, max_length=3)
    assert "divided" in [remark.kind for _, remark in result.remarks]


def test_the_whole_way_is_masked_alike(protecting: Translator) -> None:
    source, target = masked_pair(protecting, "a %s `b c` d", "d `b c` a %s %s")
    symbols = [found for found in source if found in SYMBOLS]
    assert len(symbols) == 2
    assert target == f"d {symbols[1]} a {symbols[0]} %s"


def test_alignment_numbers_the_words_of_the_text(protecting: Translator) -> None:
    _, source, target = pair_of(protecting, "a `b c` <b>d", "<b>d `b c` a")
    assert [word.text for word in source] == ["a", "`b", "c`", "<b>d"]
    assert [word.text for word in target] == ["<b>d", "`b", "c`", "a"]
    assert source[1].positions == source[2].positions
    assert len({word.positions for word in source}) == 3


def test_a_prefix_with_an_accelerator_stays(tmp_path: Path) -> None:
    config = small_run(tmp_path, max_steps=2)
    config = replace(config, tokenizer=replace(config.tokenizer, accelerator="_"))
    api.train(config, observers=())
    translator = load_translator(config.folder, engine="torch")
    (one, *_), (other, *_) = translator.translate(["_a b"] * 2, prefixes=["_b", ""], beam_size=1)
    assert "_" not in one.text  # this vocabulary lacks it; none is added to that of a prefix
    assert other.text.count("_") == 1


def test_a_text_in_python_is_no_bytes(plain: Translator) -> None:
    text = '<meta charset="iso-8859-1"><p>12 €</p>'
    assert plain.translate_text(text, format="html", beam_size=1) == text
    with pytest.raises(ConfigError):
        plain.translate_text("a", format="docx")


def test_pytorch_repeats_what_ctranslate2_did_not_copy(protecting: Translator) -> None:
    tokenizers = protecting.source_tokenizer, protecting.target_tokenizer
    output = (tokenizers[1].encode("b")[-1],)

    class Careless:
        """Gives each sentence an output without symbols."""

        longest_source = 100

        def unsupported(self, sentences: object, search: object) -> None:
            return None

        def translate(self, sentences: Any, search: Any, **_: Any) -> list[list[Hypothesis]]:
            return [[Hypothesis(output, 0.0, (), 0.0, True)] for _ in sentences]

    engine = AutoEngine(cast(Any, Careless()), lambda: cast(Any, protecting.engine))
    search = SearchConfig(beam_size=1)
    found = translate_texts(engine, tokenizers, ["a %s", "b"], search, protecting.protection)
    assert engine.repeated == 1
    assert "%s" in found[0][0].text
    assert found[1][0].tokens == output
    careless = translate_texts(
        cast(Any, Careless()), tokenizers, ["a %s", "%s"], search, protecting.protection
    )
    with pytest.warns(TextWarning) as warned:
        warn_of_hypotheses(careless, 0)
    assert [(each.message.kind, len(each.message.lines)) for each in warned] == [("spans", 2)]  # type: ignore[union-attr]
