"""The rules of the German-English grammar and their weights: `sentence` returns a random pair.

The ties in the templates are those of `english`. The slots are S the subject, O the object, P a
place, T a time, N a noun phrase, A and B two clauses.
"""

from __future__ import annotations

from clearhead.data.reading.phrasebook import AlignedPair
from phrasebook.de_en.lexicon import (
    ADJECTIVES,
    ASK,
    BARE,
    BUY,
    CALL,
    COME,
    COST,
    COUNTS,
    DEEDS,
    DRINK,
    EAT,
    FIND,
    GO,
    HAVE,
    HELP,
    KNOW,
    KNOW_THAT,
    LOVE,
    NEED,
    NO,
    NOUNS,
    OWNERS,
    READ,
    RISE,
    SAY,
    SEE,
    SELL,
    SLEEP,
    STAY,
    THE,
    THINK,
    THIS,
    WASH,
    WORK,
    A,
    Determiner,
    Gender,
    Noun,
    Verb,
)
from phrasebook.de_en.phrases import (
    ER,
    FEW,
    MODALS,
    NONE,
    ONE,
    OWNED,
    PERSONS,
    PLAIN,
    POINTING,
    SEIN,
    SOME,
    SPECIFIC,
    THEM,
    WOULD_LIKE,
    Choice,
    Clause,
    Subject,
    Verbs,
    adjectives_of,
    be_so,
    build,
    deed,
    description,
    do_something,
    is_,
    kind,
    may_deny,
    modal,
    not_now,
    nouns_of,
    now,
    some,
    some_tense,
    someone,
    state,
    subject_of,
    then,
)
from phrasebook.english import BE, HE, ME, THEY, WE, YOU, present
from phrasebook.grammar import Dice, Fragment, contract_source, tie, weave

# ---- What is what, how, where and how much it is

# German, English, and the kinds of noun after the preposition.
ON = ("auf", "on", "top")
UNDER = ("unter", "under", "top shade")
IN = ("in", "in", "room case")
NEXT_TO = ("neben", "next to", "spot top")
BEHIND = ("hinter", "behind", "spot shade")
BEFORE = ("vor", "in front of", "spot")
ON_TABLE = ("auf", "on", "board")
# In, an or auf, depending on the place.
AT = ("", "", "place")
OUTSIDE = ("", "", "outside")
# The prepositions for a kind of noun: no horse lies on a chair.
WHERE = {
    "item": (ON, ON, UNDER, NEXT_TO, IN),
    "food": (ON_TABLE, IN),
    "drink": (ON_TABLE,),
    "pet": (ON, UNDER, NEXT_TO, BEHIND),
    "animal": (OUTSIDE, BEHIND, BEFORE),
    "person": (AT, AT, NEXT_TO, BEHIND, BEFORE),
}
LANDMARKS: tuple[Choice, ...] = (
    *[(THE, False)] * 6,
    (THIS, False),
    *((owner, False) for owner in OWNERS),
)
# German pronoun and verb, English possessive, genders of the names.
BEARERS = (
    ("ich", "heiße", "my", "mf"),
    ("du", "heißt", "your", "mf"),
    ("er", "heißt", "his", "m"),
    ("sie", "heißt", "her", "f"),
)
# The nouns after there is and there are.
THERE = tuple(noun for noun in kind("item food animal person") if noun.plurals)
# Things that cost some euros.
CHEAP = tuple(noun for noun in kind("item food drink") if "goods" in noun.kinds)


def quality(dice: Dice) -> Fragment:
    """`die katze ist schwarz .`, `sind deine schuhe neu ?`"""
    clause = description(dice)
    return clause.question() if dice.chance(0.2) and not clause.negative else clause.statement()


def feeling(dice: Dice) -> Fragment:
    """`ich bin müde .`, `warum ist sie traurig ?`"""
    subject, adjective = dice.pick(PERSONS), dice.pick(adjectives_of(kind("adult")[0]))
    clause = be_so(subject, adjective, dice.chance(0.2))
    if clause.negative or subject.person == ME or dice.chance(0.6):
        return clause.statement()
    passing = adjective.german in ("krank", "müde", "glücklich", "traurig")
    return clause.question(("warum/w", "why/w") if passing and dice.chance(0.7) else ("", ""))


