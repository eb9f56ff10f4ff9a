"""The words of the English-Spanish grammar and their forms.

Kinds say what goes with what: an adjective lists the kinds of noun that it can describe, a verb
the kinds that it takes as an object. Words are compared by identity: each is defined once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasebook.english import NUMBERS

Gender = Literal["m", "f"]
Forms = tuple[str, str, str, str]  # masculine, feminine, and the plurals of both

# Adjectives that do not go with very.
NOT_GRADABLE = {"black", "white", "red", "green", "open", "closed", "broken", "empty", "delicious"}
# Present tense of regular verbs: yo, tú, él, nosotros, ellos.
ENDINGS = {
    "ar": ("o", "as", "a", "amos", "an"),
    "er": ("o", "es", "e", "emos", "en"),
    "ir": ("o", "es", "e", "imos", "en"),
}


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun. `plurals` (English, Spanish) is None for mass nouns, relatives and names.

    `stressed_a`: a feminine noun that takes the article el (el agua fría).
    """

    english: str
    spanish: str
    gender: Gender
    kinds: frozenset[str]
    plurals: tuple[str, str] | None
    stressed_a: bool


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective, and its verb for to be; `gradable`: it can follow very."""

    english: str
    spanish: Forms
    be: Literal["ser", "estar"]
    suits: frozenset[str]
    gradable: bool


@dataclass(frozen=True, eq=False)
class Determiner:
    """A word before a noun, singular and plural; None where English cannot use it."""

    english: str | None
    plural: str | None
    spanish: Forms


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: English base form and third person, Spanish infinitive and present tense.

    `usage` lists `personal` (takes the personal a), `bare` (also takes objects without an article:
    eat apples) and `known` (takes only definite objects: open the door, not a door).
    """

    english: str
    third: str
    infinitive: str
    present: tuple[str, ...]
    objects: frozenset[str]
    usage: frozenset[str]


def agree(forms: Forms, gender: Gender, plural: bool) -> str:
    """The form that agrees with a noun of this gender and number."""
    return forms[2 * plural + (gender == "f")]


def conjugate(infinitive: str, strong: str = "", first: str = "") -> tuple[str, ...]:
    """The present tense; `strong`: the stressed stem; `first`: an irregular first person."""
    weak, ending = infinitive[:-2], infinitive[-2:]
    stems = [strong or weak] * 5
    stems[3] = weak
    forms = [stem + end for stem, end in zip(stems, ENDINGS[ending], strict=True)]
    return (first or forms[0], *forms[1:])


def make_noun(
    english: str, spanish: str, gender: Gender, kinds: str, stressed_a: bool = False
) -> Noun:
    """A noun from `singular plural` in both languages, or from the singulars alone."""
    one, *many = english.split()
    uno, *muchos = spanish.split()
    plurals = (many[0], muchos[0]) if many else None
    return Noun(one, uno, gender, _set(kinds), plurals, stressed_a)


def make_adjective(
    english: str, spanish: str, be: Literal["ser", "estar"], suits: str
) -> Adjective:
    """An adjective from its masculine in -o, or from singular and plural if it has no gender."""
    one, *many = spanish.split()
    stem = one.removesuffix("o")
    forms = (one, one, *many, *many) if many else (one, stem + "a", stem + "os", stem + "as")
    gradable = english not in NOT_GRADABLE
    return Adjective(english, (forms[0], forms[1], forms[2], forms[3]), be, _set(suits), gradable)


def make_verb(
    english: str,
    infinitive: str,
    objects: str = "",
    usage: str = "",
    *,
    strong: str = "",
    first: str = "",
) -> Verb:
    """A verb from `base third` and the infinitive; `strong` and `first` as in `conjugate`."""
    base, third = english.split()
    present = conjugate(infinitive, strong, first)
    return Verb(base, third, infinitive, present, _set(objects), _set(usage))


def make_determiner(english: str, plural: str, spanish: str) -> Determiner:
    """A determiner from its English singular and plural and its four Spanish forms."""
    ms, fs, mp, fp = spanish.split()
    return Determiner(english, plural, (ms, fs, mp, fp))


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# ---- The words


