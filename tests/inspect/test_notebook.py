"""A record in a notebook is HTML that shows its tokens as text and a picture of its attention."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from clearhead.inspect.drawing import label_text
from hostile import HOSTILE
from made_records import SOURCE, TARGET, made_record, words

pytestmark = pytest.mark.slow

MARKUP = (
    *(
        "<script>x</script>",
        "</code><b>",
        '"><img src=x>',
        "&lt;",
        "&amp",
        "<!-- x",
        "]]>",
        "<",
        "&",
    ),
    *("' onload='x", '" onload="x', "javascript:x", "<svg/onload=x>", "</div></div>"),
)


class Page(HTMLParser):
    """The elements, the texts of `code` elements, and the pictures."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.tokens: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "code":
            self.tokens.append("")

    def handle_data(self, data: str) -> None:
        if self.tags[-1] == "code" and self.lasttag == "code":
            self.tokens[-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "code":
            self.tags.append("")


def pictures(page: Page) -> list[Image.Image]:
    found = []
    for name, value in page.attributes:
        if name in ("src", "srcset"):
            kind, _, content = str(value).partition(",")
            assert kind == "data:image/png;base64"
            found.append(Image.open(BytesIO(base64.b64decode(content))))
    return found


@pytest.mark.parametrize("target", [TARGET, ()])
def test_it_shows_tokens_and_a_light_and_a_dark_picture(target: tuple[str, ...]) -> None:
    page = Page(made_record(target=target)._repr_html_())
    assert page.tokens == [*SOURCE, *target]
    dark, light = pictures(page)
    assert np.asarray(dark.convert("RGB"))[2, 2].max() < 80
    assert light.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
    assert max(dark.size) < 1500
    assert [value for name, value in page.attributes if name == "media"]


def test_no_token_is_markup() -> None:
    texts = (*MARKUP, *HOSTILE)
    page = Page(made_record(texts, texts, layers=1, heads=1)._repr_html_())
    shown = [label_text(text) for text in texts][:60]
    assert page.tokens == shown * 2
    assert {name for name, _ in page.attributes} == {"media", "srcset", "src", "style", "alt"}
    assert set(page.tags) == {"div", "b", "br", "code", "", "picture", "source", "img"}


def test_a_long_record_is_shown_in_part() -> None:
    content = made_record(words(200), (), layers=1)._repr_html_()
    assert len(Page(content).tokens) == 60
    assert "200 in all" in content
