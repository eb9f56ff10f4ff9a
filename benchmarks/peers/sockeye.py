"""Sockeye: its model, loss, optimizer and searches, in steps like those of its trainer."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sockeye import constants as C
from sockeye.beam_search import CandidateScorer, get_search_algorithm
from sockeye.data_io import DataConfig, DataStatistics
from sockeye.encoder import EmbeddingConfig
from sockeye.loss import CrossEntropyLoss
from sockeye.model import ModelConfig, SockeyeModel, initialize_parameters
from sockeye.optimizers import OptimizerConfig, get_optimizer
from sockeye.training import ModelWithLoss
from sockeye.transformer import TransformerConfig

from .protocol import Abilities, Job, serve
from .workload import ADAM_BETAS, DECODED, LABEL_SMOOTHING, LEARNING_RATE, POSITIONS, Batch, padded

NEVER = -1e9  # the bias of the end symbol, because Sockeye has no minimum length

OWN_IDS = np.array([C.PAD_ID, C.BOS_ID, C.EOS_ID, C.UNK_ID])
"""Sockeye's ids for the workload's ids 0 to 3; the others are equal."""


def own(ids: np.ndarray) -> torch.Tensor:
    """The ids of the workload as Sockeye's."""
    special = ids < len(OWN_IDS)
    return torch.from_numpy(np.where(special, OWN_IDS[np.where(special, ids, 0)], ids)).int()


def model_config(job: Job) -> ModelConfig:
    """Sockeye's configuration of the job's shape, with its own order of norms and dropout."""
    shape = job.shape
    statistics = DataStatistics(
        **dict.fromkeys(("num_sents", "num_tokens_source", "num_tokens_target"), 1),
        **dict.fromkeys(("num_discarded", "num_unks_source", "num_unks_target"), 0),
        **dict.fromkeys(("max_observed_len_source", "max_observed_len_target"), POSITIONS),
        **dict.fromkeys(("size_vocab_source", "size_vocab_target"), job.vocabulary),
        length_ratio_mean=1.0,
        length_ratio_std=0.0,
        buckets=[],
        num_sents_per_bucket=[],
        average_len_target_per_bucket=[],
    )
    stack = TransformerConfig(
        model_size=shape.d_model,
        attention_heads=shape.heads,
        feed_forward_num_hidden=shape.d_ff,
        act_type=C.RELU,
        num_layers=shape.layers,
        dropout_attention=shape.dropout,
        dropout_act=shape.dropout,
        dropout_prepost=shape.dropout,
        positional_embedding_type=C.FIXED_POSITIONAL_EMBEDDING,
        preprocess_sequence="n",
        postprocess_sequence="dr",
        max_seq_len_source=POSITIONS,
        max_seq_len_target=POSITIONS,
        depth_key_value=shape.d_model,
    )
    embedding = EmbeddingConfig(job.vocabulary, shape.d_model, shape.dropout)
    return ModelConfig(
        config_data=DataConfig(statistics, POSITIONS, POSITIONS, 1, 1),
        vocab_source_size=job.vocabulary,
        vocab_target_size=job.vocabulary,
        config_embed_source=embedding,
        config_embed_target=embedding,
        config_encoder=stack,
        config_decoder=stack,
        weight_tying_type=C.WEIGHT_TYING_SRC_TRG_SOFTMAX,
    )


def lengths_of(source: torch.Tensor) -> torch.Tensor:
    """(B, 2) the number of tokens of each source, and 0 tokens of a prefix."""
    lengths = (source != C.PAD_ID).sum(dim=1)
    return torch.stack((lengths, torch.zeros_like(lengths)), dim=1).int()


class Trainer:
    """The model, traced as in Sockeye's own trainer, its cross-entropy and its Adam."""

    def __init__(self, job: Job) -> None:
        torch.manual_seed(1)
        self.model = SockeyeModel(model_config(job))
        self.model.apply(initialize_parameters)
        self.model.train()
        self.losses = [CrossEntropyLoss(label_smoothing=LABEL_SMOOTHING)]
        self.step_module: Any = None
        config = OptimizerConfig(C.OPTIMIZER_ADAM, lr=LEARNING_RATE, betas=ADAM_BETAS)
        optimizer, settings, self.zero_grad = get_optimizer(config)
        self.optimizer = optimizer(self.model.parameters(), **settings)
        self.bf16 = job.kind == "bf16"

    def ready(self, batch: Batch) -> tuple[torch.Tensor, ...]:
        source, target = own(batch.source), own(batch.target_input)
        labels = own(batch.target_output)
        lengths = lengths_of(source), lengths_of(target)[:, :1]
        return source[..., None], lengths[0], target[..., None], lengths[1], labels

    def step(self, ready: tuple[torch.Tensor, ...]) -> float:
        source, source_length, target, target_length, labels = ready
        inputs = source, source_length, target, target_length
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            if self.step_module is None:
                traced = torch.jit.trace(self.model, inputs, strict=False, check_trace=False)
                self.step_module = ModelWithLoss(traced, self.losses)
            loss, _, _ = self.step_module(*inputs, {C.TARGET_LABEL_NAME: labels})
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(**self.zero_grad)
        return loss.item()


class Decoder:
    """Sockeye's greedy search for a single sentence, otherwise its beam search."""

    def __init__(self, job: Job) -> None:
        torch.manual_seed(1)
        self.model = SockeyeModel(model_config(job), inference_only=True)
        self.model.apply(initialize_parameters)
        self.model.eval()
        with torch.no_grad():
            self.model.output_layer.bias[[C.EOS_ID, C.PAD_ID]] = NEVER
        self.searches: dict[tuple[int, bool], Any] = {}

    def search(self, beam_size: int, single: bool) -> Any:
        """The search for a beam size, created once, because Sockeye traces it on first use."""
        greedy = beam_size == 1 and single
        if (beam_size, greedy) not in self.searches:
            self.searches[beam_size, greedy] = get_search_algorithm(
                models=[self.model],
                beam_size=beam_size,
                device=torch.device("cpu"),
                output_scores=False,
                scorer=CandidateScorer(1.0, 0.0, 0.0),
                constant_length_ratio=-1.0,
                greedy=greedy,
            )
        return self.searches[beam_size, greedy]

    @torch.inference_mode()
    def decode(self, sentences: Sequence[Sequence[int]], beam_size: int) -> list[int]:
        source = own(padded(sentences))
        longest = torch.full((len(sentences),), DECODED, dtype=torch.int32)
        search = self.search(beam_size, len(sentences) == 1)
        found = search(source[..., None], lengths_of(source), None, longest)
        return [found.best_word_indices.shape[-1]] * len(sentences)


if __name__ == "__main__":
    serve(Abilities(Trainer, Decoder))
