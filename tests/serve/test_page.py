"""The page at `/` in a real browser, in front of a real service."""

import json
from dataclasses import replace

import polars as pl
import pytest
from page_steps import (
    ANN,
    CONTRAST,
    DAY,
    EVENTS,
    IMAGE,
    IN_BROWSER,
    SCRIPT,
    SEEN,
    WIDTHS,
    ask,
    changed,
    choose,
    names,
    number,
)
from running import service

from fmpair import FMPair
from fmpair.data import Dataset
from fmpair.models import ItemKNN

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("service") / "model.fmpair"
    FMPair(factors=4, epochs=40, seed=1).fit(EVENTS).save(path)
    with service(path) as found:
        yield found


@pytest.fixture
def page(tab, address):
    """The page of nobody yet, on a wide screen; nothing may go wrong on it."""
    tab.look(1280)
    tab.errors.clear()
    tab.requests.clear()
    tab.open(address)
    tab.wait("document.querySelector('#service').textContent === 'in service'")
    yield tab
    assert tab.errors == []
    assert [url for url in tab.requests if not url.startswith((address, "about:"))] == []


def test_a_user_is_found_by_search_and_the_list_follows_the_context(page):
    assert len(names(page)) == 10 and page.text("#summary") == "10 items for anyone"
    page.click("#user")
    page.press(ANN)
    page.wait(f"document.querySelector('#user-options [role=option]')?.textContent === '{ANN}'")
    page.click("#user-options [role=option]")
    page.wait(f"document.querySelector('#summary').textContent.includes('for {ANN}')")
    anywhen = names(page)
    assert len(anywhen) == 10 and not set(anywhen) & SEEN[ANN]
    page.click("#context-0")
    page.press("Home", "ArrowDown", "Enter")
    for value in ("day", "night"):
        page.run(
            "(() => { const s = document.querySelector('#context-0');"
            f"s.value = [...s.options].find(o => o.text === '{value}').value;"
            "s.dispatchEvent(new Event('change')); })()"
        )
        page.wait(f"document.querySelector('#summary').textContent.includes('· {value}')")
        ours = {name for name in names(page) if (name in DAY) == (value == "day")}
        assert set(names(page)[: len(ours)]) == ours
        assert f"context.daytime={value}" in page.run("location.hash")


def test_the_bars_of_a_row_add_up_to_its_score(page, address):
    ask(page, address, user=ANN, **{"context.daytime": "day"})
    rows = page.run("""[...document.querySelectorAll('#list .head')].map((head) => {
        const x = (e) => e.getBoundingClientRect();
        const zero = x(head.querySelector('.zero')).left;
        const pieces = [...head.querySelectorAll('.piece')].map(x);
        const sum = pieces.reduce((s, p) => s + (p.left < zero - 0.5 ? -p.width : p.width), 0);
        const total = x(head.querySelector('.total'));
        return [sum, (total.left + total.right) / 2 - zero, head.querySelector('.score').innerText];
    })""")
    assert len(rows) == 10
    for user_hash, marked, _ in rows:
        assert user_hash == pytest.approx(marked, abs=2.5)  # pixels
    scores = [number(score) for _, _, score in rows]
    assert scores == sorted(scores, reverse=True)
    widths = [marked for _, marked, _ in rows]
    assert widths[0] / widths[-1] == pytest.approx(scores[0] / scores[-1], abs=0.1)


def test_the_terms_of_a_row_add_up_and_end_where_the_score_ends(page, address):
    ask(page, address, user=ANN, **{"context.daytime": "day"})
    page.click("#list .head")
    page.wait("document.querySelector('.terms')")
    values = [number(text) for text in page.texts(".terms tbody .value")]
    assert sum(values) == pytest.approx(number(page.text(".terms tfoot .value")), abs=0.006)
    assert page.text(".terms tfoot .value") == page.text("#list .score")
    ends = page.run("""(() => {
        const of = (part) => [...document.querySelectorAll(`.terms ${part}`)]
          .map((e) => e.getBoundingClientRect());
        const last = of('tbody .piece').at(-1), sum = of('tfoot .piece')[0], zero = of('.zero')[0];
        return [last.left, last.right, sum.left, sum.right, zero.left];
    })()""")
    assert min(abs(ends[3] - end) for end in ends[:2]) < 2  # the score stands right of zero here
    assert ends[2] == pytest.approx(ends[4], abs=2)
    assert any("day" in label for label in page.texts(".terms tbody th"))


