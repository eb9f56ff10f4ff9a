"""Tokenizers: decoding gives the text again, and sampling has the distributions of the papers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import exp, sqrt
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from clearhead.errors import ConfigError, DataError, ModelFolderError
from clearhead.settings import RunConfig, TokenizerConfig, config_from
from clearhead.tokenizer import (
    BOS,
    EOS,
    PAD,
    NormalForm,
    SentencePieceTokenizer,
    Tokenizer,
    WordTokenizer,
    learn_tokenizer,
    read_tokenizers,
)
from model_folders import folder_with, reread

SENTENCES = (
    *("the cat is black", "the dog is black", "the cats are here", "hello world", "i love you"),
    *("good morning", "what is your name", "this is a book", "the house is old", "Übermut tut"),
    *("ich möchte ein bier", "ich möchte ein cola", "el gato es negro", "¿cómo te llamas?"),
    *("buenos días", "este es un libro", "the blackest cat", "one other mother", "other others"),
    "<pad> <s> </s> <0x41> are only words",
)
KINDS = ("bpe", "unigram")
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
plain_text = st.text("abchotr e", max_size=60)


@cache
def learned(
    kind: str, sampling: float = 0.0, lower: bool = False, byte_fallback: bool = True
) -> SentencePieceTokenizer:
    config = TokenizerConfig(
        kind="bpe" if kind == "bpe" else "unigram",
        max_vocabulary=340,
        sampling=sampling,
        lower=lower,
        byte_fallback=byte_fallback,
    )
    tokenizer = learn_tokenizer(SENTENCES, config)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


def words_of(
    texts: tuple[str, ...] = SENTENCES, max_vocabulary: int = 0, lower: bool = False
) -> WordTokenizer:
    return WordTokenizer.learn(texts, max_vocabulary=max_vocabulary, form=NormalForm(lower=lower))


# Whole words


def test_the_most_frequent_words_are_kept_sorted_between_the_special_symbols() -> None:
    tokenizer = words_of(("d b b c a",), max_vocabulary=3)
    assert tokenizer.words == ("a", "b", "c")  # of those that are as frequent, the first
    special = ["<pad>", "<sos>", "<eos>"]
    assert tokenizer.pieces(range(len(tokenizer))) == [*special, "a", "b", "c", "<unk>"]
    assert tokenizer.unk_id == len(tokenizer) - 1
    assert [PAD, BOS, EOS] == [0, 1, 2]
    assert words_of(("d b b c a",), max_vocabulary=0).words == ("a", "b", "c", "d")


@given(st.lists(st.sampled_from("the cat is black house".split()), max_size=9))
def test_known_words_come_back_joined_by_single_spaces(words: list[str]) -> None:
    tokenizer = words_of()
    assert tokenizer.decode(tokenizer.encode(" \t ".join(words))) == " ".join(words)


def test_an_unknown_word_reads_unk_and_special_symbols_are_ordinary_words() -> None:
    tokenizer = words_of(lower=True)
    ids = tokenizer.encode("THE zebra")
    assert ids[1] == tokenizer.unk_id
    assert tokenizer.decode([BOS, *ids, EOS, PAD]) == "the <unk>"
    tokenizer = words_of(("<pad> <unk> x",))
    ids = tokenizer.encode("<pad> <unk>")
    assert not {PAD, BOS, EOS, tokenizer.unk_id} & set(ids)
    assert tokenizer.decode(ids) == "<pad> <unk>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What's an atom?", "What 's an atom ?"),
        ("What 's an atom ?", "What 's an atom ?"),
        ('("Modesto, California!")', '( " Modesto , California ! " )'),
        (
            "well-known l'eau don\u2019t U.S. 3.5 $5",
            "well - known l 'eau don \u2019t U.S . 3.5 $ 5",
        ),
        (
            "a--b X11/foo 3,000 a,b snake_case 2026-11",
            "a - - b X11 / foo 3,000 a , b snake_case 2026 - 11",
        ),
        (
            "\u0635\u0647\u200c\u0628 col\u00b7lecci\u00f3",
            "\u0635\u0647\u200c\u0628 col\u00b7lecci\u00f3",
        ),
        ("\u00bfC\u00f3mo? -- the '90s' ...", "\u00bf C\u00f3mo ? - - the ' 90s ' . . ."),
        (
            "\u0928\u092e\u0938\u094d\u0924\u0947\u0964",
            "\u0928\u092e\u0938\u094d\u0924\u0947 \u0964",
        ),
        ("the '90s, 'quoted'.", "the '90s , ' quoted ' ."),
        ("\u2764\ufe0fgreat \u200bhi", "\u2764 \ufe0f great \u200b hi"),
        ("'", "'"),
        ("", ""),
    ],
)
def test_punctuation_is_split_from_words_if_configured(text: str, words: str) -> None:
    tokenizer = WordTokenizer.learn([text, "other"], split_punctuation=True)
    assert tokenizer.words_of(text) == words.split()
    assert tokenizer.decode(tokenizer.encode(text)) == words
    assert words_of((text, "other")).words_of(text) == text.split()


def test_punctuation_is_split_from_whole_words_alone() -> None:
    tree = {"task": "classification", "tokenizer": {"split_punctuation": True}}
    with pytest.raises(ConfigError) as raised:
        config_from(tree)
    assert raised.value.setting == "tokenizer.split_punctuation"


@given(any_text)
def test_splitting_punctuation_loses_nothing(text: str) -> None:
    words = WordTokenizer((), split_punctuation=True).words_of(text)
    assert "".join(words) == "".join(text.split())
    assert all(words)


# SentencePiece


@pytest.mark.parametrize("kind", KINDS)
def test_other_programs_can_read_the_model_file_with_the_same_special_ids(kind: str) -> None:
    model = learned(kind).files("source")["source.model"]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.encode(SENTENCES[0]) == learned(kind).encode(SENTENCES[0])
    ids = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
    assert ids == (PAD, BOS, EOS, 3)


@pytest.mark.parametrize("kind", KINDS)
@given(any_text)
@example("  two  leading, and trailing  ")
@example("\u2581 \U0010fffd1 \U0010fffd0 \U0010fffd")
@example("\0\t\r\n\x1b\u2028\ufeff\ufffd\u2585")
@example("<s> </s> <unk> <pad> <0x41> ⁇")
@example("")
@example(" ")
def test_what_is_decoded_from_what_was_encoded_is_the_text_again(kind: str, text: str) -> None:
    lowered = learned(kind, lower=True)
    assert lowered.decode(lowered.encode(text)) == text.lower()
    tokenizer = learned(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == text
    assert not {PAD, BOS, EOS} & set(ids)
    assert all(0 <= i < len(tokenizer) for i in ids)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_character_and_a_lone_surrogate_never_crash(kind: str) -> None:
    tokenizer = learned(kind, byte_fallback=False)
    assert "\ufffd" in learned(kind).decode(learned(kind).encode("a\ud800b"))
    ids = tokenizer.encode("the 漢字 cat")
    assert ids.count(tokenizer.unk_id) == 1
    assert tokenizer.decode(ids) == "the  ⁇  cat"
    assert tokenizer.decode(tokenizer.encode(SENTENCES[0])) == SENTENCES[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_encoded_like_its_texts(kind: str) -> None:
    tokenizer = learned(kind)
    texts = SENTENCES * 100  # enough that the cores share them
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == []
    # Without sampling a draw is the usual segmentation.
    assert tokenizer.sample_batch(SENTENCES, seed=1) == tokenizer.encode_batch(SENTENCES)


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_is_as_large_as_small_data_allow_and_always_the_same(kind: str) -> None:
    config = TokenizerConfig(kind="bpe" if kind == "bpe" else "unigram", max_vocabulary=8000)
    tokenizer = learn_tokenizer(SENTENCES, config)
    assert 260 < len(tokenizer) < 8000
    assert len(learned(kind)) <= 340
    vast = replace(config, max_vocabulary=10**12)
    assert learn_tokenizer(SENTENCES, vast).files("t") == tokenizer.files("t")


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_too_small_for_the_characters_says_what_it_needs(kind: str) -> None:
    config = TokenizerConfig(kind="bpe" if kind == "bpe" else "unigram", max_vocabulary=10)
    with pytest.raises(ConfigError) as raised:
        learn_tokenizer(SENTENCES, config)
    needed = int("".join(filter(str.isdigit, str(raised.value.todo))))
    assert len(learn_tokenizer(SENTENCES, replace(config, max_vocabulary=needed))) <= needed
    with pytest.raises(ConfigError):
        learn_tokenizer(SENTENCES, replace(config, max_vocabulary=needed - 1))


@pytest.mark.parametrize("kind", ["words", *KINDS])
def test_nothing_to_learn_from_is_an_error(kind: str) -> None:
    config = TokenizerConfig(kind=kind)  # pyright: ignore[reportArgumentType]
    for texts in ([], ["", "  "]):
        with pytest.raises(DataError):
            learn_tokenizer(texts, config)


@pytest.mark.parametrize("error", [DataError("not UTF-8", where="a:3"), KeyboardInterrupt()])
def test_an_error_in_the_texts_is_not_taken_for_the_trainers(error: BaseException) -> None:
    def texts() -> Iterator[str]:
        yield "hello world"
        raise error

    with pytest.raises(type(error)) as raised:
        learn_tokenizer(texts(), TokenizerConfig())
    assert raised.value is error


@pytest.mark.parametrize("mark", ["\0", "\u2585", "\u2581"])
def test_no_line_is_passed_over_in_learning(mark: str) -> None:
    config = TokenizerConfig(byte_fallback=False)
    tokenizer = learn_tokenizer(["abc", f"xyz {mark}", "q" * 50_000], config)
    assert tokenizer.unk_id not in tokenizer.encode("abc xyz qqq")
    # Nor is a space, however rare it was.
    tokenizer = learn_tokenizer(["x" * 100_000, "a b"], TokenizerConfig(max_vocabulary=270))
    assert tokenizer.decode(tokenizer.encode("x x")) == "x x"


# Sampling


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_is_a_function_of_texts_and_seed_alone_in_every_process(
    kind: str, tmp_path: Path
) -> None:
    tokenizer = learned(kind, sampling=0.3)
    first = tokenizer.sample_batch(SENTENCES, seed=7)
    assert all(tokenizer.sample_batch(SENTENCES, seed=seed) != first for seed in range(6))
    reread(tokenizer, tmp_path)
    program = (
        "import json, sys\n"
        "from clearhead.folder.model_folder import open_folder\n"
        "from clearhead.tokenizer import read_tokenizers\n"
        "tokenizer, _ = read_tokenizers(open_folder(sys.argv[1], trained=False))\n"
        "print(json.dumps(tokenizer.sample_batch(json.loads(sys.argv[2]), seed=7)))"
    )
    command = [sys.executable, "-c", program, str(tmp_path), json.dumps(SENTENCES)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == tokenizer.sample_batch(SENTENCES, seed=7) == first


@pytest.mark.parametrize("kind", KINDS)
@given(any_text, st.integers(0, 2**32))
@example("漢字" * 100 + " " + "x" * 200, 1)
def test_every_draw_writes_the_same_text(kind: str, text: str, seed: int) -> None:
    tokenizer = learned(kind, sampling=0.3)
    assert tokenizer.decode(tokenizer.sample_batch([text], seed)[0]) == text


@pytest.mark.parametrize("byte_fallback", [True, False])
@given(st.one_of(plain_text, any_text))
@example("the 漢字 cat, the blackest mother")
def test_bpe_with_next_to_no_merge_left_out_is_the_usual_segmentation(
    byte_fallback: bool, text: str
) -> None:
    tokenizer = learned("bpe", sampling=1e-300, byte_fallback=byte_fallback)
    # A "word" of more than 40 characters is drawn in parts.
    if max(map(len, text.split(" "))) <= 40:
        assert tokenizer.sample_batch([text], seed=1) == [tokenizer.encode(text)]


def merge_outcomes(word: str, scores: dict[str, float], p: float) -> dict[str, float]:
    """Algorithm 1 of Provilkov et al. by enumeration of all sets of skipped merges."""

    @cache
    def outcomes(symbols: tuple[str, ...]) -> dict[str, float]:
        sites = [i for i in range(len(symbols) - 1) if symbols[i] + symbols[i + 1] in scores]
        found: defaultdict[str, float] = defaultdict(float)
        for dropped in range(2 ** len(sites)):
            kept = [site for n, site in enumerate(sites) if not dropped >> n & 1]
            weight = p ** (len(sites) - len(kept)) * (1 - p) ** len(kept)
            if not kept:
                found["|".join(symbols)] += weight
                continue
            i = min(kept, key=lambda i: (-scores[symbols[i] + symbols[i + 1]], i))
            after = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])
            for outcome, share in outcomes(after).items():
                found[outcome] += weight * share
        return found

    return outcomes(tuple(word))


def lattice_outcomes(word: str, scores: dict[str, float], alpha: float) -> dict[str, float]:
    """Kudo's distribution by enumeration: p(segmentation)^alpha over the sum of all."""
    weights: dict[str, float] = {}
    for cuts in range(2 ** (len(word) - 1)):
        borders = [0, *(i + 1 for i in range(len(word) - 1) if cuts >> i & 1), len(word)]
        pieces = [word[start:end] for start, end in pairwise(borders)]
        if all(piece in scores for piece in pieces):
            weights["|".join(pieces)] = exp(alpha * sum(scores[piece] for piece in pieces))
    total = sum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["mother", "blacks"])
