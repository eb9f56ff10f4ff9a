"""The models of a server, by name and by their languages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from clearhead.api.loading import LoadOptions
from clearhead.api.service import Batch, Limits, Service
from clearhead.errors import ClearheadError, ConfigError
from clearhead.folder.model_folder import open_folder
from clearhead.text.languages import base

DETECTED = 2000
"""Characters of a text that show its language."""


class UnknownError(ClearheadError):
    """A request names something that the server does not have."""


class Models:
    """The services of a server.

    Args:
        folders: the model folders; the name of a model is that of its folder.
        options: what runs the models, and how.
        limits: what each service does at most.
        on_batch: called after each batch with the name of the model.

    Raises:
        ConfigError: two folders have the same name.
        ModelFolderError: a folder is missing, damaged, or of another version.
    """

    def __init__(
        self,
        folders: Sequence[str],
        options: LoadOptions,
        limits: Limits,
        on_batch: Callable[[str, Batch], None],
    ) -> None:
        self.services: dict[str, Service] = {}
        names = [Path(folder).resolve().name for folder in folders]
        for name, folder in zip(names, folders, strict=True):
            open_folder(folder)
            if names.count(name) > 1:
                what, todo = f"two models have the name {name!r}", "rename one of the folders"
                raise ConfigError(what, where=folder, todo=todo)
        for name, folder in zip(names, folders, strict=True):

            def observe(batch: Batch, name: str = name) -> None:
                on_batch(name, batch)

            self.services[name] = Service(folder, options, limits=limits, on_batch=observe)

    def __iter__(self) -> Iterator[tuple[str, Service]]:
        return iter(self.services.items())

    @property
    def pairs(self) -> dict[tuple[str, str], str]:
        """The names of the translators, by their languages; the first one of each pair."""
        found: dict[tuple[str, str], str] = {}
        for name, service in self:
            if service.task == "translation" and all(languages_of(service)):
                found.setdefault(languages_of(service), name)
        return found

    def named(self, name: str | None, task: str) -> tuple[str, Service]:
        """The model of a name, or else the first one of a task.

        Raises:
            UnknownError: there is none.
        """
        of_task = {key: each for key, each in self if each.task == task}
        if name is None and of_task:
            return next(iter(of_task.items()))
        if name not in of_task:
            noun = {"translation": "translator", "classification": "classifier"}[task]
            raise UnknownError(
                f"there is no {noun} {name!r}" if name else f"there is no {noun}",
                why=f"there are {', '.join(of_task)}" if of_task else None,
            )
        return name, of_task[name]

    def translating(self, source: str, target: str) -> tuple[str, Service]:
        """The translator of two languages, such as `en` and `de-AT`, in any case.

        Raises:
            UnknownError: there is none.
        """
        wanted = source.lower(), target.lower()
        pairs = {(a.lower(), b.lower()): name for (a, b), name in self.pairs.items()}
        name = pairs.get(wanted) or next(
            (name for pair, name in pairs.items() if [*map(base, pair)] == [*map(base, wanted)]),
            None,
        )
        if name is None:
            raise UnknownError(
                f"there is no translator from {source} to {target}",
                why=f"there are {', '.join(f'{a} to {b}' for a, b in self.pairs)}",
            )
        return name, self.services[name]

    def detect(self, text: str, target: str | None = None) -> list[tuple[str, float]]:
        """The source languages of the translators with their probabilities, the best one first.

        With a target language, only those of the translators into it.
        """
        wanted = {base(b) for _, b in self.pairs} if target is None else {base(target)}
        sources = list(dict.fromkeys(a for a, b in self.pairs if base(b) in wanted))
        if len(sources) < 2:
            return [(source, 1.0) for source in sources]
        ranks = dict(self._identifier.rank(text[:DETECTED]))
        least = min(ranks.values())
        found = {source: ranks.get(base(source), least) for source in sources}
        total = sum(found.values()) or 1.0
        return sorted(((each, p / total) for each, p in found.items()), key=lambda x: -x[1])

    @cached_property
    def _identifier(self) -> Any:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def close(self, seconds: float) -> None:
        """Finish the requests that were accepted; give those up that take longer."""
        end = time.monotonic() + seconds
        for _, service in self:
            service.close(max(0.0, end - time.monotonic()))


def languages_of(service: Service) -> tuple[str, str]:
    """The languages of a translator; empty where they are unknown."""
    return service.folder.config.data.languages
