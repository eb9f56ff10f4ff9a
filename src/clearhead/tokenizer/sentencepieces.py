"""SentencePiece pieces as a vocabulary: byte-pair encoding and unigram."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Literal

import sentencepiece

from clearhead.errors import ConfigError, DataError, ModelFolderError, reason
from clearhead.folder.files import COPY_AGAIN, json_file
from clearhead.settings import TokenizerConfig
from clearhead.tokenizer.normal_form import PLAIN, NormalForm
from clearhead.tokenizer.protocol import BOS, EOS, PAD, SYMBOLS, Tokenizer, without_surrogates
from clearhead.tokenizer.sampling import META_SPACE, SegmentSampler

# If there are more lines, SentencePiece learns from a random sample, always the same one.
MAX_TRAINING_LINES = 2_000_000
# Longer lines are split for learning: the time of the trainers grows with the longest "word".
MAX_TRAINING_LINE = 10_000

# Unigram learning starts with this many candidates, and does not end with a far larger limit.
MAX_VOCABULARY = 1_000_000

# SentencePiece writes a space as U+2581, so a U+2581 in the text would be decoded as a space.
# It is replaced by ESCAPE "1", and ESCAPE itself (a rare private-use character) by ESCAPE "0".
ESCAPE = "\U0010fffd"


class SentencePieceTokenizer(Tokenizer):
    """Pieces of words by byte-pair encoding (Sennrich et al. 2016) or unigram (Kudo 2018).

    With byte fallback, `decode(encode(text))` is always the text in its normal form, except that a
    lone surrogate becomes U+FFFD. Without byte fallback, a character that the vocabulary lacks is
    decoded as ` ⁇ `.

    Args:
        model: the bytes of the SentencePiece model file.
        kind: how it was learned, which decides what sampling means.
        form: of texts, before they are encoded.
        sampling: the strength of `sample_batch`, see `SegmentSampler`.

    Raises:
        ValueError, RuntimeError: SentencePiece cannot read the model, or a piece is not UTF-8.
    """

    def __init__(
        self,
        model: bytes,
        *,
        kind: Literal["bpe", "unigram"],
        form: NormalForm = PLAIN,
        sampling: float = 0.0,
    ) -> None:
        self.model = model
        self.kind: Literal["bpe", "unigram"] = kind
        self.form = form
        self.sampling = sampling
        self._processor = processor_of(model)
        self.unk_id: int = self._processor.unk_id()

    @classmethod
    def learn(
        cls, texts: Iterable[str], config: TokenizerConfig, form: NormalForm | None = None
    ) -> SentencePieceTokenizer:
        """Learn at most `config.max_vocabulary` pieces; the same texts give the same pieces.

        Without a form, texts are lower-cased if the configuration has it.

        Raises:
            DataError: there is no text to learn from.
            ConfigError: `max_vocabulary` is smaller than the number of characters in the texts.
        """
        form = form or NormalForm(lower=config.lower)
        source = _TrainingLines(map(form, texts))
        lines = iter(source)
        first = next(lines, None)
        if first is None:
            raise DataError("there is no text to learn a vocabulary from")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=itertools.chain([first], lines),
                model_writer=model,
                model_type=config.kind,
                vocab_size=min(config.max_vocabulary, MAX_VOCABULARY),
                # max_vocabulary is a limit: small data may have fewer pieces.
                hard_vocab_limit=False,
                byte_fallback=config.byte_fallback,
                character_coverage=0.9995 if config.byte_fallback else 1.0,
                # Even if spaces are rare: as bytes they would not be decoded.
                required_chars=META_SPACE,
                user_defined_symbols=list(SYMBOLS) if config.has_symbols else [],
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                input_sentence_size=MAX_TRAINING_LINES,
                shuffle_input_sentence=True,
                max_sentence_length=8 * MAX_TRAINING_LINE,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=3,
                minloglevel=2,
            )
        except RuntimeError as error:
            if source.error is not None:
                raise source.error from None
            raise _cannot_learn(config, str(error)) from None
        kind: Literal["bpe", "unigram"] = "unigram" if config.kind == "unigram" else "bpe"
        return cls(model.getvalue(), kind=kind, form=form, sampling=config.sampling)

    def __len__(self) -> int:
        return len(self._processor)

    def encode(self, text: str) -> list[int]:
        return self._processor.encode(self._read(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's pieces; large batches use all cores."""
        threads = -1 if len(texts) >= 1000 else 1
        return self._processor.encode(list(map(self._read, texts)), num_threads=threads)

    def sample_batch(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        """Segmentations sampled with strength `sampling`: a function of (texts, seed) alone."""
        if self.sampling == 0.0:
            return self.encode_batch(texts)
        return self._sampler.sample(map(self._read, texts), seed)

    def _read(self, text: str) -> str:
        return _escape(self.form(text))

    @cached_property
    def _sampler(self) -> SegmentSampler:
        return SegmentSampler(self._processor, self.kind, self.sampling)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; bytes that are not UTF-8 become U+FFFD."""
        with texts_of_library():
            text = self._processor.decode([int(i) for i in ids if i > EOS])
        return text.replace(ESCAPE + "1", META_SPACE).replace(ESCAPE + "0", ESCAPE)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id, with U+2581 for a space and `<0xC3>` for a byte."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def files(self, name: str) -> dict[str, bytes]:
        """The content of `name.model`, which other programs read too, and of `name.json`."""
        tree = {"kind": self.kind, **self.form.to_tree(), "sampling": self.sampling}
        return {f"{name}.model": self.model, **json_file(name, tree)}


def processor_of(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """The processor of a SentencePiece model."""
    # The library reads the strings of a model only when they are used, so they are read once here.
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    if len(processor) == 0:  # the library takes no bytes for no model
        raise ValueError("the SentencePiece model is empty")
    processor.id_to_piece(list(range(len(processor))))
    processor.decode([processor.unk_id()])
    return processor


@contextmanager
def texts_of_library() -> Iterator[None]:
    """Around calls of SentencePiece that give text."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ModelFolderError(
            "the SentencePiece model gives text that is not UTF-8",
            why=reason(error),
            todo=COPY_AGAIN,
        ) from None


