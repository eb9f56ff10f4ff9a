"""The rules of the English-Spanish grammar and their weights: `sentence` returns a random pair.

The ties in the templates are those of `english`. The slots are S the subject, O the object, P a
place or a time, T a time, N a noun phrase.
"""

from __future__ import annotations

from clearhead.data.reading.phrasebook import AlignedPair
from phrasebook.en_es.lexicon import (
    ACTIONS,
    BARE,
    BUY,
    COST,
    COUNTS,
    DEEDS,
    DRINK,
    EAT,
    HAVE,
    HELP,
    KNOW,
    LIVE,
    LOVE,
    NEED,
    NOUNS,
    OWNERS,
    PLAY,
    READ,
    SEE,
    SLEEP,
    THAT,
    THE,
    THIS,
    WANT,
    WORK,
    Noun,
    agree,
)
from phrasebook.en_es.phrases import (
    DROPPED,
    EL,
    ELLA,
    ESTAR,
    FEW,
    IR,
    MOODS,
    ONE,
    OWNED,
    PERSONS,
    PLAIN,
    POINTING,
    SER,
    SOME,
    SPECIFIC,
    Choice,
    Phrase,
    Subject,
    adjectives_of,
    be_so,
    build,
    build_generic,
    clause,
    conjugated,
    kind,
    nouns_of,
    pick_modal,
    pick_mood,
    some,
    some_object,
    someone,
)
from phrasebook.english import BE, HE, ME, Mood, be, present
from phrasebook.grammar import Dice, Fragment, contract_target, tie, weave

# ---- What is what, how it is and where it is

# English, Spanish, and the kinds of noun after the preposition.
ON = ("on", "en", "top")
UNDER = ("under", "debajo de", "top shade")
IN = ("in", "en", "room outside")
INSIDE = ("in", "en", "room case")
NEXT_TO = ("next to", "al lado de", "spot top")
BEHIND = ("behind", "detrás de", "spot shade")
NEAR = ("near", "cerca de", "spot")
ON_TABLE = ("on", "en", "board")
AT_HOME = ("in", "en", "home")
# The prepositions for a kind of noun: no horse lies on a chair.
WHERE = {
    "item": (ON, ON, UNDER, INSIDE, INSIDE, NEXT_TO),
    "food": (ON_TABLE, AT_HOME),
    "drink": (ON_TABLE, AT_HOME),
    "pet": (ON, UNDER, IN, NEXT_TO, BEHIND),
    "animal": (IN, BEHIND, NEAR),
    "person": (IN, IN, NEXT_TO, BEHIND, NEAR),
}
# The nouns after there is and there are.
THERE = tuple(noun for noun in kind("item food animal person") if noun.plurals)
LANDMARKS: tuple[Choice, ...] = (
    *[(THE, False)] * 6,
    (THIS, False),
    *((owner, False) for owner in OWNERS),
)


def quality(dice: Dice) -> Fragment:
    """`the cat is black`, `are your shoes dirty ?`, `this soup is very hot`."""
    phrase = some(dice, NOUNS, SPECIFIC)
    return be_so(dice, Subject.of(phrase), dice.pick(adjectives_of(phrase.noun)))


def feeling(dice: Dice) -> Fragment:
    """`i am tired`, `is she happy ?`."""
    return be_so(dice, dice.pick(PERSONS), dice.pick(adjectives_of(kind("adult")[0])))


def identity(dice: Dice) -> Fragment:
    """`this is a book`, `are those your shoes ?`, `that is not my sister`."""
    wanted = (*ONE * 8, *PLAIN[1:] * 3, *OWNED)
    phrase = some(dice, kind("item food drink big animal person"), wanted, adjectives=0.5)
    pointer, plural, mood = dice.pick((THIS, THAT)), phrase.plural, dice.pick(MOODS)
    this = f"{agree(pointer.spanish, phrase.noun.gender, plural)}/t"
    no = "no/n" if mood == "negative" else ""
    right = f"{this} {no} {SER[phrase.person]}/v O"
    if mood == "question":  # the pronoun stays first: ¿ estos son tus zapatos ?
        right = f"¿/q {right} ?/q"
    word = f"{pointer.plural if plural else pointer.english}/t"
    return weave(be(phrase.person).clause(mood, word, "O"), right, O=phrase.fragment)


