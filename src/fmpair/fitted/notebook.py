"""HTML tables of models and answers for notebooks, for light and dark themes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

TERMS = 4  # terms of a score listed as text; the bar shows all
WIDTH = 160  # pixels of the longest bar
UP, DOWN = "#2a78b5", "#c4572b"  # colours of positive and negative terms


def model_html(model: Any) -> str:
    """Return a table of a fitted model: its size, columns and non-default options."""
    space = model.space
    rows = {
        "users": f"{len(space.users):,}",
        "items": f"{len(space.items):,}",
        "context": ", ".join(space.context),
        "history": f"the last {space.history.last} items" if space.history else "",
        "options": ", ".join(f"{name}={value!r}" for name, value in _changed_options(model.recipe)),
    }
    title = f"{type(model).__name__} of {type(model.recipe).__name__}"
    body = "".join(_row(escape(name), escape(text)) for name, text in rows.items() if text)
    return _table(escape(title), body)


def answer_html(answer: Any) -> str:
    """Return a table of an `Answer`: rank, item, score and, if explained, a bar of the terms."""
    terms = answer.terms or [[] for _ in answer.items]
    lengths = (sum(abs(value) for _, _, value in of_item) for of_item in terms)
    longest = max(lengths, default=0.0) or 1.0
    body = "".join(
        _row(str(rank), escape(str(item)), f"{score:.3f}", *_cells(of_item, longest))
        for rank, (item, score, of_item) in enumerate(zip(answer.items, answer.scores, terms), 1)
    )
    return _table(f"{len(answer.items)} items", body)


def _cells(terms: list[tuple[str, str, float]], longest: float) -> list[str]:
    """Return the cells of one score's terms: a bar of all terms, and the largest ones as text."""
    if not terms:
        return []
    parts = "".join(
        f'<span style="display:inline-block;height:.8em;background:{UP if value > 0 else DOWN};'
        f'width:{WIDTH * abs(value) / longest:.1f}px;margin-right:1px"></span>'
        for _, _, value in terms
        if WIDTH * abs(value) / longest >= 0.5
    )
    words = "; ".join(
        f"{escape(' x '.join(filter(None, (query, item))))} {value:+.2f}"
        for query, item, value in terms[:TERMS]
    )
    return [f'<span style="white-space:nowrap">{parts}</span>', f"<small>{words}</small>"]


def _changed_options(recipe: Any) -> list[tuple[str, Any]]:
    if not is_dataclass(recipe):
        return []
    given = ((field, getattr(recipe, field.name)) for field in fields(recipe) if field.repr)
    return [(f.name, value) for f, value in given if f.default is not value and f.default != value]


def _row(*cells: str) -> str:
    inner = "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells)
    return f"<tr>{inner}</tr>"


def _table(caption: str, body: str) -> str:
    style = "caption-side:top;color:inherit;text-align:left;font-weight:bold"
    return f'<table><caption style="{style}">{caption}</caption><tbody>{body}</tbody></table>'
