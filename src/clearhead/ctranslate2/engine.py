"""Runs an exported model with CTranslate2. Never imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clearhead.ctranslate2.folder import ExportedModel
from clearhead.ctranslate2.runtime import Translators, failures_explained, part_size
from clearhead.ctranslate2.search import Candidate, Sentence, candidates_of, ranked
from clearhead.decoding.engine import (
    PADDED_TOKENS,
    Hypothesis,
    batches_by_length,
    check_prefix,
    longest_output,
)
from clearhead.errors import SearchError
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

SCORED_LOGITS = 2**24
"""Logits of a part of the second pass, at most: 64 MB."""


class CTranslate2Engine:
    """Translates with the search of CTranslate2; its hypotheses mean the same as ours.

    Greedy search gives the same outputs as PyTorch. Beam search differs in a few sentences: in
    CTranslate2 a live hypothesis takes the place of a finished one, in `clearhead.decoding` it
    does not. When an output is finished, how long it may be and how hypotheses rank are as in
    `clearhead.decoding`.

    Scores are those of the model under teacher forcing, computed in a second pass over the
    outputs. With `scores=False` this pass is skipped. `token_scores` are then empty, and `score`
    is that of the search: for a beam the log-probability among the allowed tokens, for greedy
    search NaN. With `n_best` > 1 scores are always computed.

    Args:
        exported: the model.
        device: `cpu`, `cuda`, or `auto` for a GPU if there is one.
        threads: threads on the CPU (0: CTranslate2's default).
        compute_type: the numbers that it multiplies: `float32`, `int8`, …
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
        self.translators = Translators(exported, device, threads, compute_type)
        self._sources, self._targets = exported.vocabularies()
        self._ids = {name: i for i, name in enumerate(self._targets)}

    @property
    def longest_source(self) -> int | None:
        """The most tokens of a source."""
        return self.exported.longest_source

    def unsupported(
        self, search: SearchConfig, prefix: int = 0, source: int = 0
    ) -> SearchError | None:
        """The error of a search that this engine does not support; None if it does.

        Args:
            search: the settings of the search.
            prefix: tokens of the longest prefix.
            source: tokens of the longest source.
        """
        todo = "use --engine torch, which supports it"
        if search.method == "sampling":
            return SearchError(
                "the CTranslate2 engine does not support sampling (method = 'sampling')",
                why="its draws would depend on the batch, not only on the seed and the sentence",
                todo=todo,
            )
        if search.no_repeat_ngram and search.min_length > len(self._targets) - len((PAD, BOS, EOS)):
            return SearchError(
                "the CTranslate2 engine does not support no_repeat_ngram with min_length = "
                f"{search.min_length}, which is more than the vocabulary",
                why="if no token may follow, it uses a forbidden one",
                todo=todo,
            )
        most = self.exported.longest_output
        needed = longest_output(source, search, prefix)
        if not self.exported.trained_positions and needed > most:
            return SearchError(
                f"an output may have up to {needed} tokens, but the export has {most} positions",
                todo="set max_length, or use --engine torch",
            )
        return None

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in the order of the sources; see `Engine`."""
        # Without lengths: an error about a length is raised below, and names the sentence.
        error = self.unsupported(search)
        if error is not None:
            raise error
        sentences = self._sentences(sources, search, prefixes, keys)
        results: list[list[Hypothesis]] = [[] for _ in sources]
        done = 0
        lengths = [len(source) for source in sources]
        for batch in batches_by_length(lengths, batch_size, PADDED_TOKENS):
            found = self._translate_batch([sentences[i] for i in batch], search)
            for i, hypotheses in zip(batch, found, strict=True):
                results[i] = hypotheses
            done += len(batch)
            if progress is not None:
                progress(done)
        return results

    def token_scores(
        self, sources: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
    ) -> list[tuple[float, ...]]:
        """The log-probability of each token of each output, and last that of the end symbol."""
        names = [[self._sources[i] for i in source] for source in sources]
        return self._scored(names, outputs)

    def _sentences(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        prefixes: Sequence[Sequence[int]] | None,
        keys: Sequence[int] | None,
    ) -> list[Sentence]:
        prefixes = [()] * len(sources) if prefixes is None else prefixes
        keys = range(len(sources)) if keys is None else keys
        if not len(prefixes) == len(keys) == len(sources):
            raise SearchError(
                f"{len(prefixes)} prefixes and {len(keys)} keys were given for "
                f"{len(sources)} sources"
            )
        return [
            Sentence(
                source=[self._sources[i] for i in source],
                prefix=self._prefix(prefix, key),
                longest=self._longest(len(source), len(prefix), search, key),
            )
            for source, prefix, key in zip(sources, prefixes, keys, strict=True)
        ]

    def _prefix(self, prefix: Sequence[int], key: int) -> list[str]:
        """The names of the tokens of a forced prefix."""
        check_prefix(prefix, key)
        if max(prefix, default=0) >= len(self._targets):
            raise SearchError(
                f"the prefix of sentence {key + 1} contains ids outside the vocabulary of "
                f"{len(self._targets)} tokens",
                todo="encode the prefix with the model's own target tokenizer",
            )
        return [self._targets[token] for token in prefix]

    def _longest(self, source: int, prefix: int, search: SearchConfig, key: int) -> int:
        """The most tokens of an output.

        Positions of the model limit it, as with PyTorch. Positions of the export alone do not:
        what needs more is an error.
        """
        positions, trained = self.exported.longest_output, self.exported.trained_positions
        needed = longest_output(source, search, prefix)
        if not trained and longest_output(source, search) > positions:
            raise SearchError(
                f"the output of sentence {key + 1} may have {needed} tokens, but the export has "
                f"{positions} positions",
                todo="set max_length, or use --engine torch",
            )
        if prefix > positions or (needed > positions and not trained):
            raise SearchError(
                f"the prefix of sentence {key + 1} has {prefix} tokens, but the "
                f"{'model' if trained else 'export'} has {positions} positions",
                todo="shorten the prefix" + ("" if trained else ", or use --engine torch"),
            )
        return min(needed, positions)

    def _translate_batch(
        self, batch: Sequence[Sentence], search: SearchConfig
    ) -> list[list[Hypothesis]]:
        translator = self.translators.of(len(batch))
        found = candidates_of(translator, batch, search, self._targets, self._ids)
        # With forced or forbidden tokens the scores of the search are not log-probabilities of the
        # model. A beam then scores all its candidates before they are ranked.
        forced = any(sentence.prefix for sentence in batch)
        if search.beam_size > 1 and (forced or search.min_length or search.no_repeat_ngram):
            found = self._scored_again(batch, found)
            return [ranked(candidates, search) for candidates in found]
        hypotheses = [ranked(candidates, search) for candidates in found]
        if not self.scores and search.n_best == 1:
            return hypotheses
        best = [[Candidate(h.tokens, h.finished) for h in each] for each in hypotheses]
        return [ranked(candidates, search) for candidates in self._scored_again(batch, best)]

    def _scored_again(
        self, batch: Sequence[Sentence], found: Sequence[Sequence[Candidate]]
    ) -> list[list[Candidate]]:
        """The candidates with the model's own scores."""
        flat = [(s.source, c) for s, each in zip(batch, found, strict=True) for c in each]
        scores = iter(self._scored([source for source, _ in flat], [c.tokens for _, c in flat]))
        return [[candidate.with_scores(next(scores)) for candidate in each] for each in found]

    def _scored(
        self, sources: Sequence[list[str]], outputs: Sequence[Sequence[int]]
    ) -> list[tuple[float, ...]]:
        found: list[tuple[float, ...]] = [()] * len(outputs)
        padded_tokens = max(1, SCORED_LOGITS // len(self._targets))
        lengths = [
            max(len(output) + 1, len(source))
            for source, output in zip(sources, outputs, strict=True)
        ]
        for part in batches_by_length(lengths, len(outputs), padded_tokens):
            translator = self.translators.of(len(part))
            with failures_explained():
                scored = translator.score_batch(
                    [sources[i] for i in part],
                    [[self._targets[token] for token in outputs[i]] for i in part],
                    max_input_length=0,
                    max_batch_size=part_size(translator, len(part)),
                )
            for i, result in zip(part, scored, strict=True):
                found[i] = tuple(result.log_probs)
        return found
