"""The words of the German-English grammar.

Kinds say what goes with what: an adjective lists the kinds of noun that it suits, a verb the
kinds that it takes as an object. Groß is big of a house and tall of a man: two entries.

Words are compared by identity: each is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clearhead.data.phrasebook.english import NUMBERS

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun; one without plurals (German, English) is a mass noun, a relative or a name.

    `weak`: it ends in -n but in the nominative (der junge, den jungen). `at`, `to`: for a place,
    the prepositions for being there and for going there, each in German and in English.
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
    """An adjective: as it stands alone, and the stem that takes endings (teuer, teur-)."""

    german: str
    stem: str
    english: str
    suits: frozenset[str]


@dataclass(frozen=True, eq=False)
class Determiner:
    """What stands before a noun, in English singular and plural; None where it cannot stand.

    `endings`: like der (`strong`), like ein (`mixed`), or none at all (`bare`).
    """

    german: str
    english: str | None
    plural: str | None
    endings: Literal["strong", "mixed", "bare"]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: German infinitive, present tense (ich, du, er), participle; English forms.

    `prefix` is what comes off (ich rufe an), `be` says that the perfect is made with sein,
    `case` is that of the object. Manners are words: `bare` likes objects without article (eat
    apples), `known` only has objects that are known (open the door), `general` has these or all
    of a kind (like the dog, like dogs).
    """

    infinitive: str
    singular: tuple[str, ...]
    participle: str
    english: str
    third: str
    past: str
    objects: frozenset[str]
    manners: frozenset[str]
    prefix: str
    be: bool
    case: Case

    def present(self, person: int) -> str:
        """The finite form without prefix; wir and sie have the infinitive's."""
        return (*self.singular, self.infinitive, self.infinitive)[person]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _noun(german: str, english: str, gender: Gender, kinds: str, weak: bool = False) -> Noun:
    one, *many = german.split()
    single, *several = english.split()
    plurals = (many[0], several[0]) if many else None
    return Noun(one, single, gender, _set(kinds), plurals, weak)


def _place(german: str, english: str, gender: Gender, at: str = "in in", to: str = "zu to") -> Noun:
    here, there = at.split(), to.split()
    prepositions = ((here[0], here[1]), (there[0], there[1]))
    return Noun(german, english, gender, _set("place"), None, False, *prepositions)


def _adjective(german: str, english: str, suits: str, stem: str = "") -> Adjective:
    return Adjective(german, stem or german.removesuffix("e"), english, _set(suits))


def _verb(
    german: str,
    english: str,
    objects: str = "",
    manners: str = "",
    *,
    prefix: str = "",
    be: bool = False,
    case: Case = "accusative",
) -> Verb:
    """From `infinitive ich du er participle` and `base, third person, past`."""
    infinitive, first, second, third, participle = german.split()
    base, s_form, past = english.split(", ")
    present, kinds = (first, second, third), _set(objects)
    return Verb(
        *(infinitive, present, participle, base, s_form, past, kinds, _set(manners)),
        *(prefix, be, case),
    )


