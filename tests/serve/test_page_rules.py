"""The rule controls of the page, in a real browser in front of a service with named rules."""

import polars as pl
import pytest
from page_steps import ANN, CONTRAST, EVENTS, IN_BROWSER, WIDTHS, ask, changed, choose, names
from running import service

from fmpair import FMPair
from fmpair.data import Dataset

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A service whose items have columns and which has named rules."""
    folder = tmp_path_factory.mktemp("shop")
    items = EVENTS.select(pl.col("item").unique(maintain_order=True)).with_columns(
        part=pl.when(pl.col("item").str.starts_with("n")).then(pl.lit("n")).otherwise(pl.lit("d")),
        shelf=pl.int_range(pl.len()) % 3,
    )
    data = Dataset.from_frame(EVENTS).with_items(items)
    recipe = FMPair(factors=4, epochs=9, history=0, order=2, times=False, seed=1)
    recipe.fit(data).save(folder / "model.fmpair")
    (folder / "rules.yaml").write_text(
        'nights: {where: [part=n]}\n"two, each": {limit: {shelf: 2}}\n'
    )
    with service(folder / "model.fmpair", "--rules", folder / "rules.yaml") as found:
        yield found


@pytest.mark.parametrize("width", WIDTHS)
def test_rules_are_set_by_fields_and_are_in_the_address(tab, shop, width):
    tab.errors.clear()
    tab.look(width)
    plain = ask(tab, shop, user=ANN, n="20")
    assert tab.texts("#rules option") == ["none", "nights", "two, each"]
    assert tab.run("document.querySelector('#where-columns option').value") == "part="
    choose(tab, "rules", "nights")
    nights = changed(tab, plain)
    assert nights == [name for name in plain if name.startswith("night")]
    choose(tab, "rules", "two, each")
    assert len(changed(tab, nights)) == 6
    tab.click("#where")
    tab.press('part="n", d; not shelf=2', "Enter")
    tab.wait("document.querySelectorAll('#list .row').length === 4")
    listed = names(tab)
    choose(tab, "boost", "part:n=9; shelf:1=0.5")
    boosted = changed(tab, listed)
    first = [name.startswith("night") for name in boosted]
    assert first[0] and first == sorted(first, reverse=True)
    choose(tab, "limit", "shelf=1; part=2")
    assert len(changed(tab, boosted)) == 2
    tab.click("#list .head")
    tab.wait("document.querySelector('.terms')")
    assert "boost part n" in tab.texts(".terms tbody th")
    address = tab.run("location.hash")
    again = names(tab)
    tab.open("about:blank")
    tab.open(f"{shop}{address}")
    assert names(tab) == again
    assert tab.run("document.querySelector('#boost').value") == "part:n=9; shelf:1=0.5"
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run(CONTRAST) == [] and tab.errors == []


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("where", "nothing=1", "where: unknown item column 'nothing'"),
        ("limit", "shelf", "Write brand=2, not shelf."),
        ("limit", "shelf=0", 'limit: {"shelf": 0}: the number must be whole and at least 1'),
        ("boost", "shelf=1", "Write brand:ACME=0.3, not shelf=1."),
        ("boost", "shelf:1=much", "Write brand:ACME=0.3, not shelf:1=much."),
    ],
)
def test_a_rule_that_cannot_be_asked_is_told_in_one_line(tab, shop, field, text, said):
    tab.look(1280)
    ask(tab, shop, user=ANN)
    choose(tab, field, text)
    tab.wait("!document.querySelector('#problem').hidden")
    assert tab.text("#problem").startswith(said)
    tab.click("#reset")
    tab.wait("document.querySelector('#list .row') && document.querySelector('#problem').hidden")
    assert tab.run(f"document.querySelector('#{field}').value") == ""


def test_unknown_rules_of_a_shared_address_are_shown_and_refused(tab, shop):
    tab.look(1280)
    tab.open(f"{shop}#rules=days")
    tab.wait("!document.querySelector('#problem').hidden")
    assert "unknown rules 'days'" in tab.text("#problem")
    assert tab.run("document.querySelector('#rules').value") == "days"
