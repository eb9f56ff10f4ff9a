"""Languages in BCP 47, and their English names."""

from __future__ import annotations

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


def base(language: str) -> str:
    """The language without its region: `de` of `de-AT`."""
    return language.replace("_", "-").partition("-")[0].lower()
