"""A Marian translator that transformers trained: imported, compared, fine-tuned by both.

    export CLEARHEAD_DATA=/the/folder           # see examples/fetch_data.py
    .venv/bin/pip install accelerate            # the trainer of transformers needs it
    .venv/bin/python benchmarks/marian_import.py --folder runs/marian --threads 2

The trainer of transformers trains a small Marian model from nothing on Multi30k. `clearhead import
hf` makes a model folder of it. Both translate the test captions, greedily and with a beam. Then
both fine-tune it for two epochs on the last 9,000 captions; they take turns, each in a process of
its own, from the files to the trained model, and all of that time counts. The trainer saves once
and does not validate; clearhead runs what `clearhead init --start-from` proposes, but for the
number of epochs and of tokens per step, which are those of the trainer. With `--rounds 0` nothing
is fine-tuned.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from command import exit_code_of, has_data, log, make_parser, positive, whole
from results import Results, print_results

SIDES = ("en", "de")
PIECES = 3000
SENTENCES = 128
"""Pairs of a step of the trainer."""
NEW = 9000
"""The last training captions, on which both fine-tune."""
TUNED_EPOCHS = 2
TUNED_RATE = 2e-4
LONGEST = 128
GREEDY, BEAM = 1, 4


def main(words: list[str] | None = None) -> int:
    """Train, import, compare, fine-tune and record."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--epochs", type=positive, default=8, help="of the first training")
    parser.add_argument("--rounds", type=whole(0), default=3, help="fine-tunings (default: 3)")
    parser.add_argument("--threads", type=positive, default=2, help="CPU threads (default: 2)")
    parser.add_argument("--peer", choices=("train", "tune"), help=argparse.SUPPRESS)
    parser.add_argument("--bf16", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.peer:
        train_with_trainer(options)
        return 0
    return exit_code_of(partial(measure, options, words)) if has_data() else 0


def measure(options: argparse.Namespace, words: list[str] | None) -> None:
    """Do all of it; finished parts are kept."""
    theirs, ours = options.folder / "trained", options.folder / "imported"
    if not (theirs / "config.json").exists():
        call(peer(options, "train"))
    if not ours.exists():
        call(clearhead("import", "hf", theirs, ours))
    peers = {name: version(name) for name in ("transformers", "accelerate")}
    results = Results("marian_import", words, options.output, peers)
    compare(options, results, {"transformers": theirs, "clearhead": ours})
    tune(options, results, theirs)
    print_results(results.records)
    results.write()


def compare(options: argparse.Namespace, results: Results, folders: dict[str, Path]) -> None:
    """BLEU of both on the test captions, and how many outputs are the same."""
    import sacrebleu

    sources, references = (captions("test_2016_flickr", side) for side in SIDES)
    for beam in (GREEDY, BEAM):
        outputs = {
            "transformers": generate(folders["transformers"], sources, beam),
            "clearhead": translate(folders["clearhead"], sources, beam, options.threads),
        }
        same = sum(a == b for a, b in zip(*outputs.values(), strict=True))
        search = "greedy search" if beam == GREEDY else f"beam {beam}"
        scores = {}
        for name, lines in outputs.items():
            scores[name] = sacrebleu.corpus_bleu(lines, [references]).score
            results.add(f"BLEU, {search}", "BLEU", [scores[name]], subject=name)
        results.add(
            "BLEU, difference",
            "BLEU",
            [abs(scores["clearhead"] - scores["transformers"])],
            subject=search,
            claim="marian-bleu",
            note=f"{same} of {len(sources):,} outputs are the same",
        )


def tune(options: argparse.Namespace, results: Results, start: Path) -> None:
    """Fine-tune with both in turn, and record the time and BLEU."""
    import sacrebleu

    files = write_pairs(options.folder / "new")
    sources, references = (captions("test_2016_flickr", side) for side in SIDES)
    seconds: dict[str, list[float]] = {}
    scores: dict[str, list[float]] = {}
    for number in range(1, options.rounds + 1):
        for kind in ("float32", "bf16"):
            out = options.folder / f"tuned-{kind}"
            run = options.folder / f"clearhead-{kind}"
            commands = {
                f"transformers {kind}": peer(options, "tune", *["--bf16"] * (kind == "bf16")),
                f"clearhead {kind}": settings(options, run, start, files, kind, number),
            }
            for name, command in commands.items():
                started = time.monotonic()
                call(command)
                seconds.setdefault(name, []).append(time.monotonic() - started)
                if name.startswith("clearhead"):
                    lines = translate(run, sources, GREEDY, options.threads)
                else:
                    lines = generate(out, sources, GREEDY)
                scores.setdefault(name, []).append(sacrebleu.corpus_bleu(lines, [references]).score)
                log(f"{number}, {name}: {seconds[name][-1]:.0f} s, BLEU {scores[name][-1]:.2f}")
    for name, values in seconds.items():
        peer_name = name.replace("clearhead", "transformers")
        fields: dict[str, Any] = {"subject": name, "range": "rounds"}
        results.add("BLEU after fine-tuning, greedy search", "BLEU", scores[name], **fields)
        results.add("time of fine-tuning", "s", values, **fields)
        if name != peer_name:
            ratios = [a / b for a, b in zip(values, seconds[peer_name], strict=True)]
            relative = "time of fine-tuning, relative"
            results.add(relative, "ratio", ratios, peer=peer_name, claim="marian-time", **fields)


def settings(
    options: argparse.Namespace,
    run: Path,
    start: Path,
    files: dict[str, list[Path]],
    kind: str,
    seed: int,
) -> list[str]:
    """The command that fine-tunes with clearhead; its configuration is written."""
    words = [word for part, paths in files.items() for word in (f"--{part}", *paths)]
    call(clearhead("init", run, "--start-from", start, *words, "--force"))
    choices = {
        "seed": seed,
        "training.threads": options.threads,
        "training.precision": kind,
        "training.max_epochs": TUNED_EPOCHS,
        "training.schedule.peak": TUNED_RATE,
        "training.batch_tokens": 2048,
    }
    chosen = [w for name, value in choices.items() for w in ("--set", f"{name}={value}")]
    return clearhead("train", f"{run}.toml", "--set", f"folder={run}", "--restart", *chosen)


def clearhead(*words: object) -> list[str]:
    return [sys.executable, "-m", "clearhead", *map(str, words)]


def peer(options: argparse.Namespace, what: str, *more: str) -> list[str]:
    """The command that trains or fine-tunes with transformers."""
    words = ["--folder", options.folder, "--epochs", options.epochs, "--threads", options.threads]
    return [sys.executable, __file__, "--peer", what, *map(str, words), *more]


def call(command: Sequence[str]) -> None:
    """Run a command; what it prints goes to stderr."""
    log(" ".join(command[1:]))
    environment = {**os.environ, "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(command, check=False, stdout=sys.stderr, env=environment)
    if done.returncode:
        raise SystemExit(done.returncode)


def train_with_trainer(options: argparse.Namespace) -> None:
    """Train a new model, or fine-tune the trained one, with Seq2SeqTrainer."""
    import torch
    from transformers import (
        DataCollatorForSeq2Seq,
        MarianMTModel,
        MarianTokenizer,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
    )

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    new = options.peer == "train"
    folder: Path = options.folder / "trained"
    if new:
        write_tokenizer(folder)
    tokenizer: Any = MarianTokenizer.from_pretrained(folder)
    model = new_model(tokenizer) if new else MarianMTModel.from_pretrained(folder)
    chosen = slice(None) if new else slice(-NEW, None)
    sources, targets = (captions("train", side)[chosen] for side in SIDES)
    encoded = tokenizer(sources, text_target=targets, truncation=True, max_length=LONGEST)
    rows = [{name: encoded[name][i] for name in encoded} for i in range(len(sources))]
    schedule: dict[str, Any] = {"lr_scheduler_type": "linear", "warmup_steps": 0.1}
    if new:
        schedule = {"lr_scheduler_type": "cosine", "warmup_steps": 400}
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(options.folder / "trainer"),
        per_device_train_batch_size=SENTENCES,
        num_train_epochs=options.epochs if new else TUNED_EPOCHS,
        learning_rate=3e-3 if new else TUNED_RATE,
        label_smoothing_factor=0.1,
        train_sampling_strategy="group_by_length",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=options.bf16 or new,
        disable_tqdm=True,
        logging_steps=100,
        dataloader_pin_memory=False,
        **schedule,
    )
    collator = DataCollatorForSeq2Seq(tokenizer, model=model)
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=rows,  # pyright: ignore[reportArgumentType]
        data_collator=collator,
    )
    trainer.train()
    kind = "bf16" if options.bf16 else "float32"
    out = folder if new else options.folder / f"tuned-{kind}"
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def new_model(tokenizer: Any) -> Any:
    """A small Marian model with random weights."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=128,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=512,
        decoder_ffn_dim=512,
        dropout=0.2,
        activation_function="swish",
        max_position_embeddings=512,
        scale_embedding=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        decoder_start_token_id=tokenizer.pad_token_id,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)
    model.generation_config.bad_words_ids = [[tokenizer.pad_token_id]]
    model.generation_config.num_beams = BEAM
    model.generation_config.max_length = LONGEST
    return model


def write_tokenizer(folder: Path) -> None:
    """Learn the pieces of both languages, and write the files of OPUS-MT."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    pieces = dict.fromkeys(["</s>", "<unk>"])
    for name, side in zip(("source", "target"), SIDES, strict=True):
        stem = folder / name
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(captions("train", side)),
            model_prefix=str(stem),
            vocab_size=PIECES,
            model_type="unigram",
            minloglevel=2,
        )
        stem.with_suffix(".model").rename(folder / f"{name}.spm")
        stem.with_suffix(".vocab").unlink()
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        pieces |= dict.fromkeys(map(processor.id_to_piece, range(len(processor))))
    pieces.pop("<s>", None)
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    described = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(described), encoding="utf-8")


