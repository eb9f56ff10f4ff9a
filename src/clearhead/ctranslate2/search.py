"""Runs the search of CTranslate2 on a batch and converts its results to our hypotheses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.ctranslate2.runtime import failures_explained, part_size
from clearhead.decoding.engine import Hypothesis, length_penalty
from clearhead.settings import SearchConfig
from clearhead.tokenizer import BOS, EOS, PAD

if TYPE_CHECKING:
    import ctranslate2

IMPOSSIBLE = -1e8
"""A lower log-probability means a forbidden token, used because nothing else was left."""


@dataclass(frozen=True)
class Sentence:
    """What to translate: names of tokens, and the most steps of the output."""

    source: list[str]
    prefix: list[str]
    longest: int


@dataclass(frozen=True)
class Candidate:
    """An output: target ids without the end symbol, whether it ended, and log-probabilities."""

    tokens: tuple[int, ...]
    finished: bool
    score: float = float("nan")
    token_scores: tuple[float, ...] = ()

    @property
    def steps(self) -> int:
        """The number of its tokens, the end symbol included."""
        return len(self.tokens) + self.finished

    def with_scores(self, scores: Sequence[float]) -> Candidate:
        """The same with the log-probability of each token and of the end symbol after them."""
        kept = tuple(scores[: self.steps])
        return replace(self, score=sum(kept), token_scores=kept)


def candidates_of(
    translator: ctranslate2.Translator,
    batch: Sequence[Sentence],
    search: SearchConfig,
    names: Sequence[str],
    ids: Mapping[str, int],
) -> list[list[Candidate]]:
    """The candidates of each sentence: at least `n_best`, if there are so many.

    CTranslate2 has one length limit for a whole batch, so this is the highest of its sentences. A
    sentence that gets longer than its own limit, which is rare, is searched again with that.

    Args:
        translator: CTranslate2's translator.
        batch: the sentences.
        search: the settings of the search.
        names: the name of each target id.
        ids: the id of each name.
    """
    found: list[list[Candidate]] = [[Candidate((), False, 0.0)] for _ in batch]
    searching = [i for i, sentence in enumerate(batch) if sentence.longest > 0]
    # A prefix changes the first step of all sentences of a batch, so those with one are apart.
    for part in _parted(searching, lambda i: bool(batch[i].prefix)):
        most = max(batch[i].longest for i in part)
        results = _search(translator, [batch[i] for i in part], most, search, names, ids)
        for i, candidates in zip(part, results, strict=True):
            found[i] = candidates
    overlong = [
        i for i in searching if max((c.steps for c in found[i]), default=0) > batch[i].longest
    ]
    for part in _parted(overlong, lambda i: (batch[i].longest, bool(batch[i].prefix))):
        most = batch[part[0]].longest
        results = _search(translator, [batch[i] for i in part], most, search, names, ids)
        for i, candidates in zip(part, results, strict=True):
            found[i] = candidates
    return found


def _parted(indices: Sequence[int], key: Any) -> Iterator[list[int]]:
    """The indices, in lists of those with the same key."""
    parts: dict[Any, list[int]] = defaultdict(list)
    for i in indices:
        parts[key(i)].append(i)
    yield from parts.values()


def _search(
    translator: ctranslate2.Translator,
    sentences: Sequence[Sentence],
    most: int,
    search: SearchConfig,
    names: Sequence[str],
    ids: Mapping[str, int],
) -> list[list[Candidate]]:
    """One call of CTranslate2, for sentences that all have a prefix or all have none."""
    beam = search.beam_size
    # Without a length penalty CTranslate2 stops when the best hypothesis and `num_hypotheses` in
    # all are finished. With one it stops as soon as `beam_size` are finished, and short bad ones
    # can reach that number while the best is still live. So the penalty is applied in `ranked`.
    with failures_explained():
        results = translator.translate_batch(
            [sentence.source for sentence in sentences],
            target_prefix=[s.prefix for s in sentences] if sentences[0].prefix else None,
            beam_size=beam,
            num_hypotheses=beam if search.length_penalty else search.n_best,
            length_penalty=0.0,
            no_repeat_ngram_size=search.no_repeat_ngram,
            suppress_sequences=[[names[PAD]], [names[BOS]]],
            return_end_token=True,
            return_scores=beam > 1,
            max_input_length=0,
            max_batch_size=part_size(translator, len(sentences)),
            max_decoding_length=most,
            min_decoding_length=min(search.min_length, most),
        )
    return [_candidates(result, ids) for result in results]


def _candidates(result: ctranslate2.TranslationResult, ids: Mapping[str, int]) -> list[Candidate]:
    """The distinct hypotheses of a result, without impossible ones."""
    scores = result.scores or [float("nan")] * len(result.hypotheses)
    found: dict[tuple[int, ...], Candidate] = {}
    for tokens, score in zip(result.hypotheses, scores, strict=True):
        output = tuple(ids[token] for token in tokens)
        if score < IMPOSSIBLE or output in found:
            continue
        finished = output[-1:] == (EOS,)
        found[output] = Candidate(output[:-1] if finished else output, finished, score)
    return list(found.values())


def ranked(candidates: Sequence[Candidate], search: SearchConfig) -> list[Hypothesis]:
    """The `n_best` hypotheses, best first; unfinished ones rank after all finished ones."""
    hypotheses = [
        Hypothesis(
            tokens=c.tokens,
            score=c.score,
            token_scores=c.token_scores,
            normalised_score=c.score / length_penalty(c.steps, search.length_penalty),
            finished=c.finished,
        )
        for c in candidates
    ]
    if len(hypotheses) > 1:
        hypotheses.sort(key=lambda h: (not h.finished, -h.normalised_score))
    return hypotheses[: search.n_best]
