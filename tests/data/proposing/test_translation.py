"""The survey and the proposal of `clearhead init` for sentence pairs."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data.proposing import survey as surveying
from clearhead.data.proposing import translation as proposal
from clearhead.data.proposing.settings import limit_minutes, round_figure, row_for
from clearhead.data.proposing.survey import NONE, SideSurvey, Survey, survey_pairs
from clearhead.data.proposing.translation import RECIPES, RISE, propose_translation
from clearhead.errors import DataError
from clearhead.settings import SIZES, ModelConfig, RunConfig, read_config
from clearhead.settings.commented import SEQUENCES, TEXTS, TRANSLATION, Form
from clearhead.settings.run import MEASURES
from clearhead.tokenizer import learn_tokenizer
from proposals import EXAMPLES, LATIN, read_back, write_lines

ENGLISH = ["A man rides a bicycle.", "Two dogs, one cat.", "She sees Mr. Smith"]
GERMAN = ["Ein Mann fährt Rad.", "Zwei Hunde, eine Katze.", "Sie sieht Herrn Schmidt"]


def parallel(folder: Path, sources: Sequence[str], targets: Sequence[str]) -> tuple[str, str]:
    return write_lines(folder / "train.src", sources), write_lines(folder / "train.tgt", targets)


def seen(pairs: int, source: SideSurvey = LATIN, target: SideSurvey = LATIN) -> Survey:
    words = {"words": 12 * pairs, "characters": 60 * pairs}
    sides = (dataclasses.replace(side, **words) for side in (source, target))
    sample = ["a man rides a red bicycle in the street near the old house"] * 3
    files = "pairs", "a, b", pairs, tuple(sides)
    return Survey(*files, NONE, NONE, NONE, sample=(sample, sample))


def test_pairs_words_and_characters_are_counted(tmp_path: Path) -> None:
    found = survey_pairs(parallel(tmp_path, ENGLISH, GERMAN))
    assert found.examples == 3
    assert found.sides[0].words == sum(len(line.split()) for line in ENGLISH)
    assert found.sides[1].words == sum(len(line.split()) for line in GERMAN)
    assert found.sides[1].characters == sum(map(len, GERMAN))
    assert found.sides[1].alphabet == len(set("".join(GERMAN)))


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("last_break", [True, False])
def test_all_pairs_are_counted_though_the_text_is_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, last_break: bool
) -> None:
    monkeypatch.setattr(surveying, "SURVEYED", 10)
    text = "two words\n" * 37 if last_break else "two words\n" * 36 + "two words"
    files = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
        files.append(str(path))
    found = survey_pairs(files)
    assert found.examples == 37
    assert found.sides[0].words == 74


def test_a_damaged_archive_beyond_the_sample_is_a_data_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "SURVEYED", 10)
    chance = random.Random(1)
    lines = [str(chance.random()) for _ in range(20_000)]
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode())[:-1000])
    with pytest.raises(DataError, match=r"a\.gz"):
        survey_pairs([str(path), str(path)])


@pytest.mark.parametrize(
    ("source", "target", "lower"),
    [
        ("a man .", "ein mann .", True),
        ("a man .", "我有一只猫。", True),
        ("a man .", "Ein Mann .", False),
        ("A man .", "ein mann .", False),
        ("我有一只猫。", "a man .", False),
    ],
)
def test_text_that_is_lower_cased_on_both_sides_is_lower_cased_in_use(
    tmp_path: Path, source: str, target: str, lower: bool
) -> None:
    files = parallel(tmp_path, [source], [target])
    config = read_back(propose_translation(files).to_toml("my-model"), tmp_path)
    assert config.tokenizer.lower is lower


@pytest.mark.parametrize(
    ("tokenize", "sentences"),
    [
        ("13a", ["Ein Mann fährt Rad.", "Человек едет на велосипеде.", "검은 고양이가 잔다"]),
        ("13a", ["काली बिल्ली सो रही है", "שחור חתול ישן", "ጥቁር ድመት"]),
        ("none", ["ein mann fährt rad ."]),
        ("zh", ["我有一只猫。"]),
        ("char", ["猫がいます。", "黒い猫がベッドで寝ています", "ﾈｺｶﾞﾈﾃｲﾙ", "ฉันรักแมว"]),
        ("char", ["ང་བོད་པ་ཡིན། ཁྱེད་རང་གི་མིང་ལ་ག་རེ་ཟེར", "ແມວສີດຳນອນຢູ່ເທິງຕຽງ", "ឆ្មាខ្មៅដេកលើគ្រែ"]),
        ("char", ["ကြောင်နက်ကအိပ်ရာပေါ်မှာအိပ်နေတယ်", "ꦏꦸꦕꦶꦁꦲꦶꦫꦼꦁ", "ᬓᬸᬘᬶᬂᬲᭂᬮᭂᬫ᭄", "ᨾᩯᩅᨯᩣᩴ"]),
    ],
)
def test_the_target_s_script_and_form_decide_how_it_is_scored(
    tmp_path: Path, tokenize: str, sentences: list[str]
) -> None:
    for sentence in sentences:
        files = parallel(tmp_path, ["A man rides a bicycle."] * 3, [sentence] * 3)
        config = read_back(propose_translation(files).to_toml("my-model"), tmp_path)
        assert config.evaluation.tokenize == tokenize, sentence


@pytest.mark.parametrize(
    ("target", "joint", "share"),
    [("Ein Mann.", True, "all"), ("Человек.", False, "target"), ("猫", False, "target")],
)
def test_languages_of_one_script_share_their_vocabulary(
    tmp_path: Path, target: str, joint: bool, share: str
) -> None:
    files = parallel(tmp_path, ["A man."], [target])
    config = read_back(propose_translation(files).to_toml("my-model"), tmp_path)
    assert config.tokenizer.joint is joint
    assert config.model.share_embeddings == share


@pytest.mark.parametrize(("count", "joint"), [(30, True), (2_600, False), (2_600, True)])
def test_a_vocabulary_has_room_for_every_character(tmp_path: Path, count: int, joint: bool) -> None:
    signs = "".join(chr(0x4E00 + i) for i in range(count))
    lines = [signs[i : i + 10] for i in range(0, count, 10)]
    files = parallel(tmp_path, lines if joint else ["A man."] * len(lines), lines)
    config = read_back(propose_translation(files).to_toml("my-model"), tmp_path)
    assert config.tokenizer.joint is joint
    if count == 30:
        assert config.tokenizer.max_vocabulary == row_for(RECIPES, 3).vocabulary
    learned = learn_tokenizer(lines + (lines if joint else []), config.tokenizer)
    assert learned.decode(learned.encode(signs[-10:])) == signs[-10:]


@pytest.mark.parametrize("form", [TRANSLATION, TEXTS, SEQUENCES])
def test_the_comments_name_every_choice(form: Form) -> None:
    for path, meaning in form.meanings.items():
        kind: Any = RunConfig
        for name in path.split("."):
            kind = get_type_hints(kind).get(name) if dataclasses.is_dataclass(kind) else None
        if get_origin(kind) is tuple:
            kind = get_args(kind)[0]
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        if path == "evaluation.measure":
            choices = MEASURES[form.run.task]
        for choice in (*choices, *(SIZES if path == "model.size" else ())):
            written = choice if isinstance(choice, str) else json.dumps(choice)
            assert written in meaning, path


@pytest.mark.parametrize("pairs", [1, 4_999, 5_000, 99_999, 100_000, 2_000_000, 50_000_000])
def test_each_amount_of_data_gets_a_valid_configuration_with_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: int
) -> None:
    monkeypatch.setattr(proposal, "survey_pairs", lambda files, part, languages: seen(pairs))
    text = propose_translation(("a", "b"), ("a", "b")).to_toml("my-model")
    config = read_back(text, tmp_path)
    recipe = row_for(RECIPES, pairs)
    assert config.data.train == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert config.model.d_model == SIZES[recipe.size]["d_model"]
    dropout = config.model.dropout
    assert dropout.embeddings == dropout.residual == recipe.dropout
    assert dropout.attention == dropout.hidden == recipe.within
    assert config.tokenizer.max_vocabulary == recipe.vocabulary
    assert config.training.schedule.peak == recipe.peak
    assert config.training.max_epochs == recipe.epochs
    assert config.training.precision == "auto"
    assert (config.training.patience == 0) == (recipe.schedule == "linear")
    assert f"# {pairs:,} pairs" in text
    assert "training: " in text


def test_the_recipe_of_multi30k_has_its_example_s_size_and_half_its_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", "data")
    example = read_config(EXAMPLES / "multi30k-en-de.toml")
    monkeypatch.setattr(proposal, "survey_pairs", lambda files, part, languages: seen(29_000))
    config = read_back(propose_translation(("a", "b")).to_toml("my-model"), tmp_path)
    for name in ("encoder_layers", "d_model", "d_ff", "n_heads", "share_embeddings"):
        assert getattr(config.model, name) == getattr(example.model, name), name
    for name in ("embeddings", "residual"):
        assert getattr(config.model.dropout, name) == getattr(example.model.dropout, name), name
    assert config.tokenizer.max_vocabulary == example.tokenizer.max_vocabulary
    for name in ("batch_tokens", "label_smoothing", "precision"):
        assert getattr(config.training, name) == getattr(example.training, name), name
    assert config.training.schedule.peak == example.training.schedule.peak
    halves = config.training.max_epochs / example.training.max_epochs
    assert halves == pytest.approx(0.5, rel=0.1)


@settings(max_examples=50)
@given(pairs=st.integers(1, 120_000))
def test_a_rate_that_falls_to_zero_has_time_to_fall(
    pairs: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposal, "survey_pairs", lambda files, part, languages: seen(pairs))
        text = propose_translation(("a", "b")).to_toml("my-model")
    training = read_back(text, tmp_path_factory.mktemp("few")).training
    if training.schedule.kind == "linear":
        found = re.search(r"([\d,]+) in total", text)
        assert found
        steps = int(found[1].replace(",", ""))
        assert steps % training.max_epochs == 0
        assert 1 <= training.schedule.warmup <= max(1, steps / RISE)


def test_more_data_never_gets_a_smaller_model_or_stronger_regularisation() -> None:
    widths = [ModelConfig.of_size(recipe.size).d_model for recipe in RECIPES]
    assert widths == sorted(widths)
    for name, falling in (("dropout", True), ("vocabulary", False), ("batch_tokens", False)):
        values = [getattr(recipe, name) for recipe in RECIPES]
        assert values == sorted(values, reverse=falling), name
    assert [recipe.below for recipe in RECIPES] == sorted({recipe.below for recipe in RECIPES})


def test_the_peaks_of_the_large_sizes_are_the_paper_s() -> None:
    for recipe in RECIPES:
        if recipe.size in ("base", "big"):
            width = SIZES[recipe.size]["d_model"]
            assert recipe.peak == pytest.approx((width * recipe.warmup) ** -0.5, rel=0.05)


@given(st.floats(1e-3, 1e9))
def test_a_round_figure_is_near_and_within_its_limits(value: float) -> None:
    figure = round_figure(value)
    assert 50 <= figure <= 5000
    if 50 <= value <= 5000:
        assert value / 1.6 <= figure <= value * 1.6


def test_the_built_in_phrasebook_can_be_proposed_for(tmp_path: Path) -> None:
    name = ("phrasebook:en-es",)
    proposed = propose_translation(name, name, name)
    assert len({line.split(":")[1].split(",")[0] for line in proposed.seen}) == 3
    assert read_back(proposed.to_toml("my-model"), tmp_path).data.train == name


@pytest.mark.parametrize(
    ("targets", "measure"),
    [
        (["gato", "perro", "casa"], "chrf"),
        (["el gato", "un perro", "la casa"], "chrf"),
        (["el gato", "un perro", "la casa de mi madre"], "chrf"),
        (["el gato", "un perro negro y blanco", "la casa de mi madre"], "auto"),
        (["El gato.", "¿Un perro?", "¡La casa!"], "auto"),  # with the marks, most have four
        (["猫", "犬", "家"], "chrf"),
        (["黒い猫がいる", "犬がいます", "家がある"], "auto"),
    ],
)
def test_chrf_chooses_the_weights_where_few_references_have_four_tokens(
    tmp_path: Path, targets: list[str], measure: str
) -> None:
    files = parallel(tmp_path, ["the cat sleeps in the house"] * 3, targets)
    assert propose_translation(files).values["evaluation.measure"] == measure


def test_the_references_of_the_validation_data_decide(tmp_path: Path) -> None:
    train = parallel(tmp_path, ["a cat"] * 3, ["la casa de mi madre"] * 3)
    validation = (
        write_lines(tmp_path / "v.src", ["a cat"]),
        write_lines(tmp_path / "v.tgt", ["gato"]),
    )
    assert propose_translation(train, validation).values["evaluation.measure"] == "chrf"


@pytest.mark.parametrize("pairs", [900, 900_000])
def test_a_run_of_some_minutes_ends_with_a_rate_of_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: int
) -> None:
    monkeypatch.setattr(proposal, "survey_pairs", lambda files, part, languages: seen(pairs))
    proposed = propose_translation(("a", "b"))
    limit_minutes(proposed, 30)
    training = read_back(proposed.to_toml("my-model"), tmp_path).training
    assert (training.max_minutes, training.patience) == (30, 0)
    assert training.schedule.kind == "linear"
    assert training.max_epochs == row_for(RECIPES, pairs).epochs