def test_terms_are_told_apart_by_what_they_are_about(page):
    labels = {
        f"user={ANN}": "user",
        "a usual user": "user",
        "history=day 2": "history",
        "history.kind=calm": "history",
        "daytime=day": "daytime",
        "timestamp.hour=3": "timestamp",
        "age in (20, 30]": "user’s attributes",
        f"user={ANN} x daytime=day": "user × daytime",
        "": "item alone",
    }
    asked = json.dumps(list(labels))
    found = page.run(
        f"import('./page/terms.js').then((terms) => {asked}.map((query) => "
        "terms.groupOf({ query, item: 'item=day 2' }, ['daytime', 'timestamp'])))"
    )
    assert dict(zip(labels, found)) == labels


def test_names_that_are_code_stay_text(page, address):
    listed = ask(page, address, user=ANN, **{"context.daytime": "day"})
    assert SCRIPT in listed
    place = listed.index(SCRIPT) + 1
    page.click(f"#list .row:nth-child({place}) .head")
    page.wait("document.querySelector('.alike-item')")
    page.click(f"#list .row:nth-child({place}) .act")
    page.wait("document.querySelector('#events .what')")
    assert page.texts("#events .what")[0] == SCRIPT
    ask(page, address, user=IMAGE)
    assert f"for {IMAGE}" in page.text("#summary")
    assert page.run("document.querySelector('#user').value") == IMAGE
    ask(page, address, visitor="", item=SCRIPT)
    assert page.texts("#chips span") == [SCRIPT]
    page.click("#history")
    page.press("<scr")
    page.wait("document.querySelectorAll('#history-options [role=option]').length === 1")
    assert page.texts("#history-options [role=option]") == [SCRIPT]
    ask(page, address, user=SCRIPT)
    assert f"for {SCRIPT}" in page.text("#summary")
    assert page.run("document.querySelectorAll('script, main img').length") == 1


def test_everything_can_be_done_by_keyboard(page):
    visible = (
        "(() => { const s = getComputedStyle(document.activeElement); const l = getComputedStyle("
        "document.activeElement.nextElementSibling ?? document.body);"
        "return s.outlineStyle !== 'none' || l.outlineStyle !== 'none'; })()"
    )
    focused = "document.activeElement.id || document.activeElement.className"
    met = []
    for _ in range(3):
        page.press("Tab")
        met.append(page.run(focused))
        assert page.run(visible), met
    assert met == ["skip", "kind-user", "user"]
    page.press(ANN)
    page.wait("document.querySelector('#user-options [role=option]')")
    page.press("ArrowDown")
    active = page.run("document.activeElement.getAttribute('aria-activedescendant')")
    assert page.text(f"#{active}") == ANN
    page.press("Enter")
    page.wait(f"document.querySelector('#summary').textContent.includes('for {ANN}')")
    before = names(page)
    page.press("Tab", "ArrowDown")
    assert page.run(focused) == "context-0"
    listed = changed(page, before)
    page.press(*["Tab"] * 4)  # past diversity, the number of items and the reset
    assert page.run(focused) == "head" and page.run(visible)
    page.press("Enter")
    page.wait("document.querySelector('.terms') && document.querySelector('.alike-item')")
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.press("Tab", "Enter")
    page.wait("!document.querySelector('.alike .quiet').hidden")
    page.press("Escape")
    assert names(page) == listed


