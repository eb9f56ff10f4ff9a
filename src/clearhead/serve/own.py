"""Our own API: /v1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, Json

from clearhead.api.documents import word_probabilities
from clearhead.api.service import Service, Ticket
from clearhead.decoding.engine import Hypothesis
from clearhead.errors import DataError
from clearhead.serve.documents import Documents, beginning
from clearhead.serve.models import languages_of
from clearhead.serve.server import Server
from clearhead.text.documents import FORMATS, Result, check_format, format_of
from clearhead.text.paragraphs import Pair
from clearhead.text.placing import word_ranges
from clearhead.text.sentences import sentences
from clearhead.text.spans import SOFTWARE

WINDOW = 600
"""Characters of a text, at least, that are translated together when it is streamed."""

Text = Annotated[str, Field(max_length=1_000_000)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=1000)]
Name = Annotated[str, Field(max_length=200)]
Terms = Json[Annotated[dict[Name, Name], Field(max_length=1000)]]
Format = Literal["text", "html", "markdown", "po", "srt", "vtt", "xliff", "json", "csv", "tsv"]


class Body(BaseModel):
    """A body of a request; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class WithModel(Body):
    """What names a translator: its name, or its languages, or nothing for the first one."""

    model: Name | None = Field(None, description="name of the model (default: the first one)")
    source: Name | None = Field(None, description="source language, or `auto` to detect it")
    target: Name | None = Field(None, description="target language")


class TranslateBody(WithModel):
    """Texts to translate."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": "A man sleeps. A dog barks.", "source": "en", "target": "de"},
                {"text": "<b>Print</b> it.", "format": "html", "glossary": {"print": "drucken"}},
                {"text": "A man sleeps.", "prefix": "Ein Herr", "alternatives": 2},
            ]
        },
    )

    text: Text | Texts = Field(description="a text, or a list; each may have several sentences")
    format: Format = Field("text", description="markup of the texts")
    alternatives: int = Field(0, ge=0, le=10, description="further translations of each text")
    alignment: bool = Field(False, description="link the words of sources and translations")
    words: bool = Field(False, description="give the probability of each word of a translation")
    glossary: dict[Name, Name] = Field(
        {}, max_length=1000, description="terms with the translations that they must have"
    )
    prefix: Text | None = Field(
        None, description="beginning of the translation; the text is one sentence then"
    )
    normalise: bool | None = Field(
        None, description="bring the text into the style of the training text first"
    )
    beam_size: int | None = Field(None, ge=1, le=20, description="number of hypotheses; 1: greedy")
    length_penalty: float | None = Field(None, ge=0, le=10)
    temperature: float | None = Field(
        None, gt=0, le=10, description="draw the translation at random"
    )
    seed: int | None = Field(None, ge=0, le=2**31, description="of the random draws")

    @property
    def texts(self) -> list[str]:
        """The texts as a list."""
        return [self.text] if isinstance(self.text, str) else self.text

    def choices(self, normalise: bool) -> dict[str, Any]:
        """The options of `Service.translate_data`."""
        names = ("beam_size", "length_penalty", "temperature", "seed")
        found = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.temperature is not None:
            found["method"] = "sampling"
        if self.glossary:
            found["terms"] = self.glossary
        return {**found, "normalise": normalise}


class Warned(BaseModel):
    """A warning about a text or its translation."""

    kind: str
    text: str
    place: str | None = None


class Linked(BaseModel):
    """A word of the source and a word of the translation: ranges of their characters."""

    source: tuple[int, int]
    target: tuple[int, int]


class WordProbability(BaseModel):
    """A word of a translation: the range of its characters, and its probability."""

    range: tuple[int, int]
    probability: float


class TranslatedSentence(BaseModel):
    """A sentence and its translation."""

    source: str
    text: str
    confidence: float | None = Field(description="expected chrF, from 0 to 1; null if unknown")
    links: list[Linked] | None = None
    words: list[WordProbability] | None = None


class Translated(BaseModel):
    """The translation of a text."""

    text: str
    alternatives: list[str]
    confidence: float | None = Field(description="the least of those of its sentences")
    sentences: list[TranslatedSentence]
    warnings: list[Warned]
    detected: str | None = Field(None, description="the language, if it was to be detected")


class TranslateAnswer(BaseModel):
    """The translations of all texts."""

    model: str
    source: str
    target: str
    translations: list[Translated]


class ScoreBody(WithModel):
    """Pairs to score."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"sources": ["A man sleeps."], "targets": ["Ein Mann schläft."]}]
        },
    )

    sources: Texts = Field(description="sentences")
    targets: Texts = Field(description="a translation of each")
    normalise: bool | None = Field(
        None, description="bring the sources into the style of the training text first"
    )


