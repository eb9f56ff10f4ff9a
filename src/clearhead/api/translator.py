"""A trained translator, from texts to hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clearhead.api.classifier import texts_of
from clearhead.data.judging.text_style import InputStyle, target_style
from clearhead.data.reading.labelled import join_lines
from clearhead.decoding.confidence import Confidence
from clearhead.decoding.engine import Engine, Hypothesis
from clearhead.decoding.terms import Terminology
from clearhead.device import imported
from clearhead.errors import ConfigError, DataError, SearchError
from clearhead.folder.model_folder import ModelFolder
from clearhead.settings import RunConfig, SearchConfig
from clearhead.text.glossary import Glossary
from clearhead.text.memory import Memory
from clearhead.text.spans import SOFTWARE, Protection, protection_of

if TYPE_CHECKING:
    from pathlib import Path

    from clearhead.evaluation.evaluate import Report
    from clearhead.evaluation.scores import TranslatorScores
    from clearhead.model.transformer import EncoderDecoder
    from clearhead.text.documents import Result
    from clearhead.tokenizer import Tokenizer


class Translator:
    """A trained translator.

        translator = clearhead.load("runs/my-model")
        str(translator.translate(["A man sleeps."])[0][0])

    Args:
        folder: its model folder.
        tokenizers: of the source and of the target.
        engine: runs it.
        ablated: which heads are switched off, for people; empty if none is.
        glossary: the terms that its translations have.
        memory: the translations of earlier texts, which it takes before its own.
    """

    def __init__(
        self,
        folder: ModelFolder,
        tokenizers: tuple[Tokenizer, Tokenizer],
        engine: Engine,
        ablated: str = "",
        glossary: Glossary | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.folder = folder
        self.ablated = ablated
        self.engine = engine
        self.protection = protection_of(folder.config.tokenizer)
        self.glossary = glossary
        self._terminology = Terminology(glossary, tokenizers[1]) if glossary else None
        self.memory = memory
        self._tokenizers = tokenizers
        # It was fitted to the scores of one model.
        self.confidence = None if self.is_ensemble else Confidence.of(folder)
        self._source_style, self._target_style = (
            InputStyle.load(folder, side, tokenizer)
            for side, tokenizer in zip(("source", "target"), self._tokenizers, strict=True)
        )

    def with_terms(self, terms: Mapping[str, str]) -> Translator:
        """The translator with further terms, which come before those of its glossary.

            translator.with_terms({"printer": "Drucker"}).translate(["The printer is off."])

        Both run the same model. Several forms of a term are separated by `|`.

        Raises:
            DataError: there is no term with a translation.
        """
        glossary = terms_for(terms.items(), self.config, self._tokenizers)
        other = copy(self)
        other.glossary = glossary.before(self.glossary) if self.glossary else glossary
        other._terminology = Terminology(other.glossary, self.target_tokenizer)
        return other

    @property
    def config(self) -> RunConfig:
        """The configuration it was trained with."""
        return self.folder.config

    @property
    def search(self) -> SearchConfig:
        """The default settings of its search."""
        return self.folder.config.search

    @property
    def model(self) -> EncoderDecoder:
        """The PyTorch model, which is loaded now if the engine has none; for inspection."""
        return getattr(self.engine, "model", None) or self._own_model

    @property
    def is_ensemble(self) -> bool:
        """Whether it is of several models; `model` is then the first."""
        return len(getattr(self.engine, "models", ())) > 1

    @cached_property
    def _own_model(self) -> EncoderDecoder:
        device = imported("torch").device("cpu")

        from clearhead.decoding.changes import versions
        from clearhead.decoding.torch_engine import trained_translator

        model = trained_translator(self.folder, device, self._tokenizers)
        self._versions = versions(model)
        return model

    def _check_model(self) -> None:
        """Raise a ConfigError if `model` was changed, but the engine has weights of its own."""
        if "_own_model" not in vars(self) or getattr(self.engine, "model", None):
            return
        from clearhead.decoding.changes import is_changed

        if is_changed(self.model, self._versions):
            raise ConfigError(
                "the model was changed, but the translator runs with an export of its own",
                where="translate",
                todo="use clearhead.edit, or load it with engine='torch'",
            )

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of source texts."""
        return self._tokenizers[0]

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of target texts."""
        return self._tokenizers[1]

    def normalised(self, text: str) -> str:
        """A source text in the style of the training text, as `translate` reads it."""
        return self._source_style.read([text], True, self.engine.longest_source)[0][0]

    def translate(
        self,
        texts: Iterable[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Iterable[str] | None = None,
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
        on_error: str = "raise",
        **choices: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each text, best first; `str(hypothesis)` is its text.

        Samples are in the order drawn. `hypothesis.warnings` has the warnings about a text or its
        translation, as `(kind, text)`.

        Args:
            texts: one sentence each; an empty text has one empty hypothesis.
            search: the settings of the search; by default those of the model's configuration.
            prefixes: for each text the beginning of its translation; spaces at its ends are
                ignored.
            normalise: bring the texts and prefixes into the style of the training text first: case,
                tokenisation and quotation marks, by the rules of Moses. The translations keep the
                style of the training text.
            batch_size: maximum number of sentences of a batch.
            progress: called with the number of sentences that are done.
            offset: the number of texts before these, if a stream is translated in blocks.
            on_error: what an error of one text does, such as a prefix that does not fit. `raise`
                raises it. `return` gives this text one hypothesis with the error in `error`, an
                empty `text` and scores of NaN; the other texts are translated. Other errors are
                raised anyway.
            choices: single settings of `SearchConfig` (beam_size=5, n_best=3), which replace those
                of `search`. Settings of sampling need method="sampling"; beam_size selects beam
                search.

        Raises:
            SearchError: a setting is unknown, wrong or without effect on the method, the prefixes
                do not fit, or `on_error` has another value.
            DataError: a text is not a string, or the texts are a table.
            TypeError: `texts` is a single string.
            ConfigError: the texts are to be normalised, and sacremoses is not installed, or the
                model is an imported one of unknown style.
            ClearheadError: the device failed, e.g. because the memory of the GPU is full.

        Warns:
            TextWarning: one warning for each kind of remark in the `warnings` of the first
                hypotheses, with the number of the first line that has it: the text was cut, has
                characters that the training text did not have, or is much longer than nearly all
                training texts; the prefix is not in the vocabulary; the translation ends at the
                length limit, repeats itself or lacks a term of the glossary; or there was an error.
                It is a UserWarning.
            UserWarning: the texts look different from the training text (once for this translator).
        """
        from clearhead.decoding.texts import warn_of_hypotheses

        found = self.hypotheses(
            texts,
            search=search,
            prefixes=prefixes,
            normalise=normalise,
            batch_size=batch_size,
            progress=progress,
            offset=offset,
            on_error=on_error,
            **choices,
        )
        warn_of_hypotheses(found, offset)
        return found

    def hypotheses(
        self,
        texts: Iterable[str],
        *,
        search: SearchConfig | None = None,
        prefixes: Iterable[str] | None = None,
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
        on_error: str = "raise",
        **choices: Any,
    ) -> list[list[Hypothesis]]:
        """Same as `translate`, without a `TextWarning`: the hypotheses have their warnings."""
        from clearhead.decoding.texts import (
            check_prefixes,
            chosen_search,
            translate_texts,
            with_errors,
        )

        self._check_model()
        settings = chosen_search(self.search if search is None else search, choices)
        if settings.method == "sampling" and self.glossary:
            what, todo = "sampling does not place the terms of a glossary", "use a beam search"
            raise SearchError(what, where="translate", todo=todo)
        longest = self.engine.longest_source
        texts = texts_of(texts)
        sources, remarks = self._source_style.read(texts, normalise, longest)
        if prefixes is not None:
            prefixes = prefixes if isinstance(prefixes, str) else [*prefixes]
            check_prefixes(prefixes, len(sources))
            if normalise:
                prefixes, _ = self._target_style.read(prefixes, normalise, longest)

        def translate(first: int, last: int) -> list[list[Hypothesis]]:
            def count(done: int) -> None:
                if progress is not None:
                    progress(first + done)

            return translate_texts(
                self.engine,
                self._tokenizers,
                sources[first:last],
                settings,
                self.protection,
                prefixes=None if prefixes is None else prefixes[first:last],
                batch_size=batch_size,
                progress=count,
                offset=offset + first,
                remarks=remarks[first:last],
                terminology=self._terminology,
                confidence=self.confidence,
                memory=self.memory,
                originals=texts[first:last],
            )

        def probe() -> None:
            translate_texts(self.engine, self._tokenizers, ["."], settings, batch_size=batch_size)

        if on_error == "raise":
            found = translate(0, len(sources))
        elif on_error == "return":
            found = with_errors(translate, remarks, probe)
        else:
            what = f"on_error = {on_error!r} is neither 'raise' nor 'return'"
            raise SearchError(what, where="translate")
        return found

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        offset: int = 0,
    ) -> list[Hypothesis]:
        """How probable each target is as the translation of its source.

            pair, *_ = translator.score(["A man sleeps."], ["Ein Mann schläft."])
            pair.score  # the log-probability of the target, its end symbol included

        The result for each pair is its target as a `Hypothesis`: `score`, `token_scores`, and
        `tokens`. The mean of `token_scores` compares targets of different lengths.

        Args:
            sources: N sentences.
            targets: their translations (N).
            normalise: bring both into the style of the training text first, as in `translate`.
            batch_size: maximum number of pairs of a batch.
            progress: called with the number of pairs that are done.
            offset: the number of pairs before these, if a stream is scored in blocks.

        Raises:
            DataError: the numbers of sources and targets differ, or a text is not a string.
            SearchError: the batch size is not a positive number.
            ClearheadError: as in `translate`.

        Warns:
            TextWarning, UserWarning: as in `translate`, of the sources; or a side was cut.
        """
        from clearhead.decoding.texts import score_texts, warn_of_hypotheses

        self._check_model()
        sources, targets = texts_of(sources), texts_of(targets)
        if len(sources) != len(targets):
            raise DataError(
                "the sources and targets differ in number, so they do not belong together",
                where="score",
                why=f"{len(sources):,} sources and {len(targets):,} targets",
            )
        longest = self.engine.longest_source
        sources, remarks = self._source_style.read(sources, normalise, longest)
        targets, others = self._target_style.read(targets, normalise, longest)
        cuts = [[each for each in found if each.kind == "cut"] for found in others]
        found = score_texts(
            self.engine,
            self._tokenizers,
            list(zip(sources, targets, strict=True)),
            self.search,
            self.protection,
            batch_size=batch_size,
            progress=progress,
            offset=offset,
            remarks=[[*each, *cut] for each, cut in zip(remarks, cuts, strict=True)],
        )
        warn_of_hypotheses([[each] for each in found], offset)
        return found

    def translate_document(
        self,
        path: str | Path,
        output: str | Path,
        *,
        format: str | None = None,
        column: str | int | None = None,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> Result:
        """Translate a document into another file; everything but its text stays as it is.

        The result has the number of `texts` that were translated, the `skipped` texts with reasons,
        the `remarks` on translations with their places, and the `confidences` in translations with
        their places: the least of those of the sentences of a text, see `Hypothesis`.

        Args:
            path: the document.
            output: the translation, which is written only if all is well.
            format: `po`, `html`, `markdown`, `srt`, `vtt`, `xliff`, `json`, `docx`, `text`, `csv`
                or `tsv`; by default the end of the file's name shows it.
            column: of a table: its name, or its number from 0.
            progress: called with the numbers of sentences that are done, and of all.
            options: those of `translate`: `search`, `normalise`, `batch_size`, single settings.

        Raises:
            ConfigError: there is no such format.
            DataError: it is no document of the format, or a file cannot be read or written.
            ClearheadError: as in `translate`.
        """
        from clearhead.api.documents import translate_file

        return translate_file(self, path, output, format, progress, column, **options)

    def translate_text(self, text: str, *, format: str = "text", **options: Any) -> str:
        """The translation of a text of several sentences, with markup of a format.

            translator.translate_text("Click <b>Print</b>. Then wait.", format="html")

        Args:
            text: paragraphs; or a document of the format.
            format: as in `translate_document`, but not `docx`.
            options: those of `translate`.

        Raises:
            ConfigError: there is no such format.
            DataError: it is no document of the format.
            ClearheadError: as in `translate`.
        """
        from clearhead.api.documents import translated_data

        if format == "docx":
            raise ConfigError("a Word document is no text", todo="use translate_document")
        result = translated_data(self, text, format, **options)
        return result.data.decode("utf-8", "surrogatepass")

    def evaluate(
        self,
        sources: Iterable[str],
        references: Iterable[str],
        *,
        search: SearchConfig | None = None,
        tokenize: str | None = None,
        lowercase: bool | None = None,
        normalise: bool = False,
        batch_size: int = 64,
        progress: Callable[[int], None] | None = None,
        **choices: Any,
    ) -> Report[TranslatorScores]:
        """Translate sentences and score the translations, as `clearhead evaluate` does.

            report = translator.evaluate(sources, references)
            report.scores["bleu"]

        Args:
            sources: N sentences.
            references: N correct translations.
            search: as in `translate`, also `normalise`, `batch_size`, `progress` and `choices`.
            tokenize: sacreBLEU's tokenizer for BLEU; None takes the one in the configuration.
            lowercase: ignore case; None takes the choice in the configuration.

        Raises:
            ConfigError: the tokenizer is not one of those offered.
            DataError: the numbers of sources and references differ, or there are none.
            ClearheadError: as in `translate`.

        Warns:
            UserWarning: as in `translate`; or the references have another style than the training
                text.
        """
        from clearhead.evaluation.evaluate import TranslatorSystem, evaluate_translators

        sources, references = texts_of(sources), texts_of(references)

        def translate() -> list[str]:
            found = self.translate(
                sources,
                search=search,
                normalise=normalise,
                batch_size=batch_size,
                progress=progress,
                **{**choices, "n_best": 1},
            )
            return [join_lines(best.text) for best, *_ in found]

        path = self.folder.path
        return evaluate_translators(
            {
                str(path): TranslatorSystem(
                    self.config, translate, target_style(self.folder), lambda: self.glossary
                )
            },
            ("the given sources", "the given references"),
            sources,
            references,
            tokenize,
            lowercase,
        )


def protected(config: RunConfig) -> Protection:
    """The spans that count for a model."""
    return protection_of(config.tokenizer) if config.tokenizer.has_symbols else SOFTWARE


def terms_for(
    entries: Iterable[tuple[str, str]],
    config: RunConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
    where: str | Path = "the glossary",
) -> Glossary:
    """The glossary of these terms and translations; a DataError if there is none."""
    glossary = Glossary(entries, (tokenizers[0].form, tokenizers[1].form), protected(config))
    if not len(glossary):
        todo = "write a term, a tab and its translation on each line"
        raise DataError("the glossary has no term with a translation", where=where, todo=todo)
    return glossary
