"""The Python of the README and of docs/ runs as it is printed, page by page, with few factors.

The blocks of a page run in order, in one namespace and in one folder. A fence ``python no-run``
is left alone, and one ``python of LIBRARY`` too where it is not installed (`make bridges`
installs those that can be had). A fence ``output`` right after a block must be what the block
prints; figures that training makes stand in a fence ``text``, which is not compared: they may
differ by machine.
A model of more than FACTORS factors is fitted with FACTORS: each number is kernels to compile. So
are trials, and `FMPair()` in all pages but the README.
The commands in fences ``sh`` of docs/commands.md and docs/daily.md run too, and none may fail; in
tutorials and how-tos they run in their place between the blocks. Pages that start a service are run
by tests/serve/test_commands.py.
"""

import contextlib
import io
import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from fmpair.cli import run
from fmpair.cli.application import VERBS
from fmpair.config.document import parse_yaml
from fmpair.config.read import read
from fmpair.events.event import Event, Impression
from fmpair.events.store import open_store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WITH_COMMANDS = ("tutorials", "howto")  # folders of pages whose commands run among the blocks
SERVING = ("service.md", "shop.md")
FACTORS = 8
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

USERS = ("ann", "bob", "cem", "dee", "eve", "fay", "gus", "hal")
ITEMS = ("spotify", "maps", "mail", "chess", "news", "camera", "clock", "notes", "radio", "weather")


class Block(NamedTuple):
    """lines_above: where in the page it stands; output: None where none is printed.

    commands: whether it is for a shell.
    """

    lines_above: int
    code: str
    output: str | None
    commands: bool = False


def blocks_of(page):
    text = page.read_text("utf-8")
    fences = list(FENCE.finditer(text))
    kinds = ("python", "sh") if page.parent.name in WITH_COMMANDS else ("python",)
    found = []
    for fence, after in zip(fences, [*fences[1:], None]):
        kind, _, libraries = fence["info"].partition(" of ")
        if kind in kinds and all(map(find_spec, libraries.split())):
            output = after["text"] if after and after["info"] == "output" else None
            lines_above = text.count("\n", 0, fence.start("text"))
            found.append(Block(lines_above, fence["text"], output, fence["info"] == "sh"))
    return found


def clicks():
    """Six events of each user, each with another item."""
    events = [(user, click) for user in range(len(USERS)) for click in range(6)]
    return pl.DataFrame(
        {
            "user": [USERS[user] for user, _ in events],
            "item": [ITEMS[(3 * user + click * click) % len(ITEMS)] for user, click in events],
            "time": [f"2024-05-{1 + click:02} 08:{10 + user}" for user, click in events],
            "daytime": [("morning", "evening")[(user + click) % 2] for user, click in events],
            "device": [("phone", "tablet")[click % 2] for _, click in events],
        }
    )


def frames():
    """The frames that pages take for granted: events, and tables of their users and items."""
    users = {"user": USERS, "age": [20 + 5 * number for number in range(len(USERS))]}
    items = {"item": ITEMS, "topic": [("fun", "work")[n % 2] for n in range(len(ITEMS))]}
    return {
        "events": clicks(),
        "user_table": pl.DataFrame(users),
        "item_table": pl.DataFrame(items),
    }


def of_few_factors(block):
    """The code of a block in which no model has more than FACTORS factors."""

    def few(found):
        return f"factors={FACTORS}" if int(found[1]) > FACTORS else found[0]

    return re.sub(r"(?<![.\w])factors=(\d+)", few, block.code)


def without_trailing_blanks(text):
    return [line.rstrip() for line in text.strip("\n").splitlines()]


