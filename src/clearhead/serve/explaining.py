"""Why a word is there, and what could be there instead: /v1/alternatives and /v1/explain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from clearhead.errors import DataError
from clearhead.serve.own import PROBLEMS, Body, Name, client_of
from clearhead.serve.server import Server
from clearhead.settings import SearchConfig
from clearhead.text.placing import word_ranges

if TYPE_CHECKING:
    from clearhead.inspect.subject import Subject

LONGEST = 4000
"""Characters of a sentence that is explained."""

Client = Annotated[str, Depends(client_of)]
Sentence = Annotated[str, Field(min_length=1, max_length=LONGEST)]
Range = tuple[int, int]


class ExplainBody(Body):
    """What to explain."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": "A man sleeps.", "translation": "Ein Mann schläft."},
                {"model": "trec", "text": "How far is it to the moon ?"},
            ]
        },
    )

    model: Name | None = Field(None, description="name of the model (default: the first one)")
    text: Sentence = Field(description="a sentence, or the text that a classifier reads")
    translation: Sentence | None = Field(
        None, description="of the sentence; without one, a classifier is explained"
    )
    normalise: bool | None = Field(
        None, description="bring the text into the style of the training text first"
    )


class WordEffect(BaseModel):
    """A word, and how far the log-probability of the output falls without it."""

    text: str
    effect: float


class LabelReasons(BaseModel):
    """What counts for a label."""

    label: str
    words: list[WordEffect]


class ExplainAnswer(BaseModel):
    """Which source words are perhaps not translated; or what counts for the labels."""

    model: str
    untranslated: list[Range] = Field(description="ranges of characters of the text")
    labels: list[LabelReasons]


