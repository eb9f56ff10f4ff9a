"""The benchmarks run, and notice what they are there to notice."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from clearhead import api
from clearhead.config import RunConfig, SearchConfig
from clearhead.decoding.hypothesis import Hypothesis
from clearhead.errors import ConfigError
from clearhead.model.dropout import Dropout
from scripts import ROOT, load_script
from test_training import small_run, write_pairs

sys.path.append(str(ROOT / "benchmarks"))
batch_invariance = load_script("benchmarks/batch_invariance.py")
copying = load_script("benchmarks/copying.py")
corpus_scale = load_script("benchmarks/corpus_scale.py")
same_bleu = load_script("benchmarks/same_bleu.py")
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


@pytest.mark.parametrize("erring", ["nobody", *copying.TASKS])
def test_copying_fails_where_one_unseen_sequence_is_answered_wrongly(
    erring: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def trained(task: str, pairs: int, steps: int) -> tuple[int, int]:
        assert (pairs, steps) == (5, 7)
        return 1000 - (task == erring), 1000

    monkeypatch.setattr(copying, "trained", trained)
    monkeypatch.setattr(copying.e_copying, "untrained", lambda model, seed: [seed])
    assert copying.main(["--pairs", "5", "--steps", "7"]) == (erring != "nobody")
    said = capsys.readouterr().out.splitlines()[-len(copying.TASKS) :]
    expected = [f"{task}: {1000 - (task == erring)} of 1000" for task in copying.TASKS]
    assert [line[: len(start)] for line, start in zip(said, expected, strict=True)] == expected


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


@pytest.mark.parametrize(
    ("words", "engine"), [([], "torch"), (["--engine", "ctranslate2"], "ctranslate2")]
)
def test_what_is_tried_is_pytorch_unless_another_engine_is_named(
    words: list[str],
    engine: str,
    trained: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    def load_translator(folder: str, **choices: object) -> Wavering:
        assert (folder, choices["engine"]) == (trained.folder, engine)
        return Wavering(set())

    monkeypatch.setattr(batch_invariance.api, "load_translator", load_translator)
    (tmp_path / "in.txt").write_text("a\n", encoding="utf-8")
    assert batch_invariance.main([trained.folder, str(tmp_path / "in.txt"), *words]) == 0
    assert "every sentence got the same words" in capsys.readouterr().out


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
    assert "case:mixed|eff:no|tok:none" in out
    assert ", 2 steps" in out
    assert "step 2" in err
    # A finished run is scored again, to the same figures.
    assert multi30k.main(words) == 0
    assert capsys.readouterr().out.splitlines()[:4] == out.splitlines()[:4]
    assert multi30k.main([*words, "--set", "data.test=[]"]) == 2
    lower = ["--set", "tokenizer.lower=true", "--set", f"folder={tmp_path}/lower"]
    assert multi30k.main([*words, *lower]) == 0
    assert "case:lc|eff:no|tok:none" in capsys.readouterr().out


def test_all_engines_and_types_are_scored_on_the_same_sentences(
    trained: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    source, reference = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a b c\nd e\nf g h a\n", encoding="utf-8")
    reference.write_text("b c a\ne d\ng h f a\n", encoding="utf-8")
    assert same_bleu.main([str(trained.folder), str(source), str(reference)]) == 0
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()[2:-1]]
    assert [row[0] for row in rows][:3] == ["torch", "ctranslate2", "auto"]
    assert len(rows) + len(err.splitlines()) == len(same_bleu.KINDS)
    assert [row[-1] for row in rows[:3]] == ["0", "0", "0"]
    assert not (Path(trained.folder) / "ctranslate2").exists()
    best = str(Path(trained.folder) / "training" / "checkpoints" / "best.safetensors")
    assert same_bleu.main([best, str(source), str(reference)]) == ConfigError.exit_code
    reference.write_text("b c a\n", encoding="utf-8")
    assert same_bleu.main([str(trained.folder), str(source), str(reference)]) == 3


@pytest.mark.parametrize(("worse", "code"), [((), 0), (("torch", "int8"), 0), (("auto", ""), 1)])
def test_a_default_that_is_worth_less_fails(
    worse: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def report(_: object, scores: dict[tuple[str, str], object]) -> None:
        for kind in same_bleu.KINDS:
            scores[kind] = same_bleu.Score(30.0 - 0.11 * (kind == worse), 50.0, 1.0, 0)

    monkeypatch.setattr(same_bleu, "report", report)
    assert same_bleu.main(["model", "in.txt", "out.txt"]) == code


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


def test_both_forms_of_attention_are_timed(capsys: pytest.CaptureFixture) -> None:
    attention = load_script("benchmarks/attention.py")
    assert attention.main(["--rounds", "1", "--lengths", "8", "64"]) == 0
    _, heads, *rows = capsys.readouterr().out.splitlines()
    forms = ["written", "out", "fused"]
    assert heads.split() == ["heads", "type", "length", *forms, "ratio", "MB:", *forms]
    cases = itertools.product(("tiny", "base"), ("float32", "bfloat16"), ("8", "64"))
    assert [tuple(row.split()[:3]) for row in rows] == list(cases)
    calls = attention.passes((2, 3, 5, 4), torch.float32, Dropout(0.1))
    assert all(torch.stack(call()).isfinite().all() for call in calls)
    # exp remembers its result, and a product of a tensor with itself that tensor once.
    x = torch.randn(1000, requires_grad=True)
    assert attention.remembered_mb(lambda: x.exp()) == 0.004
    assert attention.remembered_mb(lambda: x * x) == 0.004


def test_products_are_timed_in_every_layout(capsys: pytest.CaptureFixture) -> None:
    products = load_script("benchmarks/products.py")
    assert products.main(["--rounds", "1", "--rows", "1", "2"]) == 0
    _, heads, *rows = capsys.readouterr().out.splitlines()
    layouts = list(products.possible_layouts())
    assert heads.split() == ["inputs", "outputs", "rows", *" ".join(layouts).split()]
    assert "transposed" in layouts
    expected = [(*shape, count) for shape, count in itertools.product(products.SHAPES, (1, 2))]
    assert [tuple(map(int, row.split()[:3])) for row in rows] == expected
    assert all(len(row.split()) == 3 + len(layouts) for row in rows)
    for dtype, lay_out in products.possible_layouts().values():
        if dtype == torch.float32:
            torch.manual_seed(1)
            found = torch.stack(products.products(4, 6, 3, 2, dtype, lay_out)())
            torch.manual_seed(1)
            x, bias, *weights = (torch.randn(*n) for n in ((3, 4), (6,), (6, 4), (6, 4)))
            expected = torch.stack([x @ weight.T + bias for weight in weights])
            torch.testing.assert_close(found, expected)


def test_corpora_of_growing_size_are_built_whole(capsys: pytest.CaptureFixture) -> None:
    assert corpus_scale.main(["--pairs", "200", "10100"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["200", "10,100"]
    megabytes = [float(row[5]) for row in rows]
    assert megabytes[1] > 20 * megabytes[0]


def test_lines_of_code_are_those_that_do_something(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '''"""What it is.

