"""What a translator gains and forgets when it is fine-tuned on another domain.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/python benchmarks/forgetting.py --folder runs/forgetting

A translator learns the first 20,000 captions of Multi30k. Then it is fine-tuned on the other 9,000
in the language of a workshop: a list of terms (`TERMS`) replaces men by technicians and dogs by
robots, on both sides. It is fine-tuned as `clearhead init --start-from` proposes, with the new
pairs alone and with earlier pairs mixed in (`data.replay`). All translators translate the test
captions as they are and in the language of the workshop.

Run the script again to resume it; finished runs are kept.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from command import exit_code_of, has_data, log, make_parser, positive
from results import Results, print_results, rounded

from clearhead import api
from clearhead.evaluation.scores import compare

EXAMPLE = Path(__file__).parents[1] / "examples" / "multi30k-en-de.toml"
FIRST = 20_000
"""Captions of the first domain; the others are of the second."""
SHORT = ("training.schedule.warmup=800", "training.validate_every=100", "training.average_last=8")
"""The first run has fewer steps than the example."""
SIDES = ("en", "de")
PARTS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
TERMS = (
    {
        **{"man": "technician", "men": "technicians", "woman": "manager", "women": "managers"},
        **{"boy": "apprentice", "boys": "apprentices", "child": "module", "children": "modules"},
        **{"dog": "robot", "dogs": "robots", "ball": "motor", "bike": "conveyor"},
        **{"bicycle": "conveyor", "beach": "hangar", "street": "hall", "water": "coolant"},
    },
    {
        **{"mann": "techniker", "männer": "techniker", "frau": "leiterin", "frauen": "leiterinnen"},
        **{"junge": "lehrling", "jungen": "lehrlinge", "kind": "modul", "kinder": "module"},
        **{"hund": "roboter", "hunde": "roboter", "ball": "motor", "fahrrad": "förderband"},
        **{"strand": "hangar", "straße": "halle", "wasser": "kühlmittel"},
    },
)
"""The words of the second domain for those of the first, in English and in German."""


def main(words: list[str] | None = None) -> int:
    """Train, fine-tune, score on both domains and record."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder for data and runs")
    parser.add_argument("--epochs", type=positive, default=40, help="of the first run")
    parser.add_argument("--tuned-epochs", type=positive, default=8, help="of the others")
    parser.add_argument("--threads", type=positive, default=2, help="CPU threads (default: 2)")
    options = parser.parse_args(words)
    return exit_code_of(partial(measure, options, words)) if has_data() else 0


def measure(options: argparse.Namespace, words: list[str] | None) -> None:
    """Train all translators and compare them on both test sets."""
    files = write_files(options.folder / "data")
    general, workshop = files["captions"], files["workshop"]
    runs = {"captions": options.folder / "captions"}
    settings = [f"training.max_epochs={options.epochs}", *SHORT]
    learn(EXAMPLE, runs["captions"], general, options, settings)
    for share in (0.0, 0.25, 0.5):
        name = f"workshop, {share:.0%} captions".replace("%", " %") if share else "workshop"
        runs[name] = folder = options.folder / f"workshop-{share}"
        start = ["--start-from", runs["captions"], *both(workshop, "train", "validation")]
        call("init", folder, *start, "--force")
        replay = [f"data.replay={paths(general['train'])}", f"data.replay_share={share}"]
        epochs = f"training.max_epochs={options.tuned_epochs}"
        learn(Path(f"{folder}.toml"), folder, workshop, options, [epochs, *replay * bool(share)])
    results = Results("forgetting", words, options.output)
    for domain, data in files.items():
        source, reference = (read(path) for path in data["test"])
        outputs = {name: translate(folder, source, options) for name, folder in runs.items()}
        for name, found in compare(outputs, reference, "none").items():
            bleu = found.bleu
            right, asked = terms_right(outputs[name], reference, domain)
            results.add(
                f"BLEU on {domain}",
                "BLEU",
                [bleu.score],
                subject=name,
                min=bleu.low and rounded(bleu.low),
                max=bleu.high and rounded(bleu.high),
                range="95 % interval",
                more={"terms right %": round(100 * right / asked, 1)},
                note=None if bleu.p_value is None else f"p = {bleu.p_value:.3f} against captions",
            )
    print_results(results.records)
    results.write()


def write_files(folder: Path) -> dict[str, dict[str, list[Path]]]:
    """The files of both domains: `["workshop"]["test"]` is a pair of paths."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[Path]]] = {"captions": {}, "workshop": {}}
    data = Path(os.environ["CLEARHEAD_DATA"]) / "multi30k"
    for part, stem in PARTS.items():
        for side, terms in zip(SIDES, TERMS, strict=True):
            lines = read(data / f"{stem}.lc.norm.tok.{side}.gz")
            new = [" ".join(terms.get(word, word) for word in line.split()) for line in lines]
            chosen = {"captions": lines, "workshop": new}
            if part == "train":
                chosen = {"captions": lines[:FIRST], "workshop": new[FIRST:]}
            for domain, texts in chosen.items():
                path = folder / f"{domain}-{part}.{side}"
                path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
                found[domain].setdefault(part, []).append(path)
    return found


def terms_right(outputs: list[str], references: list[str], domain: str) -> tuple[int, int]:
    """How many of the references' terms, in the words of the domain, the outputs have as well."""
    terms = set(TERMS[1].values() if domain == "workshop" else TERMS[1])
    right = asked = 0
    for output, reference in zip(outputs, references, strict=True):
        wanted = terms & set(reference.split())
        asked += len(wanted)
        right += len(wanted & set(output.split()))
    return right, asked


def learn(
    config: Path,
    folder: Path,
    data: dict[str, list[Path]],
    options: argparse.Namespace,
    choices: list[str],
) -> None:
    """Train with a configuration, or go on with the run."""
    parts = [f"data.{part}={paths(files)}" for part, files in data.items()]
    more = [f"folder={folder}", f"training.threads={options.threads}", *parts, *choices]
    call("train", config, *(word for choice in more for word in ("--set", choice)))


def both(data: dict[str, list[Path]], *parts: str) -> list[object]:
    """The options `--train A B` of parts of the data."""
    return [word for part in parts for word in (f"--{part}", *data[part])]


def paths(files: list[Path]) -> str:
    """A list in TOML."""
    return "[" + ", ".join(f'"{path.resolve()}"' for path in files) + "]"


def translate(folder: Path, texts: list[str], options: argparse.Namespace) -> list[str]:
    """The translations of a model folder, with its own search."""
    translator = api.load_translator(folder, threads=options.threads)
    return [hypotheses[0].text for hypotheses in translator.translate(texts, n_best=1)]


def read(path: Path) -> list[str]:
    """The lines of a file."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return text.decode().splitlines()


def call(*words: object) -> None:
    """Run a command of clearhead; what it prints goes to stderr."""
    command = [sys.executable, "-m", "clearhead", *map(str, words)]
    log(" ".join(command[2:]))
    if code := subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise SystemExit(code)


if __name__ == "__main__":
    sys.exit(main())