class Score(BaseModel):
    """How probable a translation is."""

    score: float | None = Field(description="log-probability of the target and its end")
    mean: float | None = Field(description="the mean for each token")
    tokens: list[str]
    token_scores: list[float]


class ScoreAnswer(BaseModel):
    """The scores of all pairs."""

    model: str
    scores: list[Score]


class AlignAnswer(BaseModel):
    """The links of all pairs."""

    model: str
    alignments: list[list[Linked]]


class ClassifyBody(Body):
    """Texts to classify."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"texts": ["How far is it to the moon ?"], "top": 3}]},
    )

    model: Name | None = Field(None, description="name of the model (default: the first one)")
    texts: Texts
    top: int = Field(1, ge=1, le=1000, description="number of labels")
    normalise: bool | None = None


class Labelled(BaseModel):
    """A label and its probability."""

    label: str
    probability: float


class Classified(BaseModel):
    """The labels of a text, the best first; none for an empty text."""

    labels: list[Labelled]
    warnings: list[Warned]


class ClassifyAnswer(BaseModel):
    """The labels of all texts."""

    model: str
    results: list[Classified]


class ModelAnswer(BaseModel):
    """A model of this server."""

    name: str
    task: Literal["translation", "classification"]
    source: str | None
    target: str | None
    input: Literal["text", "features"]
    labels: list[str]


class DocumentAnswer(BaseModel):
    """The state of a document."""

    id: str
    state: Literal["waiting", "translating", "done", "error"]
    name: str
    done: int = Field(description="sentences that are translated")
    total: int = Field(description="of so many")
    error: str | None
    texts: int
    warnings: list[Warned]


class Problem(BaseModel):
    """What happened, where, why, and what to do."""

    what: str
    where: str | None = None
    why: str | None = None
    todo: str | None = None


class ProblemAnswer(BaseModel):
    """An error."""

    error: Problem


EVENT = {
    "type": "object",
    "properties": {"event": {"enum": ["part", "done", "error"]}, "data": {"type": "string"}},
    "required": ["event", "data"],
}
"""The schema of an event of a stream."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ProblemAnswer, "description": "The request is wrong."},
    503: {"model": ProblemAnswer, "description": "The server is busy; see Retry-After."},
}
"""The answers that every route may give."""


