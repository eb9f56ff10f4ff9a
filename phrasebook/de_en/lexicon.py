"""The words of the German-English grammar and their forms.

Kinds say what goes with what: an adjective lists the kinds of noun that it can describe, a verb
the kinds that it takes as an object. Words are compared by identity: each is defined once.

Groß is big of a house and tall of a man: two entries with different kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasebook.english import NUMBERS

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun. `plurals` (German, English) is None for mass nouns, relatives, names and places.

    `weak`: it ends in -n except in the nominative (der junge, den jungen). `at`, `to`: the
    prepositions of a place for being there and for going there, in German and in English.
    """

    german: str
    english: str
    gender: Gender
    kinds: frozenset[str]
    plurals: tuple[str, str] | None
    weak: bool = False
    at: tuple[str, str] = ("in", "in")
    to: tuple[str, str] = ("zu", "to")

    def decline(self, case: Case, plural: bool) -> str:
        """The German form."""
        if plural and self.plurals:
            form = self.plurals[0]
            return form + "n" if case == "dative" and form[-1] not in "ns" else form
        return self.german + "n" if self.weak and case != "nominative" else self.german


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective: its form without ending, and the stem that takes endings (teuer, teur-)."""

    german: str
    stem: str
    english: str
    suits: frozenset[str]


@dataclass(frozen=True, eq=False)
class Determiner:
    """A word before a noun, in English singular and plural; None where it cannot be used.

    `endings`: like der (`strong`), like ein (`mixed`), or none (`bare`).
    """

    german: str
    english: str | None
    plural: str | None
    endings: Literal["strong", "mixed", "bare"]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: German infinitive, present tense (ich, du, er), participle; English forms.

    `prefix` is separable (ich rufe an), `be`: the perfect takes sein, `case` is that of the
    object. `usage` lists `bare` (also takes objects without an article: eat apples), `known` (takes
    only definite objects: open the door) and `general` (takes definite objects or all of a kind:
    like the dog, like dogs).
    """

    infinitive: str
    singular: tuple[str, ...]
    participle: str
    english: str
    third: str
    past: str
    objects: frozenset[str]
    usage: frozenset[str]
    prefix: str
    be: bool
    case: Case

    def present(self, person: int) -> str:
        """The finite form without prefix; wir and sie take the infinitive."""
        return (*self.singular, self.infinitive, self.infinitive)[person]


def make_noun(german: str, english: str, gender: Gender, kinds: str, weak: bool = False) -> Noun:
    """A noun from `singular plural` in both languages, or from the singulars alone."""
    one, *many = german.split()
    single, *several = english.split()
    plurals = (many[0], several[0]) if many else None
    return Noun(one, single, gender, _set(kinds), plurals, weak)


def make_place(
    german: str, english: str, gender: Gender, kinds: str, *, at: str = "in in", to: str = "zu to"
) -> Noun:
    """A place, with its prepositions, each as `german english`."""
    here, there = at.split(), to.split()
    prepositions = ((here[0], here[1]), (there[0], there[1]))
    return Noun(german, english, gender, _set(kinds), None, False, *prepositions)


def make_adjective(german: str, english: str, suits: str, stem: str = "") -> Adjective:
    """An adjective; `stem` is only needed if it is not the word without a final -e."""
    return Adjective(german, stem or german.removesuffix("e"), english, _set(suits))


def make_verb(
    german: str,
    english: str,
    objects: str = "",
    usage: str = "",
    *,
    prefix: str = "",
    be: bool = False,
    case: Case = "accusative",
) -> Verb:
    """A verb from `infinitive ich du er participle` and `base, third person, past`."""
    infinitive, first, second, third, participle = german.split()
    base, s_form, past = english.split(", ")
    present, kinds = (first, second, third), _set(objects)
    return Verb(
        *(infinitive, present, participle, base, s_form, past, kinds, _set(usage)),
        *(prefix, be, case),
    )


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# ---- The words


