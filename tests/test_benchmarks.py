"""The benchmarks run, and notice what they are there to notice."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from clearhead import api
from clearhead.config import RunConfig, SearchConfig
from clearhead.decoding.hypothesis import Hypothesis
from scripts import ROOT, load_script
from test_training import small_run, write_pairs

batch_invariance = load_script("benchmarks/batch_invariance.py")
copying = load_script("benchmarks/copying.py")
corpus_scale = load_script("benchmarks/corpus_scale.py")
multi30k = load_script("benchmarks/multi30k.py")
shared_code = load_script("benchmarks/shared_code.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A tiny model that was trained."""
    folder = tmp_path_factory.mktemp("benchmarks")
    config = small_run(folder)
    api.train(config)
    return config


@pytest.mark.parametrize(("task", "answer"), [("copying", "3 10 1 2"), ("reversing", "2 1 10 3")])
def test_copying_sets_the_tasks_that_it_names(task: str, answer: str) -> None:
    assert copying.TASKS[task]("3 10 1 2") == answer


def test_copying_counts_unseen_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(folder: str, steps: int) -> RunConfig:
        # A model that has learned nothing never ends a sentence by itself.
        return dataclasses.replace(
            run_config(folder, steps), search=SearchConfig(beam_size=1, max_length=6)
        )

    run_config = copying.run_config
    monkeypatch.setattr(copying, "run_config", short)
    right, of = copying.trained("reversing", pairs=300, steps=3)
    assert of == 1000
    assert 0 <= right < of  # three steps teach nobody


def test_a_model_says_the_same_in_batches_of_any_size(
    trained: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(batch_invariance, "BATCH_SIZES", (1, 3, 256))
    source = tmp_path / "in.txt"
    words = "a b c d e f g h".split()
    lines = [" ".join(words[i % 8 : i % 8 + 1 + i % 5] * (1 + i % 3)) for i in range(20)]
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    folder = str(trained.folder)
    assert batch_invariance.main([folder, str(source), "--sentences", "15"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("15 sentences")
    rows = [line.split() for line in out[2:-1]]
    assert len(rows) == 2 * 3
    assert all(row[-1] == "0" for row in rows)


class Wavering:
    """A translator that says other words in some batch sizes."""

    def __init__(self, wrong_in: set[int]) -> None:
        self.wrong_in = wrong_in

    def translate(
        self, texts: Sequence[str], *, batch_size: int, **choices: object
    ) -> list[list[Hypothesis]]:
        said = ["ja"] * len(texts)
        if batch_size in self.wrong_in:
            said[:2] = ["nein", "nein"]
        return [[Hypothesis((), 0.0, (), 0.0, True, text)] for text in said]


@pytest.mark.parametrize(("wrong_in", "code"), [(set(), 0), ({8}, 1), ({256}, 1)])
def test_other_words_are_counted_and_fail(
    wrong_in: set[int], code: int, capsys: pytest.CaptureFixture
) -> None:
    assert batch_invariance.report(Wavering(wrong_in), ["yes"] * 5) == code
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:-1]]
    assert [row[-1] for row in rows[:9]] == [
        "2" if size in wrong_in else "0" for size in batch_invariance.BATCH_SIZES
    ]


def test_a_folder_that_is_no_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "in.txt").write_text("a\n", encoding="utf-8")
    code = batch_invariance.main([str(tmp_path / "nothing"), str(tmp_path / "in.txt")])
    assert code == 4
    assert "nothing" in capsys.readouterr().err


def test_multi30k_is_skipped_without_the_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    assert multi30k.main([]) == 0
    assert "skipped: CLEARHEAD_DATA" in capsys.readouterr().out


TINY = """
folder = "{folder}/model"
[data]
train = ["${{CLEARHEAD_DATA}}/train.tsv"]
validation = ["${{CLEARHEAD_DATA}}/validation.tsv"]
test = ["${{CLEARHEAD_DATA}}/validation.tsv"]
drop_duplicates = false
[tokenizer]
kind = "words"
[model]
encoder_layers = 1
decoder_layers = 1
d_model = 16
d_ff = 16
n_heads = 2
[training]
batch_tokens = 200
max_steps = 2
[search]
max_length = 12
[evaluation]
tokenize = "none"
"""


def test_multi30k_trains_and_scores_the_test_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    write_pairs(tmp_path)
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    (tmp_path / "tiny.toml").write_text(TINY.format(folder=tmp_path), encoding="utf-8")
    words = ["--config", str(tmp_path / "tiny.toml"), "--set", "seed=3"]
    assert multi30k.main(words) == 0
    out, err = capsys.readouterr()
    lines = (tmp_path / "validation.tsv").read_text(encoding="utf-8").splitlines()
    tokens = sum(len(line.partition("\t")[2].split()) for line in lines)
    assert f"{len(lines)} pairs, {tokens} reference tokens" in out
    for name in ("BLEU", "chrF2", "TER"):
        assert any(line.startswith(name) and "version:" in line for line in out.splitlines())
    assert "tok:none" in out
    assert ", 2 steps" in out
    assert "step 2" in err
    # A finished run is scored again, to the same figures.
    assert multi30k.main(words) == 0
    assert capsys.readouterr().out.splitlines()[:4] == out.splitlines()[:4]
    assert multi30k.main([*words, "--set", "data.test=[]"]) == 2


def test_both_directions_of_multi30k_differ_in_files_and_folder_alone() -> None:
    there, back = (
        tomllib.loads((ROOT / f"examples/multi30k-{pair}.toml").read_text(encoding="utf-8"))
        for pair in ("en-de", "de-en")
    )
    assert there.pop("folder") != back.pop("folder")
    data = back.pop("data")
    swapped = {part: files[::-1] for part, files in data.items() if isinstance(files, list)}
    assert there.pop("data") == {**data, **swapped}
    assert there == back
    assert sorted(swapped) == ["test", "train", "validation"]


def test_corpora_of_growing_size_are_built_whole(capsys: pytest.CaptureFixture) -> None:
    assert corpus_scale.main(["--pairs", "200", "10100"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["200", "10,100"]
    megabytes = [float(row[5]) for row in rows]
    assert megabytes[1] > 20 * megabytes[0]


def test_each_line_of_code_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert shared_code.main() == 0
    said = capsys.readouterr().out
    heads, *lists = said.split("\n\n")
    counted = [int(number.replace(",", "")) for number in re.findall(r": ([\d,]+) ", heads)]
    total = sum(shared_code.code_lines(path) for path in shared_code.HOUSE.rglob("*.py"))
    assert sum(counted) == total
    names = [line.split()[1] for part in lists for line in part.splitlines()[1:]]
    assert len(names) == len(set(names))
    assert {"decoding.beam", "tasks.classification", "tasks.reconstruction"} <= set(names)
    assert not {"training.trainer", "model.attention"} & set(names)