async def client_of(request: Request) -> str:
    """The client that sent a request; where keys are needed by `Authorization: Bearer KEY`."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    server: Server = request.app.state.server
    return server.client(request, key.strip() if scheme.lower() == "bearer" else None)


Client = Annotated[str, Depends(client_of)]


def router(server: Server, documents: Documents) -> APIRouter:
    """The routes of our own API."""
    api = APIRouter(prefix="/v1", tags=["clearhead"], responses=PROBLEMS)

    async def translator(body: WithModel, text: str) -> tuple[str, Service, str | None]:
        """The model that a request names, and the language that was detected."""
        detected = None
        source, target = body.source, body.target
        if source and source.lower() == "auto":
            ranks = await asyncio.to_thread(server.models.detect, text, target)
            detected = source = ranks[0][0] if ranks else ""
            if target is None:
                target = next((b for a, b in server.models.pairs if a == source), "")
        if body.model is None and source and target:
            return *server.models.translating(source, target), detected
        name, service = server.models.named(body.model, "translation")
        own = languages_of(service)
        for given, known in zip((source, target), own, strict=True):
            if given and known and given.lower() != known.lower():
                what = f"the model {name} translates from {own[0]} to {own[1]}"
                raise DataError(what, todo="name both languages, or another model")
        return name, service, detected

    @api.get("/models")
    def models(client: Client) -> list[ModelAnswer]:
        """The models of this server."""
        found = []
        for name, service in server.models:
            config = service.folder.config
            source, target = languages_of(service) if service.task == "translation" else ("", "")
            labels = service.labels if service.task == "classification" else ()
            found.append(
                ModelAnswer(
                    name=name,
                    task=config.task,
                    source=source or None,
                    target=target or None,
                    input="features" if config.input == "features" else "text",
                    labels=list(labels),
                )
            )
        return found

    @api.post("/translate")
    async def translate(request: Request, client: Client, body: TranslateBody) -> TranslateAnswer:
        """Translate texts."""
        name, service, detected = await translator(body, body.texts[0])
        server.note(request, name, body.texts)
        service.check_size(sum(map(len, body.texts)))

        def work(ticket: Ticket) -> list[Translated]:
            choices = body.choices(server.normalise(body.normalise))
            return _translated(service, body.texts, body, choices, ticket, detected)

        found = await server.run(request, service, client, work)
        source, target = languages_of(service)
        return TranslateAnswer(model=name, source=source, target=target, translations=found)

    @api.post(
        "/translate/stream",
        response_class=StreamingResponse,
        responses={
            200: {
                "content": {"text/event-stream": {"schema": EVENT}},
                "description": "Events: `part` with the next part of the `source`, its translation "
                "`text` and its `sentences`; at the end `done`, or `error` with `what`, and "
                "`retry_after` seconds if the server is busy.",
            }
        },
    )
    async def stream(request: Request, client: Client, body: TranslateBody) -> StreamingResponse:
        """Translate a long text; parts of the translation are sent when they are ready."""
        if not isinstance(body.text, str) or body.format != "text" or body.prefix is not None:
            raise DataError("only a text without markup and without a prefix is streamed")
        text = body.text
        name, service, detected = await translator(body, text)
        server.note(request, name, text)
        service.check_size(len(text))
        loop, events = asyncio.get_running_loop(), asyncio.Queue[tuple[str, dict[str, Any]]]()

        def send(event: str, content: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(events.put_nowait, (event, content))

        def work(ticket: Ticket) -> None:
            choices = body.choices(server.normalise(body.normalise))
            for part in windows(text):
                (found,) = _translated(service, [part], body, choices, ticket, detected)
                send("part", {"source": part, **found.model_dump()})

        async def run() -> None:
            try:
                await server.run(request, service, client, work)
                send("done", {})
            except Exception as error:
                send(
                    "error",
                    {"what": str(error), "retry_after": getattr(error, "retry_after", None)},
                )

        async def sent() -> AsyncIterator[str]:
            running = asyncio.create_task(run())
            try:
                event = ""
                while event not in ("done", "error"):
                    event, content = await events.get()
                    yield f"event: {event}\ndata: {json.dumps(content)}\n\n"
            finally:
                running.cancel()

        return StreamingResponse(sent(), media_type="text/event-stream")

    @api.post("/score")
    async def score(request: Request, client: Client, body: ScoreBody) -> ScoreAnswer:
        """Score given translations."""
        name, service, _ = await translator(body, body.sources[0])
        server.note(request, name, body.sources)
        normalise = server.normalise(body.normalise)

        def work(ticket: Ticket) -> list[Hypothesis]:
            return service.score(body.sources, body.targets, normalise=normalise, ticket=ticket)

        found = await server.run(request, service, client, work)
        pieces = service.model.target_tokenizer.pieces
        scores = [
            Score(
                score=each.score,
                mean=each.score / max(1, len(each.token_scores)),
                tokens=pieces(each.tokens),
                token_scores=list(each.token_scores),
            )
            for each in found
        ]
        return ScoreAnswer(model=name, scores=scores)

    @api.post("/align")
    async def align(request: Request, client: Client, body: ScoreBody) -> AlignAnswer:
        """Link the words of sentences and their translations."""
        name, service, _ = await translator(body, body.sources[0])
        server.note(request, name, body.sources)
        pairs = list(zip(body.sources, body.targets, strict=False))
        if len(pairs) < max(len(body.sources), len(body.targets)):
            raise DataError("there is not one target for each source")
        service.check_size(sum(len(text) for pair in pairs for text in pair))
        normalise = server.normalise(body.normalise)

        def work(ticket: Ticket) -> list[list[Linked]]:
            return links(service, pairs, normalise, ticket)

        found = await server.run(request, service, client, work)
        return AlignAnswer(model=name, alignments=found)

    @api.post("/classify")
    async def classify(request: Request, client: Client, body: ClassifyBody) -> ClassifyAnswer:
        """Classify texts."""
        name, service = server.models.named(body.model, "classification")
        server.note(request, name, body.texts)
        normalise = server.normalise(body.normalise)

        def work(ticket: Ticket) -> Sequence[Sequence[Any]]:
            return service.classify(body.texts, top=body.top, normalise=normalise, ticket=ticket)

        found = await server.run(request, service, client, work)
        results = [
            Classified(
                labels=[Labelled(label=p.label, probability=p.probability) for p in each],
                warnings=[
                    Warned(kind=kind, text=text) for p in each[:1] for kind, text in p.warnings
                ],
            )
            for each in found
        ]
        return ClassifyAnswer(model=name, results=results)

    @api.post("/documents", status_code=202)
    async def upload(
        request: Request,
        client: Client,
        file: Annotated[UploadFile, File(description="the document")],
        model: Annotated[Name | None, Form()] = None,
        source: Annotated[Name | None, Form()] = None,
        target: Annotated[Name | None, Form()] = None,
        format: Annotated[Name | None, Form(description="by default as its name ends")] = None,
        glossary: Annotated[Terms | None, Form(description="terms with translations")] = None,
        normalise: Annotated[bool | None, Form()] = None,
    ) -> DocumentAnswer:
        """Upload a document to translate; ask for its state until it is done."""
        named = WithModel(model=model, source=source, target=target)
        content = await file.read()
        filename = file.filename or "document"
        form = format or format_of(filename)
        if form is None:
            why = f"the formats are {', '.join(FORMATS)}"
            raise DataError("the name shows no format", why=why, todo="name it: format")
        check_format(form)
        text = await asyncio.to_thread(beginning, content, form, filename)
        name, service, _ = await translator(named, text)
        server.note(request, name)
        key = documents.start(
            service, client, content, filename, form, normalise, terms=glossary or {}
        )
        return document_answer(documents, key)

    @api.get("/documents/{id}")
    def state(client: Client, id: str) -> DocumentAnswer:
        """The state of a document."""
        return document_answer(documents, id)

    @api.get(
        "/documents/{id}/result",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}},
    )
    def result(client: Client, id: str) -> Response:
        """The translated document, when it is done."""
        return documents.answer(id)

    @api.delete("/documents/{id}", status_code=204)
    def remove(client: Client, id: str) -> None:
        """Remove a document and its translation."""
        documents.remove(id)

    return api


def document_answer(documents: Documents, key: str) -> DocumentAnswer:
    """The state of a document."""
    return DocumentAnswer(id=key, **documents.state(key))


def windows(text: str) -> list[str]:
    """A text as parts that end where a sentence does.

    They have about `WINDOW` characters, and end with a line; or twice as many within a line.
    """
    parts, start = list[str](), 0
    spans = SOFTWARE.ranges(text)
    at = 0
    for sentence in sentences(text):
        at += sum(map(len, sentence))
        enough = WINDOW if text[at - 1] == "\n" else 2 * WINDOW
        if at - start >= enough and not any(first < at < last for first, last in spans):
            parts.append(text[start:at])
            start = at
    return [*parts, text[start:]] if text[start:] or not parts else parts


def links(
    service: Service, pairs: Sequence[tuple[str, str]], normalise: bool, ticket: Ticket
) -> list[list[Linked]]:
    """The links between the words of pairs, as ranges of their characters."""
    words = [tuple(word_ranges(text) for text in pair) for pair in pairs]
    found = service.align(pairs, normalise=normalise, ticket=ticket)
    return [
        [Linked(source=sides[0][i], target=sides[1][j]) for i, j in each]
        for sides, each in zip(words, found, strict=True)
    ]


def _translated(
    service: Service,
    texts: Sequence[str],
    body: TranslateBody,
    choices: dict[str, Any],
    ticket: Ticket,
    detected: str | None,
) -> list[Translated]:
    """The translations of texts."""
    alternatives = body.alternatives
    if (prefix := body.prefix) is not None:
        found = [
            _of_sentence(service, text, prefix, alternatives, choices, ticket) for text in texts
        ]
    else:
        found = service.translate_texts(
            texts, body.format, alternatives=alternatives, ticket=ticket, **choices
        )
    normalise = choices["normalise"]
    return [_answer(service, each, body, normalise, ticket, detected) for each in found]


def _answer(
    service: Service,
    found: Sequence[Result],
    body: TranslateBody,
    normalise: bool,
    ticket: Ticket,
    detected: str | None,
) -> Translated:
    """The answer about a text, from its translations, the best first."""
    best = found[0]
    pairs = [(pair.source, pair.target) for pair in best.sentences]
    linked: Sequence[list[Linked] | None] = [None] * len(pairs)
    if body.alignment:
        linked = links(service, pairs, normalise, ticket)
    probabilities: Sequence[list[WordProbability] | None] = [None] * len(pairs)
    if body.words:
        probabilities = _words(service, pairs, normalise, ticket)
    listed = [
        TranslatedSentence(
            source=pair.source,
            text=pair.target,
            confidence=pair.confidence,
            links=each,
            words=words,
        )
        for pair, each, words in zip(best.sentences, linked, probabilities, strict=True)
    ]
    confidences = [each.confidence for each in listed if each.confidence is not None]
    texts = [each.data.decode("utf-8", "replace") for each in found]
    return Translated(
        text=texts[0],
        alternatives=[each for each in dict.fromkeys(texts[1:]) if each != texts[0]],
        confidence=min(confidences, default=None),
        sentences=listed,
        warnings=warnings_of(best),
        detected=detected,
    )


def _words(
    service: Service, pairs: Sequence[tuple[str, str]], normalise: bool, ticket: Ticket
) -> list[list[WordProbability] | None]:
    """The probability of each word of translations; None where the tokens do not show them."""
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    scored = service.score(sources, targets, normalise=normalise, ticket=ticket)
    found = [
        word_probabilities(service.model.target_tokenizer, each) if each.text == target else None
        for each, target in zip(scored, targets, strict=True)
    ]
    return [
        None if each is None else [WordProbability(range=a, probability=p) for a, p in each]
        for each in found
    ]


def _of_sentence(
    service: Service,
    text: str,
    prefix: str,
    alternatives: int,
    choices: dict[str, Any],
    ticket: Ticket,
) -> list[Result]:
    """The translations of a sentence that begin with a prefix, the best first."""
    choices = {**choices, "n_best": alternatives + 1}
    (found,) = service.translate([text], prefixes=[prefix], ticket=ticket, **choices)
    if found[0].error is not None:
        raise found[0].error
    return [
        Result(
            each.text.encode("utf-8", "replace"),
            remarks=[("the text", remark) for remark in each.warnings],
            sentences=[Pair(text, each.text, each.confidence)],
        )
        for each in found
    ]


def warnings_of(result: Result) -> list[Warned]:
    """The remarks on a translated text, each once."""
    found = dict.fromkeys((remark.kind, remark.text, place) for place, remark in result.remarks)
    return [Warned(kind=kind, text=text, place=place) for kind, text, place in found]