EVERY = (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
PAGES = [page for page in EVERY if page.name not in SERVING and blocks_of(page)]


def few_by_default(monkeypatch):
    monkeypatch.setattr("fmpair.training.defaults.FACTORS", FACTORS)
    monkeypatch.setattr("fmpair.training.small_fits.FACTORS", FACTORS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.name == "README.md":
        monkeypatch.setattr("fmpair.training.small_fits.FACTORS", FACTORS)
    else:
        few_by_default(monkeypatch)
    clicks().write_csv("clicks.csv")
    namespace = {"__name__": "__main__", **frames()}
    with pl.Config(tbl_width_chars=100):  # on any terminal; a page's own settings end with it
        for block in blocks_of(page):
            if block.commands:
                for line in block.code.splitlines():
                    assert run(shlex.split(line)[1:]) == 0, line
                continue
            # Lines are counted from the top of the page, so that an error names the page's line.
            code = compile("\n" * block.lines_above + of_few_factors(block), str(page), "exec")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)
            if block.output is not None:
                said = without_trailing_blanks(block.output)
                assert without_trailing_blanks(printed.getvalue()) == said


def test_the_commands_of_the_page_about_them_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few_by_default(monkeypatch)
    text = (ROOT / "docs" / "commands.md").read_text("utf-8").replace("\\\n", "")
    assert "--events 8000" in text
    text = text.replace("--events 8000", "--events 1500")  # three experiments run on them
    monkeypatch.setattr("fmpair.report.figures.available", lambda: False)  # tests/report draws
    fences = [fence["text"] for fence in FENCE.finditer(text) if fence["info"] == "sh"]
    lines = [shlex.split(line) for fence in fences for line in fence.splitlines()]
    own_tests = {"demo", "migrate", "serve", "index", "items"}
    assert {line[1] for line in lines} == set(VERBS) - own_tests
    keep_events("model.events.db")
    for program, *arguments in lines:
        assert program == "fmpair"
        assert run([*arguments, *smaller(arguments)]) == 0, arguments


SMALL = (f"factors={FACTORS}", "epochs=5", "order=2", "history=0")


def smaller(arguments):
    """More arguments of a command that fits FM-Pair, whose defaults other tests run."""
    if arguments[:2] in (["run", "experiment.yaml"], ["estimate", "experiment.yaml"]):
        kinds = [model.kind for model in read("experiment.yaml").models]
        ours = [n for n, kind in enumerate(kinds) if kind == "fm-pair"]
        return [f"models.{n}.{option}" for n in ours for option in SMALL]
    fits = arguments[0] == "fit" and "--factors" not in arguments
    return ["--factors", str(FACTORS)] if fits else []


def keep_events(path):
    """A store as a service leaves it, with two models beside each other."""
    when, arms = 1_750_000_000_000_000, ("current", "candidate")
    store = open_store(path)
    store.record([Impression(f"user-{u:03}", ("book-001",), when, arms[u % 2]) for u in range(40)])
    store.append([Event(f"user-{u:03}", "book-001", when + 1) for u in range(0, 40, 3)])
    store.close()


def test_the_commands_of_daily_use_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few_by_default(monkeypatch)
    text = (ROOT / "docs" / "daily.md").read_text("utf-8")
    fences = [fence["text"] for fence in FENCE.finditer(text) if fence["info"] == "sh"]
    for line in "".join(fences).splitlines():
        if line.startswith("fmpair "):
            assert run(shlex.split(line)[1:]) == 0, line
        else:
            subprocess.run(line, shell=True, check=True)
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        "monday.fmpair", "tuesday.fmpair", "current.fmpair", "next.fmpair", "lists.parquet",
    }  # fmt: skip
    assert Path("current.fmpair").read_bytes() == Path("monday.fmpair").read_bytes()


def test_the_first_file_of_the_page_on_experiments_is_what_init_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few_by_default(monkeypatch)
    text = (ROOT / "docs" / "experiment.md").read_text("utf-8")
    file = next(fence["text"] for fence in FENCE.finditer(text) if fence["info"] == "yaml")
    assert run(["data", "make", "shop"]) == 0
    assert run(["init", "shop/events.csv"]) == 0
    written = Path("experiment.yaml").read_text("utf-8")
    assert parse_yaml(file, "page.yaml").values == parse_yaml(written, "experiment.yaml").values
    assert run(["data", "make", "shop", "--users", "30", "--items", "20", "--events", "600"]) == 0
    arguments = ["run", "experiment.yaml", "--quiet"]
    assert run([*arguments, *smaller(arguments)]) == 0
    assert run(["recommend", "runs/events", "--user", "user-007", "-n", "2"]) == 0


def test_every_page_that_the_readme_names_is_there():
    named = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_block_of_a_library_runs_where_it_is_installed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python of numpy\n1\n```\n\n```python of no_such_library\n2\n```\n")
    assert [block.code for block in blocks_of(page)] == ["1\n"]


def test_a_block_marked_no_run_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python no-run\n1 / 0\n```\n\n```python\nprint(2)\n```\n\n```output\n2\n```\n"
    )
    assert blocks_of(page) == [Block(5, "print(2)\n", "2\n")]
