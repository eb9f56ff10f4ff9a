"""How a record shows itself in a notebook: its tokens, and a picture of its attention."""

from __future__ import annotations

import base64
import html
from io import BytesIO

from clearhead.inspect.drawing import DARK, LIGHT, Theme, fixed_settings, label_text
from clearhead.inspect.figures import heads_figure
from clearhead.inspect.heads import Attention
from clearhead.inspect.record import Record

RESOLUTION = 80
"""Points in an inch: the picture is a preview."""

SHOWN = 60
"""Tokens that are written out."""


def record_html(record: Record) -> str:
    """HTML without scripts and links: a line of facts, the tokens, and every head of one kind.

    That is the cross-attention, or the self-attention of an encoder without a decoder. The picture
    follows the light or dark setting of the browser, on a background of its own.
    """
    heads = len(record.encoder[0].attention)
    facts = f"Record: {len(record.encoder)} encoder layers, {len(record.decoder)} decoder layers"
    lines = [f"<b>{facts}, {heads} heads</b>", _tokens("source", record.source)]
    if record.decoder:
        lines.append(_tokens("target", record.target))
    kind: Attention = "cross" if record.decoder else "encoder"
    what = "Cross-attention" if record.decoder else "Encoder self-attention"
    dark, light = (_png(record, kind, theme) for theme in (DARK, LIGHT))
    picture = (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" style="max-width: 100%" '
        f'alt="{what}: a heat map for every head of every layer"></picture>'
    )
    return "<div>" + "<br>".join(lines) + f"<br>{picture}</div>"


def _tokens(side: str, names: tuple[str, ...]) -> str:
    shown = " ".join(f"<code>{html.escape(label_text(name))}</code>" for name in names[:SHOWN])
    more = f" … ({len(names):,} in all)" if len(names) > SHOWN else ""
    return f"{side}: {shown}{more}"


def _png(record: Record, kind: Attention, theme: Theme) -> str:
    """The picture as the address of an image."""
    content = BytesIO()
    with fixed_settings():
        heads_figure(record, kind, theme).savefig(content, format="png", dpi=RESOLUTION)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