And more of it.
"""

# A comment.
import os  # counted

TEXT = """two
lines"""
"""What it is."""


def f(
    x: int,
) -> int:
    """Says nothing."""
    # Nor does this.
    return x
''',
        encoding="utf-8",
    )
    assert shared_code.code_lines(path) == 1 + 2 + 3 + 1


def test_each_line_of_code_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert shared_code.main() == 0
    heads, *lists = capsys.readouterr().out.split("\n\n")
    listed = [line.split() for part in lists for line in part.splitlines()[1:]]
    files = {shared_code.module(path): path for path in shared_code.HOUSE.rglob("*.py")}
    assert sorted(name for _, name in listed) == sorted(files)
    assert all(int(lines) == shared_code.code_lines(files[name]) for lines, name in listed)
    counted = [int(number.replace(",", "")) for number in re.findall(r": ([\d,]+) of ", heads)]
    assert counted == [
        sum(int(line.split()[0]) for line in part.splitlines()[1:]) for part in lists
    ]


@pytest.mark.parametrize(("closed", "code"), [(False, 141), (True, 0)])
def test_output_that_nobody_reads_is_no_failure(closed: bool, code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "benchmarks/shared_code.py"]
    if closed:
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (code, "")


def test_a_file_counts_for_the_task_that_alone_uses_it() -> None:
    found = shared_code.division(list(map(shared_code.module, shared_code.HOUSE.rglob("*.py"))))
    expected = {
        "translation": [
            *("decoding.beam", "engines.torch_engine", "engines.auto_engine", "engines.measured"),
            *("engines.ctranslate2.engine", "export.equality", "cli.export", "tasks.scores"),
            "data.phrasebook",
        ],
        "classification": [
            "tasks.classification",
            "tasks.class_scores",
            "engines.classifier_engine",
        ],
        "reconstruction": ["tasks.reconstruction"],
        shared_code.BOTH: ["data.features", "data.normaliser"],
        shared_code.SHARED: [
            *("training.trainer", "checkpoint.folder", "config.reading", "model.attention"),
            *("engines.device", "inspect.recording", "api.loading", "cli.evaluate"),
        ],
    }
    for part, names in expected.items():
        assert set(names) <= set(found[part]), part


def test_what_is_shared_uses_nothing_of_one_task_alone() -> None:
    # A root that is missing would leave its file with the shared ones.
    files = {shared_code.module(path): path for path in shared_code.HOUSE.rglob("*.py")}
    shared = set(shared_code.division(list(files))[shared_code.SHARED])
    wrong = [
        f"{name} uses {other}"
        for name in shared
        if name.split(".")[0] not in shared_code.COMPOSING
        for other in shared_code.imported(files[name])
        if other not in shared and not other.startswith(shared_code.SENTENCE_PAIRS)
    ]
    assert not wrong, "\n".join(sorted(wrong))


def test_what_one_task_alone_takes_of_the_api_or_the_command_is_among_its_roots() -> None:
    files = {shared_code.module(path): path for path in shared_code.HOUSE.rglob("*.py")}
    found = shared_code.division(list(files))
    part_of = {name: part for part, names in found.items() for name in names}
    users: dict[str, set[str]] = {name: set() for name in found[shared_code.SHARED]}
    for name, path in files.items():
        for other in users.keys() & set(shared_code.imported(path)):
            users[other].add(part_of[name])
    wrong = [
        f"{name} is used by {part} alone"
        for name, parts in users.items()
        for part in shared_code.ROOTS
        if name.split(".")[0] in ("api", "cli") and parts == {part}
    ]
    assert not wrong, "\n".join(sorted(wrong))