def _somewhere(dice: Dice, what: Noun) -> Fragment:
    """A plausible place for such a thing: `under the table`, `debajo de la mesa`."""
    classes = [name for name in WHERE if name in what.kinds]
    english, spanish, kinds = dice.pick(WHERE[dice.pick(classes)])
    landmark = dice.pick([noun for noun in kind(kinds) if noun is not what])
    return at(dice, english, spanish, landmark)


def at(dice: Dice, english: str, spanish: str, landmark: Noun) -> Fragment:
    """A preposition with a noun phrase; on, not in, for the beach."""
    phrase = some(dice, (landmark,), LANDMARKS, adjectives=0.15)
    if english == "in" and landmark.english == "beach":
        english = "on"
    return weave(f"{tie(english, 'p')} N", f"{tie(spanish, 'p')} N", N=phrase.fragment)


def location(dice: Dice) -> Fragment:
    """`the keys are on the table`, `where is your brother ?`."""
    phrase = some(dice, kind("item food drink animal person"), SPECIFIC, adjectives=0.1)
    subject, estar = Subject.of(phrase), f"{ESTAR[phrase.person]}/v"
    if dice.chance(0.2):
        asked = f"where/w {BE[phrase.person]}/v S ?/q"
        return weave(asked, f"¿/q dónde/w {estar} S ?/q", **subject.slots)
    place = _somewhere(dice, phrase.noun)
    verbs = (be(phrase.person), estar)
    return clause(pick_mood(dice, subject), subject, verbs, ("P", "P"), P=place)


def existence(dice: Dice) -> Fragment:
    """`there are two black cats in the garden`, `is there a key on the table ?`."""
    phrase = some(dice, THERE, (*ONE * 8, *FEW * 2, *SOME), adjectives=0.35)
    place, are = _somewhere(dice, phrase.noun), f"{BE[phrase.person]}/v"
    slots = {"O": phrase.fragment, "P": place}
    if dice.chance(0.2):
        return weave(f"{are} there/v O P ?/q", "¿/q hay/v O P ?/q", **slots)
    if dice.chance(0.2) and phrase.plural:
        things = build(phrase.noun, BARE, plural=True).fragment
        many = "cuántas" if phrase.noun.gender == "f" else "cuántos"
        asked = f"how/h many/h O {are} there/v P ?/q"
        return weave(asked, f"¿/q {many}/h O hay/v P ?/q", O=things, P=place)
    return weave(f"there/v {are} O P", "hay/v O P", **slots)


def supplies(dice: Dice) -> Fragment:
    """`there is milk in the kitchen`, `there is no bread on the table`."""
    noun = dice.pick([noun for noun in kind("food drink") if noun.plurals is None])
    slots = {"O": build(noun, BARE, plural=False).fragment, "P": _somewhere(dice, noun)}
    no = ("no/n", "no/n") if dice.chance(0.4) else ("", "")
    return weave(f"there/v is/v {no[0]} O P", f"{no[1]} hay/v O P", **slots)


# ---- What people do, want, like and have

# English base and third person, Spanish singular and plural.
LIKE = ("like", "likes", "gusta", "gustan")
ADORE = ("love", "loves", "encanta", "encantan")
TO_ME = ("me", "te", "le", "nos", "les")
# English and Spanish object pronouns, and the subjects that they would refer to.
OBJECTS = (
    ("me", "me", (0, 3)),
    ("you", "te", (1,)),
    ("him", "lo", (2,)),
    ("her", "la", (2,)),
    ("us", "nos", (0, 3)),
    ("them", "los", (4,)),
)


