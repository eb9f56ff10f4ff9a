"""Where the panels of a picture stand, in inches from its upper left corner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.inspect.labels import text_width

POINTS = 72.0  # in an inch
SIDE_SIZE = 9.0  # points of what stands beside a panel: its title, the names of its sides
GAP, HEADING, BAR_WIDTH, HIGHEST_BAR = 0.25, 0.3, 0.16, 5.0  # inches


def side_length(text: str) -> float:
    """About how long a text beside a panel is, in inches."""
    return text_width(text) * SIDE_SIZE / POINTS


@dataclass(frozen=True)
class Grid:
    """Panels of one size, and to their right the bar of colours.

    Attributes:
        count: of the panels.
        columns: panels in a row.
        panel: width and height of one.
        titles: stand above the panels.
        across: the name of what runs across, below the panels.
        down: the name of what runs down, beside them.
        bar: the name of what the colours are.
    """

    count: int
    columns: int
    panel: tuple[float, float]
    titles: Sequence[str]
    across: str
    down: str
    bar: str

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return -(-self.count // self.columns)

    @property
    def heading(self) -> float:
        """The room above a panel for its title."""
        return HEADING if any(self.titles) else 0.0

    @property
    def widest(self) -> float:
        """The width of a panel, or of what is written above or below it."""
        return max(self.panel[0], *map(side_length, (*self.titles, self.across)))

    @property
    def beyond(self) -> float:
        """How far what is written above or below a panel reaches beyond it on either side."""
        return (self.widest - self.panel[0]) / 2

    @property
    def pitch(self) -> tuple[float, float]:
        """From one panel to the next, so that nothing written lies over anything else."""
        height = max(self.panel[1] + self.heading, side_length(self.down) + GAP / 2)
        return self.widest + GAP, height

    @property
    def size(self) -> tuple[float, float]:
        """Of the whole; names and titles at its edges reach beyond it."""
        left, _, width, _ = self.bar_box()
        return left + width, (self.rows - 1) * self.pitch[1] + self.heading + self.panel[1]

    def panel_box(self, number: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a panel."""
        row, column = divmod(number, self.columns)
        return (column * self.pitch[0], row * self.pitch[1] + self.heading, *self.panel)

    def bar_box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of the bar of colours."""
        left = (self.columns - 1) * self.pitch[0] + self.panel[0] + self.beyond + GAP
        panels = (self.rows - 1) * self.pitch[1] + self.panel[1]
        return left, self.heading, BAR_WIDTH, max(min(panels, HIGHEST_BAR), side_length(self.bar))
