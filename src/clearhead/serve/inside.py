"""Look inside a model: /v1/inspect. torch is imported by the first request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from clearhead.api.loading import LoadOptions, load
from clearhead.api.service import Service, Ticket
from clearhead.errors import DataError, ModelFolderError
from clearhead.folder.model_folder import CHECKPOINTS, WEIGHTS, ModelFolder
from clearhead.folder.tensors import read_facts
from clearhead.serve.models import UnknownError
from clearhead.serve.own import PROBLEMS, Body, Labelled, Name, client_of
from clearhead.serve.server import Server
from clearhead.tokenizer.normal_form import is_blank

if TYPE_CHECKING:
    from clearhead.serve.looking import Looker

LOADED = 4
"""Checkpoints that stay in memory."""

Client = Annotated[str, Depends(client_of)]
Sentence = Annotated[str, Field(max_length=4000)]
Position = Annotated[int, Field(ge=0, lt=1000)]
Positions = Annotated[list[Position], Field(min_length=1, max_length=200)]


class Link(Body):
    """Cells of attention matrices: queries that may not attend to keys."""

    kind: Literal["encoder", "decoder", "cross"]
    layer: int | None = Field(None, ge=1, le=1000, description="from 1; null: all layers")
    head: int | None = Field(None, ge=1, le=1000, description="from 1; null: all heads")
    query: Positions = Field(description="the positions that attend, from 0")
    key: Positions = Field(description="the positions that they may not attend to, from 0")


class Edits(Body):
    """What is switched off."""

    heads: list[Name] = Field(
        default=[],
        max_length=1000,
        description="names such as `decoder.3.cross.5`, or `decoder.3` for all",
    )
    source_words: list[Position] = Field(
        default=[],
        max_length=200,
        description="words of the source that the model may not read, from 0",
    )
    links: list[Link] = Field(default=[], max_length=400, description="cells of attention to mask")
    positions: Literal["with", "without"] = Field(
        default="with", description="whether the source has positions, without which it is a set"
    )

    def __bool__(self) -> bool:
        return bool(self.heads or self.source_words or self.links or self.positions == "without")


class Search(Body):
    """Settings of the search; by default those of the model."""

    beam_size: int | None = Field(
        default=None, ge=1, le=20, description="number of hypotheses; 1: greedy"
    )
    length_penalty: float | None = Field(default=None, ge=0, le=10)
    temperature: float | None = Field(
        default=None, gt=0, le=10, description="draw the translation at random"
    )
    seed: int | None = Field(default=None, ge=0, le=2**31, description="of the random draws")

    def choices(self) -> dict[str, Any]:
        """The settings that are given; a temperature means sampling."""
        given = self.model_dump(exclude_none=True)
        if self.temperature is None:
            given.pop("seed", None)
        else:
            given = {"method": "sampling", **given}
            given.pop("beam_size", None)
        return given


class InspectBody(Body):
    """A sentence to look at, and what is switched off."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": "a man sleeps"},
                {"text": "a man sleeps", "edits": {"heads": ["decoder.1.cross.2"]}},
                {
                    "text": "a man sleeps",
                    "search": {"beam_size": 1},
                    "edits": {
                        "source_words": [1],
                        "links": [{"kind": "cross", "query": [0], "key": [2]}],
                    },
                    "detail": "full",
                },
            ]
        },
    )

    model: Name | None = Field(None, description="name of the model (default: the first one)")
    text: Sentence = Field(description="a sentence, or the text that a classifier reads")
    target: Sentence | None = Field(
        None, description="a translation to look at in place of the one of the model"
    )
    search: Search = Search()
    edits: Edits = Edits()
    detail: Literal["quick", "full"] = Field("quick", description="`full`: also a report")
    checkpoint: Name | None = Field(None, description="one of the `checkpoints` of the answer")
    compare: Name | None = Field(None, description="another model, which is not edited")
    normalise: bool | None = Field(
        None, description="bring the text into the style of the training text first"
    )


class Choice(BaseModel):
    """A token that could come next."""

    piece: str
    probability: float
    drawn: float | None = Field(description="its probability at the temperature of the search")


class Step(BaseModel):
    """A step of decoding: the token that was taken, and the best ones, the best first."""

    piece: str
    probability: float
    best: list[Choice]


class Output(BaseModel):
    """What a model gives for a text."""

    text: str
    probability: float
    log_probability: float
    finished: bool
    words: list[tuple[str, list[int]]] = Field(description="words, and the steps of each")
    steps: list[Step] = Field(description="empty for a classifier")
    labels: list[Labelled] = Field(description="of a classifier, the best first")


class Source(BaseModel):
    """A text as the model reads it."""

    text: str
    pieces: list[str]
    words: list[tuple[str, list[int]]] = Field(description="words, and the positions of each")


class Checkpoint(BaseModel):
    """Weights that a training run has kept."""

    name: str
    step: int | None
    is_model: bool = Field(description="whether these are the weights of the model itself")