NOUNS = (
    make_noun("mann männer", "man men", "m", "person adult"),
    make_noun("frau frauen", "woman women", "f", "person adult"),
    make_noun("kind kinder", "child children", "n", "person child"),
    make_noun("junge jungen", "boy boys", "m", "person child youth", weak=True),
    make_noun("mädchen mädchen", "girl girls", "n", "person child youth"),
    make_noun("lehrer lehrer", "teacher teachers", "m", "person adult"),
    make_noun("mutter", "mother", "f", "kin person adult"),
    make_noun("vater", "father", "m", "kin person adult"),
    make_noun("bruder brüder", "brother brothers", "m", "kin person sibling"),
    make_noun("schwester schwestern", "sister sisters", "f", "kin person sibling"),
    make_noun("anna", "anna", "f", "name person"),
    make_noun("lena", "lena", "f", "name person"),
    make_noun("paul", "paul", "m", "name person"),
    make_noun("max", "max", "m", "name person"),
    make_noun("hund hunde", "dog dogs", "m", "animal pet"),
    make_noun("katze katzen", "cat cats", "f", "animal pet"),
    make_noun("pferd pferde", "horse horses", "n", "animal"),
    make_noun("vogel vögel", "bird birds", "m", "animal"),
    make_noun("buch bücher", "book books", "n", "item aged goods read"),
    make_noun("brief briefe", "letter letters", "m", "item read write pretty"),
    make_noun("zeitung zeitungen", "newspaper newspapers", "f", "item read goods"),
    make_noun(
        "haus häuser", "house houses", "n", "big colour size aged goods neat spot room pretty"
    ),
    make_noun(
        "auto autos", "car cars", "n", "big colour size aged goods wash break spot room pretty"
    ),
    make_noun("fahrrad fahrräder", "bicycle bicycles", "n", "big colour aged goods wash break"),
    make_noun(
        "tisch tische", "table tables", "m", "big colour size aged goods neat break top board"
    ),
    make_noun("stuhl stühle", "chair chairs", "m", "big colour size aged goods neat break top"),
    make_noun("bett betten", "bed beds", "n", "big size aged goods top"),
    make_noun("tür türen", "door doors", "f", "big colour size neat open break spot"),
    make_noun("fenster fenster", "window windows", "n", "big size wash open break spot"),
    make_noun("flasche flaschen", "bottle bottles", "f", "item size open hold break"),
    make_noun(
        "tasche taschen", "bag bags", "f", "item colour size aged goods open hold case pretty"
    ),
    make_noun("schlüssel schlüssel", "key keys", "m", "item size"),
    make_noun("hemd hemden", "shirt shirts", "n", "item colour aged goods wash pretty"),
    make_noun("hut hüte", "hat hats", "m", "item colour size aged goods pretty"),
    make_noun("lampe lampen", "lamp lamps", "f", "item colour size aged goods break pretty"),
    make_noun("bild bilder", "picture pictures", "n", "item size aged goods pretty"),
    make_noun("blume blumen", "flower flowers", "f", "item colour size goods pretty"),
    make_noun("baum bäume", "tree trees", "m", "big size spot shade pretty"),
    make_noun("apfel äpfel", "apple apples", "m", "food goods fruit"),
    make_noun("ei eier", "egg eggs", "n", "food goods"),
    make_noun("kartoffel kartoffeln", "potato potatoes", "f", "food goods"),
    make_noun("brot", "bread", "n", "food goods"),
    make_noun("käse", "cheese", "m", "food goods"),
    make_noun("suppe", "soup", "f", "food warm"),
    make_noun("fleisch", "meat", "n", "food goods"),
    make_noun("wasser", "water", "n", "drink warm"),
    make_noun("milch", "milk", "f", "drink goods warm"),
    make_noun("kaffee", "coffee", "m", "drink goods warm cup"),
    make_noun("tee", "tea", "m", "drink goods warm cup"),
    make_noun("bier", "beer", "n", "drink goods cool cup"),
    make_noun("cola", "coke", "f", "drink goods cool cup"),
    make_place("park", "park", "m", "place outside", to="in to"),
    make_place("garten", "garden", "m", "place outside", to="in into"),
    make_place("küche", "kitchen", "f", "place", to="in into"),
    make_place("stadt", "city", "f", "place", to="in to"),
    make_place("hotel", "hotel", "n", "place"),
    make_place("markt", "market", "m", "place", at="auf at"),
    make_place("bahnhof", "station", "m", "place", at="an at"),
    make_place("strand", "beach", "m", "place outside", at="an at"),
)

ADJECTIVES = (
    make_adjective("schwarz", "black", "colour animal"),
    make_adjective("weiß", "white", "colour animal"),
    make_adjective("rot", "red", "colour fruit"),
    make_adjective("grün", "green", "colour fruit"),
    make_adjective("groß", "big", "size animal fruit place"),
    make_adjective("groß", "tall", "person"),
    make_adjective("klein", "small", "size animal fruit place"),
    make_adjective("neu", "new", "aged"),
    make_adjective("alt", "old", "aged animal adult"),
    make_adjective("jung", "young", "animal adult"),
    make_adjective("teuer", "expensive", "goods", stem="teur"),
    make_adjective("billig", "cheap", "goods"),
    make_adjective("schön", "beautiful", "place animal pretty"),
    make_adjective("sauber", "clean", "wash neat"),
    make_adjective("schmutzig", "dirty", "wash neat animal"),
    make_adjective("kaputt", "broken", "break"),
    make_adjective("offen", "open", "open"),
    make_adjective("leer", "empty", "hold"),
    make_adjective("krank", "sick", "person animal"),
    make_adjective("müde", "tired", "person animal"),
    make_adjective("glücklich", "happy", "person"),
    make_adjective("traurig", "sad", "person"),
    make_adjective("kalt", "cold", "warm cool"),
    make_adjective("heiß", "hot", "warm"),
)