def action(dice: Dice) -> Fragment:
    """`the boy eats an apple`, `do you have a red car ?`, `we do not drink wine`."""
    verb, subject = dice.pick(ACTIONS), someone(dice)
    mood = pick_mood(dice, subject)
    thing, right = some_object(dice, verb, mood)
    return clause(mood, subject, conjugated(verb, subject.person), ("O", right), O=thing)


def plan(dice: Dice) -> Fragment:
    """`i want to buy a house`, `can you open the door ?`, `he has to help ana`."""
    verb, subject = dice.pick(DEEDS), someone(dice, pronouns=0.7)
    thing, right = some_object(dice, verb)
    english, spanish, link = pick_modal(dice, subject.person, tie(verb.english, "v"))
    rest = ("O", f"{link} {verb.infinitive}/v {right}")
    return clause(pick_mood(dice, subject), subject, (english, spanish), rest, O=thing)


def meeting(dice: Dice) -> Fragment:
    """`i love you`, `my mother does not know him`: in Spanish the pronoun comes before the verb."""
    verb, subject = dice.pick((LOVE, SEE, KNOW, HELP)), someone(dice, pronouns=0.7)
    english, spanish, _ = dice.pick([one for one in OBJECTS if subject.person not in one[2]])
    finite, form = conjugated(verb, subject.person)
    verbs = (finite, f"{spanish}/o {form}")
    return clause(pick_mood(dice, subject), subject, verbs, (f"{english}/o", ""))


def taste(dice: Dice) -> Fragment:
    """`i like your house`, `do you like coffee ?`, `she loves apples`.

    In Spanish the liked thing is the subject, so the verb agrees with it: me gustan las manzanas.
    """
    subject, liked = someone(dice), _something_liked(dice)
    mood = pick_mood(dice, subject)
    words = ADORE if mood == "plain" and dice.chance(0.4) else LIKE
    pleases = words[3] if liked.plural else words[2]
    left = present(words[0], words[1], subject.person).clause(mood, subject.english("x"), "O")
    right = _pleases(subject, mood, f"{pleases}/v O")
    return weave(left, right, **subject.slots, O=liked.fragment)


def pastime(dice: Dice) -> Fragment:
    """`he likes to read books`: a él le gusta leer libros."""
    subject, verb = someone(dice), dice.pick((EAT, DRINK, READ, BUY))
    mood = pick_mood(dice, subject)
    noun = dice.pick(nouns_of(verb.objects))
    thing = build(noun, BARE, noun.plurals is not None)
    finite = present("like", "likes", subject.person)
    left = finite.clause(mood, subject.english("x"), f"to/i {verb.english}/i O")
    right = _pleases(subject, mood, f"gusta/v {verb.infinitive}/i O")
    return weave(left, right, **subject.slots, O=thing.fragment)


def _something_liked(dice: Dice) -> Phrase:
    if dice.chance(0.5):
        # The world has an article in English, too.
        several = [n for n in kind("food drink animal pretty read") if "world" not in n.kinds]
        noun = dice.pick(several)
        return build_generic(noun, noun.plurals is not None)
    return some(dice, kind("item food drink big place world"), SPECIFIC, adjectives=0.2)


def _pleases(subject: Subject, mood: Mood, rest: str) -> str:
    """The Spanish template before gustar: a la niña no le, me, ¿ te."""
    who, letter = ("a S", "v") if subject.phrase else ("", "x")
    no = "no/n" if mood == "negative" else ""
    right = f"{who} {no} {TO_ME[subject.person]}/{letter} {rest}"
    return f"¿/q {right} ?/q" if mood == "question" else right


# ---- Habits, counts, prices, greetings and names

