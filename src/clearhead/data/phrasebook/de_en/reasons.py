"""Rules for sentences of two clauses, in German and English: weil, dass, ob.

In templates A and B are the two clauses.
"""

from __future__ import annotations

from clearhead.data.phrasebook.de_en.clauses import (
    Clause,
    be_so,
    deed,
    do_something,
    is_,
    modal,
    now,
    quality,
    state,
    then,
)
from clearhead.data.phrasebook.de_en.deeds import going_to
from clearhead.data.phrasebook.de_en.lexicon import (
    ADJECTIVES,
    BUY,
    CALL,
    COME,
    FIND,
    GO,
    HAVE,
    HELP,
    NEED,
    NOUNS,
    OWNERS,
    READ,
    SELL,
    SLEEP,
    STAY,
    WASH,
    WORK,
    A,
    Verb,
)
from clearhead.data.phrasebook.de_en.phrases import (
    AGAIN,
    PERSONS,
    THEM,
    Subject,
    build,
    kind,
    some,
    someone,
    subject_of,
)
from clearhead.data.phrasebook.dice import Dice
from clearhead.data.phrasebook.english import HE, ME, WE, YOU, present
from clearhead.data.phrasebook.fragment import Fragment, weave

ADJECTIVE = {adjective.german: adjective for adjective in ADJECTIVES}
NOUN = {noun.german: noun for noun in NOUNS}
"""..."""