def test_a_visitor_is_known_by_a_history(page):
    page.click("label[for=kind-visitor]")
    page.wait("document.querySelector('#summary').textContent.includes('visitor')")
    usual = names(page)
    assert page.text("#summary").startswith("10 items for a visitor")
    page.click("#history")
    page.press("night 1")
    page.wait("document.querySelectorAll('#history-options [role=option]').length === 6")
    page.press("ArrowDown", "Enter")
    [chosen] = page.texts("#chips span")
    assert chosen.startswith("night 1")
    listed = changed(page, usual)
    assert chosen not in listed
    page.click("#list .head")
    page.wait("document.querySelector('.terms')")
    assert f"history {chosen}" in page.texts(".terms th")
    values = [number(text) for text in page.texts(".terms tbody .value")]
    assert sum(values) == pytest.approx(number(page.text(".terms tfoot .value")), abs=0.006)
    page.click("#chips button")
    assert changed(page, listed) == usual and page.texts("#chips span") == []


def test_an_event_shows_up_and_the_next_answer_knows_it(page, address):
    listed = ask(page, address, user=ANN, **{"context.daytime": "night"})
    page.click("#list .row:nth-child(2) .head")
    page.wait("document.querySelector('.alike-item')")
    page.click("#list .row:nth-child(2) .act")
    page.wait(f"document.querySelector('#events .what')?.textContent === {json.dumps(listed[1])}")
    assert page.texts("#events .who")[0] == ANN
    assert "night" in page.texts("#events .when")[0]
    assert listed[1] not in changed(page, listed)


def test_what_the_service_refuses_is_said_in_its_words(page, address):
    page.open(f"{address}#user={'x' * 2000}")
    page.wait("!document.querySelector('#problem').hidden")
    assert "length <= 1024" in page.text("#problem")
    assert page.texts("#list .row") == []
    page.errors = [text for text in page.errors if "422" not in text]
    ask(page, address, user="nobody")
    assert page.text("#summary").endswith("not known to the model: user")
    assert page.run("document.querySelector('#problem').hidden")


def test_diversity_is_asked_for_and_is_in_the_address(page, address):
    plain = ask(page, address, user=ANN, n="5")
    choose(page, "diversity", "0.7")
    assert len(changed(page, plain)) == len(plain)
    assert page.run("location.hash").endswith("diversity=0.7")
    hidden = page.run(
        "[...document.querySelectorAll('.field[hidden] label')].map(one => one.htmlFor)"
    )
    assert {"where", "limit", "boost", "rules"} <= set(hidden)  # items without columns


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_screen_and_can_be_read(page, address, width, scheme):
    page.look(width, scheme=scheme)
    ask(page, address, user=ANN, **{"context.daytime": "day"})
    page.click("#list .head")
    page.wait("document.querySelector('.alike-item')")
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(CONTRAST) == []


def test_a_screen_reader_finds_a_name_for_all_that_can_be_used(page, address):
    ask(page, address, visitor="", item="day 2")
    page.click("#list .head")
    page.wait("document.querySelector('.alike-item')")
    page.send("Accessibility.enable")
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    used = {"button", "combobox", "radio", "textbox", "link", "table", "list", "main", "form"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in used - {"list", "main"}
    ]
    assert [role for role, name in named if not name.strip()] == []
    assert {"button", "combobox", "radio", "table", "form"} <= {role for role, _ in named}
    assert ("button", "Remove day 2") in named
    assert page.run("document.querySelector('#summary').getAttribute('aria-live')") == "polite"


def test_a_question_in_the_address_is_asked_again(page, address):
    listed = ask(page, address, visitor="", item="day 2", **{"context.daytime": "day", "n": "5"})
    assert len(listed) == 5
    page.click("#reset")
    page.wait("document.querySelector('#summary').textContent.includes('anyone')")
    assert page.run("location.hash") in ("", "#")