NOUNS = (
    _noun("mann männer", "man men", "m", "person adult"),
    _noun("frau frauen", "woman women", "f", "person adult"),
    _noun("kind kinder", "child children", "n", "person child"),
    _noun("junge jungen", "boy boys", "m", "person child", weak=True),
    _noun("mädchen mädchen", "girl girls", "n", "person child"),
    _noun("lehrer lehrer", "teacher teachers", "m", "person adult"),
    _noun("mutter", "mother", "f", "kin person adult"),
    _noun("vater", "father", "m", "kin person adult"),
    _noun("bruder brüder", "brother brothers", "m", "kin person sibling"),
    _noun("schwester schwestern", "sister sisters", "f", "kin person sibling"),
    _noun("anna", "anna", "f", "name person"),
    _noun("lena", "lena", "f", "name person"),
    _noun("paul", "paul", "m", "name person"),
    _noun("max", "max", "m", "name person"),
    _noun("hund hunde", "dog dogs", "m", "animal pet"),
    _noun("katze katzen", "cat cats", "f", "animal pet"),
    _noun("pferd pferde", "horse horses", "n", "animal"),
    _noun("vogel vögel", "bird birds", "m", "animal"),
    _noun("buch bücher", "book books", "n", "item aged goods read"),
    _noun("brief briefe", "letter letters", "m", "item read write"),
    _noun("zeitung zeitungen", "newspaper newspapers", "f", "item read goods"),
    _noun("haus häuser", "house houses", "n", "big colour size aged goods neat spot room pretty"),
    _noun("auto autos", "car cars", "n", "big colour size aged goods wash break spot room pretty"),
    _noun("fahrrad fahrräder", "bicycle bicycles", "n", "big colour aged goods wash break"),
    _noun("tisch tische", "table tables", "m", "big colour size aged goods neat break top board"),
    _noun("stuhl stühle", "chair chairs", "m", "big colour size aged goods neat break top"),
    _noun("bett betten", "bed beds", "n", "big size aged goods top"),
    _noun("tür türen", "door doors", "f", "big colour size neat open break spot"),
    _noun("fenster fenster", "window windows", "n", "big size wash open break spot"),
    _noun("flasche flaschen", "bottle bottles", "f", "item size open hold break"),
    _noun("tasche taschen", "bag bags", "f", "item colour size aged goods open hold case pretty"),
    _noun("schlüssel schlüssel", "key keys", "m", "item size"),
    _noun("hemd hemden", "shirt shirts", "n", "item colour aged goods wash pretty"),
    _noun("hut hüte", "hat hats", "m", "item colour size aged goods pretty"),
    _noun("lampe lampen", "lamp lamps", "f", "item colour size aged goods break pretty"),
    _noun("bild bilder", "picture pictures", "n", "item size aged goods pretty"),
    _noun("blume blumen", "flower flowers", "f", "item colour size goods pretty"),
    _noun("baum bäume", "tree trees", "m", "big size spot shade pretty"),
    _noun("apfel äpfel", "apple apples", "m", "food goods fruit"),
    _noun("ei eier", "egg eggs", "n", "food goods"),
    _noun("kartoffel kartoffeln", "potato potatoes", "f", "food goods"),
    _noun("brot", "bread", "n", "food goods"),
    _noun("käse", "cheese", "m", "food goods"),
    _noun("suppe", "soup", "f", "food warm"),
    _noun("fleisch", "meat", "n", "food goods"),
    _noun("wasser", "water", "n", "drink warm"),
    _noun("milch", "milk", "f", "drink goods warm"),
    _noun("kaffee", "coffee", "m", "drink goods warm cup"),
    _noun("tee", "tea", "m", "drink goods warm cup"),
    _noun("bier", "beer", "n", "drink goods cool cup"),
    _noun("cola", "coke", "f", "drink goods cool cup"),
    _place("park", "park", "m", "place outside", to="in to"),
    _place("garten", "garden", "m", "place outside", to="in into"),
    _place("küche", "kitchen", "f", "place", to="in into"),
    _place("stadt", "city", "f", "place", to="in to"),
    _place("hotel", "hotel", "n", "place"),
    _place("markt", "market", "m", "place", at="auf at"),
    _place("bahnhof", "station", "m", "place", at="an at"),
    _place("strand", "beach", "m", "place outside", at="an at"),
)