def identity(dice: Dice) -> Fragment:
    """`das ist ein rotes auto .`, `das sind meine bücher .`, `das ist kein hund .`"""
    wanted = (*ONE * 6, *PLAIN[1:] * 2, *OWNED, *NONE * 2)
    phrase = some(dice, kind("item big animal person"), wanted, adjectives=0.6)
    word = "those" if phrase.plural else "that"
    that = Subject(weave("das/t", f"{word}/t"), phrase.person, None)
    negative = phrase.determiner is NO
    middle = "O/n" if negative else "O"
    clause = Clause(that, is_(phrase.person), middle, "O", {"O": phrase.fragment}, negative)
    return clause.question() if dice.chance(0.2) and not negative else clause.statement()


def somewhere(dice: Dice, what: Noun) -> Fragment:
    """A plausible place for such a thing: `unter dem tisch`, `under the table`."""
    classes = [name for name in WHERE if name in what.kinds]
    german, english, kinds = dice.pick(WHERE[dice.pick(classes)])
    landmark = dice.pick([noun for noun in kind(kinds) if noun is not what])
    if not german:
        return at(landmark)
    phrase = some(dice, (landmark,), LANDMARKS, "dative", adjectives=0.15)
    return weave(f"{german}/p N", f"{tie(english, 'p')} N", N=phrase.fragment)


def at(place: Noun) -> Fragment:
    """A location: `am bahnhof`, `at the station`."""
    there = build(place, THE, False, "dative").fragment
    return weave(f"{place.at[0]}/p N", f"{place.at[1]}/p N", N=there)


def location(dice: Dice) -> Fragment:
    """`das buch ist auf dem tisch .`, `wo ist dein bruder ?`"""
    phrase = some(dice, kind("item food drink animal person"), SPECIFIC, adjectives=0.15)
    subject, negative = subject_of(phrase), dice.chance(0.15)
    if dice.chance(0.15):
        return Clause(subject, is_(phrase.person)).question(("wo/w", "where/w"))
    middle = "nicht/n P" if negative else "P"
    place = {"P": somewhere(dice, phrase.noun)}
    clause = Clause(subject, is_(phrase.person), middle, "P", place, negative)
    return clause.question() if dice.chance(0.2) and not negative else clause.statement()


def existence(dice: Dice) -> Fragment:
    """`im garten sind zwei hunde .`, `there are two dogs in the garden .`"""
    phrase = some(dice, THERE, (*ONE * 8, *FEW * 2, *SOME), adjectives=0.3)
    place = somewhere(dice, phrase.noun)
    german, english = SEIN[phrase.person], BE[phrase.person]
    slots = {"O": phrase.fragment, "P": place}
    return weave(f"P {german}/v O ./p", f"there/v {english}/v O P ./p", **slots)


def age(dice: Dice) -> Fragment:
    """`mein bruder ist zehn jahre alt .`, `wie alt ist dein hund ?`"""
    subject = dice.pick(PERSONS)
    if dice.chance(0.6):
        subject = subject_of(some(dice, kind("child sibling name pet"), SPECIFIC))
    verbs = is_(subject.person)
    if dice.chance(0.25):
        return Clause(subject, verbs).question(("wie/h alt/a", "how/h old/a"))
    count = dice.pick(COUNTS)
    years = f"{count.german}/c jahre/y alt/a", f"{count.plural}/c years/y old/a"
    return Clause(subject, verbs, *years).statement()


def price(dice: Dice) -> Fragment:
    """`was kostet der hut ?`, `diese äpfel kosten drei euro .`"""
    subject = subject_of(some(dice, CHEAP, POINTING, adjectives=0.2))
    verbs = now(COST, subject.person)
    if dice.chance(0.3):
        return Clause(subject, verbs).question(("was/h", "how/h much/h"))
    count = dice.pick(COUNTS)
    euros = f"{count.german}/c euro/e", f"{count.plural}/c euros/e"
    return Clause(subject, verbs, *euros).statement()


def counting(dice: Dice) -> Fragment:
    """`wie viele bücher hast du ?`, `how many books do you have ?`"""
    verb, subject = dice.pick((HAVE, NEED, BUY, SEE)), dice.pick(PERSONS[1:])
    nouns = [noun for noun in nouns_of(verb.objects) if noun.plurals and "kin" not in noun.kinds]
    noun = dice.pick(nouns)
    things = build(noun, BARE, True, verb.case).fragment
    clause = Clause(subject, now(verb, subject.person), slots={"O": things})
    return clause.question(("wie/h viele/h O", "how/h many/h O"))


