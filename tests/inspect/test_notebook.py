"""A record in a notebook is a table that shows its tokens as text and its attention."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

from hostile import HOSTILE
from made_records import SOURCE, TARGET, made_record, words

MARKUP = (
    *("<script>x</script>", "</th><b>", '"><img src=x>', "&lt;", "&amp", "<!-- x", "]]>", "<"),
    *("&", "' onload='x", '" onload="x', "javascript:x", "<svg/onload=x>", "</table></div>"),
)


class Page(HTMLParser):
    """The elements, their attributes, and the texts of headers and cells."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: dict[str, list[str]] = {"th": [], "td": [], "caption": []}
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open = tag
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_data(self, data: str) -> None:
        self.texts[self.open][-1] += data


@pytest.mark.parametrize("target", [TARGET, ()])
def test_it_shows_tokens_and_weights(target: tuple[str, ...]) -> None:
    record = made_record(target=target)
    texts = Page(record._repr_html_()).texts
    assert texts["th"] == [*SOURCE, *(target or SOURCE)]
    weights = record.cross_attentions if target else record.encoder_attentions
    shown = np.array([float(text) for text in texts["td"][1:]])
    np.testing.assert_allclose(shown, weights[-1].mean(axis=0).flatten(), atol=0.005)


def test_no_token_is_markup() -> None:
    tokens = (*MARKUP, *HOSTILE)[:60]
    page = Page(made_record(tokens, tokens, layers=1, heads=1)._repr_html_())
    assert page.texts["th"] == [*tokens] * 2
    assert page.attributes == {"style"}
    assert page.tags == {"table", "caption", "tr", "th", "td"}


def test_a_long_record_is_shown_in_part() -> None:
    texts = Page(made_record(words(200), (), layers=1)._repr_html_()).texts
    assert (len(texts["th"]), len(texts["td"])) == (120, 3601)
    assert "200" in texts["caption"][0]
