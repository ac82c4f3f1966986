"""Rules, changes of items and events that make no sense are refused, and never an error inside."""

import os
import random

import polars as pl
import pytest
from asking import ask

from fmpair import Dataset, FMPair
from fmpair.events.store import open_store
from fmpair.fitted.rules import rules_of
from fmpair.serve.application import Application
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service

CASES = 3 * int(os.environ.get("FMPAIR_FAULT_CASES", 100))  # bodies of each kind
NAMES = ["kind", "price", "stock", "tags", "since", "title", "removed", "item", "user", "", "é🎈"]
TEXTS = ["a", "b", "tea", "true", "1", "-5", "1e999", "nan", "2024-01-31",
         "", "x" * 50, "\0", '"', "a,b", "é🎈"]  # fmt: skip
NUMBERS = [0, 1, -1, 3, 0.5, -0.0, 1e308, -1e-320, 2**31, 2**63 - 1, 2**64, 10**30]
SIGNS = ["=", "<", "<=", ">", ">=", "!=", "==", "~", "=="]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed")
    events = {"user": [f"u{n % 9}" for n in range(90)], "item": [n * n % 13 for n in range(90)]}
    items = pl.DataFrame({
        "item": range(14), "kind": ["tea", "cups"] * 7, "price": [n / 2 for n in range(14)],
        "stock": [True, False] * 7, "tags": [["a"], ["a", "b"]] * 7,
        "title": list("abcdefghijklmn"),
        "since": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 14), eager=True),
    })  # fmt: skip
    recipe = FMPair(factors=4, epochs=2, history=0, order=2, times=False, threads=1)
    path = folder / "model.fmpair"
    recipe.fit(Dataset.from_frame(events, items=items, display=["since", "stock"])).save(path)
    store = open_store(folder / "events.db")
    rules = {"front_page": rules_of(where="stock=true", limit={"kind": 2})}
    yield Application(Service(LiveModels(path, store), store, rules=rules))
    store.close()


class Drawn:
    """Values of JSON, most of them nearly right."""

    def __init__(self, seed):
        self.of = random.Random(seed)

    def value(self, depth=2):
        kinds = [lambda: self.of.choice(TEXTS), lambda: self.of.choice(NUMBERS), lambda: None,
                 lambda: self.of.random() < 0.5, lambda: self.of.choice(NAMES)]  # fmt: skip
        if depth:
            kinds += [lambda: [self.value(depth - 1) for _ in range(self.of.randrange(3))],
                      lambda: {self.of.choice(NAMES): self.value(depth - 1)}]  # fmt: skip
        return self.of.choice(kinds)()

    def maybe(self, right):
        """The right kind of value, or now and then any."""
        return right() if self.of.random() < 0.85 else self.value()

    def where(self):
        text = self.of.choice(["", "not ", "not"]) + self.of.choice(NAMES) + self.of.choice(SIGNS)
        return text + self.of.choice([*TEXTS, "0.5", "2024-01-05", "tea,cups", "false"])

    def number(self):
        return self.of.choice(NUMBERS)

    def user(self):
        return self.of.choice(["u1", "u2", "nobody", None])

    def item(self):
        return self.of.choice([*range(16), "3", 2**40])

    def recommend(self):
        body = {
            "user": self.user,
            "n": lambda: self.of.choice([1, 5, 20, 1000]),
            "where": lambda: [self.maybe(self.where) for _ in range(self.of.randrange(3))],
            "limit": lambda: {self.of.choice(NAMES): self.of.choice([1, 2, 0, 2**40])},
            "boost": lambda: {self.of.choice(NAMES): {self.of.choice(TEXTS): self.number()}},
            "diversity": lambda: self.of.choice([0, 0.3, 1, -1, 2]),
            "exclude_shown": lambda: self.of.choice(["7d", "1h", "x", [1, 2], "9" * 30 + "d"]),
            "rules": lambda: self.of.choice(["front_page", "other"]),
            "candidates": lambda: [self.item() for _ in range(self.of.randrange(5))],
            "explain": lambda: True,
            "log": lambda: True,
            "show": lambda: [self.of.choice(NAMES)],
        }  # fmt: skip
        named = self.of.sample(list(body), self.of.randrange(1, 6))
        return {name: self.maybe(body[name]) for name in named}

    def items(self):
        def one():
            columns = self.of.sample(NAMES, self.of.randrange(4))
            return {"item": self.maybe(self.item), **{name: self.value(1) for name in columns}}

        return {"items": self.maybe(lambda: [self.maybe(one) for _ in range(self.of.randrange(4))])}

    def events(self):
        def one():
            more = {"event": lambda: self.of.choice(["view", "buy", ""]), "id": lambda: "1",
                    "value": lambda: self.of.choice(NUMBERS), "context": dict,
                    "time": lambda: self.of.choice([0, 1.5e9, "2024-01-01", 1e300])}  # fmt: skip
            named = self.of.sample(list(more), self.of.randrange(4))
            parts = {name: self.maybe(more[name]) for name in named}
            return {"user": self.maybe(self.user), "item": self.maybe(self.item), **parts}

        return {
            "events": self.maybe(lambda: [self.maybe(one) for _ in range(self.of.randrange(3))])
        }


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/recommend", "recommend"),
        ("PUT", "/v1/items", "items"),
        ("POST", "/v1/events", "events"),
    ],
)
def test_no_body_makes_the_service_fail(service, method, path, kind):
    drawn, taken = Drawn(7), 0
    for _ in range(CASES):
        body = getattr(drawn, kind)()
        answer = ask(service, path, body, method=method)
        assert answer.status < 500, (body, answer)
        taken += answer.status == 200
        if kind != "recommend" and answer.status == 200:  # lists go on after what was taken
            rules = {
                "user": "u1",
                "where": "price>=0",
                "boost": {"kind": {"tea": 1}},
                "explain": True,
            }
            assert ask(service, "/v1/recommend", rules).status == 200, body
    assert taken > CASES // 20  # most are nearly right, so some are taken