def naming(dice: Dice) -> Fragment:
    """`ich heiße anna .`, `er heißt nicht paul .`, `wie heißt du ?`"""
    german, verb, english, genders = dice.pick(BEARERS)
    left, right = f"{german}/o {verb}/lv", f"{english}/o name/l is/v"
    if dice.chance(0.1) and english != "my":
        asked = f"what/w is/v {english}/o name/l ?/q"
        return weave(f"wie/w {verb}/lv {german}/o ?/q", asked)
    name = build(dice.pick([n for n in kind("name") if n.gender in genders]), BARE, False)
    no = ("nicht/n", "not/n") if dice.chance(0.3) else ("", "")
    return weave(f"{left} {no[0]} N ./p", f"{right} {no[1]} N ./p", N=name.fragment)


# ---- What people do, want and like

EVERY_DAY = weave("jeden/e tag/d", "every/e day/d")
EVENING = weave("am/ia abend/n", "in/i the/a evening/n")
MORNING = weave("am/ia morgen/n", "in/i the/a morning/n")
YESTERDAY = weave("gestern/y", "yesterday/y")
TODAY = weave("heute/t", "today/t")
TOMORROW = weave("morgen/t", "tomorrow/t")
HABITUAL = (EVERY_DAY, EVENING, MORNING)
PLANNED = (TODAY, TOMORROW, EVENING, MORNING)
# Object pronouns: accusative, dative, English, and the subjects that they would refer to.
# The accusative sie is left out: it may be her or them.
OBJECTS = (
    ("mich", "mir", "me", (ME, WE)),
    ("dich", "dir", "you", (YOU,)),
    ("ihn", "ihm", "him", (HE,)),
    ("uns", "uns", "us", (ME, WE)),
)
DATIVE_OBJECTS = (
    *OBJECTS,
    ("", "ihr", "her", (HE,)),
    ("", "ihnen", "them", (THEY,)),
)


def doing(dice: Dice) -> Fragment:
    """`der junge liest ein buch .`, `hast du die tür zugemacht ?`"""
    return as_statement_or_question(dice, deed(dice))


def having(dice: Dice) -> Fragment:
    """`ich habe zwei hunde .`, `magst du käse ?`, `er braucht keine lampe .`"""
    return as_statement_or_question(dice, state(dice))


def as_statement_or_question(dice: Dice, clause: Clause) -> Fragment:
    """The clause as a statement or sometimes as a question; no question about `i`."""
    person, english = clause.subject.person, clause.verbs.english
    odd = person == ME or (person == WE and WOULD_LIKE.opening in english.opening)
    if dice.chance(0.2) and not clause.negative and not odd:
        return clause.question()
    return clause.statement()


def timed(dice: Dice) -> Fragment:
    """`gestern hat er ein buch gekauft .`, `jeden tag trinkt sie kaffee .`"""
    subject, which = someone(dice), dice.pick(("habit", "past", "plan"))
    if which == "habit":
        verb, time = dice.pick((EAT, DRINK, READ)), dice.pick(HABITUAL)
        noun = dice.pick(nouns_of(verb.objects))
        thing = build(noun, BARE, noun.plurals is not None, "accusative").fragment
        clause = Clause(subject, now(verb, subject.person), "O", "O", {"O": thing})
        if dice.chance(0.5):  # er trinkt jeden tag kaffee
            more = {"O": thing, "T": time}
            return Clause(subject, clause.verbs, "T O", "O T", more).statement()
        return clause.fronted(time)
    verb = dice.pick(DEEDS)
    if which == "past":
        verbs, time = then(verb, subject.person), YESTERDAY
    else:
        name = dice.pick(tuple(MODALS))
        verbs, time = modal(name, verb, subject.person), dice.pick(PLANNED)
    return do_something(dice, subject, verb, verbs, negative=False).fronted(time)


def moving(dice: Dice) -> Fragment:
    """`er geht zum bahnhof .`, `ich muss im hotel arbeiten .`, `wir sind nach hause gegangen .`"""
    subject = someone(dice)
    verb, middle, rest, slots = some_move(dice)
    tense = not_now if verb is COME else some_tense
    verbs = tense(dice, verb, subject.person)
    return as_statement_or_question(dice, Clause(subject, verbs, middle, rest, slots))


