"""The words of the English-Spanish grammar.

Kinds say what goes with what: an adjective lists the kinds of noun that it suits, a verb the
kinds that it takes as an object. So nobody drinks a chair here, and no soup is young.

Words are compared by identity: each is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clearhead.data.phrasebook.english import NUMBERS

Gender = Literal["m", "f"]
Forms = tuple[str, str, str, str]  # masculine, feminine, and the plurals of both

# Present tense of regular verbs: yo, tú, él, nosotros, ellos.
ENDINGS = {
    "ar": ("o", "as", "a", "amos", "an"),
    "er": ("o", "es", "e", "emos", "en"),
    "ir": ("o", "es", "e", "imos", "en"),
}


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun; one without plurals (English, Spanish) is a mass noun, a relative or a name.

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
    """An adjective, and which verb it takes for to be; `gradable`: it can be very so."""

    english: str
    spanish: Forms
    be: Literal["ser", "estar"]
    suits: frozenset[str]
    gradable: bool


@dataclass(frozen=True, eq=False)
class Determiner:
    """What stands before a noun, singular and plural; None where English cannot use it."""

    english: str | None
    plural: str | None
    spanish: Forms


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: English base form and third person, Spanish infinitive and present tense.

    Its manners are words: `personal` takes the personal a, `bare` likes objects without article
    (eat apples), `known` only has objects that are known (open the door, not a door).
    """

    english: str
    third: str
    infinitive: str
    present: tuple[str, ...]
    objects: frozenset[str]
    manners: frozenset[str]


def agree(forms: Forms, gender: Gender, plural: bool) -> str:
    """The form that agrees with a noun of this gender and number."""
    return forms[2 * plural + (gender == "f")]


def conjugate(infinitive: str, strong: str = "", first: str = "") -> tuple[str, ...]:
    """The present tense; `strong` is the stem where it is stressed, `first` an odd first person."""
    weak, ending = infinitive[:-2], infinitive[-2:]
    stems = [strong or weak] * 5
    stems[3] = weak
    forms = [stem + end for stem, end in zip(stems, ENDINGS[ending], strict=True)]
    return (first or forms[0], *forms[1:])


def _noun(english: str, spanish: str, gender: Gender, kinds: str, stressed_a: bool = False) -> Noun:
    one, *many = english.split()
    uno, *muchos = spanish.split()
    plurals = (many[0], muchos[0]) if many else None
    return Noun(one, uno, gender, frozenset(kinds.split()), plurals, stressed_a)


def _adjective(english: str, spanish: str, be: Literal["ser", "estar"], suits: str) -> Adjective:
    """From the masculine in -o, or from singular and plural that serve both genders."""
    one, *many = spanish.split()
    stem = one.removesuffix("o")
    forms = (one, one, *many, *many) if many else (one, stem + "a", stem + "os", stem + "as")
    gradable = english not in NOT_GRADABLE
    return Adjective(english, (forms[0], forms[1], forms[2], forms[3]), be, _set(suits), gradable)


def _verb(
    english: str,
    infinitive: str,
    objects: str = "",
    manners: str = "",
    *,
    strong: str = "",
    first: str = "",
) -> Verb:
    base, third = english.split()
    present = conjugate(infinitive, strong, first)
    return Verb(base, third, infinitive, present, _set(objects), _set(manners))


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _determiner(english: str, plural: str, spanish: str) -> Determiner:
    ms, fs, mp, fp = spanish.split()
    return Determiner(english, plural, (ms, fs, mp, fp))


NOT_GRADABLE = {"black", "white", "red", "green", "open", "closed", "broken", "empty", "delicious"}

