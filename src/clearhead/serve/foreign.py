"""What the APIs of LibreTranslate and DeepL share: names of languages, and lists of texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi import Request

from clearhead.api.service import Service, Ticket
from clearhead.errors import DataError
from clearhead.serve.models import UnknownError, base
from clearhead.serve.server import Server
from clearhead.text.documents import FORMATS, Format, Result, format_of

_NAMES = (
    "aa Afar, ab Abkhazian, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, "
    "as Assamese, ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bm Bambara, "
    "bn Bengali, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, co Corsican, cs Czech, "
    "cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha, ee Ewe, el Greek, "
    "en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, ff Fulah, "
    "fi Finnish, fj Fijian, fo Faroese, fr French, fy Western Frisian, ga Irish, "
    "gd Scottish Gaelic, gl Galician, gn Guarani, gu Gujarati, gv Manx, ha Hausa, he Hebrew, "
    "hi Hindi, hr Croatian, ht Haitian Creole, hu Hungarian, hy Armenian, ia Interlingua, "
    "id Indonesian, ig Igbo, io Ido, is Icelandic, it Italian, iu Inuktitut, ja Japanese, "
    "jv Javanese, ka Georgian, kg Kongo, ki Kikuyu, kk Kazakh, kl Kalaallisut, km Khmer, "
    "kn Kannada, ko Korean, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin, "
    "lb Luxembourgish, lg Ganda, li Limburgish, ln Lingala, lo Lao, lt Lithuanian, lv Latvian, "
    "mg Malagasy, mi Maori, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, "
    "mt Maltese, my Burmese, nb Norwegian Bokmål, ne Nepali, nl Dutch, nn Norwegian Nynorsk, "
    "no Norwegian, nv Navajo, ny Chichewa, oc Occitan, oj Ojibwa, om Oromo, or Odia, os Ossetian, "
    "pa Punjabi, pl Polish, ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi, "
    "ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit, sc Sardinian, sd Sindhi, "
    "se Northern Sami, sg Sango, si Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn Shona, "
    "so Somali, sq Albanian, sr Serbian, ss Swati, st Sesotho, su Sundanese, sv Swedish, "
    "sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog, "
    "tn Tswana, to Tongan, tr Turkish, ts Tsonga, tt Tatar, ty Tahitian, ug Uyghur, uk Ukrainian, "
    "ur Urdu, uz Uzbek, ve Venda, vi Vietnamese, wa Walloon, wo Wolof, xh Xhosa, yi Yiddish, "
    "yo Yoruba, za Zhuang, zh Chinese, zu Zulu"
)
LANGUAGES = {each[:2]: each[3:] for each in _NAMES.split(", ")}
"""The English names of languages, by their codes in ISO 639-1."""


def name_of(language: str) -> str:
    """The English name of a language in BCP 47; its code if it has none."""
    region = language.replace("_", "-").partition("-")[2]
    name = LANGUAGES.get(base(language), base(language))
    return f"{name} ({region})" if region else name


class Chosen(NamedTuple):
    """The translator of a text, the source language, and its probability if it was detected."""

    name: str
    service: Service
    source: str
    probability: float | None = None


def choose(server: Server, text: str, source: str | None, target: str) -> Chosen:
    """The translator of a text; without a source language, by the language that it is in.

    Raises:
        DataError: there is none.
    """
    probability = None
    if source is None:
        source, probability = next(iter(server.models.detect(text, target)), ("any language", 0.0))
    try:
        return Chosen(*server.models.translating(source, target), source, probability)
    except UnknownError as error:
        raise DataError(error.what, why=error.why) from None


async def translate(
    server: Server,
    request: Request,
    client: str,
    texts: Sequence[str],
    languages: tuple[str | None, str],
    format: str | Format,
    **options: Any,
) -> list[tuple[Chosen, list[Result]]]:
    """Each text in the target language; its translator, and what `Service.translate_texts` gives.

    Raises:
        DataError: there is no translator.
    """

    def choose_each() -> list[Chosen]:
        return [choose(server, text, *languages) for text in texts]

    chosen = await asyncio.to_thread(choose_each)
    results = dict[int, list[Result]]()
    for name, service in {each.name: each.service for each in chosen}.items():
        numbers = [n for n, each in enumerate(chosen) if each.name == name]
        own = [texts[n] for n in numbers]
        server.note(request, name, own)

        def work(ticket: Ticket, service: Service = service, own: list[str] = own) -> Any:
            normalise = server.settings.normalise
            return service.translate_texts(
                own, format, normalise=normalise, ticket=ticket, **options
            )

        found = await server.run(request, service, client, work)
        results.update(zip(numbers, found, strict=True))
    return [(each, results[n]) for n, each in enumerate(chosen)]


def document_format(name: str) -> str:
    """The format of a document, by its name.

    Raises:
        DataError: the name shows none.
    """
    if (found := format_of(name)) is None:
        raise DataError("the name shows no format", why=f"the formats are {', '.join(FORMATS)}")
    return found
