"""The documentation site builds without warnings, is searchable and accessible."""

import json
import re
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from threading import Thread

import pytest
from browser import browser, program

from fmpair.cli.application import command
from fmpair.evaluation.protocol import PRESETS
from fmpair.metrics import NAMES
from fmpair.models import catalog

pytest.importorskip("myst_nb")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Packages whose public names need an example in docs/api.
FACES = (
    "fmpair", "fmpair.models", "fmpair.data", "fmpair.evaluation", "fmpair.export",
    "fmpair.features", "fmpair.metrics", "fmpair.testing",
)  # fmt: skip
CLASSES = ("Dataset", "Recommender", "Ranker", "Field", "Protocol")


def public_names():
    """Return (module, name) of all public names."""
    return [(face, name) for face in FACES for name in import_module(face).__all__]


def verbs(context, group):
    """Yield (name, command) of every verb, including those of groups."""
    for name in group.list_commands(context):
        _, found, _ = group.resolve_command(context, [name])
        yield name, found
        if hasattr(found, "list_commands"):
            yield from verbs(found.context_class(found, info_name=name, parent=context), found)


def searched():
    """Return every word that a reader may search for."""
    program = command()
    every = dict(verbs(program.context_class(program, info_name="fmpair"), program))
    flags = {flag for one in every.values() for option in one.params for flag in option.opts}
    options = {name for kind in catalog.MODELS for name in catalog.options(kind)["option"]}
    names = {name for _, name in public_names()}
    return sorted(names | set(every) | {f for f in flags if f.startswith("--")} | options
                  | set(NAMES) | set(PRESETS) | set(catalog.MODELS))  # fmt: skip


def documented(thing):
    """Whether a public name has a docstring; constants cannot."""
    plain = not callable(thing) and not isinstance(thing, property)
    return plain or bool((getdoc(thing) or "").strip())  # of a base class, if it has none itself


def test_every_public_name_has_a_docstring():
    silent = [n for face, n in public_names() if not documented(getattr(import_module(face), n))]
    for name in CLASSES:
        kind = getattr(import_module("fmpair"), name)
        public = [key for key in vars(kind) if not key.startswith("_")]
        members = {key: getattr(kind, key) for key in public}
        silent += [f"{name}.{key}" for key, member in members.items() if not documented(member)]
    assert silent == []


def test_every_public_name_has_an_example_that_runs():
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    code = "".join(re.findall(r"^```python\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL))
    assert [name for _, name in public_names() if not re.search(rf"\b{name}\b", code)] == []


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """Serve the site and return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def tab(site):
    if program() is None:
        pytest.skip("Chromium is not installed")
    with browser() as opened:
        yield opened


SEARCH = """
(words) => words.filter((word) => !Search._performSearch(...Search._parseQuery(word)).length)
"""


def test_the_search_of_the_site_finds_every_name_verb_option_metric_and_model(address, tab):
    tab.look(1280)
    tab.open(f"{address}search.html?q=fmpair")
    tab.wait("typeof Search !== 'undefined' && Search.hasIndex()")
    words = searched()
    assert len(words) > 250
    assert tab.run(f"({SEARCH})({json.dumps([*words, 'no such thing anywhere'])})") == [
        "no such thing anywhere"
    ]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("new user", "tutorials/new_users"),
        ("event types", "events"),
        ("gpu", "gpu"),
        ("sessions", "howto/sessions"),
    ],
)
def test_the_search_finds_the_page_on_a_subject_first(address, tab, query, page):
    tab.look(1280)
    tab.open(f"{address}search.html?q={query.replace(' ', '+')}")
    tab.wait("typeof Search !== 'undefined' && Search.hasIndex()")
    found = tab.run(f"Search._performSearch(...Search._parseQuery({json.dumps(query)}))")
    assert found[-1][0] == page
    assert "LOG" not in [result[0] for result in found]


PAGES = ("index", "tutorials/service", "reference/command_line", "api/models", "benchmarks")


def also(*values):
    """A combination whose parts other cases have, for `make thorough`."""
    return pytest.param(*values, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark"), also(1280, "dark"), also(390, "light")]
)
def test_pages_fit_the_screen_and_load_nothing_from_other_hosts(address, tab, width, scheme):
    tab.look(width, scheme=scheme)
    for name in PAGES:
        tab.errors.clear()
        tab.requests.clear()
        tab.open(f"{address}{name}.html")
        assert tab.errors == [], name
        assert [
            one for one in tab.requests if not one.startswith((address, "data:", "about:"))
        ] == []
        wide = tab.run("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (name, wide)
        shade = tab.run("document.documentElement.dataset.theme")
        assert shade == scheme


# Few long pages, since axe checks every element.
LOOKED_AT = (
    "index",
    "tutorials/service",
    "reference/command_line",
    "api/export",
    "howto/coming_from",
)
AXE = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`))
"""


# The colours of the dark page of commands, by far the longest, are those of the others.
@pytest.mark.parametrize(
    ("name", "scheme"),
    [(name, "light") for name in LOOKED_AT]
    + [(name, "dark") for name in LOOKED_AT if name != "reference/command_line"]
    + [also("reference/command_line", "dark")],
)
def test_axe_finds_no_serious_violation(address, tab, axe, name, scheme):
    tab.look(1280, scheme=scheme)
    tab.open(f"{address}{name}.html")
    tab.run(axe)
    assert tab.run(AXE) == []


def test_no_page_names_an_address_that_is_fetched_from_outside(site):
    outside = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(?:https?:)?//")
    assert [
        page.name for page in site.rglob("*.html") if outside.search(page.read_text("utf-8"))
    ] == []