NOUNS = (
    _noun("boy boys", "niño niños", "m", "person"),
    _noun("girl girls", "niña niñas", "f", "person"),
    _noun("man men", "hombre hombres", "m", "person adult"),
    _noun("woman women", "mujer mujeres", "f", "person adult"),
    _noun("mother", "madre", "f", "kin person adult"),
    _noun("father", "padre", "m", "kin person adult"),
    _noun("brother brothers", "hermano hermanos", "m", "kin person sibling"),
    _noun("sister sisters", "hermana hermanas", "f", "kin person sibling"),
    _noun("ana", "ana", "f", "name person"),
    _noun("laura", "laura", "f", "name person"),
    _noun("pedro", "pedro", "m", "name person"),
    _noun("david", "david", "m", "name person"),
    _noun("cat cats", "gato gatos", "m", "animal pet"),
    _noun("dog dogs", "perro perros", "m", "animal pet"),
    _noun("rabbit rabbits", "conejo conejos", "m", "animal pet"),
    _noun("horse horses", "caballo caballos", "m", "animal"),
    _noun("cow cows", "vaca vacas", "f", "animal"),
    _noun("bird birds", "pájaro pájaros", "m", "animal"),
    _noun("book books", "libro libros", "m", "item read aged goods content"),
    _noun("letter letters", "carta cartas", "f", "item read write content"),
    _noun("newspaper newspapers", "periódico periódicos", "m", "item read goods content"),
    _noun("photo photos", "foto fotos", "f", "item aged content pretty"),
    _noun("map maps", "mapa mapas", "m", "item aged goods content"),
    _noun(
        "house houses", "casa casas", "f", "big colour size aged goods neat pretty spot room home"
    ),
    _noun("car cars", "coche coches", "m", "big colour size aged goods wash pretty spot room home"),
    _noun("bicycle bicycles", "bicicleta bicicletas", "f", "big colour aged goods wash break"),
    _noun("table tables", "mesa mesas", "f", "big colour size aged goods neat break top board"),
    _noun("chair chairs", "silla sillas", "f", "big colour size aged goods neat break top"),
    _noun("bed beds", "cama camas", "f", "big size aged goods break top"),
    _noun("door doors", "puerta puertas", "f", "big colour size neat open shut spot"),
    _noun("window windows", "ventana ventanas", "f", "big size wash open shut break"),
    _noun("box boxes", "caja cajas", "f", "item colour size open shut hold case"),
    _noun("bottle bottles", "botella botellas", "f", "item size open shut hold break wash"),
    _noun("key keys", "llave llaves", "f", "item size"),
    _noun("shirt shirts", "camisa camisas", "f", "item colour aged goods wash pretty"),
    _noun("hat hats", "sombrero sombreros", "m", "item colour size aged goods pretty"),
    _noun("shoe shoes", "zapato zapatos", "m", "item colour aged goods wash pretty"),
    _noun("flower flowers", "flor flores", "f", "item colour size pretty"),
    _noun("tree trees", "árbol árboles", "m", "big size pretty spot shade"),
    _noun("apple apples", "manzana manzanas", "f", "food goods fruit"),
    _noun("tomato tomatoes", "tomate tomates", "m", "food goods fruit"),
    _noun("egg eggs", "huevo huevos", "m", "food goods"),
    _noun("bread", "pan", "m", "food goods"),
    _noun("cheese", "queso", "m", "food goods"),
    _noun("meat", "carne", "f", "food goods warm"),
    _noun("soup", "sopa", "f", "food warm"),
    _noun("rice", "arroz", "m", "food goods warm"),
    _noun("water", "agua", "f", "drink warm", stressed_a=True),
    _noun("milk", "leche", "f", "drink goods warm"),
    _noun("coffee", "café", "m", "drink goods warm"),
    _noun("tea", "té", "m", "drink goods warm"),
    _noun("wine", "vino", "m", "drink goods"),
    _noun("juice", "zumo", "m", "drink goods"),
    _noun("park parks", "parque parques", "m", "place outside town size pretty"),
    _noun("garden gardens", "jardín jardines", "m", "place outside size pretty"),
    _noun("street streets", "calle calles", "f", "place outside size pretty"),
    _noun("beach beaches", "playa playas", "f", "place outside town size pretty spot"),
    _noun("kitchen kitchens", "cocina cocinas", "f", "place room home size pretty"),
    _noun("school schools", "escuela escuelas", "f", "place room town size aged open spot"),
    _noun("hotel hotels", "hotel hoteles", "m", "place room town size aged open spot price"),
    _noun("city cities", "ciudad ciudades", "f", "place town size pretty"),
    _noun("world", "mundo", "m", "world size pretty"),
)

