"""Drawings of the two data layouts: of a factorization machine, and across domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fmpair.report.sheet import Figure
from fmpair.report.style import INK, LINE, PALETTE, drawn

HEIGHT = 1.9  # inches


class Block(NamedTuple):
    """A group of columns: a heading, the names of its columns, and rows of values."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


MACHINE = (
    Block("user", ("ann", "bob"), (("1", "0"), ("1", "0"), ("0", "1"))),
    Block("item", ("maps", "mail", "chess"), (("1", "0", "0"), ("0", "1", "0"), ("0", "0", "1"))),
    Block("context", ("day", "night"), (("1", "0"), ("0", "1"), ("0", "1"))),
    Block("item's own", ("free", "paid"), (("1", "0"), ("1", "0"), ("0", "1"))),
)
DOMAINS = (
    Block("user", ("ann", "bob"), (("1", "0"), ("1", "0"), ("0", "1"))),
    Block("book", ("b1", "b2", "b3"), (("1", "0", "0"), ("0", "1", "0"), ("0", "0", "1"))),
    Block("their music", ("m1", "m2"), (("1/2", "1/2"), ("1/2", "1/2"), ("0", "1"))),
    Block("their films", ("f1", "f2"), (("0", "1"), ("0", "1"), ("1/2", "1/2"))),
)


def layouts() -> tuple[Figure, ...]:
    """The drawings, the same wherever they are made."""
    return (
        _layout(
            "layout-machine",
            "Data layout of a factorization machine",
            MACHINE,
            "One row per event. Context is shared by the positive item and its negatives; "
            "attributes of an item are its own.",
        ),
        _layout(
            "layout-domains",
            "Data layout of FM-Pair-CD",
            DOMAINS,
            "One row per event of the target domain; the user's items of other domains are "
            "features, each of value one by the number of the user's items in its domain.",
        ),
    )


def _layout(name: str, title: str, blocks: Sequence[Block], caption: str) -> Figure:
    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        axes.axis("off")
        left = 0.0
        for colour, block in zip(PALETTE, blocks):
            _block(axes, left, block, colour)
            left += len(block.columns) + 0.4
        axes.set_xlim(-0.1, left)
        axes.set_ylim(-len(blocks[0].rows) - 0.1, 2.1)

    return drawn(name, title, caption, draw, HEIGHT)


def _block(axes: Any, left: float, block: Block, colour: str) -> None:
    middle = left + len(block.columns) / 2
    axes.text(middle, 1.6, block.title, ha="center", color=colour, weight="bold", fontsize=7.5)
    for across, column in enumerate(block.columns):
        axes.text(left + across + 0.5, 0.45, column, ha="center", color=INK, fontsize=7)
        for down, row in enumerate(block.rows):
            value = row[across]
            shade = LINE if value == "0" else colour
            box = {"fill": value != "0", "alpha": 0.25 if value != "0" else 1}
            corner = (left + across, -down - 1)
            axes.add_patch(_square(corner, edgecolor=LINE, facecolor=colour, **box))
            axes.text(
                left + across + 0.5,
                -down - 0.5,
                value,
                ha="center",
                va="center",
                color=INK if value != "0" else shade,
                fontsize=7,
            )


def _square(corner: tuple[float, float], **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, 1, 1, linewidth=0.6, **look)
