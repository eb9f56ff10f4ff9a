"""Clearhead: the step of its trainer, and the engines of `load_translator`.

PyTorch is only imported where it is needed, because the memory of each engine is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from clearhead import api
from clearhead.decoding.engine import numbered
from clearhead.device import keep_freed_memory
from clearhead.settings import SearchConfig

from .protocol import Abilities, Job, Trainer, apart, serve
from .workload import DECODED


def trainer(job: Job) -> Trainer:
    """The trainer of `clearhead train`."""
    from .clearhead_training import Trainer as OwnTrainer

    return OwnTrainer(job)


def write_model(job: Job) -> None:
    """Write a model folder of random weights."""
    from .clearhead_training import save as save_model

    save_model(job)


def engine_and_type(kind: str) -> tuple[str, str]:
    """The engine and the compute type of a kind such as `torch int8`; "": the default type."""
    engine, _, compute_type = kind.partition(" ")
    return engine, compute_type


class Decoder:
    """The engine of the job's kind, without scores, as in `clearhead translate`."""

    def __init__(self, job: Job) -> None:
        apart(write_model, job)
        engine, compute_type = engine_and_type(job.kind)
        translator = api.load_translator(
            job.folder,
            device=job.device,
            threads=job.threads,
            engine=engine,
            compute_type=compute_type,
            scores=False,
        )
        self.engine = translator.engine

    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        # The model's bias suppresses the end symbol. With min_length instead, CTranslate2's outputs
        # would be scored again.
        search = SearchConfig(beam_size=beam_size, max_length=DECODED, max_length_offset=DECODED)
        done: list[int] = []
        found = self.engine.translate(
            numbered(sentences), search, batch_size=len(sentences), progress=done.append
        )
        assert len(done) == 1, f"the engine took {len(sentences)} sentences in {len(done)} batches"
        return [len(hypotheses[0].tokens) for hypotheses in found]


def save(job: Job) -> list[str]:
    """Write a model folder; return the command that translates with it."""
    apart(write_model, job)
    engine, compute_type = engine_and_type(job.kind)
    return [
        *("-m", "clearhead", "translate", str(job.folder), "--engine", engine),
        *(("--compute-type", compute_type) if compute_type else ()),
        *("--threads", str(job.threads), "--device", job.device),
    ]


if __name__ == "__main__":
    keep_freed_memory()  # as the command line does
    serve(Abilities(trainer, Decoder, save))
