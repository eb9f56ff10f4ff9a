"""`clearhead translate`: input, output, search options and failures, with a fake translator."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.api import loading, train
from clearhead.cli import streams
from clearhead.cli.streams import Arriving, Counter, Line, blocks
from clearhead.data.reading.lines import read_stream
from clearhead.errors import DataError, SearchError
from clearhead.folder.manifest import read_entries, replace_together
from clearhead.settings import RunConfig, SearchConfig
from clearhead.training.display import displays
from fake_translator import CHILD, Backwards, run
from small_runs import moses_run


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Backwards:
    fake = Backwards()
    monkeypatch.setattr(loading, "load_translator", lambda *_, **__: fake)
    return fake


def test_a_closed_standard_error_is_no_reason_to_fail() -> None:
    command = CHILD
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    done = subprocess.run(closed, input=b"a b\nc d\n", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"b a\nd c\n")
    counter = Counter(None, 5, "sentences", clock=iter([0.0, 9.0]).__next__)
    counter.show(3)
    counter.clear()
    assert displays(None) == []


LINES = st.lists(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"])))


@settings(max_examples=25)
@given(lines=LINES, ending=st.sampled_from(["\n", "\r\n"]))
def test_each_line_gives_one_line_whatever_is_in_it(lines: list[str], ending: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_translator", lambda *_, **__: Backwards())
        stdin = "".join(line + ending for line in lines).encode()
        _, out, _ = run("translate", "m", stdin=stdin)
    expected = [" ".join(reversed(line.removeprefix("\ufeff").split())) for line in lines[:1]]
    expected += [" ".join(reversed(line.split())) for line in lines[1:]]
    assert out.split("\n") == [*expected, ""]


def test_a_line_break_in_a_translation_does_not_break_the_line(translator: Backwards) -> None:
    translator.mend = lambda text: text.replace(" ", "\r\n")
    assert run("translate", "m", stdin="a b\n\nc\n")[1] == "b  a\n\nc\n"


def test_n_best_lists_have_the_form_of_moses_and_scores_come_before_the_translation(
    translator: Backwards,
) -> None:
    code, out, _ = run("translate", "m", "--n-best", "2", stdin="a b\nc\n")
    assert code == 0
    assert out.splitlines() == [
        *("0 ||| b a ||| -0.7500", "0 ||| b a' ||| -1.7500"),
        *("1 ||| c ||| -0.7500", "1 ||| c' ||| -1.7500"),
    ]
    assert run("translate", "m", "--scores", stdin="a b\n")[1] == "-0.7500\tb a\n"


def test_json_holds_every_hypothesis_with_the_score_of_each_token(translator: Backwards) -> None:
    _, out, _ = run("translate", "m", "--json", "--n-best", "2", stdin="é b\n\n")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["source"] for record in records] == ["é b", ""]
    assert [h["text"] for h in records[0]["hypotheses"]] == ["b é", "b é'"]
    first = records[0]["hypotheses"][0]
    assert first["tokens"] == ["piece5", "piece6"]
    assert sum(first["token_scores"]) == pytest.approx(first["score"])
    assert first["normalised_score"] == -0.75
    assert first["confidence"] == 0.25
    assert first["finished"] is True


def test_the_input_is_translated_in_blocks_and_a_warning_names_its_line(
    translator: Backwards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BLOCK_LINES", 2)
    long = " ".join("abcdefghijk")
    code, out, err = run("translate", "m", stdin=f"a b\nc\nd\n{long}\n{long}\n")
    assert code == 0
    assert out.splitlines()[:3] == ["b a", "c", "d"]
    assert [call["offset"] for call in translator.calls] == [0, 2, 4]
    assert err.splitlines() == [
        "clearhead: warning: line 4 has many tokens and was cut to 9",
        "clearhead: warning: line 5 has many tokens and was cut to 9",
    ]
    # Of many warnings the first are printed and the others are counted.
    _, _, err = run("translate", "m", stdin=f"a\n{long}\n" * 20)
    *shown, more = err.splitlines()
    assert [line.split()[3] for line in shown] == ["2", "4", "6"]
    assert more.endswith(": 17")


def test_a_block_is_out_before_the_next_is_read_and_long_lines_cut_it_short() -> None:
    read: list[int] = []

    def lines() -> Iterator[Line]:
        for number in range(5):
            read.append(number)
            yield Line(str(number), "")

    stream = blocks(lines(), 2)
    assert [line.text for line in next(stream)] == ["0", "1"]
    assert read == [0, 1]
    assert [len(block) for block in stream] == [2, 1]
    megabyte = Line("x" * 2**20, "")
    assert [len(block) for block in blocks([megabyte] * 10, 1024)] == [4, 4, 2]


@pytest.mark.parametrize(
    ("options", "failed"),
    [
        ((), ""),
        (("--scores",), "nan\t"),
        (("--n-best", "2"), "1 |||  ||| nan\n1 |||  ||| nan"),
    ],
)
def test_the_error_of_one_line_leaves_its_line_empty_and_gives_an_exit_code(
    translator: Backwards, tmp_path: Path, options: tuple[str, ...], failed: str
) -> None:
    (tmp_path / "in").write_text("a b\nboom\nc\n")
    paths = "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out")
    code, _, err = run("translate", "m", *paths, *options)
    assert code == DataError.exit_code
    assert err.startswith("clearhead: line 2 ")
    assert [file.name for file in tmp_path.iterdir() if "out" in file.name] == ["out"]
    written = (tmp_path / "out").read_text()
    assert f"{failed}\n" in written
    assert written.count("\n") == 3 * (2 if "--n-best" in options else 1)


def test_json_has_the_warnings_and_the_error(translator: Backwards) -> None:
    long = " ".join("abcdefghijk")
    code, out, _ = run("translate", "m", "--json", stdin=f"a\n{long}\nboom\n")
    assert code == DataError.exit_code
    records = [json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()]
    plain, cut, failed = (record["hypotheses"][0] for record in records)
    assert (plain["warnings"], plain["error"]) == ([], None)
    assert [each["kind"] for each in cut["warnings"]] == ["cut"]
    assert (failed["text"], failed["score"], failed["error"]) == ("", None, "boom")


def pipe(*written: bytes, closed: bool = True) -> tuple[Arriving, int]:
    """What arrives through a pipe into which this was written, and the other end."""
    reader, writer = os.pipe()
    for each in written:
        os.write(writer, each)
    if closed:
        os.close(writer)
    return Arriving(reader), writer


def arrived(stream: Arriving) -> Iterator[list[str]]:
    """The blocks of lines of a pipe."""
    lines = read_stream(cast(BinaryIO, stream), "pipe")
    for block in blocks((Line(line, "") for line in lines), 1024, stream.pauses):
        yield [line.text for line in block]


def test_a_block_ends_when_the_input_pauses() -> None:
    stream, writer = pipe(b"a b\nc\r\nhalf a", closed=False)
    found = arrived(stream)
    assert next(found) == ["a b", "c"]
    os.write(writer, b" line\n")
    assert next(found) == ["half a line"]
    os.write(writer, b"\nlast")
    assert next(found) == [""]
    os.close(writer)
    assert next(found) == ["last"]
    assert list(found) == []


@pytest.mark.parametrize("blocking", [True, False])
def test_lines_that_have_arrived_fill_blocks(blocking: bool) -> None:
    stream, _ = pipe(b"y\n" * 3000)
    os.set_blocking(stream._descriptor, blocking)
    assert [len(block) for block in arrived(stream)] == [1024, 1024, 952]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("text", ["", "a", "é" * 40_000])
def test_a_last_line_is_read_with_and_without_its_end(text: str, ending: bytes) -> None:
    reader, writer = os.pipe()
    content = b"first\n" + text.encode() + ending
    thread = threading.Thread(target=lambda: (os.write(writer, content), os.close(writer)))
    thread.start()
    found = [line for block in arrived(Arriving(reader)) for line in block]
    thread.join()
    assert found == ["first", *([text] if text or ending else [])]


def test_a_read_waits_for_what_has_not_arrived_and_a_line_has_a_limit() -> None:
    reader, writer = os.pipe()
    stream = Arriving(reader)
    late = threading.Timer(0.05, lambda: (os.write(writer, b"late"), os.close(writer)))
    late.start()
    assert [stream.read(9), stream.read(9)] == [b"late", b""]
    late.join()
    stream, _ = pipe(b"abcdef\ng\n")
    assert [stream.readline(4) for _ in range(4)] == [b"abcd", b"ef\n", b"g\n", b""]


@pytest.mark.parametrize("options", [(), ("--batch-size", "1"), ("--json",)])
def test_a_program_reads_the_translation_of_a_line_before_it_writes_the_next(
    options: tuple[str, ...],
) -> None:
    command = [*CHILD, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for given, expected in ((b"a b\n", b"b a"), (b"\n", b""), (b"c d e\r\n", b"e d c")):
            child.stdin.write(given)
            child.stdin.flush()
            assert expected in child.stdout.readline()
        child.stdin.close()
        assert child.stdout.read() == b""
    assert child.returncode == 0


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (
            "--length-penalty 1.5 --no-repeat-ngram 3 --max-length 9",
            dict(length_penalty=1.5, no_repeat_ngram=3, max_length=9),
        ),
        (
            "--sample --temperature 0.8 --top-k 5 --top-p 0.9 --seed 7",
            dict(method="sampling", temperature=0.8, top_k=5, top_p=0.9, seed=7),
        ),
    ],
)
def test_search_options_replace_those_of_the_model(
    translator: Backwards, words: str, changed: dict[str, Any]
) -> None:
    own = SearchConfig(beam_size=3, min_length=2)
    translator.config = replace(RunConfig(), search=own)
    assert run("translate", "m", *words.split(), stdin="a\n")[0] == 0
    assert translator.calls[0]["search"] == replace(own, **changed)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--temperature", "2"), "--temperature has no effect without --sample"),
        (("--seed", "2"), "--seed has no effect without --sample"),
        (("--sample", "--beam-size", "2"), "--beam-size has no effect with --sample"),
        (("--n-best", "9"), "--n-best = 9 is more than --beam-size = 5"),
        (("--length-penalty=-1",), "--length-penalty"),
        (("--length-penalty", "1000"), "--length-penalty must be at least 0 and at most 10"),
        (("--length-penalty", "inf"), "--length-penalty must be a finite number"),
        (("--sample", "--temperature", "inf"), "--temperature must be a finite number"),
        (("--min-length", "9" * 20), "--min-length must be at least 0 and at most "),
        (
            ("--sample", "--max-length", "9" * 20),
            "--max-length must be at least 0 and at most ",
        ),
        (("--beam-size", "9" * 20), "--beam-size must be at least 1 and at most "),
    ],
)
def test_a_search_option_that_makes_no_sense_is_rejected(
    translator: Backwards, options: tuple[str, ...], part: str
) -> None:
    code, out, err = run("translate", "m", *options, stdin="a\n")
    assert (code, out) == (SearchError.exit_code, "")
    assert part in err
    assert ("What to do: leave" in err) == ("has no effect" in part)
    # Only an error about two settings may concern one that is not given.
    assert ("\nWhy: " in err) == ("is more than" in part)
    assert translator.calls == []


@pytest.mark.parametrize(
    ("options", "method"),
    [((), "sampling"), (("--temperature", "0.7"), "sampling"), (("--beam-size", "3"), "beam")],
)
def test_an_option_of_the_other_search_selects_that_search(
    translator: Backwards, options: tuple[str, ...], method: str
) -> None:
    own = SearchConfig(method="sampling", temperature=0.5)
    translator.config = replace(RunConfig(), search=own)
    assert run("translate", "m", *options, stdin="a\n")[0] == 0
    assert translator.calls[0]["search"].method == method


def test_an_option_that_contradicts_the_model_s_own_search_is_rejected(
    translator: Backwards,
) -> None:
    translator.config = replace(RunConfig(), search=SearchConfig(n_best=3))
    code, _, err = run("translate", "m", "--beam-size", "1", stdin="a\n")
    assert code == SearchError.exit_code
    assert "--n-best = 3 is more than --beam-size = 1\n" in err
    assert run("translate", "m", "--beam-size", "1", "--n-best", "1", stdin="a\n")[0] == 0


@pytest.mark.parametrize(
    ("options", "config"),
    [
        (("--json",), SearchConfig()),
        (("--n-best", "2"), SearchConfig()),
        ((), SearchConfig(n_best=2)),
    ],
)
def test_scores_are_rejected_with_a_format_that_has_them(
    translator: Backwards, options: tuple[str, ...], config: SearchConfig
) -> None:
    translator.config = replace(RunConfig(), search=config)
    code, out, err = run("translate", "m", "--scores", *options, stdin="a\n")
    assert (code, out) == (SearchError.exit_code, "")
    assert "--scores has no effect with" in err
    assert translator.calls == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("lines", [1, 20_000])
def test_a_full_disk_gives_an_error(tmp_path: Path, lines: int) -> None:
    (tmp_path / "in.txt").write_text("a b c\n" * lines)
    command = CHILD
    with (tmp_path / "in.txt").open() as given_, open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdin=given_, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    what, why, todo = done.stderr.splitlines()
    assert what == "clearhead: standard output: the output cannot be written"
    assert why.startswith("Why: ")
    assert "free" in todo


@pytest.mark.parametrize("line", ["a b\tc", '{"text": "a"}', "<?xml version='1.0'?>", "WEBVTT"])
def test_a_table_or_a_document_that_is_translated_line_by_line_is_warned_of_once(
    translator: Backwards, tmp_path: Path, line: str
) -> None:
    (tmp_path / "in.txt").write_text(f"{line}\nd\te\n")
    for words, stdin in ((("-i", str(tmp_path / "in.txt")), ""), ((), f"{line}\nd\te\n")):
        code, out, err = run("translate", "m", *words, stdin=stdin)
        assert (code, len(out.splitlines()), len(err.splitlines())) == (0, 2, 1)
        assert "line 1" in err
    assert run("translate", "m", stdin="a b\nd\te\n")[2] == ""


def test_a_column_of_a_table_with_tabs_is_translated_and_several_are_refused(
    translator: Backwards, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a b\tc\n")
    code, out, err = run("translate", "m", "-i", str(path))
    assert (code, out, str(path) in err) == (DataError.exit_code, "", True)
    path.write_text("a b\nc\n")
    assert run("translate", "m", "-i", str(path))[:2] == (0, "b a\nc\n")


@pytest.mark.parametrize("name", ["a.jsonl", "a.CSV", "a.po.gz", "a.html", "a.srt", "a.docx"])
def test_what_is_no_list_of_sentences_is_refused_before_a_model_is_loaded(
    translator: Backwards, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"a\n")
    (tmp_path / "in.txt").write_text("a\n")
    path, plain = str(tmp_path / name), str(tmp_path / "in.txt")
    for words in (("-i", path), ("-i", plain, "--prefix-file", path)):
        code, out, err = run("translate", "m", *words)
        assert (code, out, path in err) == (DataError.exit_code, "", True)
    assert translator.calls == []


def test_prefixes_go_with_their_lines(translator: Backwards, tmp_path: Path) -> None:
    (tmp_path / "prefixes").write_text("p\n\nq\n")
    prefixes = ("--prefix-file", str(tmp_path / "prefixes"))
    assert run("translate", "m", *prefixes, stdin="a\nb\nc\n")[0] == 0
    assert translator.calls[0]["prefixes"] == ["p", "", "q"]
    for stdin, what in (
        ("a\nb\n", "prefixes, line 3: "),
        ("a\nb\nc\nd\n", "input, line 4: "),
    ):
        code, _, err = run("translate", "m", *prefixes, stdin=stdin)
        assert code == 3
        assert what in err
    assert run("translate", "m", "--prefix-file", "-", stdin="a\n")[0] == 3


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"a\nb\xff\n", ":2"), (b"a\n\0\0\n", ":2"), (b"a\n" * 5000 + b"\xff\n", ":5001")],
)
def test_input_that_is_no_text_is_rejected_with_its_line(
    translator: Backwards, tmp_path: Path, content: bytes, place: str
) -> None:
    code, _, err = run("translate", "m", stdin=content)
    assert (code, f"standard input{place}" in err) == (3, True)
    translator.calls.clear()
    (tmp_path / "in.txt").write_bytes(content)
    code, out, err = run("translate", "m", "-i", str(tmp_path / "in.txt"))
    assert (code, out, f"in.txt{place}" in err) == (3, "", True)
    assert translator.calls == []


def test_no_input_gives_no_output_but_an_empty_file_is_rejected(
    translator: Backwards, tmp_path: Path
) -> None:
    assert run("translate", "m") == (0, "", "")
    (tmp_path / "empty").write_text("")
    code, _, err = run("translate", "m", "-i", str(tmp_path / "empty"))
    assert code == 3
    assert "empty" in err
    assert run("translate", "m", "-i", str(tmp_path / "missing"))[0] == 3


def test_an_output_file_appears_when_it_is_complete(
    translator: Backwards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BLOCK_LINES", 1)
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a b\ncrash\n")
    target.write_text("before\n")
    code, _, err = run("translate", "m", "-i", str(source), "-o", str(target))
    assert code == 3
    assert target.read_text() == "before\n"
    assert (tmp_path / "out.txt.part").read_text() == "b a\n"
    assert "out.txt.part" in err
    source.write_text("a b\nc\n")
    assert run("translate", "m", "-i", str(source), "-o", str(target))[:2] == (0, "")
    assert target.read_text() == "b a\nc\n"
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "out.txt"}


@pytest.mark.parametrize("option", ["-i", "--prefix-file"])
@pytest.mark.parametrize("output", ["in.txt", "../{}/in.txt", "link", "hard", "~/in.txt"])
def test_an_output_that_is_an_input_is_rejected(
    translator: Backwards,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    output: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("in.txt").write_text("a b\n")
    Path("link").symlink_to("in.txt")
    os.link("in.txt", "hard")
    words = (option, "in.txt", "-o", output.format(tmp_path.name))
    code, out, err = run("translate", "m", *words, stdin="a b\n")
    assert (code, out) == (DataError.exit_code, "")
    assert "overwrite" in err
    assert Path("in.txt").read_text() == "a b\n"
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "link", "hard"}
    assert translator.calls == []


def test_an_input_under_the_name_of_an_unfinished_output_is_rejected(
    translator: Backwards, tmp_path: Path
) -> None:
    (tmp_path / "out.part").write_text("a b\n")
    code, _, err = run("translate", "m", "-i", f"{tmp_path}/out.part", "-o", f"{tmp_path}/out")
    assert (code, "out.part" in err) == (DataError.exit_code, True)
    assert (tmp_path / "out.part").read_text() == "a b\n"


def test_an_output_that_is_the_standard_input_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a b\n")
    command = CHILD
    with (tmp_path / "in.txt").open() as lines:
        words = ["-o", str(tmp_path / "in.txt")]
        done = subprocess.run([*command, *words], stdin=lines, capture_output=True, check=False)
    assert done.returncode == DataError.exit_code
    assert (tmp_path / "in.txt").read_text() == "a b\n"


def test_an_output_in_the_home_folder_lands_there(
    translator: Backwards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("translate", "m", "--output=~/out.txt", stdin="a b\n")[:2] == (0, "")
    assert (tmp_path / "out.txt").read_text() == "b a\n"


def test_a_failure_before_any_output_leaves_no_file(translator: Backwards, tmp_path: Path) -> None:
    assert run("translate", "m", "-o", str(tmp_path / "out"), stdin="crash\n")[0] == 3
    assert list(tmp_path.iterdir()) == []
    code, _, err = run("translate", "m", "-o", str(tmp_path / "no" / "out"), stdin="a\n")
    assert code == 3
    assert f"mkdir -p {tmp_path / 'no'}\n" in err
    code, _, err = run("translate", "m", "-o", str(tmp_path), stdin="a\n")
    assert code == 3
    assert err.startswith(f"clearhead: {tmp_path}: this is a folder\nWhat to do: ")
    assert translator.calls[1:] == []  # it was known before anything was translated


def test_a_link_stays_a_link_and_a_pipe_a_pipe(translator: Backwards, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert run("translate", "m", "-o", str(tmp_path / "link"), stdin="a b\n")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "b a\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    assert run("translate", "m", "-o", str(pipe), stdin="a b\n")[0] == 0
    reader.join(timeout=30)
    assert received == ["b a\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_ctrl_c_exits_with_130_and_keeps_what_was_written(
    translator: Backwards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BLOCK_LINES", 1)
    real = Backwards.translate

    def interrupted(self: Backwards, texts: Sequence[str], **choices: Any) -> Any:
        if texts == ["stop"]:
            raise KeyboardInterrupt
        return real(self, texts, **choices)

    monkeypatch.setattr(Backwards, "translate", interrupted)
    code, out, err = run("translate", "m", stdin="a b\nstop\n")
    assert (code, out) == (130, "b a\n")
    assert "Traceback" not in err
    assert run("translate", "m", "-o", str(tmp_path / "out"), stdin="a b\nstop\n")[0] == 130
    assert (tmp_path / "out.part").read_text() == "b a\n"


def test_a_broken_pipe_exits_quietly(tmp_path: Path) -> None:
    """The output is larger than the buffer of a pipe, as in `clearhead translate … | head -1`."""
    (tmp_path / "in.txt").write_text("a b c\n" * 200_000)
    with (tmp_path / "in.txt").open() as lines:
        command = CHILD
        process = subprocess.Popen(
            command, stdin=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"c b a\n"
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=60) == 141
    assert errors == b""


class Terminal:
    def __init__(self, is_terminal: bool = True) -> None:
        self.is_terminal = is_terminal
        self.text = ""

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def counted(total: int | None, moments: dict[float, int], **choices: Any) -> str:
    now = [0.0]
    stream: Any = Terminal(choices.pop("is_terminal", True))
    counter = Counter(stream, total, "sentences", clock=lambda: now[0], **choices)
    for moment, done in moments.items():
        now[0] = moment
        counter.show(done)
    counter.clear()
    return stream.text


def test_the_counter_shows_how_far_it_is_after_two_seconds_and_clears_its_line() -> None:
    text = counted(300, {1.0: 50, 10.0: 100, 10.1: 101})
    assert text.count("sentences") == 1
    assert "100 of 300 sentences, 10.0 a second, 0:00:20 left" in text
    assert text.endswith("\r\x1b[K")
    assert "left" not in counted(None, {10.0: 100})
    assert counted(300, {1.0: 50, 1.9: 300}) == ""
    assert counted(300, {10.0: 100}, visible=False) == ""
    assert counted(300, {10.0: 100}, is_terminal=False) == ""


@pytest.fixture(scope="module")
def moses(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a real model of lower-cased, tokenised text."""
    config = moses_run(tmp_path_factory.mktemp("moses"))
    train(config, observers=())
    return config.folder