class Blobs(BaseModel):
    """A report in the format of reports, with its arrays in base64."""

    report: dict[str, Any]
    blobs: list[str]


class InspectAnswer(BaseModel):
    """What a model gives for a text while it is edited."""

    model: str
    checkpoint: str | None
    checkpoints: list[Checkpoint]
    attentions: dict[str, int] = Field(description="the number of heads of each attention")
    positions: bool = Field(description="whether the model adds positions to the source")
    vocabulary: int = Field(description="the number of tokens, or labels, that it chooses from")
    beam_size: int | None = Field(description="of the search; null: it draws, or there is none")
    temperature: float | None = Field(description="at which the search draws; null: it does not")
    source: Source
    output: Output
    greedy: Output | None = Field(description="of greedy search, where the search is another one")
    before: Output | None = Field(description="the output without the edits, if there are any")
    before_now: float | None = Field(description="its probability with the edits")
    other: Output | None = Field(description="of the model to compare with")
    details: Blobs | None


def router(server: Server) -> APIRouter:
    """The route that looks inside."""
    api = APIRouter(prefix="/v1", tags=["clearhead"], responses=PROBLEMS)
    options = LoadOptions(**server.settings.options)

    @lru_cache(LOADED)
    def loaded(path: Path, stamp: int, engine: str) -> Any:
        return load(path, replace(options, engine=engine, compute_type=""))

    def with_weights(
        service: Service, checkpoint: str | None, model: Any
    ) -> tuple[Any, list[Checkpoint]]:
        """The model with the weights of a checkpoint, and the checkpoints that there are."""
        found = checkpoints_of(service.folder)
        if checkpoint is None:
            return model, list(found.values())
        path = next((path for path, each in found.items() if each.name == checkpoint), None)
        if path is None:
            names = ", ".join(each.name for each in found.values())
            what = f"the model has no checkpoint {checkpoint!r}"
            raise UnknownError(what, why=f"there are {names}" if names else None)
        engine = "torch" if service.task == "translation" else "auto"
        return loaded(path, path.stat().st_mtime_ns, engine), list(found.values())

    @lru_cache(1)
    def looker() -> Looker:
        from clearhead.serve.looking import Looker

        return Looker()

    def reading(name: str | None) -> tuple[str, Service]:
        """The model of a name, or else the first one that reads texts."""
        texts = {key: each for key, each in server.models if each.folder.config.input != "features"}
        if name is None and texts:
            return next(iter(texts.items()))
        if name not in texts:
            what = f"there is no model {name!r} that reads texts"
            raise UnknownError(what, why=f"there are {', '.join(texts)}" if texts else None)
        return name, texts[name]

    @api.post("/inspect")
    async def inspect(request: Request, client: Client, body: InspectBody) -> InspectAnswer:
        """Look inside a model: its output while parts of it are switched off, step by step."""
        name, service = reading(body.model)
        compared = None if body.compare is None else reading(body.compare)
        server.note(request, name, body.text)
        service.check_size(len(body.text) + len(body.target or ""))
        normalise = server.normalise(body.normalise)
        if is_blank(body.text):
            raise DataError("the text is empty", todo="give a sentence")

        def work(ticket: Ticket) -> InspectAnswer:
            look = looker()
            contents = look.contents(checker(ticket)) if body.detail == "full" else None

            def first(model: Any) -> InspectAnswer:
                model, kept = with_weights(service, body.checkpoint, model)
                return look.answer(name, model, kept, body, normalise, contents)

            found = service.inside(first, ticket)
            if compared is not None:
                title, other = compared
                title = f"{title}, not edited" if title == name and body.edits else title

                def second(model: Any) -> Output:
                    return look.other(title, model, body, normalise, contents)

                found.other = other.inside(second, ticket)
            if contents is not None:
                found.details = look.details(contents)
            return found

        return await server.run(request, service, client, work)

    return api


def checker(ticket: Ticket) -> Callable[[], None]:
    """Raises the error of a ticket when it is over."""

    def check() -> None:
        if ticket.is_over:
            raise ticket.error

    return check


def checkpoints_of(folder: ModelFolder) -> dict[Path, Checkpoint]:
    """The checkpoints in a model folder by their paths, in the order of training."""
    found: dict[Path, Checkpoint] = {}
    weights = folder.entries.get(WEIGHTS)
    for path in (folder.path / CHECKPOINTS).glob("*.safetensors"):
        try:
            step = read_facts(path).get("step")
            # The same file, or, after a copy, one with the same content.
            is_model = path.samefile(folder.path / WEIGHTS)
            entry = folder.entries.get(f"{CHECKPOINTS}/{path.name}")
            is_model = is_model or (entry is not None and entry == weights)
        except (OSError, ModelFolderError):
            continue  # a run has removed it meanwhile, or it is damaged
        step = step if isinstance(step, int) else None
        found[path] = Checkpoint(name=path.stem, step=step, is_model=is_model)
    order = sorted(found, key=lambda path: (found[path].step or 0, path.name))
    return {path: found[path] for path in order}
