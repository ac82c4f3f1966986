"""The page of the reproduction: paper and ours side by side, figures, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from fmpair.files import make_folder, write_atomically
from fmpair.report.markdown import markdown_report
from fmpair.report.page import page
from fmpair.report.sheet import Figure, Section, Sheet
from fmpair.reproduction import figures, tables
from fmpair.reproduction.claims import RULES, Found, claims
from fmpair.reproduction.drawings import layouts
from fmpair.reproduction.errata import errata
from fmpair.reproduction.line import Line, contexts, factors, line
from fmpair.reproduction.paper import CONTEXTS, DOMAINS, MRR, RECALL, SETS, TABLE2, TABLE3, TABLE4
from fmpair.reproduction.provenance import provenance

TITLE = "The paper, reproduced"
IMAGES = "images"
INTRODUCTION = (
    "With this page you can check which claims of the FM-Pair paper hold, and repeat every "
    "table. It is written by fmpair reproduce all: tables, figures and verdicts are made from "
    "its results; only what was tried on validation sets is from notes. Every table is an "
    "ordinary experiment file of examples/paper.",
    "Legacy is what the code behind the paper's numbers did: every rating is positive, each test "
    "item is ranked among the first 1000 items of the shuffled training events that the user has "
    "no event with, and the constants are those of that code. Clean is what the paper's text "
    "says: ratings above the user's mean are positive, each test event is ranked among 1000 "
    "random items that its user has no event with; and beside it the same with full ranking. Its "
    "hyper-parameters were chosen on a validation set from the training events of the last fold, "
    "with the budget that each file states, and then kept for all folds; so some of the events "
    "they were chosen on are test events in other folds. Item bias is a hyper-parameter too: it "
    "is left out where validation NDCG@10 was lower with it by more than .001, on Amazon and "
    "XING, where FM-Pair without context is then BPR-MF itself.",
)

TRIED = (
    "What was tried to make context help on Frappe under the clean protocol: 26 trials among "
    "1000 random items and 26 with full ranking, on the validation set, with learning rates from "
    ".1 to .3, contexts with a fixed regularisation from .003 to .2 or with fmpair's default, "
    "and none to half of the negatives taken from the user's own items. The best NDCG@10 was "
    ".602 with the four contexts and .601 without; with full ranking .283 and .284. Then softmax "
    "with 16 negatives, 20 trials with the contexts and 7 without (none to a fifth of own items, "
    "30 or 100 epochs, contexts with the default regularisation or with .0001 to .05, shortened "
    "or full steps): .660 with and .661 without; with full ranking .499 and .501.",
    "What was tried to make other domains help, with Recall@10 on validation sets of books and "
    "music. Target only was undertrained: 240 epochs in place of 60, and its own regularisation, "
    "raise it from .233 to .240 and from .158 to .172. FM-Pair-CD reached .240 and .174 at best, "
    "with fmpair's default regularisation of sources or a fixed one from .005 to .3, five to all "
    "items of each source, shortened or full steps. Softmax with 16 negatives and 30 epochs has "
    ".285 and .181 without other domains, .287 and .186 with them, the best of 15 ways to "
    "regularise, scale, initialise and choose them (at random, by popularity, by rating); but "
    "with full ranking .112 against .108 and .067 against .067. With 32 negatives and the target "
    "alone it is .301 and .185.",
    "Where no user has more than ten events of the target, other domains seem to help much as "
    "long as training is short (60 epochs: books .106 without and .116 with, music .068 and "
    ".083). Most of that is faster convergence: after 1000 epochs it is .189 and .197, .116 and "
    ".116. With at most five, music keeps its gain: .076 and .082 after 1500 epochs. For "
    "cold-start users, who have no event of the target, a quarter of all, other domains raise "
    ".077 to .079 for books and .070 to .083 for music: what users choose elsewhere says little "
    "about their books.",
)


def sections(found: Found) -> list[Section]:
    """The parts of the page that have something to show."""
    parts = [
        Section("Verdicts", (*INTRODUCTION, *RULES), sheets=(tables.claims_sheet(claims(found)),)),
        Section("Table 1: data", sheets=_present(tables.data_sheet(found))),
        _beside("Table 2: methods", "table2", SETS, TABLE2, found, RECALL),
        _beside("Table 3: context and genres", "table3", CONTEXTS, TABLE3, found, RECALL, MRR),
        _beside("Table 4: cross-domain", "table4", DOMAINS, TABLE4, found, RECALL, MRR),
        _times(found),
        _convergence(found),
        _complexity(found),
        _ablation(found),
        Section("When source domains help", sheets=_present(tables.sparse_sheet(found))),
        Section("Errata", tuple(errata(found))),
        Section("Layouts", figures=layouts()),
        Section("How it was run", facts=provenance(found)),
    ]
    return [part for part in parts if part.sheets or part.figures or part.text or part.facts]


def verdict(found: Found) -> str:
    """How many of the claims hold, in a sentence."""
    times = Counter(claim.verdict for claim in claims(found))
    told = ", ".join(f"{words} {count}" for words, count in times.items())
    return f"Verdicts on the paper's eight claims: {told}."


def write(found: Found, folder: Path) -> Path:
    """report.html with everything inside, reproduction.md and its images; gives the page's path."""
    parts = sections(found)
    target = folder / "report.html"
    write_page(found, folder, parts)
    write_atomically(target, page(TITLE, verdict(found), [], parts).encode())
    return target