ADJECTIVES = (
    _adjective("schwarz", "black", "colour animal"),
    _adjective("weiß", "white", "colour animal"),
    _adjective("rot", "red", "colour fruit"),
    _adjective("grün", "green", "colour fruit"),
    _adjective("groß", "big", "size animal fruit place"),
    _adjective("groß", "tall", "person"),
    _adjective("klein", "small", "size animal fruit place"),
    _adjective("neu", "new", "aged"),
    _adjective("alt", "old", "aged animal adult"),
    _adjective("jung", "young", "animal adult"),
    _adjective("teuer", "expensive", "goods", stem="teur"),
    _adjective("billig", "cheap", "goods"),
    _adjective("schön", "beautiful", "place animal pretty"),
    _adjective("sauber", "clean", "wash neat"),
    _adjective("schmutzig", "dirty", "wash neat animal"),
    _adjective("kaputt", "broken", "break"),
    _adjective("offen", "open", "open"),
    _adjective("leer", "empty", "hold"),
    _adjective("krank", "sick", "person animal"),
    _adjective("müde", "tired", "person animal"),
    _adjective("glücklich", "happy", "person"),
    _adjective("traurig", "sad", "person"),
    _adjective("stark", "strong", "person"),
    _adjective("kalt", "cold", "warm cool"),
    _adjective("heiß", "hot", "warm"),
)

THE = Determiner("d", "the", "the", "strong")
THIS = Determiner("dies", "this", "these", "strong")
A = Determiner("ein", "a", None, "mixed")
# The not of kein is with the verb in English: i do not have a dog, i do not drink milk.
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

EAT = _verb("essen esse isst isst gegessen", "eat, eats, ate", "food", "bare")
DRINK = _verb("trinken trinke trinkst trinkt getrunken", "drink, drinks, drank", "drink", "bare")
READ = _verb("lesen lese liest liest gelesen", "read, reads, read", "read", "bare")
BUY = _verb("kaufen kaufe kaufst kauft gekauft", "buy, buys, bought", "goods", "bare")
SELL = _verb("verkaufen verkaufe verkaufst verkauft verkauft", "sell, sells, sold", "goods", "bare")
FIND = _verb("finden finde findest findet gefunden", "find, finds, found", "item pet")
WASH = _verb("waschen wasche wäschst wäscht gewaschen", "wash, washes, washed", "wash", "known")
HAVE = _verb("haben habe hast hat gehabt", "have, has, had", "goods item pet")
LIKE = _verb("mögen mag magst mag gemocht", "like, likes, liked", "food drink animal", "general")
SLEEP = _verb("schlafen schlafe schläfst schläft geschlafen", "sleep, sleeps, slept")
WORK = _verb("arbeiten arbeite arbeitest arbeitet gearbeitet", "work, works, worked")
COME = _verb("kommen komme kommst kommt gekommen", "come, comes, came", be=True)
GO = _verb("gehen gehe gehst geht gegangen", "go, goes, went", be=True)
STAY = _verb("bleiben bleibe bleibst bleibt geblieben", "stay, stays, stayed", be=True)
RISE = _verb(
    "stehen stehe stehst steht gestanden", "get up, gets up, got up", prefix="auf", be=True
)
HELP = _verb(
    *("helfen helfe hilfst hilft geholfen", "help, helps, helped", "person", "known"), case="dative"
)
SEE = _verb("sehen sehe siehst sieht gesehen", "see, sees, saw", "big animal person")
KNOW = _verb("kennen kenne kennst kennt gekannt", "know, knows, knew", "person", "known")
LOVE = _verb("lieben liebe liebst liebt geliebt", "love, loves, loved", "kin name pet", "known")
COST = _verb("kosten koste kostest kostet gekostet", "cost, costs, cost")
CALL = _verb(
    *("rufen rufe rufst ruft gerufen", "call, calls, called", "kin name", "known"), prefix="an"
)

# What one can want to do, be able to do, have to do, have done.
DEEDS = (
    *(EAT, DRINK, READ, BUY, SELL, FIND, WASH, HELP, SEE, CALL),
    _verb("schreiben schreibe schreibst schreibt geschrieben", "write, writes, wrote", "write"),
    _verb("machen mache machst macht gemacht", "open, opens, opened", "open", "known", prefix="auf"),
    _verb("machen mache machst macht gemacht", "close, closes, closed", "open", "known", prefix="zu"),
)
NEED = _verb("brauchen brauche brauchst braucht gebraucht", "need, needs, needed", "goods", "bare")
STATES = (HAVE, NEED, KNOW, LOVE, LIKE)