NOUN = {noun.english: noun for noun in NOUNS}
# Where people live, work, play and sleep.
SCENES = (
    (LIVE, "house city hotel"),
    (WORK, "city house garden hotel school kitchen"),
    (PLAY, "park garden street house beach"),
    (SLEEP, "bed house garden car hotel"),
)
# Things that cost some euros.
CHEAP = tuple(noun for noun in kind("item food drink") if "goods" in noun.kinds)
TIMES = (
    weave("every/e day/d", "todos/e los/e días/d"),
    weave("in/p the/a morning/n", "por/p la/a mañana/n"),
    weave("at/p night/n", "por/p la/p noche/n"),
)
GREETINGS = (
    ("hello", "hola"),
    ("goodbye", "adiós"),
    ("good night", "buenas noches"),
    ("good afternoon", "buenas tardes"),
    ("thank you", "gracias"),
)
# English possessive; Spanish subject, reflexive pronoun and verb; genders of the names.
BEARERS = (
    ("my", "", "me", "llamo", "mf"),
    ("your", "", "te", "llamas", "mf"),
    ("his", "él/o", "se", "llama", "m"),
    ("her", "ella/o", "se", "llama", "f"),
)


def scene(dice: Dice) -> Fragment:
    """`my father works in the city`, `she sleeps at night`, `we go to the beach`."""
    subject = someone(dice)
    if dice.chance(0.4):
        verbs = (present("go", "goes", subject.person), f"{IR[subject.person]}/v")
        place = at(dice, "to", "a", dice.pick(kind("town")))
    else:
        verb, places = dice.pick(SCENES)
        verbs = conjugated(verb, subject.person)
        place = at(dice, "in", "en", NOUN[dice.pick(places.split())])
        if verb is not LIVE and dice.chance(0.3):
            place = dice.pick(TIMES)
    return clause(pick_mood(dice, subject), subject, verbs, ("P", "P"), P=place)


def routine(dice: Dice) -> Fragment:
    """`do you drink coffee in the morning ?`, `she reads books every day`."""
    subject, verb = someone(dice), dice.pick((EAT, DRINK, READ))
    noun = dice.pick(nouns_of(verb.objects))
    thing, time = build(noun, BARE, noun.plurals is not None).fragment, dice.pick(TIMES)
    verbs = conjugated(verb, subject.person)
    return clause(pick_mood(dice, subject), subject, verbs, ("O T", "O T"), O=thing, T=time)


def family(dice: Dice) -> Fragment:
    """`i have two brothers`, `does she have a sister ?`."""
    noun, subject = dice.pick(kind("sibling")), someone(dice)
    determiner, plural = dice.pick((*ONE * 2, *FEW))
    relative = build(noun, determiner, plural)
    mood = "question" if dice.chance(0.3) and subject.person != ME else "plain"
    verbs = conjugated(HAVE, subject.person)
    return clause(mood, subject, verbs, ("O", "O"), O=relative.fragment)


def counting(dice: Dice) -> Fragment:
    """`how many books do you have ?`: ¿ cuántos libros tienes ?"""
    verb, subject = dice.pick((HAVE, WANT, NEED, BUY, SEE)), someone(dice, pronouns=0.8)
    nouns = [noun for noun in nouns_of(verb.objects) if noun.plurals and "kin" not in noun.kinds]
    noun = dice.pick(nouns)
    finite, form = conjugated(verb, subject.person)
    many = "cuántas" if noun.gender == "f" else "cuántos"
    return weave(
        f"how/h many/h O {finite.clause('question', subject.english('v'), '')}",
        f"¿/q {many}/h O {form} {subject.spanish} ?/q",
        **subject.slots,
        O=build(noun, BARE, plural=True).fragment,
    )