def write_page(found: Found, folder: Path, parts: list[Section] | None = None) -> Path:
    """reproduction.md and images/*.svg into a folder, such as docs."""
    kept = sections(found) if parts is None else parts
    make_folder(folder / IMAGES)
    for part in kept:
        for figure in part.figures:
            write_atomically(folder / IMAGES / f"{figure.name}.svg", figure.svg.encode())
    target = folder / "reproduction.md"
    write_atomically(target, markdown_report(TITLE, verdict(found), kept, IMAGES).encode())
    return target


def _present(*sheets: Sheet | None) -> tuple[Sheet, ...]:
    return tuple(sheet for sheet in sheets if sheet is not None)


def _beside(
    title: str, table: str, names: Mapping[str, str], printed: Mapping, found: Found, *metrics: str
) -> Section:
    made = [
        tables.beside_sheet(f"{table}-{name}", shown, found, printed[name], metric)
        for name, shown in names.items()
        for metric in metrics
    ]
    return Section(title, sheets=_present(*made))


def _times(found: Found) -> Section:
    made = {
        SETS[name]: found[f"epoch-time-{name}"] for name in SETS if f"epoch-time-{name}" in found
    }
    return Section("Time of an epoch", figures=(figures.epoch_times(made),) if made else ())


def _convergence(found: Found) -> Section:
    made = [
        figures.convergence(name, title, found[f"convergence-{name}"])
        for name, title in (SETS | DOMAINS).items()
        if f"convergence-{name}" in found
    ]
    return Section("Convergence", figures=tuple(made))


def _complexity(found: Found) -> Section:
    by_factors = {
        title: line(found[f"complexity-{name}"], factors)
        for name, title in SETS.items()
        if f"complexity-{name}" in found
    }
    by_contexts: dict[str, Line] = {}
    if "complexity-contexts" in found:
        by_contexts["Frappe"] = line(found["complexity-contexts"], contexts)
    drawn: list[Figure] = []
    if by_factors:
        title = "Cost against the number of factors"
        drawn.append(figures.cost("complexity-factors", title, "k", by_factors))
    if by_contexts:
        title = "Cost against the number of contexts"
        drawn.append(figures.cost("complexity-contexts", title, "contexts", by_contexts))
    named = {f"k, {name}": one for name, one in by_factors.items()}
    named |= {f"contexts, {name}": one for name, one in by_contexts.items()}
    sheets = (tables.lines_sheet(named),) if named else ()
    return Section("Complexity", figures=tuple(drawn), sheets=sheets)


def _ablation(found: Found) -> Section:
    titles = {
        "frappe": "Frappe, context by context",
        "books": "Books, domain by domain",
        "music": "Music, domain by domain",
    }
    made = [
        tables.plain_sheet(f"ablation-{name}", title, found[f"ablation-{name}"], (RECALL,))
        for name, title in titles.items()
        if f"ablation-{name}" in found
    ]
    title = "What makes context and other domains help"
    return Section(title, TRIED if made else (), sheets=tuple(made))