def some_move(dice: Dice) -> tuple[Verb, str, str, dict[str, Fragment]]:
    """A random verb without object; the German and English words with it, and their slots."""
    place = dice.pick(kind("place"))
    verb = dice.pick((GO, GO, COME, WORK, SLEEP, STAY, RISE))
    if verb is RISE:
        count = dice.pick(COUNTS[3:])
        hour = f"um/i {count.german}/c uhr/h", f"at/i {count.plural}/c o'clock/h"
        return verb, *hour, {}
    if verb in (GO, COME):
        if dice.chance(0.2):
            return verb, "nach/h hause/h", "home/h", {}
        return verb, "P", "P", {"P": going_to(place)}
    if verb is STAY and dice.chance(0.5):
        return verb, "zu/h hause/h", "at/h home/h", {}
    return verb, "P", "P", {"P": at(place)}


def going_to(place: Noun) -> Fragment:
    """The goal of a movement: `zum bahnhof`, `in die stadt`."""
    german, english = place.to
    there = build(place, THE, False, "accusative" if german == "in" else "dative").fragment
    return weave(f"{german}/p N", f"{english}/p N", N=there)


def meeting(dice: Dice) -> Fragment:
    """`ich liebe dich .`, `kannst du mir helfen ?`, `er hat uns gesehen .`"""
    verb, subject = dice.pick((LOVE, SEE, KNOW, HELP, HELP)), someone(dice, pronouns=0.7)
    options = DATIVE_OBJECTS if verb is HELP else OBJECTS
    options = [one for one in options if subject.person not in one[3]]
    accusative, dative, english, _ = dice.pick(options)
    if verb in (SEE, HELP):
        verbs = some_tense(dice, verb, subject.person)
    else:
        verbs = now(verb, subject.person)
    negative = may_deny(dice, verbs)
    word = f"{dative if verb is HELP else accusative}/o{' nicht/n' if negative else ''}"
    return as_statement_or_question(
        dice, Clause(subject, verbs, word, f"{english}/o", {}, negative)
    )


def pastime(dice: Dice) -> Fragment:
    """`sie trinkt gern tee .`, `she likes to drink tea .`"""
    subject, verb = someone(dice), dice.pick((EAT, DRINK, READ, BUY))
    noun = dice.pick(nouns_of(verb.objects))
    thing = build(noun, BARE, noun.plurals is not None, "accusative").fragment
    negative = dice.chance(0.2)
    german = now(verb, subject.person)
    english = present("like", "likes", subject.person, "g")
    verbs = Verbs(german.second, "", german.all_last, english)
    middle = f"{'nicht/n ' if negative else ''}gern/g O"
    rest = f"to/v {verb.english}/v O"
    return as_statement_or_question(
        dice, Clause(subject, verbs, middle, rest, {"O": thing}, negative)
    )


def wish(dice: Dice) -> Fragment:
    """`ich möchte ein bier .`, `will er einen hund ?`"""
    subject = someone(dice)
    nouns = kind("cup") if dice.chance(0.4) else kind("food goods pet")
    phrase = some(dice, nouns, ONE, "accusative", adjectives=0.25)
    name = dice.pick(("want", "would"))
    english = present("want", "wants", subject.person, "m") if name == "want" else WOULD_LIKE
    form = f"{MODALS[name][subject.person]}/m"
    verbs = Verbs(form, "", form, english)
    return as_statement_or_question(dice, Clause(subject, verbs, "O", "O", {"O": phrase.fragment}))


def asking(dice: Dice) -> Fragment:
    """`was hast du gekauft ?`, `wann stehst du auf ?`, `wer kann die tür aufmachen ?`"""
    if dice.chance(0.4):
        return _who(dice)
    subject = someone(dice, pronouns=0.7)
    if subject.person == ME:
        return asking(dice)
    if dice.chance(0.2):
        verb, word = dice.pick((RISE, COME, SLEEP, WORK)), ("wann/w", "when/w")
    else:
        verb, word = dice.pick((EAT, DRINK, READ, BUY, SELL, FIND, SEE, WASH)), ("was/w", "what/w")
    tense = not_now if verb is COME else some_tense
    return Clause(subject, tense(dice, verb, subject.person)).question(word)