def of_inputs(err: str) -> str:
    """Messages, without those on the translations of a model that has learned little."""
    lines = [line for line in err.splitlines() if "translation" not in line]
    return "".join(f"{line}\n" for line in lines)


PREPARED, ORDINARY = "two dogs play in the snow .\n", "Two dogs play in the snow.\n"


def test_a_text_that_looks_different_is_warned_of_once_and_can_be_normalised(moses: str) -> None:
    code, expected, err = run("translate", moses, stdin=PREPARED * 2)
    assert (code, of_inputs(err)) == (0, "")
    code, _, err = run("translate", moses, stdin=ORDINARY * 2)
    assert code == 0
    different, first, more = of_inputs(err).splitlines()
    assert "--normalise" in different
    assert "line 1 " in first
    assert more.endswith(": 1")
    for text in (ORDINARY, PREPARED):
        code, out, err = run("translate", moses, "--normalise", stdin=text * 2)
        assert (code, out, of_inputs(err)) == (0, expected, "")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--normalise"]])
def test_references_that_look_different_are_warned_of_once(
    moses: str, tmp_path: Path, options: list[str]
) -> None:
    for name, text in (("s", PREPARED), ("same", PREPARED), ("other", ORDINARY)):
        (tmp_path / name).write_text(text * 30)
    words = ("evaluate", moses, "--source", str(tmp_path / "s"), *options, "--reference")
    code, _, err = run(*words, str(tmp_path / "same"))
    assert (code, of_inputs(err)) == (0, "")
    code, _, err = run(*words, str(tmp_path / "other"))
    assert code == 0
    (line,) = of_inputs(err).splitlines()
    assert "references" in line
    with pytest.warns(UserWarning, match="references"):
        loading.load_translator(moses).evaluate(
            [PREPARED.strip()] * 30, [ORDINARY.strip()] * 30, normalise=bool(options)
        )


def test_python_normalises_texts_and_prefixes(moses: str) -> None:
    translator = loading.load_translator(moses)
    ((prepared,),) = translator.translate([PREPARED.strip()], prefixes=["two dogs ."])
    ((ordinary,),) = translator.translate(
        [ORDINARY.strip()], prefixes=["Two dogs."], normalise=True
    )
    assert ordinary == prepared
    with pytest.warns(UserWarning, match="normalise=True"):
        translator.translate([ORDINARY.strip()])
    _, out, _ = run("translate", moses, "--normalise", "--json", stdin=ORDINARY)
    assert json.loads(out)["source"] == ORDINARY.strip()


def test_a_folder_without_a_style_as_of_an_imported_model_cannot_normalise(
    moses: str, tmp_path: Path
) -> None:
    old = shutil.copytree(moses, tmp_path / "old")
    replace_together(old, read_entries(old), {}, ["text_style.json"])
    code, _, err = run("translate", str(old), stdin=ORDINARY)
    assert (code, of_inputs(err)) == (0, "")
    assert run("translate", str(old), "--normalise", stdin=ORDINARY)[0] == 2
