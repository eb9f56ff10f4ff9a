"""Runs an exported model with CTranslate2, and with PyTorch what that lacks. Imports no torch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clearhead.decoding.ctranslate2_library import (
    ExportedModel,
    Translators,
    explain_failures,
    part_size,
)
from clearhead.decoding.engine import (
    COMMON_SETTINGS,
    PADDED_TOKENS,
    Hypothesis,
    Sentence,
    check_prefixes,
    hypothesis_of,
    in_batches,
    lacking,
    length_penalty,
    longest_output,
    longest_source,
    ranked,
    scored_in_batches,
)
from clearhead.errors import ExportError, SearchError
from clearhead.settings import SearchConfig
from clearhead.settings.search import beyond
from clearhead.tokenizer import BOS, EOS, PAD, Tokenizer

if TYPE_CHECKING:
    import ctranslate2

    from clearhead.decoding.torch_engine import TorchEngine

IMPOSSIBLE = -1e8
"""A lower log-probability is that of a forbidden token, used because nothing else was left."""


class CTranslate2Engine:
    """Translates with the search of CTranslate2.

    Greedy search gives the same outputs as PyTorch. Beam search differs in a few sentences: in
    CTranslate2 a live hypothesis replaces a finished one in the beam, in `clearhead.decoding` it
    does not. When an output is finished, how long it may be and how hypotheses rank are as in
    `clearhead.decoding`. Of the hypotheses of a beam, those count that copy all symbols of the
    source and have all terms, if there are some.

    Scores are those of the model under teacher forcing, computed in a second pass over the
    outputs. With `scores=False` this pass is skipped. `token_scores` are then empty, and `score`
    is that of the search: for a beam the log-probability among the allowed tokens, for greedy
    search NaN. With `n_best` > 1 scores are always computed.

    Args:
        exported: the model.
        device: `cpu`, `cuda`, or `auto` for a GPU if there is one.
        threads: threads on the CPU (0: CTranslate2's default).
        compute_type: the number type of its products: `float32`, `int8`, …
        scores: whether scores are needed.

    Raises:
        ExportError: CTranslate2 is not installed, or cannot read the export.
        ConfigError: there is no such device, or it does not support the compute type.
        ClearheadError: the device failed, here or later, e.g. because its memory is full.
    """

    def __init__(
        self,
        exported: ExportedModel,
        *,
        device: str = "cpu",
        threads: int = 0,
        compute_type: str = "float32",
        scores: bool = True,
    ) -> None:
        self.exported = exported
        self.scores = scores
        self._sources, self._targets = exported.vocabularies()
        self.translators = Translators(exported, device, threads, compute_type)
        self._ids = {name: i for i, name in enumerate(self._targets)}

    @property
    def longest_source(self) -> int:
        """The maximum number of tokens of a source."""
        return longest_source(self.exported.positions)

    def check_vocabularies(self, tokenizers: Sequence[Tokenizer]) -> None:
        """Raise an `ExportError` unless the two tokenizers have as many tokens."""
        own = [len(self._sources), len(self._targets)]
        theirs = [len(tokenizer) for tokenizer in tokenizers]
        if own != theirs:
            raise ExportError(
                "the export is of another model: its vocabularies have other sizes",
                where=self.exported.path,
                why=f"they have {own} tokens, the tokenizers {theirs}",
                todo="export the model again: clearhead export",
            )

    def unsupported(
        self, sentences: Iterable[Sentence], search: SearchConfig
    ) -> SearchError | None:
        """The error of a search that this engine does not support; None if it does.

        Positions of the model limit an output, as with PyTorch. If only the export has too few
        positions for an output, it is an error.
        """
        where = why = None
        most = self.exported.longest_output
        if search.method == "sampling":
            what = "sampling (method = 'sampling')"
            why = "its draws would depend on the batch, not only on the seed and the sentence"
        elif name := beyond(search, [*COMMON_SETTINGS, "no_repeat_ngram"]):
            what = name
        elif long := next((s for s in sentences if self._longest(s, search) > most), None):
            what = f"an output of {self._longest(long, search)} tokens"
            where = f"sentence {long.key + 1}"
            why = f"its table of positions has {most}, so lower max_length, or shorten the prefix"
        else:
            return None
        what = f"the CTranslate2 engine does not support {what}"
        return SearchError(what, where=where, why=why, todo="use --engine torch, which supports it")

    def _longest(self, sentence: Sentence, search: SearchConfig) -> int:
        """The maximum number of tokens of the output."""
        least, positions = sentence.least_output, self.exported.positions
        return longest_output(len(sentence.ids), search, least, positions)

    def translate(
        self,
        sentences: Sequence[Sentence],
        search: SearchConfig,
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, in their order; see `Engine`."""
        if error := self.unsupported(sentences, search):
            raise error
        check_prefixes(sentences, len(self._targets), self.exported.positions)

        def translate_batch(batch: list[int]) -> list[list[Hypothesis]]:
            return self._translate_batch([sentences[i] for i in batch], search)

        lengths = [len(sentence.ids) for sentence in sentences]
        return in_batches(lengths, batch_size, PADDED_TOKENS, translate_batch, progress)

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[tuple[float, ...]]:
        """The log-probabilities of the tokens of each target; see `Engine`."""

        def score_batch(batch: list[int]) -> list[tuple[float, ...]]:
            translator = self.translators.of(len(batch))
            with explain_failures():
                scored = translator.score_batch(
                    _named(self._sources, [sources[i] for i in batch]),
                    _named(self._targets, [targets[i] for i in batch]),
                    max_input_length=0,
                    max_batch_size=part_size(translator, len(batch)),
                )
            return [tuple(result.log_probs) for result in scored]

        vocabulary = len(self._targets)
        return scored_in_batches(sources, targets, vocabulary, score_batch, batch_size, progress)

    def _translate_batch(
        self, batch: Sequence[Sentence], search: SearchConfig
    ) -> list[list[Hypothesis]]:
        found = [
            _keeping(sentence, hypotheses, search.n_best)
            for sentence, hypotheses in zip(batch, self._search_batch(batch, search), strict=True)
        ]
        # With forced or forbidden tokens the scores of the search are not log-probabilities of the
        # model. A beam then scores all its hypotheses before they are ranked.
        forced = any(sentence.prefix for sentence in batch)
        if search.beam_size > 1 and (forced or search.min_length or search.no_repeat_ngram):
            return self._scored(batch, found, search)
        found = [ranked(hypotheses, search.n_best) for hypotheses in found]
        return self._scored(batch, found, search) if self.scores or search.n_best > 1 else found

    def _search_batch(
        self, batch: Sequence[Sentence], search: SearchConfig
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, not ranked: at least `n_best`, if there are so many."""
        translator = self.translators.of(len(batch))
        longest = [self._longest(sentence, search) for sentence in batch]
        found = [[_hypothesis((), False, 0.0, search)] for _ in batch]

        def search_parts(indices: Sequence[int], key: Callable[[int], Hashable]) -> None:
            """Search the sentences with the same key together."""
            parts: dict[Hashable, list[int]] = defaultdict(list)
            for i in indices:
                parts[key(i)].append(i)
            for part in parts.values():
                most = max(longest[i] for i in part)
                results = self._search(translator, [batch[i] for i in part], search, most)
                for i, result in zip(part, results, strict=True):
                    found[i] = self._hypotheses(result, search)

        # A prefix changes the first step of all sentences of a call.
        filled = [i for i, most in enumerate(longest) if most > 0]
        search_parts(filled, lambda i: bool(batch[i].prefix))
        # A call has one length limit: the highest of its sentences. A sentence that exceeds its own
        # limit, which is rare, is searched again with that.
        overlong = [i for i in filled if max(map(_steps, found[i]), default=0) > longest[i]]
        search_parts(overlong, lambda i: (longest[i], bool(batch[i].prefix)))
        return found

    def _search(
        self,
        translator: ctranslate2.Translator,
        sentences: Sequence[Sentence],
        search: SearchConfig,
        longest: int,
    ) -> list[ctranslate2.TranslationResult]:
        """One call of CTranslate2, for sentences that all have a prefix or all have none."""
        beam = search.beam_size
        # Without a length penalty CTranslate2 stops when the best hypothesis and `num_hypotheses`
        # in all are finished. With one it stops as soon as `beam_size` are finished, and short bad
        # ones can reach that number while the best is still live. So `_hypothesis` applies it.
        with explain_failures():
            return translator.translate_batch(
                _named(self._sources, [s.ids for s in sentences]),
                target_prefix=_named(self._targets, [s.prefix for s in sentences])
                if sentences[0].prefix
                else None,
                beam_size=beam,
                num_hypotheses=beam if search.length_penalty else search.n_best,
                length_penalty=0.0,
                no_repeat_ngram_size=search.no_repeat_ngram,
                suppress_sequences=[[self._targets[PAD]], [self._targets[BOS]]],
                return_end_token=True,
                return_scores=beam > 1,
                max_input_length=0,
                max_batch_size=part_size(translator, len(sentences)),
                max_decoding_length=longest,
                min_decoding_length=min(search.min_length, longest),
            )

    def _hypotheses(
        self, result: ctranslate2.TranslationResult, search: SearchConfig
    ) -> list[Hypothesis]:
        """The distinct hypotheses of a result, without impossible ones."""
        scores = result.scores or [math.nan] * len(result.hypotheses)
        found: dict[tuple[int, ...], Hypothesis] = {}
        for names, score in zip(result.hypotheses, scores, strict=True):
            output = tuple(self._ids[name] for name in names)
            if score < IMPOSSIBLE or output in found:
                continue
            finished = output[-1:] == (EOS,)
            tokens = output[:-1] if finished else output
            found[output] = _hypothesis(tokens, finished, score, search)
        return list(found.values())

    def _scored(
        self, batch: Sequence[Sentence], found: Sequence[Sequence[Hypothesis]], search: SearchConfig
    ) -> list[list[Hypothesis]]:
        """The hypotheses with the model's own scores, ranked."""
        sources = [s.ids for s, each in zip(batch, found, strict=True) for _ in each]
        outputs = [h.tokens for each in found for h in each]
        scores = iter(self.score(sources, outputs, batch_size=len(outputs)))

        def scored(h: Hypothesis) -> Hypothesis:
            return hypothesis_of(h.tokens, next(scores)[: _steps(h)], search.length_penalty)

        return [ranked([scored(h) for h in each], search.n_best) for each in found]


def _keeping(
    sentence: Sentence, hypotheses: Sequence[Hypothesis], n_best: int
) -> Sequence[Hypothesis]:
    """The hypotheses that have the symbols and terms of a sentence, if enough do; or else all."""
    found = [each for each in hypotheses if each.finished and sentence.is_kept(each.tokens)]
    return found if len(found) >= n_best else hypotheses


def _named(names: Sequence[str], tokens: Iterable[Sequence[int]]) -> list[list[str]]:
    return [[names[i] for i in ids] for ids in tokens]


def _steps(hypothesis: Hypothesis) -> int:
    """The number of tokens, the end symbol included."""
    return len(hypothesis.tokens) + hypothesis.finished


def _hypothesis(
    tokens: tuple[int, ...], finished: bool, score: float, search: SearchConfig
) -> Hypothesis:
    penalty = length_penalty(len(tokens) + finished, search.length_penalty)
    return Hypothesis(tokens, score, (), score / penalty, finished)


class AutoEngine:
    """Runs CTranslate2 for every search that it supports, and PyTorch for the others.

    Which of the two runs a call depends on the arguments of that call alone, and on whether the
    PyTorch model has hooks or other weights, which the export lacks. The PyTorch engine is made
    when it is needed first. It also translates the sentences again whose symbols or terms
    CTranslate2 did not place; `repeated` counts them.
    """

    def __init__(self, exported: CTranslate2Engine, make_torch: Callable[[], TorchEngine]) -> None:
        self.exported = exported
        self.repeated = 0
        self._make_torch = make_torch

    @cached_property
    def torch(self) -> TorchEngine:
        """The PyTorch engine."""
        from clearhead.decoding.changes import versions

        engine = self._make_torch()
        self._versions = versions(engine.model)
        return engine

    @property
    def _is_changed(self) -> bool:
        """Whether the PyTorch model differs from the export."""
        if "torch" not in vars(self):
            return False
        from clearhead.decoding.changes import is_changed

        return is_changed(self.model, self._versions)

    @property
    def model(self) -> Any:
        """The PyTorch model."""
        return self.torch.model

    @property
    def longest_source(self) -> int:
        """The maximum number of tokens of a source, with either engine."""
        return self.exported.longest_source

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[tuple[float, ...]]:
        """The log-probabilities of the tokens of each target; see `Engine`."""
        engine = self.torch if self._is_changed else self.exported
        return engine.score(sources, targets, batch_size=batch_size, progress=progress)

    def translate(
        self,
        sentences: Sequence[Sentence],
        search: SearchConfig,
        *,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, in their order; see `Engine`."""
        if self._is_changed or self.exported.unsupported(sentences, search):
            return self.torch.translate(sentences, search, batch_size=batch_size, progress=progress)
        found = self.exported.translate(sentences, search, batch_size=batch_size, progress=progress)
        if wrong := lacking(sentences, found):
            self.repeated += len(wrong)
            again = self.torch.search([sentences[i] for i in wrong], search, batch_size=batch_size)
            for i, hypotheses in zip(wrong, again, strict=True):
                found[i] = hypotheses
        return found