ADJECTIVES = (
    _adjective("black", "negro", "ser", "colour animal"),
    _adjective("white", "blanco", "ser", "colour animal"),
    _adjective("red", "rojo", "ser", "colour fruit"),
    _adjective("green", "verde verdes", "ser", "colour fruit"),
    _adjective("big", "grande grandes", "ser", "size animal fruit"),
    _adjective("small", "pequeño", "ser", "size animal fruit"),
    _adjective("new", "nuevo", "ser", "aged"),
    _adjective("old", "viejo", "ser", "aged animal adult"),
    _adjective("expensive", "caro", "ser", "goods price"),
    _adjective("cheap", "barato", "ser", "goods price"),
    _adjective("beautiful", "bonito", "ser", "pretty animal"),
    _adjective("interesting", "interesante interesantes", "ser", "content"),
    _adjective("tall", "alto", "ser", "person"),
    _adjective("young", "joven jóvenes", "ser", "adult animal"),
    _adjective("intelligent", "inteligente inteligentes", "ser", "person animal"),
    _adjective("rich", "rico", "ser", "adult"),
    _adjective("clean", "limpio", "estar", "wash neat place animal"),
    _adjective("dirty", "sucio", "estar", "wash neat place animal"),
    _adjective("open", "abierto", "estar", "open"),
    _adjective("closed", "cerrado", "estar", "open"),
    _adjective("broken", "roto", "estar", "break"),
    _adjective("empty", "vacío", "estar", "hold"),
    _adjective("happy", "feliz felices", "estar", "person"),
    _adjective("sad", "triste tristes", "estar", "person"),
    _adjective("sick", "enfermo", "estar", "person animal"),
    _adjective("tired", "cansado", "estar", "person animal"),
    _adjective("cold", "frío", "estar", "warm"),
    _adjective("hot", "caliente calientes", "estar", "warm"),
    _adjective("delicious", "delicioso", "estar", "food"),
)

THE = _determiner("the", "the", "el la los las")
A = Determiner("a", None, ("un", "una", "", ""))
THIS = _determiner("this", "these", "este esta estos estas")
THAT = _determiner("that", "those", "ese esa esos esas")
OWNERS = (
    _determiner("my", "my", "mi mi mis mis"),
    _determiner("your", "your", "tu tu tus tus"),
    _determiner("his", "his", "su su sus sus"),
    _determiner("her", "her", "su su sus sus"),
    _determiner("our", "our", "nuestro nuestra nuestros nuestras"),
)
BARE = Determiner("", "", ("", "", "", ""))
COUNTS = tuple(
    Determiner(None, english, (number, number, number, number))
    for english, number in zip(
        NUMBERS, "dos tres cuatro cinco seis siete ocho nueve diez".split(), strict=True
    )
)

EAT = _verb("eat eats", "comer", "food", "bare")
DRINK = _verb("drink drinks", "beber", "drink", "bare")
READ = _verb("read reads", "leer", "read", "bare")
BUY = _verb("buy buys", "comprar", "goods", "bare")
HAVE = _verb("have has", "tener", "goods item pet", strong="tien", first="tengo")
WANT = _verb("want wants", "querer", "goods pet", "bare", strong="quier")
NEED = _verb("need needs", "necesitar", "goods", "bare")
SEE = _verb("see sees", "ver", "item big person animal place", "personal", first="veo")
KNOW = _verb("know knows", "conocer", "person town", "personal known", first="conozco")
HELP = _verb("help helps", "ayudar", "person", "personal known")
LOVE = _verb("love loves", "amar", "kin pet name", "personal known")
WASH = _verb("wash washes", "lavar", "wash", "known")
WORK = _verb("work works", "trabajar")
PLAY = _verb("play plays", "jugar", strong="jueg")
SLEEP = _verb("sleep sleeps", "dormir", strong="duerm")
LIVE = _verb("live lives", "vivir")
COST = _verb("cost costs", "costar", strong="cuest")

# What one can want to do, be able to do, have to do.
DEEDS = (
    *(EAT, DRINK, READ, BUY, SEE, HELP, WASH),
    _verb("write writes", "escribir", "write", "bare"),
    _verb("sell sells", "vender", "goods", "bare"),
    _verb("open opens", "abrir", "shut", "known"),
    _verb("close closes", "cerrar", "shut", "known", strong="cierr"),
)
ACTIONS = (*DEEDS, HAVE, WANT, NEED, KNOW, LOVE)
