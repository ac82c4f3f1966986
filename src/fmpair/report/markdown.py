"""Tables and the whole report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fmpair.report.sheet import Cell, Section, Sheet
from fmpair.text import harmless, isolated

RAISED = {"+": "⁺", "−": "⁻", "=": "⁼"}


def markdown(sheet: Sheet) -> str:
    """A pipe table and its notes; what is underlined elsewhere is italic here."""
    lines = [
        _line(_plain(name) for name in sheet.columns),
        _line("---" if place < sheet.words else "--:" for place in range(len(sheet.columns))),
        *(_line(_cell(cell) for cell in row) for row in sheet.rows),
    ]
    notes = [_plain(note.replace("Underlined:", "Italic:")) for note in sheet.notes]
    return "\n".join([*lines, "", *(f"{note}\n" for note in notes)])


def markdown_report(
    title: str,
    verdict: str,
    sections: Sequence[Section],
    images: str = "figures",
    warnings: Sequence[str] = (),
) -> str:
    """The whole report; images: the folder of its figures; warnings: said below the verdict."""
    parts = [f"# {_plain(title)}", f"**{_plain(verdict)}**"]
    parts += ["\n".join(f"- Warning: {_plain(text)}" for text in warnings)] if warnings else []
    for section in sections:
        parts.append(f"## {_plain(section.title)}")
        parts += [_plain(text) for text in section.text]
        if section.facts:
            facts = [_line((_plain(isolated(name)), _plain(isolated(fact))))
                     for name, fact in section.facts.items()]  # fmt: skip
            parts.append("\n".join([_line(("", "")), _line(("---", "---")), *facts]))
        parts += [f"![{_plain(f.title)}]({images}/{f.name}.svg)" for f in section.figures]
        for sheet in section.sheets:
            parts.append(f"### {_plain(sheet.title)}\n\n{markdown(sheet)}".rstrip())
        for name, text in section.unfold.items():
            parts.append(f"{_plain(name)}:\n\n```\n{harmless(text).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _cell(cell: Cell) -> str:
    text = _plain(isolated(cell.text)) + RAISED.get(cell.mark, cell.mark)
    text = f"**{text}**" if cell.bold else f"*{text}*" if cell.underlined else text
    return f"{text} {cell.detail}".strip()


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """What Markdown would take for its own, taken literally."""
    text = harmless(text)
    for sign in "\\`*_|<[":
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")