@pytest.mark.parametrize("strength", [0.1, 0.4])
def test_draws_have_the_distribution_of_the_papers(kind: str, word: str, strength: float) -> None:
    tokenizer = learned(kind, sampling=strength)
    processor = tokenizer._processor
    scores = {processor.id_to_piece(i): processor.get_score(i) for i in range(260, len(tokenizer))}
    written = "\u2581" + word
    expected = (
        merge_outcomes(written, scores, strength)
        if kind == "bpe"
        else lattice_outcomes(written, scores, strength)
    )
    assert len(expected) > 3
    assert sum(expected.values()) == pytest.approx(1.0)
    draws = 20_000
    drawn = Counter(
        "|".join(tokenizer.pieces(ids)) for ids in tokenizer.sample_batch([word] * draws, seed=3)
    )
    assert set(drawn) <= set(expected)
    for outcome, share in expected.items():
        spread = sqrt(draws * share * (1 - share))
        assert abs(drawn[outcome] - draws * share) < 5 * spread + 1


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_what_was_worked_out_changes_no_draw(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learned(kind, sampling=0.3).sample_batch(SENTENCES, seed=2)
    monkeypatch.setattr("clearhead.tokenizer.sampling._MAX_CACHED", 3)
    small_cache = SentencePieceTokenizer(
        learned(kind).model, kind="bpe" if kind == "bpe" else "unigram", sampling=0.3
    )
    assert small_cache.sample_batch(SENTENCES, seed=2) == expected


# Files


@pytest.mark.parametrize(
    "tokenizer",
    [
        *(words_of(), words_of(lower=True), WordTokenizer.learn(SENTENCES, split_punctuation=True)),
        *(learned("bpe", lower=True), learned("unigram", 0.2)),
    ],
    ids=["words", "words lowered", "words split", "bpe lowered", "unigram sampled"],
)
def test_a_saved_tokenizer_is_read_back_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    loaded = reread(tokenizer, tmp_path)
    text = "The CAT is <unk> black, 漢"
    assert loaded.files("t") == tokenizer.files("t")
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.sampling == tokenizer.sampling
    assert loaded.sample_batch([text], 3) == tokenizer.sample_batch([text], 3)
    assert (len(loaded), loaded.unk_id) == (len(tokenizer), tokenizer.unk_id)


def damaged(kind: str) -> Iterator[dict[str, bytes]]:
    """The files of a tokenizer with damage, as they would be in a folder without a manifest."""
    tokenizer: Tokenizer = words_of() if kind == "words" else learned(kind)
    files = tokenizer.files("tokenizer")
    description = files["tokenizer.json"]
    tree = json.loads(description)
    for content in (description[:-20], b"\xff\xfe", b"[]", b"{}"):
        yield {**files, "tokenizer.json": content}
    changes = {"kind": "runes", **({"words": 5} if kind == "words" else {"sampling": "much"})}
    for name, value in changes.items():
        yield {**files, "tokenizer.json": json.dumps({**tree, name: value}).encode()}
    for form in ({"unicode": 5}, {"unicode": "NFD"}, {"folded": "a"}):
        yield {**files, "tokenizer.json": json.dumps({**tree, "normal_form": form}).encode()}
    if kind != "words":
        model = files["tokenizer.model"]
        # The last: pieces that are not UTF-8.
        for content in (model[:-100], b"", model.replace(b"th", b"\xff\xff")):
            yield {**files, "tokenizer.model": content}


@pytest.mark.parametrize("kind", ["words", *KINDS])
def test_missing_or_damaged_files_are_rejected(kind: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {}, RunConfig(task="classification"))
    for content in ({}, *damaged(kind)):
        with pytest.raises(ModelFolderError) as caught:
            read_tokenizers(replace(folder, content=content))
        assert Path(str(caught.value.where)).stem == "tokenizer"