NOUNS = (
    make_noun("boy boys", "niño niños", "m", "person"),
    make_noun("girl girls", "niña niñas", "f", "person"),
    make_noun("man men", "hombre hombres", "m", "person adult"),
    make_noun("woman women", "mujer mujeres", "f", "person adult"),
    make_noun("mother", "madre", "f", "kin person adult"),
    make_noun("father", "padre", "m", "kin person adult"),
    make_noun("brother brothers", "hermano hermanos", "m", "kin person sibling"),
    make_noun("sister sisters", "hermana hermanas", "f", "kin person sibling"),
    make_noun("ana", "ana", "f", "name person"),
    make_noun("laura", "laura", "f", "name person"),
    make_noun("pedro", "pedro", "m", "name person"),
    make_noun("david", "david", "m", "name person"),
    make_noun("cat cats", "gato gatos", "m", "animal pet"),
    make_noun("dog dogs", "perro perros", "m", "animal pet"),
    make_noun("rabbit rabbits", "conejo conejos", "m", "animal pet"),
    make_noun("horse horses", "caballo caballos", "m", "animal"),
    make_noun("cow cows", "vaca vacas", "f", "animal"),
    make_noun("bird birds", "pájaro pájaros", "m", "animal"),
    make_noun("book books", "libro libros", "m", "item read aged goods content"),
    make_noun("letter letters", "carta cartas", "f", "item read write content"),
    make_noun("newspaper newspapers", "periódico periódicos", "m", "item read goods content"),
    make_noun("photo photos", "foto fotos", "f", "item aged content pretty"),
    make_noun("map maps", "mapa mapas", "m", "item aged goods content"),
    make_noun(
        "house houses", "casa casas", "f", "big colour size aged goods neat pretty spot room home"
    ),
    make_noun(
        "car cars", "coche coches", "m", "big colour size aged goods wash pretty spot room home"
    ),
    make_noun("bicycle bicycles", "bicicleta bicicletas", "f", "big colour aged goods wash break"),
    make_noun("table tables", "mesa mesas", "f", "big colour size aged goods neat break top board"),
    make_noun("chair chairs", "silla sillas", "f", "big colour size aged goods neat break top"),
    make_noun("bed beds", "cama camas", "f", "big size aged goods break top"),
    make_noun("door doors", "puerta puertas", "f", "big colour size neat open shut spot"),
    make_noun("window windows", "ventana ventanas", "f", "big size wash open shut break"),
    make_noun("box boxes", "caja cajas", "f", "item colour size open shut hold case"),
    make_noun("bottle bottles", "botella botellas", "f", "item size open shut hold break wash"),
    make_noun("key keys", "llave llaves", "f", "item size"),
    make_noun("shirt shirts", "camisa camisas", "f", "item colour aged goods wash pretty"),
    make_noun("hat hats", "sombrero sombreros", "m", "item colour size aged goods pretty"),
    make_noun("shoe shoes", "zapato zapatos", "m", "item colour aged goods wash pretty"),
    make_noun("flower flowers", "flor flores", "f", "item colour size pretty"),
    make_noun("tree trees", "árbol árboles", "m", "big size pretty spot shade"),
    make_noun("apple apples", "manzana manzanas", "f", "food goods fruit"),
    make_noun("tomato tomatoes", "tomate tomates", "m", "food goods fruit"),
    make_noun("egg eggs", "huevo huevos", "m", "food goods"),
    make_noun("bread", "pan", "m", "food goods"),
    make_noun("cheese", "queso", "m", "food goods"),
    make_noun("meat", "carne", "f", "food goods warm"),
    make_noun("soup", "sopa", "f", "food warm"),
    make_noun("rice", "arroz", "m", "food goods warm"),
    make_noun("water", "agua", "f", "drink warm", stressed_a=True),
    make_noun("milk", "leche", "f", "drink goods warm"),
    make_noun("coffee", "café", "m", "drink goods warm"),
    make_noun("tea", "té", "m", "drink goods warm"),
    make_noun("juice", "zumo", "m", "drink goods"),
    make_noun("park parks", "parque parques", "m", "place outside town size pretty"),
    make_noun("garden gardens", "jardín jardines", "m", "place outside size pretty"),
    make_noun("street streets", "calle calles", "f", "place outside size pretty"),
    make_noun("beach beaches", "playa playas", "f", "place outside town size pretty spot"),
    make_noun("kitchen kitchens", "cocina cocinas", "f", "place room home size pretty"),
    make_noun("school schools", "escuela escuelas", "f", "place room town size aged spot"),
    make_noun("hotel hotels", "hotel hoteles", "m", "place room town size aged spot price"),
    make_noun("city cities", "ciudad ciudades", "f", "place town size pretty"),
    make_noun("world", "mundo", "m", "world size pretty"),
)

