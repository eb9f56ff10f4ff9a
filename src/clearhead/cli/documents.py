"""Documents on the command line: a file, or all documents of a folder."""

from __future__ import annotations

import collections
import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.cli.failures import print_message
from clearhead.cli.streams import STANDARD, Counter, reject_inputs
from clearhead.errors import REMARKS, ClearheadError, ConfigError, DataError
from clearhead.folder.files import write_bytes

if TYPE_CHECKING:
    from clearhead.api.translator import Translator
    from clearhead.settings import SearchConfig
    from clearhead.text.documents import Result

SHOWN = 5
"""Remarks of one kind that are printed, and the least confident places; the others are counted."""


def translate_documents(args: Namespace, translator: Translator, search: SearchConfig) -> None:
    """Translate the document of a command, or the documents of a folder."""
    source = os.path.expanduser(args.document or args.input_file)
    failed: list[ClearheadError] = []
    for path, output in _files(args, source):
        try:
            result = _translate(args, translator, search, path, output)
        except ClearheadError as error:
            if path == source:
                raise
            failed.append(error)
            print_message(f"{path} was not translated: {error}")
            continue
        if args.json_lines:
            print(json.dumps(_as_tree(path, output, result), ensure_ascii=False))
        else:
            _report(path, result)
    report_repeated(translator)
    if failed:
        raise SystemExit(failed[0].exit_code)


def report_repeated(translator: Translator) -> None:
    """Print how many sentences PyTorch had to translate again, if any."""
    if repeated := getattr(translator.engine, "repeated", 0):
        print_message(
            f"{repeated:,} sentences whose placeholders or terms CTranslate2 did not place were "
            "translated again with PyTorch"
        )


def _files(args: Namespace, source: str) -> Iterator[tuple[str, str]]:
    """Each document with the name of its translation."""
    from clearhead.text.documents import format_of

    if not os.path.isdir(source):
        yield source, args.output_file
        return
    if args.output_file == STANDARD:
        raise DataError("the documents of a folder need a folder", todo="name it: -o FOLDER")
    paths = [path for path in sorted(Path(source).rglob("*")) if path.is_file()]
    documents = [path for path in paths if args.format or format_of(path.name)]
    if not documents:
        raise DataError("there is no document in the folder", where=source)
    if len(paths) > len(documents):
        print_message(f"{len(paths) - len(documents):,} files of no known format are left out")
    for path in documents:
        target = Path(args.output_file) / path.relative_to(source)
        yield str(path), str(target)


def _translate(
    args: Namespace, translator: Translator, search: SearchConfig, path: str, output: str
) -> Result:
    from clearhead.api.documents import form_of, read_document, translated_data

    options = {"search": search, "batch_size": args.batch_size, "normalise": args.normalise}
    if isinstance(args.text_column, int):
        options["column"] = args.text_column - 1
    elif args.text_column is not None:
        options["column"] = args.text_column
    with Counter(sys.stderr, None, "sentences") as counter:
        options["progress"] = lambda done, total: counter.show(done, total)
        if output == STANDARD and (args.format is None or args.json_lines):
            raise ConfigError(
                "the translation of a document needs a file",
                where=path,
                todo="name it: -o FILE; for the standard output, name the format: --format FORMAT, "
                "without --json; for lines of text, use -i FILE",
            )
        if output != STANDARD:
            reject_inputs((Path(output),), (path,))
        form = form_of(path, args.format)
        data = sys.stdin.buffer.read() if path == STANDARD else read_document(path)
        result = translated_data(translator, data, form, path, **options)
    if output == STANDARD:
        sys.stdout.buffer.write(result.data)
        sys.stdout.buffer.flush()
    else:
        write_bytes(Path(output), result.data, DataError)
    return result


def _report(path: str, result: Result) -> None:
    """Print what was translated, what stays, and the remarks with their places."""
    counts = [f"{result.texts:,} texts translated"]
    counts += [f"{result.remembered:,} of them by the memory"] if result.remembered else []
    reasons = collections.Counter(reason for _, reason in result.skipped)
    counts += [f"{count:,} {reason}" for reason, count in reasons.items()]
    print_message(f"{path}: {', '.join(counts)}")
    kinds: dict[str, list[str]] = {}
    for place, remark in result.remarks:
        kinds.setdefault(remark.kind, []).append(f"{place} {remark.text}")
    for kind, lines in kinds.items():
        for line in lines[:SHOWN]:
            print_message(f"warning: {line}")
        if len(lines) > SHOWN:
            print_message(f"warning: {len(lines) - SHOWN:,} more {REMARKS[kind]}; all: --json")
    if len(result.confidences) > SHOWN:
        worst = sorted(result.confidences, key=itemgetter(1))[:SHOWN]
        places = ", ".join(f"{place} ({100 * confidence:.0f} %)" for place, confidence in worst)
        print_message(f"least confident: {places}; all: --json")


def _as_tree(path: str, output: str, result: Result) -> dict[str, object]:
    remarks: Sequence[dict[str, str]] = [
        {"place": place, "kind": remark.kind, "text": remark.text}
        for place, remark in result.remarks
    ]
    return {
        "document": path,
        "translation": output,
        "translated": result.texts,
        "remembered": result.remembered,
        "skipped": [each._asdict() for each in result.skipped],
        "remarks": remarks,
        "confidences": [
            {"place": place, "confidence": confidence} for place, confidence in result.confidences
        ],
    }