def _who(dice: Dice) -> Fragment:
    who = Subject(weave("wer/w", "who/w"), HE, None)
    verb = dice.pick(DEEDS)
    verbs = some_tense(dice, verb, HE)
    return do_something(dice, who, verb, verbs, negative=False).statement("?/q")


# ---- Sentences of two clauses: weil, dass, ob

ADJECTIVE = {adjective.german: adjective for adjective in ADJECTIVES}
NOUN = {noun.german: noun for noun in NOUNS}
# A thing is er, sie or es according to its gender, but always it in English.
IT: dict[Gender, Fragment] = {
    "m": weave("er/p", "it/p"),
    "f": weave("sie/p", "it/p"),
    "n": weave("es/p", "it/p"),
}


def because(main: Clause, reason: Clause) -> Fragment:
    """The two clauses joined by weil, after which the verbs come last."""
    clauses = {"A": main.statement(mark=""), "B": reason.embedded()}
    return weave("A , weil/b B ./p", "A because/b B ./p", **clauses)


def speaker(dice: Dice) -> Subject:
    """A random person that a pronoun can refer to in the next clause."""
    subject = someone(dice, pronouns=0.65)
    return subject if subject.pronoun else speaker(dice)


def again(subject: Subject) -> Subject:
    """The same person as a pronoun."""
    return Subject(subject.pronoun or subject.fragment, subject.person, subject.pronoun)


def owner(subject: Subject) -> Determiner | None:
    """The possessive of a person; None for she and they, because ihr is her and their."""
    if subject.person == HE:
        return OWNERS[2] if subject.pronoun is ER else None
    return {ME: OWNERS[0], YOU: OWNERS[1], WE: OWNERS[3]}.get(subject.person)


def absence(dice: Dice) -> Fragment:
    """`ich muss zu hause bleiben , weil ich krank bin .`, `er kann nicht kommen , weil ...`"""
    who, verb = speaker(dice), dice.pick((STAY, GO, SLEEP, COME, WORK))
    if verb in (COME, WORK):
        main = Clause(who, modal("can", verb, who.person), "nicht/n", negative=True)
    else:
        verbs = modal(dice.pick(("want", "have", "would")), verb, who.person)
        place = {STAY: ("zu/h hause/h", "at/h home/h"), GO: ("nach/h hause/h", "home/h")}
        main = Clause(who, verbs, *place.get(verb, ("", "")))
    if verb in (SLEEP, WORK) or dice.chance(0.5):
        return because(main, _bad_health(dice, who))
    duty = dice.pick((CALL, HELP, WASH))
    verbs = modal("have", duty, who.person)
    return because(main, do_something(dice, again(who), duty, verbs, negative=False))


def _bad_health(dice: Dice, who: Subject) -> Clause:
    adjective = ADJECTIVE[dice.pick(("krank", "müde"))]
    possessive = owner(who)
    if possessive is None or dice.chance(0.6):
        return be_so(again(who), adjective)
    relative = dice.pick((*kind("kin"), NOUN["kind"], NOUN["hund"], NOUN["katze"]))
    return be_so(subject_of(build(relative, possessive, False)), ADJECTIVE["krank"])


def feelings(dice: Dice) -> Fragment:
    """`sie ist glücklich , weil sie ein neues auto gekauft hat .`"""
    who = speaker(dice)
    happy = dice.chance(0.6)
    verb = dice.pick((BUY, FIND, SELL, HAVE)) if happy else dice.pick((FIND, HAVE))
    verbs = (now if verb is HAVE else then)(verb, who.person)
    feeling = be_so(who, ADJECTIVE["glücklich" if happy else "traurig"])
    return because(feeling, do_something(dice, again(who), verb, verbs, negative=not happy))


def errand(dice: Dice) -> Fragment:
    """`wir müssen in die stadt gehen , weil wir brot kaufen wollen .`"""
    who = speaker(dice)
    there = {"P": going_to(NOUN[dice.pick(("stadt", "markt"))])}
    main = Clause(who, modal(dice.pick(("want", "have")), GO, who.person), "P", "P", there)
    need = modal(dice.pick(("want", "have")), BUY, who.person)
    return because(main, do_something(dice, again(who), BUY, need, negative=False))