def generate(folder: Path, texts: list[str], beam: int) -> list[str]:
    """The translations of transformers, sorted by length in batches."""
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    tokenizer: Any = MarianTokenizer.from_pretrained(folder)
    model: Any = MarianMTModel.from_pretrained(folder).eval()
    found = [""] * len(texts)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    with torch.inference_mode():
        for start in range(0, len(order), 64):
            chosen = order[start : start + 64]
            batch = tokenizer([texts[i] for i in chosen], padding=True, return_tensors="pt")
            ids = model.generate(**batch, num_beams=beam, max_length=LONGEST)
            decoded = tokenizer.batch_decode(ids, skip_special_tokens=True)
            for i, text in zip(chosen, decoded, strict=True):
                found[i] = text
    return found


def translate(folder: Path, texts: list[str], beam: int, threads: int) -> list[str]:
    """The translations of clearhead, by PyTorch."""
    from clearhead import api

    translator = api.load_translator(folder, threads=threads, engine="torch")
    return [found[0].text for found in translator.translate(texts, beam_size=beam, n_best=1)]


def captions(part: str, side: str) -> list[str]:
    """The lines of one side of Multi30k."""
    path = Path(os.environ["CLEARHEAD_DATA"]) / "multi30k" / f"{part}.{side}.gz"
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def write_pairs(folder: Path) -> dict[str, list[Path]]:
    """The files that clearhead fine-tunes with."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Path]] = {"train": [], "validation": []}
    for side in SIDES:
        for part, lines in {
            "train": captions("train", side)[-NEW:],
            "validation": captions("val", side),
        }.items():
            path = folder / f"{part}.{side}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            found[part].append(path)
    return found


if __name__ == "__main__":
    sys.exit(main())
