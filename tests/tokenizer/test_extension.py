"""New words are tokens of their own, and all other text is encoded as before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead import api
from clearhead.errors import ConfigError, TrainingError
from clearhead.folder.model_folder import open_folder
from clearhead.folder.tensors import read_tensors
from clearhead.settings import TokenizerConfig, config_from
from clearhead.tokenizer import SYMBOLS, Tokenizer, learn_tokenizer
from clearhead.tokenizer.extension import extended, has_symbols
from model_folders import reread
from small_runs import begun, small_run

TEXTS = ["the cat sees a dog", "a dog is on its way home", "Ein Hund, zwei Katzen"] * 3
NEW = ["covid", "Zwischenruf", "naïve", "dog"]


def learned(kind: str, lower: bool = False) -> Tokenizer:
    config = TokenizerConfig(kind=kind, max_vocabulary=320, lower=lower)  # pyright: ignore[reportArgumentType]
    return learn_tokenizer(TEXTS, config)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
@pytest.mark.parametrize("lower", [False, True])
def test_new_words_are_one_token_and_known_words_are_not_added(
    tmp_path: Path, kind: str, lower: bool
) -> None:
    old = learned(kind, lower)
    new, rows = extended(old, NEW)
    assert len(rows) == len(new)
    for word in NEW:
        (token,) = new.encode(word)
        assert rows[token] == old.encode(word)
        text = f"the cat sees {word} home"
        assert new.decode(new.encode(text)) == (text.lower() if lower else text)
    assert len(new) - len(old) == sum(
        len(old.encode(word)) > 1 or old.encode(word) == [old.unk_id] for word in NEW
    )
    # The unknown token is one token of the old vocabulary, wherever it is now.
    assert rows[new.unk_id] == [old.unk_id]
    assert reread(new, tmp_path).encode("a covid dog") == new.encode("a covid dog")


OLD = learned("bpe")
EXTENDED, _ = extended(OLD, NEW)


@given(st.text())
def test_other_texts_are_encoded_as_before(text: str) -> None:
    if not any(word in text for word in NEW):
        assert EXTENDED.encode(text) == OLD.encode(text)


@pytest.mark.slow
def test_a_run_starts_with_the_mean_vectors_and_translates_with_the_new_words(
    tmp_path: Path,
) -> None:
    first = small_run(tmp_path, "first", max_steps=2)
    api.train(first, observers=())
    run = begun(first, "next", tokenizer={"new_words": ["abcd", "hgfe"]})
    old = api.load_translator(first.folder).source_tokenizer
    pieces = old.encode("abcd")
    assert len(pieces) > 1
    assert api.train(run, observers=()).finished
    assert api.train(run, observers=()).finished  # resumes, without an error
    for words in ([], ["abcd"]):
        with pytest.raises(TrainingError) as caught:
            api.train(begun(first, "next", tokenizer={"new_words": words}), observers=())
        assert "tokenizer.new_words" in str(caught.value.why)
    # A run that starts from this one has its words without naming them, and resumes so.
    third = begun(run, "3", tokenizer={"new_words": []})
    for _ in range(2):
        assert api.train(third, observers=()).finished
    assert open_folder(tmp_path / "3").config.tokenizer.new_words == ("abcd", "hgfe")
    model = api.load_translator(run.folder)
    assert len(model.source_tokenizer.encode("abcd")) == 1
    assert model.translate(["abcd 1"])
    # With a rate of zero, the weights are those of the start.
    schedule = {"kind": "constant", "peak": 1e-30}
    training = {"max_steps": 1, "schedule": schedule}
    still = begun(first, "still", tokenizer={"new_words": ["abcd"]}, training=training)
    api.train(still, observers=())
    before, after = (
        read_tensors(Path(each.folder, "weights.safetensors"))[0] for each in (first, still)
    )
    name = "source_input.embedding.weight"
    mean = before[name][pieces].mean(0)
    torch.testing.assert_close(after[name][-1], mean)
    torch.testing.assert_close(after[name][:-1], before[name])


@pytest.mark.parametrize("words", [["two words"], [""]])
def test_a_word_with_spaces_is_rejected(words: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        config_from({"start_from": "runs/x", "tokenizer": {"new_words": words}})
    assert raised.value.setting == "tokenizer.new_words"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words"])
def test_symbols_of_masked_text_are_tokens_wherever_they_are(kind: str) -> None:
    old = learned(kind)
    assert not has_symbols(old)
    new, rows = extended(old, [], symbols=True)
    assert len(rows) == len(new)
    assert has_symbols(new)
    for symbol in SYMBOLS:
        (number,) = new.encode(symbol)[-1:]
        assert new.encode(f"the{symbol}, cat").count(number) == 1
    assert [new.encode(text) for text in TEXTS] == [old.encode(text) for text in TEXTS]