def _escape(text: str) -> str:
    if not text.isascii():
        text = text.replace(ESCAPE, ESCAPE + "0").replace(META_SPACE, ESCAPE + "1")
        text = without_surrogates(text)
    return text


def _cannot_learn(config: TokenizerConfig, reason: str) -> ConfigError:
    needed = re.search(r"required_chars\. \d+ vs (\d+)", reason)
    if needed is None:
        size = config.max_vocabulary
        what = f"SentencePiece cannot learn {size} pieces of kind {config.kind} from these texts"
        todo = "try another tokenizer.max_vocabulary or kind"
        return ConfigError(what, setting="tokenizer.max_vocabulary", why=reason, todo=todo)
    bytes_too = ", the 256 bytes" if config.byte_fallback else ""
    return ConfigError(
        f"tokenizer.max_vocabulary = {config.max_vocabulary} is too small for these texts",
        setting="tokenizer.max_vocabulary",
        why=f"their characters{bytes_too} and the special symbols alone are {needed[1]}",
        todo=f"set it to at least {needed[1]}, better to a few thousand",
    )


class _TrainingLines:
    """Lines that the trainer accepts; `error` keeps an exception of the texts.

    The trainer would turn any exception (a file that is not UTF-8, Ctrl-C) into one of its own.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self._texts:
                # The trainer skips a line that has a NUL or a U+2585.
                text = _escape(text).replace("\0", " ").replace("\u2585", " ")
                for start in range(0, len(text), MAX_TRAINING_LINE):
                    line = text[start : start + MAX_TRAINING_LINE]
                    if line.strip():
                        yield line
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise
