"""Write the translated messages of a made-up program, and one version without translations.

    python examples/program.py FOLDER

The folder gets `train.po`, `validation.po` and `test.po` (English, German), and `app.po`, whose
messages are new and not translated. Real data would be the catalogues of your own program.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from random import Random

NOUNS = (
    # English, plural, German nominative and accusative with article, plural
    ("file", "files", "die Datei", "die Datei", "Dateien"),
    ("folder", "folders", "der Ordner", "den Ordner", "Ordner"),
    ("picture", "pictures", "das Bild", "das Bild", "Bilder"),
    ("page", "pages", "die Seite", "die Seite", "Seiten"),
    ("message", "messages", "die Nachricht", "die Nachricht", "Nachrichten"),
    ("table", "tables", "die Tabelle", "die Tabelle", "Tabellen"),
    ("printer", "printers", "der Drucker", "den Drucker", "Drucker"),
    ("contact", "contacts", "der Kontakt", "den Kontakt", "Kontakte"),
    ("window", "windows", "das Fenster", "das Fenster", "Fenster"),
    ("report", "reports", "der Bericht", "den Bericht", "Berichte"),
    ("letter", "letters", "der Brief", "den Brief", "Briefe"),
    ("list", "lists", "die Liste", "die Liste", "Listen"),
)
VERBS = (
    # English, participle, German infinitive, participle
    ("open", "opened", "öffnen", "geöffnet"),
    ("close", "closed", "schließen", "geschlossen"),
    ("save", "saved", "speichern", "gespeichert"),
    ("delete", "deleted", "löschen", "gelöscht"),
    ("print", "printed", "drucken", "gedruckt"),
    ("send", "sent", "senden", "gesendet"),
    ("copy", "copied", "kopieren", "kopiert"),
    ("rename", "renamed", "umbenennen", "umbenannt"),
    ("find", "found", "suchen", "gefunden"),
    ("add", "added", "hinzufügen", "hinzugefügt"),
)
ARGUMENTS = ("%s", "{name}", "{0}", "%(title)s", "$name", "<b>%s</b>")
NUMBERS = ("%d", "{count}", "%(number)d", "%1$d")

NOUN_AND_VERB = (
    ("{Verb} the {noun}", "{accusative} {infinitive}"),
    ("_{Verb} {noun}...", "{accusative} {infinitive}..."),
    ("The {noun} was {participle}.", "{nominative} wurde {done}."),
    ("The {noun} could not be {participle}.", "{nominative} konnte nicht {done} werden."),
    ("Do you want to {verb} the {noun} now?", "Möchten Sie {accusative} jetzt {infinitive}?"),
    (
        "The {noun} was not {participle}.\nTry again later.",
        "{nominative} wurde nicht {done}.\nVersuchen Sie es später noch einmal.",
    ),
)
WITH_ARGUMENT = (
    ("Could not {verb} the {noun} {x}", "{nominative} {x} konnte nicht {done} werden"),
    ("The {noun} “{x}” was {participle}.", "{nominative} „{x}“ wurde {done}."),
)
WITH_NUMBER = (
    ("{n} {nouns} {participle}", "{n} {plural} {done}"),
    ("Do you want to {verb} {n} {nouns}?", "Möchten Sie {n} {plural} {infinitive}?"),
)


def messages() -> list[tuple[str, str]]:
    """All messages of the program with their translations."""
    found = []
    for noun, verb in product(NOUNS, VERBS):
        words = dict(
            zip(("noun", "nouns", "nominative", "accusative", "plural"), noun, strict=True),
            **dict(zip(("verb", "participle", "infinitive", "done"), verb, strict=True)),
        )
        words["Verb"] = verb[0].capitalize()
        patterns = [
            *((source, target, {}) for source, target in NOUN_AND_VERB),
            *((s, t, {"x": x}) for (s, t), x in product(WITH_ARGUMENT, ARGUMENTS)),
            *((s, t, {"n": n}) for (s, t), n in product(WITH_NUMBER, NUMBERS)),
        ]
        for source, target, arguments in patterns:
            translation = target.format(**words, **arguments)
            # A sentence begins with a capital letter.
            translation = translation[:1].upper() + translation[1:]
            if source.startswith("_"):
                translation = f"_{translation}"
            found.append((source.format(**words, **arguments), translation))
    return found


HEADER = """\
msgid ""
msgstr ""
"Project-Id-Version: program\\n"
"PO-Revision-Date: 2026-01-01 00:00+0000\\n"
"Last-Translator: none <none@example.org>\\n"
"Language-Team: German <none@example.org>\\n"
"MIME-Version: 1.0\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Language: de\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"
"""


def quoted(text: str) -> str:
    """A string of a .po file."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'


def main() -> None:
    """Write the files into the folder that the command names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    pairs = messages()
    Random(1).shuffle(pairs)
    parts = {"app": pairs[:40], "test": pairs[40:140], "validation": pairs[140:240]}
    parts["train"] = pairs[240:]
    # As in the catalogues of real programs, a translation here and there lacks its placeholder.
    with_argument = [n for n, (_, target) in enumerate(parts["train"]) if "%s" in target]
    for n in with_argument[::100]:
        source, target = parts["train"][n]
        parts["train"][n] = source, target.replace("%s", "")
    for name, part in parts.items():
        entries = (
            f"msgid {quoted(source)}\nmsgstr {quoted('' if name == 'app' else target)}\n"
            for source, target in part
        )
        (folder / f"{name}.po").write_text("\n".join([HEADER, *entries]), encoding="utf-8")
        print(folder / f"{name}.po")


if __name__ == "__main__":
    main()
