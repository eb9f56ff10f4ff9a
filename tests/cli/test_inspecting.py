"""`study`, `align`, `inspect` and `--ablate` on real model folders, whose weights are random."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api.classifier import Classifier
from clearhead.api.exporting import export_model
from clearhead.decoding.ctranslate2_engine import CTranslate2Engine
from clearhead.decoding.engine import Hypothesis
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.folder.model_folder import open_folder
from clearhead.inspect.alignment import Aligner, pair_of, parse_pharaoh, unlinked
from clearhead.inspect.faithfulness import measured_belief
from clearhead.inspect.findings import ALIGNMENT, FOLDER, STUDY, write_finding
from clearhead.inspect.subject import Subject
from clearhead.tokenizer import BOS, EOS
from fake_translator import run
from model_folders import WORDS

pytestmark = pytest.mark.slow


PAIRS = (("a b c", "c b"), ("d", "a d"), ("b a", "d d d"))
"""Those of the files that are not empty."""


@pytest.fixture(scope="module")
def models(models: Path) -> Path:
    """The models beside files for them."""
    (models / "s").write_text("a b c\nd\n\nb a\n")
    (models / "one").write_text("a b c\n")
    (models / "t").write_text("c b\na d\nb\nd d d\n")
    (models / "examples.tsv").write_text("text\tlabel\na b\tyes\nc\tno\nd a\tperhaps\n")
    return models


@pytest.fixture(scope="module")
def studied(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with the study of its heads; `models / "texts"` is the same without one."""
    folder = shutil.copytree(models / "texts", tmp_path_factory.mktemp("studied") / "texts")
    succeeded("study", folder, "--data", models / "examples.tsv")
    return folder