ADJECTIVES = (
    make_adjective("black", "negro", "ser", "colour animal"),
    make_adjective("white", "blanco", "ser", "colour animal"),
    make_adjective("red", "rojo", "ser", "colour fruit"),
    make_adjective("green", "verde verdes", "ser", "colour fruit"),
    make_adjective("big", "grande grandes", "ser", "size animal fruit"),
    make_adjective("small", "pequeño", "ser", "size animal fruit"),
    make_adjective("new", "nuevo", "ser", "aged"),
    make_adjective("old", "viejo", "ser", "aged animal adult"),
    make_adjective("expensive", "caro", "ser", "goods price"),
    make_adjective("cheap", "barato", "ser", "goods price"),
    make_adjective("beautiful", "bonito", "ser", "pretty animal"),
    make_adjective("interesting", "interesante interesantes", "ser", "content"),
    make_adjective("tall", "alto", "ser", "person"),
    make_adjective("young", "joven jóvenes", "ser", "adult animal"),
    make_adjective("intelligent", "inteligente inteligentes", "ser", "person animal"),
    make_adjective("clean", "limpio", "estar", "wash neat place animal"),
    make_adjective("dirty", "sucio", "estar", "wash neat place animal"),
    make_adjective("open", "abierto", "estar", "open"),
    make_adjective("closed", "cerrado", "estar", "open"),
    make_adjective("broken", "roto", "estar", "break"),
    make_adjective("empty", "vacío", "estar", "hold"),
    make_adjective("happy", "feliz felices", "estar", "person"),
    make_adjective("sad", "triste tristes", "estar", "person"),
    make_adjective("sick", "enfermo", "estar", "person animal"),
    make_adjective("tired", "cansado", "estar", "person animal"),
    make_adjective("cold", "frío", "estar", "warm"),
    make_adjective("hot", "caliente calientes", "estar", "warm"),
    make_adjective("delicious", "delicioso", "estar", "food"),
)

THE = make_determiner("the", "the", "el la los las")
A = Determiner("a", None, ("un", "una", "", ""))
THIS = make_determiner("this", "these", "este esta estos estas")
THAT = make_determiner("that", "those", "ese esa esos esas")
OWNERS = (
    make_determiner("my", "my", "mi mi mis mis"),
    make_determiner("your", "your", "tu tu tus tus"),
    make_determiner("his", "his", "su su sus sus"),
    make_determiner("her", "her", "su su sus sus"),
    make_determiner("our", "our", "nuestro nuestra nuestros nuestras"),
)
BARE = Determiner("", "", ("", "", "", ""))
COUNTS = tuple(
    Determiner(None, english, (number, number, number, number))
    for english, number in zip(
        NUMBERS, "dos tres cuatro cinco seis siete ocho nueve diez".split(), strict=True
    )
)

EAT = make_verb("eat eats", "comer", "food", "bare")
DRINK = make_verb("drink drinks", "beber", "drink", "bare")
READ = make_verb("read reads", "leer", "read", "bare")
BUY = make_verb("buy buys", "comprar", "goods", "bare")
HAVE = make_verb("have has", "tener", "goods item pet", strong="tien", first="tengo")
WANT = make_verb("want wants", "querer", "goods pet", "bare", strong="quier")
NEED = make_verb("need needs", "necesitar", "goods", "bare")
SEE = make_verb("see sees", "ver", "item big person animal place world", "personal", first="veo")
KNOW = make_verb("know knows", "conocer", "person town", "personal known", first="conozco")
HELP = make_verb("help helps", "ayudar", "person", "personal known")
LOVE = make_verb("love loves", "amar", "kin pet name", "personal known")
WASH = make_verb("wash washes", "lavar", "wash", "known")
WORK = make_verb("work works", "trabajar")
PLAY = make_verb("play plays", "jugar", strong="jueg")
SLEEP = make_verb("sleep sleeps", "dormir", strong="duerm")
LIVE = make_verb("live lives", "vivir")
COST = make_verb("cost costs", "costar", strong="cuest")

# What one can want to do, be able to do, have to do.
DEEDS = (
    *(EAT, DRINK, READ, BUY, SEE, HELP, WASH),
    make_verb("write writes", "escribir", "write", "bare"),
    make_verb("sell sells", "vender", "goods", "bare"),
    make_verb("open opens", "abrir", "shut", "known"),
    make_verb("close closes", "cerrar", "shut", "known", strong="cierr"),
)
ACTIONS = (*DEEDS, HAVE, WANT, NEED, KNOW, LOVE)
