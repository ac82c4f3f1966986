"""Keys for a purpose, clients behind a proxy, and what strangers are told."""

import pytest
from asking import ask
from static_model import StaticModel

from fmpair.serve.access_control import AccessControl, RateLimit
from fmpair.serve.application import Application
from fmpair.serve.service import Service
from fmpair.serve.settings import PURPOSES

FULL, SHOP, NIGHT = b"0123456789abcdef", b"of-the-shop-12345", b"of-the-night-1234"
KEYS = {
    FULL: frozenset(PURPOSES),
    SHOP: frozenset(("ask", "send")),
    NIGHT: frozenset(("read", "metrics")),
}


@pytest.fixture
def service(served_model):
    return Service(StaticModel(served_model, "m"))


def test_a_key_is_for_what_its_line_says(service):
    closed = Application(service, AccessControl(KEYS))

    def status(key, *request):
        return ask(closed, *request, headers={"authorization": f"Bearer {key.decode()}"}).status

    asking = ("/v1/recommend", {"n": 1})
    assert [status(key, *asking) for key in KEYS] == [200, 200, 403]
    assert [status(key, "/v1/users") for key in KEYS] == [200, 403, 200]
    assert [status(key, "/metrics") for key in KEYS] == [200, 403, 200]
    # there is no store here: 501 is what those are told who may ask for it
    assert [status(key, "/v1/events") for key in KEYS] == [501, 403, 501]
    told = {"events": [{"user": "ann", "item": 1}]}
    assert [status(key, "/v1/events", told) for key in KEYS] == [501, 501, 403]
    found = ask(closed, "/v1/events", headers={"x-api-key": SHOP.decode()})
    assert found.json["detail"] == "this API key is for ask and send only"


def test_without_a_key_nobody_learns_where_the_events_lie(served_model):
    trouble = "the event store /srv/shop/events.db failed: disk full"
    models = StaticModel(served_model, "m", trouble=trouble, stale_since=1_700_000_000.0)
    closed = Application(Service(models), AccessControl(KEYS))
    found = ask(closed, "/ready")
    assert "/srv" not in found.body.decode() and found.status == 200
    assert found.json["trouble"].startswith("the event store fails")
    assert found.json["events_stale_since"] == "2023-11-14T22:13:20+00:00"
    assert ask(closed, "/ready", headers={"x-api-key": NIGHT.decode()}).json["trouble"] == trouble
    assert ask(Application(Service(models)), "/ready").json["trouble"] == trouble


def test_clients_behind_a_proxy_are_limited_one_by_one(service):
    def statuses(access, seen, count=3):
        own = Application(service, access)
        headers = {"x-api-key": FULL.decode()} | ({"x-forwarded-for": seen} if seen else {})
        return [ask(own, "/v1/recommend", {}, headers=headers).status for _ in range(count)]

    def limit():
        return RateLimit(1, lambda: 0.0)

    behind = AccessControl(KEYS, limit(), proxied=True)
    assert statuses(behind, "10.0.0.1") == [200, 200, 429]
    assert statuses(behind, "10.0.0.2") == [200, 200, 429]
    assert statuses(behind, "6.6.6.6, 10.0.0.2") == [429] * 3  # a client cannot choose its address
    assert statuses(behind, "") == [200] * 3  # the machine itself
    assert statuses(AccessControl(KEYS, limit()), "10.0.0.1") == [200] * 3
    elsewhere = Application(service, AccessControl(KEYS, limit(), local=False, proxied=True))
    found = [
        ask(elsewhere, "/v1/recommend", {}, client="10.0.0.9",
            headers={"x-api-key": FULL.decode(), "x-forwarded-for": f"10.1.1.{number}"}).status
        for number in range(3)
    ]  # fmt: skip
    assert found == [200, 200, 429]  # only this machine's word is taken


@pytest.mark.parametrize("origin", ["http://[::1", "http://[x]", "//["])
def test_a_broken_origin_is_the_mistake_of_the_client(service, origin):
    found = ask(Application(service), "/v1/recommend", {}, headers={"origin": origin})
    assert found.status == 400 and "Origin" in found.json["detail"]


def test_too_many_query_fields_are_the_mistake_of_the_client(service):
    query = "&".join(f"x{number}=1" for number in range(101))
    found = ask(Application(service), f"/v1/items?{query}")
    assert found.status == 400 and found.json["detail"] == "the query has more than 100 fields"
    assert ask(Application(service), f"/v1/items?{query[:-7]}").status == 200