def test_a_key_opens_a_locked_service_and_a_new_model_shows(tab, tmp_path):
    path, key = tmp_path / "model.fmpair", "0123456789abcdef"
    (tmp_path / "keys").write_text(key)
    recipe = FMPair(factors=4, epochs=2, seed=1)
    recipe.fit(EVENTS).save(path)
    with service(path, "--watch", "--api-key-file", tmp_path / "keys") as address:
        tab.open(f"{address}#user={ANN}")
        tab.wait("!document.querySelector('#key-form').hidden")
        assert "Bearer" in tab.text("#problem") and tab.text("#service") == "key required"
        tab.click("#key")
        tab.press(key, "Enter")
        before, first = names(tab), tab.run("document.querySelector('#cards').textContent")
        assert len(before) == 10 and tab.run("document.querySelector('#key-form').hidden")
        recipe.fit(EVENTS[: len(EVENTS) - 20]).save(path)
        tab.wait(
            "(document.querySelector('#n').dispatchEvent(new Event('change')), "
            f"document.querySelector('#cards').textContent !== {json.dumps(first)})"
        )
        assert len(tab.texts(".model-card")) == 1


PICTURE = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"  # refused
)


def test_both_arms_are_shown_side_by_side_with_titles(tab, tmp_path):
    titles = EVENTS.select(pl.col("item").unique(maintain_order=True)).with_columns(
        title=pl.lit("The ") + pl.col("item"),
        picture=pl.when(pl.col("item").str.starts_with("day"))
        .then(pl.lit("/page/icon.svg"))
        .otherwise(pl.lit(PICTURE)),
    )
    data = Dataset.from_frame(EVENTS, order="rows").with_items(titles)
    recipe = FMPair(factors=4, epochs=9, history=3, order=2, times=False, seed=1)
    for name, seed in (("model", 1), ("next", 2)):
        replace(recipe, seed=seed).fit(data).save(tmp_path / f"{name}.fmpair")
    options = ("--candidate", tmp_path / "next.fmpair", "--images", "picture")
    with service(tmp_path / "model.fmpair", *options) as address:
        tab.open(address)
        tab.errors.clear()  # the page of the test before asked a service that had ended
        for width in WIDTHS:
            tab.look(width)
            tab.open(address)
            tab.wait("document.querySelectorAll('#examples button').length === 4")
            example = tab.texts("#examples button")[1]
            tab.click("#examples button:nth-of-type(2)")
            tab.wait(f"document.querySelector('#summary').textContent.includes({example!r})")
            assert tab.texts(".lists h3") == ["current", "candidate"]
            both = [tab.texts(f"#{place} .head .name") for place in ("list", "other-list")]
            assert [len(one) for one in both] == [10, 10] and both[0] != both[1]
            assert all(name.startswith("The ") for one in both for name in one)
            assert tab.run("document.documentElement.scrollWidth") <= width
            tab.click("#list .head")
            tab.wait("document.querySelector('.terms')")
            tab.wait(
                "[...document.querySelectorAll('.terms th')]"
                ".every((one) => !/history (day|night)/.test(one.title))"
            )
            assert any(text.startswith("history The ") for text in tab.texts(".terms th"))
            pictures = tab.run("[...document.querySelectorAll('.picture')].map(one => one.src)")
            assert set(pictures) == {f"{address}page/icon.svg"}
            assert tab.run("document.querySelector('#cards details').open") is False
            assert tab.run(CONTRAST) == []
        assert tab.errors == []


def test_a_model_that_cannot_say_why_is_shown_all_the_same(tab, tmp_path):
    ItemKNN().fit(EVENTS).save(tmp_path / "model.fmpair")
    with service(tmp_path / "model.fmpair") as address:
        tab.look(390)
        assert len(ask(tab, address, visitor="", item="day 2")) == 10
        tab.click("#list .head")
        tab.wait("document.querySelector('.alike-item')")
        assert "cannot explain its scores" in tab.text(".detail")
        assert len(tab.texts("#list .head .piece")) == 10
        assert tab.run("document.documentElement.scrollWidth") <= 390
