"""The plural forms of languages, by the rules in the headers of files of gettext.

For a file without a rule there is a table. Its rules are those that gettext's own programs propose,
and for languages that they lack, those of the Unicode CLDR for whole numbers.
"""

from __future__ import annotations

import re
from gettext import c2py

from clearhead.errors import DataError

_SLAVIC = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"

_RULES = {
    "nplurals=1; plural=0": "ja zh ko vi th id ms lo km my",
    "nplurals=2; plural=(n > 1)": "fr pt_BR fa hi am bn gu kn hy ln oc ti wa zu",
    f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {_SLAVIC})": "ru uk be sr hr bs",
    f"nplurals=3; plural=(n==1 ? 0 : {_SLAVIC})": "pl",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2)": "cs sk",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 "
    ": 2)": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2)": "lv",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100>0 && n%100<20)) ? 1 : 2)": "ro mo",
    "nplurals=3; plural=(n==1 ? 0 : n==2 ? 1 : 2)": "ga",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3)": "sl",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
    "n%100>=11 ? 4 : 5)": "ar",
    "nplurals=2; plural=(n%10!=1 || n%100==11)": "is mk",
    "nplurals=2; plural=(n != 1)": "en de nl sv da no nb nn fo es pt it bg el fi et he eo hu tr ca "
    "gl eu af sq ta te ml mr ne ur ka az sw kk ky mn uz tk ast",
}
_BY_LANGUAGE = {code: rule for rule, codes in _RULES.items() for code in codes.split()}


def plural_rule(language: str) -> str | None:
    """The `Plural-Forms` of a language in BCP 47, None if it is not known here."""
    code = language.replace("-", "_")
    return _BY_LANGUAGE.get(code) or _BY_LANGUAGE.get(code.partition("_")[0].lower())


def form_of_one(rule: str, where: str) -> tuple[int, bool]:
    """The number of the form that 1 has, by the header's `Plural-Forms`, and if no other has it."""
    found = re.search(r"plural\s*=\s*([^;]+)", rule)
    if found is None or found[1].strip() == "EXPRESSION":
        return 0, True
    try:
        form = c2py(found[1])
        return form(1), all(form(n) != form(1) for n in range(200) if n != 1)
    except (ValueError, RecursionError, ArithmeticError):
        what, todo = "the rule of plural forms is wrong", "mend Plural-Forms in the header"
        raise DataError(what, where=where, why=found[1].strip(), todo=todo) from None