THE = Determiner("d", "the", "the", "strong")
THIS = Determiner("dies", "this", "these", "strong")
A = Determiner("ein", "a", None, "mixed")
# English negates the verb instead: i do not have a dog, i do not drink milk.
NO = Determiner("kein", "a", None, "mixed")
NOT_ANY = Determiner("kein", "", "", "mixed")
OWNERS = (
    Determiner("mein", "my", "my", "mixed"),
    Determiner("dein", "your", "your", "mixed"),
    Determiner("sein", "his", "his", "mixed"),
    Determiner("unser", "our", "our", "mixed"),
)
BARE = Determiner("", "", "", "bare")
COUNTS = tuple(
    Determiner(german, None, english, "bare")
    for english, german in zip(
        NUMBERS, "zwei drei vier fünf sechs sieben acht neun zehn".split(), strict=True
    )
)

EAT = make_verb("essen esse isst isst gegessen", "eat, eats, ate", "food", "bare")
DRINK = make_verb(
    "trinken trinke trinkst trinkt getrunken", "drink, drinks, drank", "drink", "bare"
)
READ = make_verb("lesen lese liest liest gelesen", "read, reads, read", "read", "bare")
BUY = make_verb("kaufen kaufe kaufst kauft gekauft", "buy, buys, bought", "goods", "bare")
SELL = make_verb(
    "verkaufen verkaufe verkaufst verkauft verkauft", "sell, sells, sold", "goods", "bare"
)
FIND = make_verb("finden finde findest findet gefunden", "find, finds, found", "item pet")
WASH = make_verb("waschen wasche wäschst wäscht gewaschen", "wash, washes, washed", "wash", "known")
HAVE = make_verb("haben habe hast hat gehabt", "have, has, had", "goods item pet")
LIKE = make_verb(
    "mögen mag magst mag gemocht", "like, likes, liked", "food drink animal", "general"
)
SLEEP = make_verb("schlafen schlafe schläfst schläft geschlafen", "sleep, sleeps, slept")
WORK = make_verb("arbeiten arbeite arbeitest arbeitet gearbeitet", "work, works, worked")
COME = make_verb("kommen komme kommst kommt gekommen", "come, comes, came", be=True)
GO = make_verb("gehen gehe gehst geht gegangen", "go, goes, went", be=True)
STAY = make_verb("bleiben bleibe bleibst bleibt geblieben", "stay, stays, stayed", be=True)
RISE = make_verb(
    "stehen stehe stehst steht gestanden", "get up, gets up, got up", prefix="auf", be=True
)
HELP = make_verb(
    *("helfen helfe hilfst hilft geholfen", "help, helps, helped", "person", "known"), case="dative"
)
SEE = make_verb("sehen sehe siehst sieht gesehen", "see, sees, saw", "big animal person")
KNOW = make_verb("kennen kenne kennst kennt gekannt", "know, knows, knew", "person", "known")
LOVE = make_verb("lieben liebe liebst liebt geliebt", "love, loves, loved", "kin name pet", "known")
THINK = make_verb("glauben glaube glaubst glaubt geglaubt", "think, thinks, thought")
KNOW_THAT = make_verb("wissen weiß weißt weiß gewusst", "know, knows, knew")
SAY = make_verb("sagen sage sagst sagt gesagt", "say, says, said")
ASK = make_verb("fragen frage fragst fragt gefragt", "ask, asks, asked")
COST = make_verb("kosten koste kostest kostet gekostet", "cost, costs, cost")
CALL = make_verb(
    *("rufen rufe rufst ruft gerufen", "call, calls, called", "kin name", "known"), prefix="an"
)

# What one can want to do, be able to do, have to do, have done.
DEEDS = (
    *(EAT, DRINK, READ, BUY, SELL, FIND, WASH, HELP, SEE, CALL),
    make_verb("schreiben schreibe schreibst schreibt geschrieben", "write, writes, wrote", "write"),
    make_verb(
        "machen mache machst macht gemacht", "open, opens, opened", "open", "known", prefix="auf"
    ),
    make_verb(
        "machen mache machst macht gemacht", "close, closes, closed", "open", "known", prefix="zu"
    ),
)
NEED = make_verb(
    "brauchen brauche brauchst braucht gebraucht", "need, needs, needed", "goods", "bare"
)
STATES = (HAVE, NEED, KNOW, LOVE, LIKE)
