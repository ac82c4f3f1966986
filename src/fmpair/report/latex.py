"""Tables for a paper: LaTeX with booktabs."""

from __future__ import annotations

from collections.abc import Iterable

from fmpair.report.number import NO_BREAK
from fmpair.report.sheet import Cell, Sheet
from fmpair.text import harmless, without_isolates

ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "−": "$-$",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "–": "--",
    "≥": r"$\geq$",
    "…": r"\dots{}",
    NO_BREAK: "~",
}


def latex(sheet: Sheet) -> str:
    """A table environment; it needs \\usepackage{booktabs}."""
    kinds = "l" * sheet.words + "r" * (len(sheet.columns) - sheet.words)
    notes = r" \\ ".join(_escaped(note) for note in sheet.notes)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_escaped(sheet.title)}}}",
        rf"  \label{{tab:{sheet.name}}}",
        rf"  \begin{{tabular}}{{{kinds}}}",
        r"    \toprule",
        f"    {_line(_escaped(name) for name in sheet.columns)}",
        r"    \midrule",
        *(f"    {_line(_cell(cell) for cell in row)}" for row in sheet.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *([rf"  \par\smallskip\footnotesize {notes}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    text = _escaped(cell.text)
    if cell.bold:
        text = rf"\textbf{{{text}}}"
    if cell.underlined:
        text = rf"\underline{{{text}}}"
    if cell.mark:
        text += "$^{-}$" if cell.mark == "−" else f"$^{{{cell.mark}}}$"
    return text + (rf" {{\scriptsize {_escaped(cell.detail)}}}" if cell.detail else "")


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escaped(text: str) -> str:
    text = without_isolates(harmless(text)).replace("\n", " ")
    return "".join(ESCAPED.get(letter, letter) for letter in text)