def price(dice: Dice) -> Fragment:
    """`how much do the shoes cost ?`, `this hat costs ten euros`."""
    subject = Subject.of(some(dice, CHEAP, POINTING, adjectives=0.2))
    finite, form = conjugated(COST, subject.person)
    if dice.chance(0.3):
        asked = f"how/h much/h {finite.clause('question', 'S', '')}"
        return weave(asked, f"¿/q cuánto/h {form} S ?/q", **subject.slots)
    count = dice.pick(COUNTS)
    euros = (f"{count.plural}/c euros/e", f"{count.spanish[2]}/c euros/e")
    return clause("plain", subject, (finite, form), euros)


def greeting(dice: Dice) -> Fragment:
    """`hello ana`, `good night david`, `thank you girls`."""
    english, spanish = dice.pick(GREETINGS)
    noun = dice.pick((*kind("name"), NOUN["boy"], NOUN["girl"]))
    who = build(noun, BARE, plural=noun.plurals is not None).fragment
    return weave(f"{tie(english, 'g')} N", f"{tie(spanish, 'g')} N", N=who)


def naming(dice: Dice) -> Fragment:
    """`my name is ana`, `is his name pedro ?`, `i am laura`."""
    name = dice.pick(kind("name"))
    words = (f"{name.english}/a", f"{name.spanish}/a")
    if dice.chance(0.2):
        subject = dice.pick((*DROPPED[:2], EL if name.gender == "m" else ELLA))
        verbs = (be(subject.person), f"{SER[subject.person]}/v")
        return clause(pick_mood(dice, subject), subject, verbs, words)
    bearers = [bearer for bearer in BEARERS if name.gender in bearer[4]]
    owner, who, reflexive, calls, _ = dice.pick(bearers)
    mood = dice.pick(MOODS)
    if owner == "my" and mood == "question":
        mood = "plain"
    no = "no/n" if mood == "negative" else ""
    right = f"{who} {no} {reflexive}/o {calls}/lv {words[1]}"
    if mood == "question":
        right = f"¿/q {right} ?/q"
    return weave(be(HE).clause(mood, f"{owner}/o name/l", words[0]), right)


# ---- Sentences

CONTRACTIONS = {("a", "el"): "al", ("de", "el"): "del"}
# How often each rule is drawn. A rule with few sentences runs out, as repeated ones are dropped.
WEIGHTS = (
    (quality, 16),
    (feeling, 4),
    (identity, 10),
    (location, 9),
    (existence, 7),
    (supplies, 2),
    (action, 20),
    (plan, 14),
    (meeting, 5),
    (taste, 8),
    (pastime, 3),
    (scene, 8),
    (routine, 3),
    (family, 2),
    (counting, 2),
    (price, 4),
    (greeting, 1),
    (naming, 1),
)
PEOPLE = {noun.english for noun in kind("person")}
RULES = tuple(rule for rule, weight in WEIGHTS for _ in range(weight))
# The training pairs of a reference system, and the sentences that it has to translate unseen.
REFERENCE = (
    AlignedPair("hello world", "hola mundo", ((0, 0), (1, 1))),
    AlignedPair("i love you", "te amo", ((0, 1), (1, 1), (2, 0))),
    AlignedPair("the cat is black", "el gato es negro", ((0, 0), (1, 1), (2, 2), (3, 3))),
    AlignedPair("good morning", "buenos dias", ((0, 0), (1, 1))),
    AlignedPair("this is a book", "este es un libro", ((0, 0), (1, 1), (2, 2), (3, 3))),
    AlignedPair("what is your name", "como te llamas", ((0, 0), (1, 2), (2, 1), (3, 2))),
)
UNSEEN = ("i love cat", "this is a cat")


def sentence(dice: Dice) -> AlignedPair:
    """A random sentence pair."""
    fragment = dice.pick(RULES)(dice)
    while not _sensible(fragment.source):
        fragment = dice.pick(RULES)(dice)
    return contract_target(fragment, CONTRACTIONS).as_pair()


def _sensible(words: tuple[str, ...]) -> bool:
    """Whether no person occurs twice (ana helps ana)."""
    people = [word for word in words if word in PEOPLE]
    return len(people) == len(set(people))