class AlternativesBody(Body):
    """A word of a translation."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"text": "A man sleeps.", "translation": "Ein Mann schläft.", "word": 1}]
        },
    )

    model: Name | None = Field(None, description="name of the model (default: the first one)")
    text: Sentence = Field(description="a sentence")
    translation: Sentence = Field(description="its translation")
    word: int = Field(
        ge=0, le=LONGEST, description="number of the word or punctuation mark, from 0"
    )
    normalise: bool | None = Field(
        None, description="bring the sentence into the style of the training text first"
    )


class Alternative(BaseModel):
    """A word that could be there, and the translation with it."""

    word: str
    probability: float = Field(description="of the word's first token, after the words before it")
    text: str


class AlternativesAnswer(BaseModel):
    """The most probable words, the best first."""

    model: str
    range: Range = Field(description="of the characters of the word in the translation")
    alternatives: list[Alternative]


def router(server: Server) -> APIRouter:
    """The routes that look into a model for the page, which needs PyTorch."""
    api = APIRouter(prefix="/v1", tags=["clearhead"], responses=PROBLEMS)

    @api.post("/explain")
    async def explain(request: Request, client: Client, body: ExplainBody) -> ExplainAnswer:
        """Find words that are perhaps not translated; of a classifier, the words that count."""
        task = "classification" if body.translation is None else "translation"
        name, service = server.models.named(body.model, task)
        server.note(request, name, body.text)

        def look(model: Any) -> ExplainAnswer:
            text = model.normalised(body.text) if server.normalise(body.normalise) else body.text
            answer = ExplainAnswer(model=name, untranslated=[], labels=[])
            if body.translation is None:
                answer.labels = labels(model, text)
            else:
                found = dropped(model, text, body.translation)
                ranges, read = word_ranges(body.text), word_ranges(text)
                if len(ranges) == len(read):  # else they are other words
                    answer.untranslated = [ranges[word] for word in found]
            return answer

        if task == "classification" and service.folder.config.input == "features":
            raise DataError(f"the model {name} reads no texts")
        return await server.run(request, service, client, lambda t: service.inside(look, t))

    @api.post("/alternatives")
    async def alternatives(
        request: Request, client: Client, body: AlternativesBody
    ) -> AlternativesAnswer:
        """Find what could be in the place of a word of a translation."""
        name, service = server.models.named(body.model, "translation")
        server.note(request, name, body.text)
        ranges = word_ranges(body.translation)
        if body.word >= len(ranges):
            raise DataError(f"there are {len(ranges)} words, counted from 0", where="word")

        def look(model: Any) -> list[Alternative]:
            text = model.normalised(body.text) if server.normalise(body.normalise) else body.text
            return others(model, text, body.translation, body.word)

        found = await server.run(request, service, client, lambda t: service.inside(look, t))
        return AlternativesAnswer(model=name, range=ranges[body.word], alternatives=found)

    return api


def dropped(translator: Any, source: str, target: str) -> list[int]:
    """The numbers of the source words, by `word_ranges`, that are perhaps not translated."""
    from clearhead.inspect.explanation import TOO_LONG, is_short, untranslated
    from clearhead.inspect.replay import effects

    subject, words = _positions(translator, (source, target), side=0)
    if not is_short(subject):
        raise DataError("the sentence is too long to explain", why=TOO_LONG)
    found = effects(subject.replay, words, [], heads=[])
    return untranslated(subject, found.by_source)


def labels(classifier: Any, text: str) -> list[LabelReasons]:
    """The labels of a text, and what each word does for them."""
    from clearhead.inspect.explanation import TOO_LONG, is_short
    from clearhead.inspect.replay import effects
    from clearhead.inspect.subject import Subject

    subject = Subject.classification(classifier, text)
    if not is_short(subject):
        raise DataError("the text is too long to explain", why=TOO_LONG)
    words = subject.source_words
    found = effects(subject.replay, [word.positions for word in words], [], heads=[])
    return [
        LabelReasons(
            label=label,
            words=[
                WordEffect(text=word.text, effect=float(falls[place, 0]))
                for word, falls in zip(words, found.by_source, strict=True)
            ],
        )
        for place, label in enumerate(subject.outputs)
    ]


def others(translator: Any, source: str, target: str, word: int) -> list[Alternative]:
    """What could be in the place of a word of a translation, the most probable first.

    Each of the most probable tokens there is completed by the search of the model. Tokens that
    begin the same word count together.
    """
    from clearhead.decoding.engine import Sentence
    from clearhead.inspect.explanation import alternatives

    subject, words = _positions(translator, (source, target), side=1)
    if not words[word]:
        return []
    place = words[word][0]
    ids, scores = alternatives(subject)
    before = subject.replay.outcome[:place, 0].tolist()
    masked, search = translator.protection.mask(source), translator.search
    if search.method == "sampling":
        search = SearchConfig(beam_size=1)
    read = translator.source_tokenizer.encode(masked.text)
    begun = [
        (int(token), math.exp(score))
        for token, score in zip(ids[place], scores[place], strict=True)
        if token != translator.model.eos_id
    ]
    sentences = [Sentence(read, [*before, token], key) for key, (token, _) in enumerate(begun)]
    outputs = translator.engine.translate(sentences, search)
    kept = target[: word_ranges(target)[word][0]]
    found: dict[str, Alternative] = {}
    for (_, probability), (best, *_) in zip(begun, outputs, strict=True):
        text = masked.restored(translator.target_tokenizer.decode(best.tokens))
        ranges = word_ranges(text)
        if not text.startswith(kept) or len(ranges) <= word or ranges[word][0] != len(kept):
            continue  # the token goes on with the word before it
        each = text[slice(*ranges[word])]
        known = found.setdefault(each, Alternative(word=each, probability=0, text=text))
        known.probability += probability
    return sorted(found.values(), key=lambda each: -each.probability)


def _positions(
    translator: Any, pair: tuple[str, str], side: int
) -> tuple[Subject, list[tuple[int, ...]]]:
    """The subject of a pair, and the positions of the words of one side, by `word_ranges`."""
    from clearhead.api.documents import words_of_pair
    from clearhead.inspect.subject import Subject

    subject = Subject.translation(translator, *pair)
    words = words_of_pair(translator, pair, subject)[side]
    if words is None or len(words) != len(word_ranges(pair[side])):
        why = "it has kept spans, or characters that the model does not know"
        raise DataError("the tokens of the model do not show the words of this sentence", why=why)
    return subject, [word.positions for word in words]
