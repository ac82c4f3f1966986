"""What tests of the page share: events with names, steps on the page, and what must be readable."""

import json
from urllib.parse import quote

import polars as pl
import pytest
from browser import program

from fmpair.testing import day_and_night

for needed in ("websockets", "uvicorn", "msgspec"):
    pytest.importorskip(needed)
IN_BROWSER = [  # marks
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="Chromium is not installed"),
]
SCRIPT = "<script>alert(1)</script>"  # an item of the day
IMAGE = '"><img src=x onerror=alert(2)>'  # a user
WIDTHS = (1280, 390)


def events():
    """`day_and_night` with names: `day 2`, `night 3`; two names that some pages would run."""
    frame = day_and_night().frame().rename({"time": "daytime"})
    named = pl.col("daytime") + " " + pl.col("item").cast(pl.String)
    item = pl.when(pl.col("item") == 0).then(pl.lit(SCRIPT)).otherwise(named)
    user = pl.when(pl.col("user") == "u0").then(pl.lit(IMAGE)).otherwise(pl.col("user"))
    return frame.with_columns(item=item, user=user)


EVENTS = events()
SEEN = {user: set(rows["item"]) for (user,), rows in EVENTS.group_by("user")}
ANN = next(user for user in sorted(SEEN) if user != IMAGE and SCRIPT not in SEEN[user])
DAY = [name for name in EVENTS["item"].unique() if not name.startswith("night")]


def ask(page, address, **question):
    """Open the page at a question, and wait for the list."""
    parts = "&".join(f"{name}={quote(value)}" for name, value in question.items())
    page.open(f"{address}#{parts}")
    return names(page)


def names(page):
    """The items listed, once nothing is asked any more."""
    page.wait("document.querySelector('#list .row') && !document.querySelector('.waiting')")
    return page.texts("#list .head .name")


def number(text):
    return float(text.replace("−", "-"))


def changed(page, before):
    page.wait(
        "JSON.stringify([...document.querySelectorAll('#list .head .name')].map(e => "
        f"e.textContent)) !== JSON.stringify({json.dumps(before)})"
    )
    return names(page)


def choose(page, field, value):
    """Choose from a menu, or type into a text field, and leave it."""
    found = f"document.querySelector('#{field}')"
    page.run(f"{found}.value = {json.dumps(value)}; {found}.dispatchEvent(new Event('change'))")


# Texts below 4.5 : 1 against what lies behind them, and pieces of bars below 3 : 1 (WCAG).
CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => colour.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const ratio = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const style = getComputedStyle(e);
    const text = own && e.checkVisibility() && ratio(rgb(style.color), behind(e));
    if (text && text < 4.5) bad.push([text, e.outerHTML]);
    const user_hash = e.matches('.piece:not(.rest), .total') &&
      ratio(rgb(style.backgroundColor), behind(e.closest('.row')));
    if (user_hash && user_hash < 3) bad.push([user_hash, e.outerHTML]);
  }
  return bad;
})()"""