def bargain(dice: Dice) -> Fragment:
    """`ich möchte die lampe kaufen , weil sie billig ist .`: sie is she or it."""
    who = dice.pick([subject for subject in PERSONS if subject.person in (ME, YOU, WE)])
    phrase = some(dice, kind("goods"), POINTING, "accusative")
    verbs = modal(dice.pick(("want", "would")), BUY, who.person)
    main = Clause(who, verbs, "O", "O", {"O": phrase.fragment})
    praise = ("billig", "schön", "neu")
    fitting = [one for one in adjectives_of(phrase.noun) if one.german in praise]
    it = Subject(THEM if phrase.plural else IT[phrase.noun.gender], phrase.person, None)
    return because(main, be_so(it, dice.pick(fitting)))


def replacement(dice: Dice) -> Fragment:
    """`er braucht ein neues auto , weil sein auto kaputt ist .`"""
    who = speaker(dice)
    possessive = owner(who)
    if possessive is None:
        return replacement(dice)
    noun = dice.pick([noun for noun in kind("break") if "aged" in noun.kinds])
    new = build(noun, A, False, "accusative", ADJECTIVE["neu"]).fragment
    verbs = now(NEED, who.person)
    if dice.chance(0.5):
        verbs = modal(dice.pick(("want", "would", "have")), BUY, who.person)
    old = subject_of(build(noun, possessive, False))
    state_ = be_so(old, ADJECTIVE[dice.pick(("kaputt", "alt"))])
    return because(Clause(who, verbs, "O", "O", {"O": new}), state_)


def report(dice: Dice) -> Fragment:
    """`ich glaube , dass der hund müde ist .`, `weißt du , ob er das buch gelesen hat ?`"""
    who, verb = someone(dice, pronouns=0.7), dice.pick((THINK, KNOW_THAT, SAY, ASK))
    german, english, mark = "dass/d", "that/d", "./p"
    head = Clause(who, now(verb, who.person)).statement(mark="")
    unsure = verb is KNOW_THAT and dice.chance(0.5)
    if unsure and who.person == YOU:
        head, mark = Clause(who, now(verb, YOU)).question(mark=""), "?/q"
    elif unsure:
        head = Clause(who, now(verb, who.person), "nicht/n", negative=True).statement(mark="")
    if unsure or verb is ASK:
        german, english = "ob/d", "whether/d"
    said = dice.pick((description, deed, state))(dice)
    while said.negative and german == "ob/d":  # no negation after whether
        said = dice.pick((description, deed, state))(dice)
    clauses = {"A": head, "B": said.embedded()}
    return weave(f"A , {german} B {mark}", f"A {english} B {mark}", **clauses)


# ---- Sentences

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}
# How often each rule is drawn. A rule with few sentences runs out, as repeated ones are dropped.
WEIGHTS = (
    (quality, 12),
    (feeling, 2),
    (identity, 10),
    (location, 7),
    (existence, 5),
    (age, 3),
    (price, 3),
    (counting, 2),
    (naming, 1),
    (doing, 17),
    (having, 10),
    (timed, 8),
    (moving, 10),
    (meeting, 4),
    (pastime, 4),
    (wish, 6),
    (asking, 4),
    (absence, 3),
    (feelings, 2),
    (errand, 2),
    (bargain, 2),
    (replacement, 2),
    (report, 6),
)
PEOPLE = {noun.german for noun in kind("person")}
CHILDREN = {
    noun.decline(case, plural)
    for noun in kind("child")
    for case in ("nominative", "dative")
    for plural in (False, True)
}
RULES = tuple(rule for rule, weight in WEIGHTS for _ in range(weight))
# The training pairs of a reference system.
REFERENCE = (
    AlignedPair(*("ich mochte ein bier", "i want a beer ."), ((0, 0), (1, 1), (2, 2), (3, 3))),
    AlignedPair(*("ich mochte ein cola", "i want a coke ."), ((0, 0), (1, 1), (2, 2), (3, 3))),
)
UNSEEN = ()


def sentence(dice: Dice) -> AlignedPair:
    """A random sentence pair."""
    fragment = dice.pick(RULES)(dice)
    while not _sensible(fragment.source):
        fragment = dice.pick(RULES)(dice)
    return contract_source(fragment, CONTRACTIONS).as_pair()


def _sensible(words: tuple[str, ...]) -> bool:
    """Whether no person occurs twice (anna hilft anna), and no child occurs with beer."""
    people = [word for word in words if word in PEOPLE]
    return len(people) == len(set(people)) and not ("bier" in words and CHILDREN & set(words))