def written_in(report: Path) -> dict[str, Any]:
    """The data of a report."""
    found = re.search(r'id="report">(.*?)</script>', report.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def succeeded(*words: str | Path) -> tuple[str, str]:
    code, out, err = run(*map(str, words))
    assert code == 0, err
    return out, err


def failed(*words: str | Path) -> str:
    code, out, err = run(*map(str, words))
    assert code not in (0, 1), out
    assert "Traceback" not in err
    return err


def test_a_translator_is_studied_and_the_result_kept(models: Path) -> None:
    folder, sample = models / "translator", ("--source", models / "s", "--reference", models / "t")
    out, _ = succeeded("study", folder, *sample, "--json", "--scores")
    study = json.loads(out)
    assert study["sentences"] == 3  # an empty line is left out
    heads = [str(row["head"]) for row in study["importance"]]
    kinds = ("encoder.1.self", "decoder.1.self", "decoder.1.cross")
    assert sorted(heads) == sorted(f"{kind}.{n}" for kind in kinds for n in (1, 2))
    rises = [row["loss"][0] for row in study["importance"]]
    assert rises == sorted(rises, reverse=True)
    assert all(low <= mean <= high for mean, low, high in (r["chrf"] for r in study["importance"]))
    names = {row["measure"] for row in study["belief"]["rows"]}
    assert {"removal", "random", "value_zeroing"} <= names
    kept = json.loads((folder / FOLDER / STUDY).read_text())
    assert {**study, **{name: kept[name] for name in ("weights", "means", "sha256")}} == kept
    out, _ = succeeded("study", folder, *sample)
    assert all(head in out for head in heads)
    assert all(row["title"] in out for row in study["belief"]["rows"])
    assert study["belief"]["text"] in out
    out, _ = succeeded("study", folder, *sample, "--sentences", "1", "--json")
    assert json.loads(out)["sentences"] == 1


@pytest.mark.parametrize("by", ["zero", "mean"])
def test_without_a_head_is_what_the_study_says(models: Path, by: str) -> None:
    """The loss of the folder without the head, by its own log-probabilities."""
    sample = ("--source", models / "s", "--reference", models / "t", "--ablate-by", by)
    out, _ = succeeded("study", models / "translator", *sample, "--json")
    study = json.loads(out)
    assert study["ablate_by"] == by

    def loss(ablate: str) -> float:
        options: Any = {"ablate": ablate, "ablate_by": by} if ablate else {}
        translator = clearhead.load(models / "translator", device="cpu", **options)
        assert isinstance(translator, clearhead.Translator)
        found = [Subject.translation(translator, *pair).replay for pair in PAIRS]
        scores = np.concatenate([replay.log_probabilities()[0, :, 0] for replay in found])
        return -float(scores.mean())

    assert loss("") == pytest.approx(study["loss"], abs=1e-5)
    for row in study["importance"]:
        assert loss(row["head"]) - loss("") == pytest.approx(row["loss"][0], abs=1e-5)


def test_the_study_is_about_the_translations_of_the_model(models: Path) -> None:
    sample = ("--source", models / "s", "--reference", models / "t")
    out, _ = succeeded("study", models / "translator", *sample, "--json")
    translator = clearhead.load(models / "translator", device="cpu")
    assert isinstance(translator, clearhead.Translator)
    texts = ["a b c", "d", "b a"]
    own = [
        Subject.translation(translator, text, best)
        for text, (best, *_) in zip(texts, translator.translate(texts), strict=True)
    ]
    expected = measured_belief(own)["curves"]
    for name, curve in json.loads(out)["belief"]["curves"].items():
        assert curve == pytest.approx(expected[name], abs=1e-6)


def test_an_explanation_may_replace_heads_by_their_means(models: Path, studied: Path) -> None:
    with pytest.raises(ModelFolderError) as missing:
        clearhead.explain(clearhead.load(models / "texts"), "a b", ablate_by="mean")
    assert "clearhead study" in (missing.value.todo or "")
    with pytest.raises(ConfigError) as unknown:
        clearhead.explain(clearhead.load(studied), "a b", ablate_by="median")
    assert "median" in unknown.value.what
    found = clearhead.explain(clearhead.load(studied), "a b", ablate_by="mean")
    for head, gains in zip(found.heads, found.by_head, strict=True):
        other = clearhead.load(studied, ablate=head, ablate_by="mean")
        assert isinstance(other, clearhead.Classifier)
        without = Subject.classification(other, "a b", found.outputs).replay.log_probabilities()
        expected = found.log_probabilities[0, 0] - without[0, 0, 0]
        assert gains[0, 0] == pytest.approx(expected, abs=1e-5)


def test_a_report_may_replace_heads_by_their_means(
    models: Path, studied: Path, tmp_path: Path
) -> None:
    report, by_mean = tmp_path / "r.html", ("--ablate-by", "mean")
    assert "study" in failed("inspect", models / "texts", "a b", *by_mean, "-o", report)
    arrays = []
    for by, options in (("mean", by_mean), ("zero", ())):
        succeeded("inspect", studied, "a b", *options, "-o", report)
        assert written_in(report)["models"][0]["effects_by"] == by
        arrays.append(re.findall(r'id="blob-\d+">([^<]+)<', report.read_text()))
    assert len(arrays[0]) == len(arrays[1]) > 0
    assert arrays[0] != arrays[1]


def test_a_study_skips_what_is_too_long(models: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b c\n" + "a " * 2000 + "\nd\n")
    (tmp_path / "t").write_text("c b\nd\na\n")
    sample = ("--source", tmp_path / "s", "--reference", tmp_path / "t")
    out, err = succeeded("study", models / "translator", *sample, "--sentences", "2", "--json")
    assert json.loads(out)["sentences"] == 2
    assert "skipped 1" in err
    (tmp_path / "s").write_text("a " * 2000 + "\n\n\n")
    assert "no sentence" in failed("study", models / "translator", *sample)


def test_the_loss_of_independent_labels_is_that_of_all_of_them(
    models: Path, tmp_path: Path
) -> None:
    """Also of those that an example does not have, and of examples without any."""
    (tmp_path / "x.tsv").write_text("text\tlabel\na b\tyes|no\nc\t\nd a\tperhaps\n")
    out, _ = succeeded("study", models / "several", "--data", tmp_path / "x.tsv", "--json")
    study = json.loads(out)
    assert study["sentences"] == 3
    classifier = clearhead.load(models / "several", device="cpu")
    assert isinstance(classifier, Classifier)
    probabilities = classifier.probabilities(["a b", "c", "d a"])
    truth = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert classifier.labels == ("yes", "no", "perhaps")
    expected = -np.log(np.where(truth, probabilities, 1 - probabilities)).mean()
    assert study["loss"] == pytest.approx(expected, rel=1e-4)


def test_mistakes_of_a_study(models: Path) -> None:
    assert "--source" in failed("study", models / "translator")
    assert "--reference" in failed("study", models / "translator", "--source", models / "s")
    assert "--data" in failed("study", models / "texts")
    failed("study", models / "texts", "--source", models / "s", "--reference", models / "t")
    failed("study", models / "translator", "--data", models / "examples.tsv")


def test_heads_are_switched_off_for_a_translation(models: Path) -> None:
    folder, text = models / "translator", ("-i", models / "s", "--beam-size", "2", "--json")
    plain, _ = succeeded("translate", folder, *text)
    every, _ = succeeded("translate", folder, *text, "--ablate", "decoder,encoder")
    assert plain != every
    none, _ = succeeded("translate", folder, *text, "--ablate", " ")
    assert plain == none
    assert "encoder.1.self.2" in failed("translate", folder, *text, "--ablate", "encoder.1.self.3")
    assert failed("translate", folder, *text, "--ablate", "decoder", "--engine", "ctranslate2")


def test_heads_are_replaced_by_their_mean(models: Path, studied: Path, tmp_path: Path) -> None:
    words = ("-i", models / "s", "--top", "3")
    off, mean = ("--ablate", "encoder.1.self.1"), ("--ablate-by", "mean")
    assert "study" in failed("classify", models / "texts", *words, *off, *mean)
    outputs = [succeeded("classify", studied, *words, *x)[0] for x in ((), off, (*off, *mean))]
    assert len(set(outputs)) == 3
    other = shutil.copytree(models / "rival", tmp_path / "rival")
    shutil.copytree(studied / FOLDER, other / FOLDER, dirs_exist_ok=True)
    with pytest.raises(ModelFolderError):
        clearhead.load(other, ablate="encoder.1.self.1", ablate_by="mean")
    for means in (np.zeros((1, 4)).tolist(), np.zeros((2, 3)).tolist(), [[1], 2], "x"):
        write_finding(open_folder(other), STUDY, {"means": {"encoder.1.self": means}})
        with pytest.raises(ModelFolderError):
            clearhead.load(other, ablate="encoder.1.self.1", ablate_by="mean")
    with pytest.raises(ConfigError):
        clearhead.load(other, ablate="encoder.1.self.1", ablate_by="median")


def test_pairs_are_aligned(models: Path, tmp_path: Path) -> None:
    folder, pairs = models / "translator", ("--source", models / "s", "--target", models / "t")
    out, err = succeeded("align", folder, *pairs)
    lines = out.splitlines()
    assert lines[2] == ""
    translator = clearhead.load(folder, device="cpu")
    assert isinstance(translator, clearhead.Translator)
    for line, (source, target) in zip((lines[0], lines[1], lines[3]), PAIRS, strict=True):
        found = parse_pharaoh(line, "x")
        none = unlinked(pair_of(translator, source, target))
        assert not none & {source for source, _ in found}
        assert none or len(found) >= max(len(source.split()), len(target.split()))
    assert "removal" in err
    kept = json.loads((folder / FOLDER / ALIGNMENT).read_text())
    assert kept["criterion"] == "removal"
    again, err = succeeded("align", folder, *pairs, "-o", tmp_path / "out")
    assert (tmp_path / "out").read_text() == out
    assert again == ""
    named = ("--measure", kept["measure"], "--shift", str(kept["shift"]), "--rule", kept["rule"])
    assert succeeded("align", folder, *pairs, *named)[0] == out
    scored, _ = succeeded("align", folder, *pairs, *named, "--scores")
    assert [word.split(":")[0] for word in scored.split()] == out.split()


def test_the_measure_is_chosen_by_given_alignments(models: Path) -> None:
    folder, pairs = models / "translator", ("--source", models / "s", "--target", models / "t")
    wanted, _ = succeeded("align", folder, *pairs, "--measure", "decoder.1.cross.2", "--shift", "1")
    (models / "gold").write_text(wanted)
    found, _ = succeeded("align", folder, *pairs, "--gold", models / "gold")
    kept = json.loads((folder / FOLDER / ALIGNMENT).read_text())
    assert (kept["criterion"], kept["score"]) == ("gold", 0)
    assert found == wanted
    (models / "short").write_text("0-0\n")
    failed("align", folder, *pairs, "--gold", models / "short")
    (models / "wrong").write_text("0-0\n0:0\n\n0-0\n")
    assert "wrong:2" in failed("align", folder, *pairs, "--gold", models / "wrong")


def test_mistakes_of_an_alignment(models: Path) -> None:
    folder, pairs = models / "translator", ("--source", models / "s", "--target", models / "t")
    assert "value_zeroing" in failed("align", folder, *pairs, "--measure", "value_zero")
    failed("align", folder, *pairs, "--shift", "1")
    failed("align", folder, *pairs, "--rule", "both")
    failed("align", folder, *pairs, "--measure", "removal", "--gold", models / "t")
    (models / "long").write_text("a b c\n" + "b " * 2000 + "\n\nb a\n")
    long = ("--source", models / "long", "--target", models / "t")
    assert "long:2" in failed("align", folder, *long, "--measure", "removal")
    (models / "more").write_text("a\n" * 5)
    failed("align", folder, "--source", models / "s", "--target", models / "more")
    failed("align", models / "texts", *pairs)
    aligner = Aligner("decoder.1.cross", 0, "both", "gold", 0.0, 1)
    path = write_finding(open_folder(folder), ALIGNMENT, vars(aligner))
    for change in ({"measure": "decoder.9.cross"}, {"shift": 2}, {"score": "x"}, {"rule": "all"}):
        write_finding(open_folder(folder), ALIGNMENT, {**vars(aligner), **change})
        assert str(folder) in failed("align", folder, *pairs)
    path.unlink()


def test_a_report_is_written(models: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    out, _ = succeeded("inspect", models / "translator", "a b c", "d", "-o", report)
    assert out == f"{report}\n"
    html = report.read_text()
    assert "a b c" in html
    # These models have one layer, whose weights are the mean of all layers.
    assert '"name":"all_layers"' in html
    assert '"name":"last_layer"' not in html
    succeeded("inspect", models / "texts", "a b c", "--with", models / "rival", "-o", report)
    words = ("--input", models / "s", "--lines", "1-2")
    succeeded("inspect", models / "translator", *words, "-o", report)
    succeeded("inspect", models / "translator", "a b", "--target", "d c", "-o", report)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).normal(size=(2, 4, 3)))
    words = ("--input", tmp_path / "x.npz", "--lines", "2", "-o", report)
    succeeded("inspect", models / "features", *words)
    assert "sequence 2" in report.read_text()


def test_an_encoder_without_labels_has_a_report(models: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    succeeded("inspect", models / "encoder", "a b c", "-o", report)
    (item,) = written_in(report)["items"]
    assert item["attention"]["encoder"]["shape"][2:] == [3, 3]
    assert item["walk"]
    assert item["measures"] == item["labels"] == item["outputs"]["pieces"] == []


def test_a_report_takes_the_options_of_a_search(models: Path, tmp_path: Path) -> None:
    report, folder = tmp_path / "r.html", models / "translator"
    succeeded("inspect", folder, "a b c", "--beam-size", "2", "-o", report)
    (item,) = written_in(report)["items"]
    assert item["beam"]["beam_size"] == 2
    expected, _ = succeeded("translate", folder, "-i", models / "one", "--sample", "--seed", "7")
    succeeded("inspect", folder, "a b c", "--sample", "--seed", "7", "-o", report)
    (item,) = written_in(report)["items"]
    assert item["target"]["text"] == expected.strip()
    assert item["beam"] is None  # it was not searched for with a beam
    assert "--sample" in failed("inspect", folder, "a", "--target", "b", "--sample")
    assert "--beam-size" in failed("inspect", folder, "a", "--target", "b", "--beam-size", "2")
    assert "--beam-size" in failed("inspect", models / "texts", "a", "--beam-size", "2")
    assert "--sample" in failed("inspect", folder, "a", "--temperature", "0.5")


def test_a_report_shows_what_ctranslate2_found(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(models / "translator", tmp_path / "exported")
    export_model(folder)
    found: list[Hypothesis] = []
    translate = CTranslate2Engine.translate

    def spied(self: CTranslate2Engine, *inputs: Any, **choices: Any) -> list[list[Hypothesis]]:
        outputs = translate(self, *inputs, **choices)
        found.extend(best for (best,) in outputs)
        return outputs

    monkeypatch.setattr(CTranslate2Engine, "translate", spied)
    texts, report = ("a b c", "d a", "c"), tmp_path / "r.html"
    succeeded("inspect", folder, *texts, "-o", report)
    items = written_in(report)["items"]
    assert [item["source"]["text"] for item in items] == [*texts]
    for item, best in zip(items, found, strict=True):
        ids = [*best.tokens, *([EOS] if best.finished else [])]
        assert item["outputs"]["pieces"] == WORDS.pieces(ids)
        assert item["target"]["pieces"] == WORDS.pieces([BOS, *best.tokens])[: len(ids)]
        assert item["score"]["places"] == pytest.approx(best.token_scores, abs=1e-5)


def test_a_damaged_study_is_an_error(models: Path, tmp_path: Path) -> None:
    folder, sample = models / "translator", ("--source", models / "s", "--reference", models / "t")
    words = ("inspect", folder, "a b", "-o", tmp_path / "r.html")
    succeeded("study", folder, *sample)
    succeeded(*words)
    path = folder / FOLDER / STUDY
    study = json.loads(path.read_text())
    del study["sha256"]
    for change in (
        {"belief": {**study["belief"], "believed": ["no_measure"]}},
        {"belief": {**study["belief"], "grid": [float("inf")]}},
        {"importance": [{"head": 1}]},
        {"roles": []},
    ):
        write_finding(open_folder(folder), STUDY, {**study, **change})
        assert "study" in failed(*words)
    write_finding(open_folder(folder), STUDY, {**study, "weights": "of others"})
    succeeded(*words)
    path.write_text("{}")
    assert "study" in failed(*words)
    shutil.rmtree(path.parent)


def test_mistakes_of_a_report(models: Path, tmp_path: Path) -> None:
    failed("inspect", models / "translator")
    failed("inspect", models / "translator", "a", "--input", models / "s")
    failed("inspect", models / "translator", "a", "--lines", "2")
    failed("inspect", models / "translator", "a", "b", "--target", "c")
    failed("inspect", models / "translator", " ")
    failed("inspect", models / "translator", "a", "--with", models / "texts")
    failed("inspect", models / "translator", "a", "--with", models / "translator")
    failed("inspect", models / "texts", "a", "--target", "b")
    failed("inspect", models / "texts", "a", " ")
    assert "ablate_by" in failed(
        "classify", models / "texts", "-i", models / "s", "--ablate-by", "mean"
    )
    (tmp_path / "s").write_text("a\n" + "b " * 2000 + "\n")
    words = ("--input", tmp_path / "s", "--lines", "1-2", "-o", tmp_path / "r.html")
    assert "input 2" in failed("inspect", models / "translator", *words)
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("names", "inputs", "choices"),
    [
        ([], ["a"], {}),
        (["translator"], [], {}),
        (["translator"], "a b", {}),
        (["translator"], ["a"], {"targets": "b"}),
        (["translator"], ["a", "b"], {"targets": ["b"]}),
        (["translator"], ["a"], {"names": ["x", "y"]}),
        (["texts"], ["a"], {"targets": ["b"]}),
        (["texts", "translator"], ["a"], {}),
    ],
)
def test_mistakes_of_a_report_in_python(
    models: Path, tmp_path: Path, names: list[str], inputs: Any, choices: dict[str, Any]
) -> None:
    loaded = {name: clearhead.load(models / name) for name in names}
    with pytest.raises(ConfigError):
        clearhead.write_report(tmp_path / "r.html", loaded, inputs, **choices)
    with pytest.raises(ConfigError):
        clearhead.write_report(tmp_path / "r.html", [*loaded.values()], inputs)  # pyright: ignore[reportArgumentType]
    assert not (tmp_path / "r.html").exists()


def test_a_report_without_heads_says_so_and_has_no_study(
    models: Path, studied: Path, tmp_path: Path
) -> None:
    report, written = tmp_path / "r.html", []
    for ablation in ((), ("--ablate", "encoder.1.self.1", "--ablate-by", "mean")):
        succeeded("inspect", studied, "a b", *ablation, "-o", report)
        written.append(written_in(report))
    (complete,), (ablated,) = (each["models"] for each in written)
    assert complete["belief"]
    assert complete["importance"]
    assert [ablated[key] for key in ("belief", "importance", "roles")] == [None, None, None]
    assert "encoder.1.self.1" in ablated["name"]
    assert "--ablate-by mean" in written[1]["command"]
    failed("inspect", models / "features", "a")
    assert "line 5" in failed(
        "inspect", models / "translator", "--input", models / "s", "--lines", "5"
    )
    for wrong in ("0", "2-1", "x", "1-"):
        failed("inspect", models / "translator", "--input", models / "s", "--lines", wrong)
    (tmp_path / "file").write_text("")
    failed("inspect", models / "translator", "a", "-o", tmp_path / "file" / "r.html")
