"""EOLE: its model, loss, optimizer and translator, in steps like those of its trainer."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pyonmttok
import torch
from eole.config.data import Dataset
from eole.config.models import TransformerModelConfig
from eole.config.run import PredictConfig, TrainConfig
from eole.models.model import get_model_class
from eole.predict import GNMTGlobalScorer
from eole.predict.translator import Translator
from eole.trainer import BatchProcessor
from eole.utils.loss import LossCompute
from eole.utils.optimizers import Optimizer

from .protocol import Abilities, Job, serve
from .workload import (
    ADAM_BETAS,
    DECODED,
    LABEL_SMOOTHING,
    LEARNING_RATE,
    PAD,
    SPECIAL,
    Batch,
    padded,
    tokens_of,
)


def vocabularies(job: Job) -> dict[str, Any]:
    """EOLE's vocabularies, with the same ids as the workload."""
    vocabulary = pyonmttok.build_vocab_from_tokens(
        tokens_of(job.vocabulary)[len(SPECIAL) :], special_tokens=list(SPECIAL)
    )
    vocabulary.default_id = SPECIAL.index("<unk>")
    specials = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIAL, strict=True))
    return {
        "src": vocabulary,
        "tgt": vocabulary,
        "specials": specials,
        "decoder_start_token": specials["bos_token"],
    }


def model_config(job: Job) -> TransformerModelConfig:
    """EOLE's configuration of the job's shape."""
    shape = job.shape
    return TransformerModelConfig(
        layers=shape.layers,
        hidden_size=shape.d_model,
        word_vec_size=shape.d_model,
        heads=shape.heads,
        transformer_ff=shape.d_ff,
        embeddings={"word_vec_size": shape.d_model, "position_encoding": True},
        share_embeddings=True,
        share_decoder_embeddings=True,
        add_qkvbias=True,
        add_final_linear_bias=True,
        add_ffnbias=True,
    )


def train_config(job: Job) -> TrainConfig:
    """The configuration of the training; EOLE requires files, but does not read them here."""
    job.folder.mkdir(parents=True, exist_ok=True)
    unread = job.folder / "unread"
    unread.touch()
    return TrainConfig(
        data={"corpus": Dataset(path_src=str(unread), path_tgt=str(unread))},
        src_vocab=str(unread),
        share_vocab=True,
        model=model_config(job),
        training={
            "optim": "adam",
            "adam_beta1": ADAM_BETAS[0],
            "adam_beta2": ADAM_BETAS[1],
            "learning_rate": LEARNING_RATE,
            "label_smoothing": LABEL_SMOOTHING,
            "dropout": [job.shape.dropout],
            "attention_dropout": [job.shape.dropout],
            "model_path": str(job.folder / "model"),
            "self_attn_backend": "pytorch",
            "world_size": 0,
            "gpu_ranks": [],
            "compute_dtype": "fp32",
        },
    )


def build(job: Job, config: Any, vocabs: dict[str, Any]) -> Any:
    """A new model of the job's shape, on the CPU."""
    torch.manual_seed(1)
    model = get_model_class(config.model).build(config.model, vocabs, config.training)
    model._initialize_weights_and_embeddings(config.training)
    return model


class Trainer:
    """The loss of EOLE's batch processor, and its optimizer, which also computes the gradients."""

    def __init__(self, job: Job) -> None:
        config, vocabs = train_config(job), vocabularies(job)
        self.model = build(job, config, vocabs).train()
        self.optimizer = Optimizer.from_config(self.model, config)
        loss = LossCompute.from_config(config, self.model, vocabs)
        self.processor = BatchProcessor(
            model=self.model,
            train_loss=loss,
            optim=self.optimizer,
            n_gpu=0,
            parallel_mode="data_parallel",
            with_align=False,
            zero_out_prompt_loss=False,
            estim_loss_lambda=0.0,
            accum_count=1,
        )
        self.bf16 = job.kind == "bf16"

    def ready(self, batch: Batch) -> dict[str, Any]:
        rows = len(batch.source)
        return {
            "src": torch.from_numpy(batch.source),
            "srclen": torch.from_numpy(batch.source_lengths),
            "tgt": torch.from_numpy(batch.target),
            "cid": ["corpus"] * rows,
            "cid_line_number": list(range(rows)),
            "images": None,
            "prefix_len": None,
            "tokens": batch.target_tokens,
        }

    def step(self, ready: dict[str, Any]) -> float:
        sides = ready["src"], ready["tgt"], ready["srclen"]
        unused = {name: ready[name] for name in ("images", "prefix_len")}
        self.optimizer.zero_grad()
        # The two calls of `process_batch`; only the first is under autocast.
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss, statistics = self.processor._compute_loss(
                *sides, ready, ready["tokens"], 1, unused
            )
        self.optimizer.backward(loss)
        self.optimizer.step()
        return statistics.loss / statistics.n_tokens


class Decoder:
    """EOLE's translator with its cache: greedy search for a beam of 1, otherwise beam search."""

    def __init__(self, job: Job) -> None:
        config, vocabs = train_config(job), vocabularies(job)
        model = build(job, config, vocabs).eval()
        model._prepare_for_inference(config.training)
        predict = PredictConfig(
            model_path=str(job.folder),
            src=str(job.folder / "unread"),
            min_length=DECODED,
            max_length=DECODED,
            max_length_ratio=0,
            self_attn_backend="pytorch",
            world_size=0,
            gpu_ranks=[],
            compute_dtype="fp32",
        )
        self.translator = Translator(
            model, vocabs, predict, config.model, -1, GNMTGlobalScorer(0.0, 0.0, "none", "none")
        )
        self.translator.step0_time = []

    @torch.inference_mode()
    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        source = torch.from_numpy(padded(sentences))
        self.translator.update_settings(beam_size=beam_size, top_k=1 if beam_size == 1 else 0)
        batch = {
            "src": source,
            "srclen": (source != PAD).sum(dim=1),
            "ind_in_bucket": list(range(len(sentences))),
        }
        with redirect_stdout(StringIO()):
            found = self.translator.predict_batch(batch, attn_debug=False)
        return [len(best[0]) for best in found["predictions"]]


if __name__ == "__main__":
    serve(Abilities(Trainer, Decoder))
