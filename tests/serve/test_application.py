"""The application, called without a network."""

import asyncio
import re
from dataclasses import replace
from importlib.resources import files

import pytest
from asking import ask, send
from clicked import clicks
from static_model import StaticModel

from fmpair.errors import MachineError
from fmpair.events.store import open_store
from fmpair.models import ItemKNN
from fmpair.serve import application as http
from fmpair.serve.access_control import AccessControl, RateLimit
from fmpair.serve.application import Application, read_pages
from fmpair.serve.live_models import LiveModels
from fmpair.serve.service import Service
from fmpair.serve.settings import PURPOSES

ANN = "ann/3 <é🎈>"

ALL = frozenset(PURPOSES)


@pytest.fixture(scope="module")
def service(model_file, tmp_path_factory):
    """An application around a model and a store."""
    store = open_store(tmp_path_factory.mktemp("store") / "events.db")
    yield Application(Service(LiveModels(model_file, store), store))
    store.close()


@pytest.fixture(scope="module")
def model(service):
    return service.service.models.of(None)[1]


def test_a_list_is_what_the_model_answers(service, model):
    found = ask(service, "/v1/recommend", {"user": ANN, "n": 3, "context": {"daytime": "day"}})
    wanted = model.answer(ANN, 3, context={"daytime": "day"})
    assert found.status == 200 and found.headers["content-type"] == "application/json"
    assert [one["item"] for one in found.json["items"]] == wanted.items
    assert [one["score"] for one in found.json["items"]] == wanted.scores
    assert [one["rank"] for one in found.json["items"]] == [1, 2, 3]
    assert found.json["model"] == service.service.models.of(None)[2]
    assert "terms" not in found.json["items"][0]


def test_terms_come_where_they_are_asked_for_and_add_up(service):
    found = ask(service, "/v1/recommend", {"user": ANN, "explain": True}).json["items"][0]
    assert sum(term["value"] for term in found["terms"]) == pytest.approx(found["score"], abs=1e-5)
    one = ask(service, "/v1/explain", {"user": ANN, "item": found["item"]}).json
    assert one["score"] == pytest.approx(found["score"]) and one["terms"] == found["terms"]


def test_a_visitor_needs_no_id(service, model):
    found = ask(service, "/v1/recommend", {"history": [3, 5]}).json["items"]
    assert [one["item"] for one in found] == model.answer(history=[3, 5]).items


def test_a_batch_is_answered_in_its_order(service):
    questions = [{"user": ANN, "n": 2}, {"history": [1]}, {"user": ANN, "candidates": [4, 5, 6]}]
    together = ask(service, "/v1/recommend/batch", {"questions": questions}).json["answers"]
    for question, answer in zip(questions, together):
        alone = ask(service, "/v1/recommend", question).json
        assert [one["item"] for one in answer["items"]] == [one["item"] for one in alone["items"]]


def test_scores_come_in_the_order_of_the_items(service, model):
    found = ask(service, "/v1/score", {"user": ANN, "items": [7, 2, "7"]}).json["items"]
    assert [one["item"] for one in found] == [7, 2, 7]
    wanted = model.answer(ANN, candidates=[2], exclude_seen=False).scores[0]
    assert found[1]["score"] == pytest.approx(wanted)


def test_similar_items_and_users_are_told(service, model):
    found = ask(service, "/v1/similar", {"item": 3, "n": 2}).json["similar"]
    assert [one["id"] for one in found] == model.similar_items(3, 2)["item"].to_list()
    users = ask(service, "/v1/similar", {"user": ANN, "n": 2}).json["similar"]
    assert [one["id"] for one in users] == model.similar_users(ANN, 2)["user"].to_list()
    both = ask(service, "/v1/similar", {"user": ANN, "item": 3})
    assert both.status == 422 and "either" in both.json["detail"]


def test_the_next_answer_knows_what_happened(service):
    user = "ann/5 <é🎈>"
    first = ask(service, "/v1/recommend", {"user": user}).json["items"][0]["item"]
    taken = ask(service, "/v1/events", {"events": [{"user": user, "item": first}]})
    assert taken.status == 200 and taken.json["taken"] == 1
    after = ask(service, "/v1/recommend", {"user": user, "n": 20}).json["items"]
    assert first not in [one["item"] for one in after]
    kept = ask(service, f"/v1/events?after={taken.json['position'] - 1}").json["events"]
    assert [(one["user"], one["item"]) for one in kept] == [(user, first)]


def test_an_event_that_is_sent_again_counts_once(service):
    event = {"user": "resender", "item": 1, "time": 1_700_000_000, "id": "click-1"}
    first, *again = (ask(service, "/v1/events", {"events": [event]}).json for _ in range(3))
    assert again == [first, first]
    later = {**event, "time": 1_700_000_009}  # the id says that it is the same
    assert ask(service, "/v1/events", {"events": [later]}).json == first
    kept = ask(service, f"/v1/events?after={first['position'] - 1}").json["events"]
    assert [one["user"] for one in kept].count("resender") == 1


def test_events_have_types_and_values(service):
    given = {"user": "buyer", "item": 1, "time": 1_700_000_000, "event": "buy", "value": 19.9}
    position = ask(service, "/v1/events", {"events": [given]}).json["position"]
    (kept,) = ask(service, f"/v1/events?after={position - 1}").json["events"]
    assert (kept["event"], kept["value"]) == ("buy", 19.9)


def test_a_list_that_was_logged_can_be_kept_out_of_the_next_ones(service):
    asked = {"user": "ann/7 <é🎈>", "exclude_seen": False}

    def items(**more):
        found = ask(service, "/v1/recommend", {**asked, **more}).json["items"]
        return [one["item"] for one in found]

    first = items(n=3)
    assert items(n=3, exclude_shown="7d") == first == items(n=3, log=True)
    following = items(n=5, exclude_shown="7d", log=True)
    assert following == items(n=8)[3:]
    questions = [{**asked, "n": 20, "exclude_shown": "1h"}, {**asked, "n": 20}]
    fewer, all_ = ask(service, "/v1/recommend/batch", {"questions": questions}).json["answers"]
    assert (len(fewer["items"]), len(all_["items"])) == (12, 20)
    assert items(n=3, exclude_shown="0.000001s") == first
    none_left = "no item is left by exclude_shown '7d'"
    assert len(items(n=20, log=True)) == 20 and items(n=3, exclude_shown="7d") == []
    question = {**asked, "exclude_shown": "7d"}
    assert ask(service, "/v1/recommend", question).json["empty"] == none_left
    batch = ask(service, "/v1/recommend/batch", {"questions": [question, asked]}).json["answers"]
    assert batch[0]["empty"] == none_left and "empty" not in batch[1]
    never = {**question, "candidates": []}
    assert "by candidates: none" in ask(service, "/v1/recommend", never).json["empty"]
    nobody = {"n": 3, "exclude_shown": "7d", "log": True}
    assert ask(service, "/v1/recommend", nobody).status == 200


def test_a_failing_store_is_not_waited_for_where_lists_exclude_what_was_shown(service, monkeypatch):
    def fails(user, time):
        raise MachineError("gone")

    monkeypatch.setattr(service.service.store, "shown_since", fails)
    body = {"user": ANN, "exclude_shown": "7d"}
    assert ask(service, "/v1/recommend", body).status == 200


def test_a_service_without_a_store_keeps_no_events(served_model):
    alone = Application(Service(StaticModel(served_model, "m")))
    found = ask(alone, "/v1/events", {"events": [{"user": ANN, "item": 1}]})
    assert found.status == 501 and "--events" in found.json["detail"]
    for option in ({"log": True}, {"exclude_shown": "7d"}):
        assert ask(alone, "/v1/recommend", {"user": ANN, **option}).status == 501


def test_models_of_other_kinds_are_served_too(served_model):
    model = ItemKNN().fit(clicks().select("user", "item"))
    other = Application(Service(StaticModel(model, "knn")))
    found = ask(other, "/v1/recommend", {"user": ANN, "n": 2, "explain": True})
    assert found.status == 200 and len(found.json["items"]) == 2 and found.json["items"][0]["terms"]
    assert ask(other, "/v1/recommend", {"n": 2}).status == 200
    stranger = ask(other, "/v1/recommend", {"user": "bob", "n": 2}).json
    assert len(stranger["items"]) == 2 and stranger["unknown"] == ["user"]
    assert ask(other, "/v1/model").json["models"][0]["recipe"] == "ItemKNN"


def test_the_card_names_the_values_of_the_context(service):
    card = ask(service, "/v1/model").json["models"][0]
    assert (card["users"], card["items"], card["factors"]) == (12, 20, 4)
    assert sorted(card["context"][0]["values"]) == ["day", "night"]
    assert card["context"][1] == {"name": "warmth", "kind": "numeric", "values": [], "count": 0}


def test_ids_are_found_by_how_they_begin(service):
    found = ask(service, "/v1/users?prefix=ANN/1&n=2").json
    assert found["count"] == 3 and len(found["ids"]) == 2
    assert set(ask(service, "/v1/items?prefix=1").json["ids"]) == {1, *range(10, 20)}


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/recommend", {"user": "bob", "unknown": "error"}, 404, "unknown user 'bob'"),
        ("/v1/recommend", {"context": {"warmth": "hot"}}, 422, "'hot' is not a number"),
        ("/v1/recommend", {"n": 0}, 422, "`int` >= 1 - at `$.n`"),
        ("/v1/recommend", {"n": 10**6}, 422, "`int` <= 1000"),
        ("/v1/recommend", {"users": "bob"}, 422, "unknown field `users`. Did you mean `user`?"),
        ("/v1/recommend", {"top_k": 3}, 422, "unknown field `top_k`. Did you mean `n`?"),
        ("/v1/recommend", {"zzz": 3}, 422, "unknown field `zzz`"),
        (
            "/v1/recommend/batch",
            {"questions": [{"user": "ann/1"}, {"histroy": [1]}]},
            422,
            "unknown field `histroy` - at `$.questions[1]`. Did you mean `history`?",
        ),
        (
            "/v1/events",
            {"events": [{"user": 1, "item": 1, "valeu": 3}]},
            422,
            "Did you mean `value`?",
        ),
        ("/v1/recommend", {"user": "x" * 2000}, 422, "length <= 1024"),
        ("/v1/recommend", {"user": {"a": 1}}, 422, "$.user"),
        ("/v1/recommend", b"{", 400, "the body is not valid JSON"),
        ("/v1/recommend", b'{"user": "\xff"}', 400, "the body is not valid JSON"),
        ("/v1/recommend", b"", 400, "the body is not valid JSON"),
        ("/v1/recommend/batch", {"questions": [{}] * 1000}, 422, "length <= 256"),
        ("/v1/explain", {"item": 99}, 404, "unknown item 99"),
        ("/v1/events", {"events": [{"user": "", "item": 1}]}, 422, "invalid user id"),
        ("/v1/events", {"events": [{"user": 1, "item": 1, "time": "noon"}]}, 422, "invalid time"),
        ("/v1/events", {"events": [{"user": 1, "item": 1, "event": ""}]}, 422, "length >= 1"),
        ("/v1/events", {"events": [{"user": 1, "item": 1, "event": "a\n"}]}, 422, "event type"),
        ("/v1/events", {"events": [{"user": 1, "item": 1, "value": "9"}]}, 422, "$.events"),
        (
            "/v1/events",
            {"events": [{"user": 1, "item": 1, "context": {"tags": ["a", None]}}]},
            422,
            "got `null` - at `$.events[0].context[...][1]`",
        ),
        ("/v1/recommend", {"user_features": {"age": [[1]]}}, 422, "$.user_features"),
        ("/v1/recommend", {"user_features": None}, 422, "$.user_features"),
        ("/v1/score", {"items": [1], "user_feature": {}}, 422, "Did you mean `user_features`?"),
        ("/v1/recommend", {"context": {"warmth": [1, None]}}, 422, "column 'warmth' holds List"),
        ("/v1/recommend", {"exclude_shown": "soon"}, 422, "exclude_shown must be a time such as"),
        ("/v1/items?n=0", None, 422, "n must be a whole number from 1"),
        ("/v1/items?n=²", None, 422, "n must be a whole number from 1"),
        ("/nothing", None, 404, "no such path '/nothing'"),
        ("/v1/recommend", None, 405, "/v1/recommend supports POST, not GET"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(service, path, body, status, said):
    found = ask(service, path, body)
    assert found.status == status and found.headers["content-type"] == "application/problem+json"
    assert said in found.json["detail"] and "\n" not in found.json["detail"]
    assert found.json["status"] == status and found.json["title"] and found.json["type"]


@pytest.mark.parametrize(
    ("body", "unknown", "same_as", "refused"),
    [
        ({"user": "bob"}, ["user"], {}, "unknown user 'bob'"),
        (
            {"user": "bob", "context": {"daytime": "day"}},
            ["user"], {"context": {"daytime": "day"}}, "unknown user 'bob'",
        ),
        ({"user": "bob", "history": [3, 99]}, ["user", "history"], {"history": [3]}, "item 99"),
        ({"history": [98, 99]}, ["history"], {"history": []}, "unknown item 98"),
        (
            {"user": ANN, "context": {"daytime": "dya"}},
            ["context.daytime"], {"user": ANN}, "Did you mean 'day'?",
        ),
        (
            {"user": ANN, "context": {"daytme": "day"}},
            ["context.daytme"], {"user": ANN}, "Did you mean 'daytime'?",
        ),
        ({"user": ANN, "time": 1_700_000_000}, ["time"], {"user": ANN}, "does not use the time"),
        ({"user": ANN, "exclude": [99]}, ["exclude"], {"user": ANN}, "unknown item 99"),
    ],
)  # fmt: skip
def test_nobody_is_refused_unless_the_service_is_strict(service, body, unknown, same_as, refused):
    found = ask(service, "/v1/recommend", body)
    assert found.status == 200 and found.json["unknown"] == unknown
    known = ask(service, "/v1/recommend", same_as).json
    assert found.json["items"] == known["items"] and "unknown" not in known
    batch = ask(service, "/v1/recommend/batch", {"questions": [body, same_as]}).json["answers"]
    assert [one["items"] for one in batch] == [known["items"]] * 2
    assert batch[0]["unknown"] == unknown
    strict = Application(replace(service.service, strict=True))
    assert refused in ask(strict, "/v1/recommend", body).json["detail"]


def test_the_scores_of_unknown_items_are_left_out(service):
    found = ask(service, "/v1/score", {"user": "bob", "items": [77, 3, 78]}).json
    assert [one["item"] for one in found["items"]] == [3] and found["unknown"] == ["user", "items"]


def test_an_error_that_nobody_foresaw_tells_nothing_of_the_inside(service, monkeypatch, caplog):
    def broken(user):
        raise RuntimeError("a secret")

    monkeypatch.setattr(service.service.models, "of", broken)
    found = ask(service, "/v1/recommend", {})
    assert found.status == 500 and "secret" not in found.json["detail"]
    assert "a secret" in caplog.text


def test_a_body_that_is_too_large_is_refused_before_it_is_read(service):
    said = ask(service, "/v1/recommend", b"{}", headers={"content-length": "99999999"})
    assert said.status == 413
    assert ask(service, "/v1/recommend", b" " * (http.MAX_BODY + 1)).status == 413


def test_a_body_that_comes_too_slowly_is_not_waited_for(service, monkeypatch):
    monkeypatch.setattr(http, "TIMEOUT", 0.01)
    sent = []

    async def receive():
        await asyncio.sleep(60)

    async def collect(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/recommend", "query_string": b"",
             "headers": [(b"host", b"localhost")], "client": None}  # fmt: skip
    asyncio.run(service(scope, receive, collect))
    assert sent[0]["status"] == 408


def test_every_answer_has_the_headers_that_keep_browsers_careful(service):
    for path in ("/v1/model", "/nothing", "/live", "/metrics", "/openapi.json"):
        headers = ask(service, path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"]


def test_a_head_request_gets_no_body(service):
    found = ask(service, "/v1/model", method="HEAD")
    assert found.status == 200 and found.body == b"" and int(found.headers["content-length"]) > 100


def test_a_key_is_needed_where_there_are_keys(service):
    closed = Application(
        service.service, AccessControl(keys={b"0123456789abcdef": ALL, b"another-key-12345": ALL})
    )
    assert ask(closed, "/v1/model").status == 401
    assert ask(closed, "/v1/model").headers["www-authenticate"] == "Bearer"
    assert ask(closed, "/metrics").status == 401
    for given in ("Bearer 0123456789abcdef", "bearer another-key-12345"):
        assert ask(closed, "/v1/model", headers={"authorization": given}).status == 200
    assert ask(closed, "/v1/model", headers={"x-api-key": "0123456789abcdef"}).status == 200
    assert ask(closed, "/v1/model", headers={"authorization": "Bearer 0123"}).status == 401
    assert ask(closed, "/v1/model", headers={"authorization": "Bearer é"}).status == 401
    for path in ("/live", "/ready", "/openapi.json"):
        assert ask(closed, path).status == 200


def test_pages_of_other_sites_are_refused(service):
    own = {"origin": "http://127.0.0.1:8000"}
    assert ask(service, "/v1/recommend", {}, headers=own).status == 200
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
        assert ask(service, "/v1/recommend", {}, headers=headers).status == 403
        assert ask(service, "/", headers=headers).status == 403
    assert ask(service, "/v1/recommend", {}, headers={"host": "[::1]:8000"}).status == 200
    closed = Application(service.service, AccessControl(keys={b"0123456789abcdef": ALL}))
    behind_a_proxy = {"origin": "https://shop.example", "x-api-key": "0123456789abcdef"}
    assert ask(closed, "/v1/recommend", {}, headers=behind_a_proxy).status == 200
    wide = Application(service.service, AccessControl(local=False))
    assert ask(wide, "/v1/recommend", {}, headers={"host": "shop.example"}).status == 200


def test_clients_elsewhere_may_not_ask_too_often(service):
    clock = [0.0]
    limited = Application(service.service, AccessControl(rate=RateLimit(2, lambda: clock[0])))
    found = [ask(limited, "/v1/recommend", {}, client="10.0.0.1").status for _ in range(6)]
    assert found == [200] * 4 + [429] * 2
    assert ask(limited, "/v1/recommend", {}, client="10.0.0.1").headers["retry-after"] == "2"
    assert ask(limited, "/v1/recommend", {}, client="10.0.0.2").status == 200
    assert ask(limited, "/v1/recommend", {}, client="127.0.0.1").status == 200
    clock[0] = 1.0
    assert ask(limited, "/v1/recommend", {}, client="10.0.0.1").status == 200


def test_questions_at_the_same_time_do_not_mix(service, model):
    async def all_at_once():
        users = [f"ann/{number} <é🎈>" for number in range(12)] * 3
        asked = [send(service, "/v1/recommend", {"user": user, "n": 2}) for user in users]
        return users, await asyncio.gather(*asked)

    for user, found in zip(*asyncio.run(all_at_once())):
        assert [one["item"] for one in found.json["items"]] == model.answer(user, 2).items


def test_the_latest_events_are_given_where_no_position_is_named(service, served_model):
    user = str(served_model.user_ids[0])
    told = [{"user": user, "item": int(item)} for item in served_model.item_ids[:5]]
    position = ask(service, "/v1/events", {"events": told}).json["position"]
    found = ask(service, "/v1/events?n=2").json
    assert [one["position"] for one in found["events"]] == [position - 1, position]
    assert found["position"] == position


FILES = {
    one.name: one.read_text("utf-8") for one in files("fmpair.serve").joinpath("page").iterdir()
}


@pytest.fixture(scope="module")
def application(served_model):
    return Application(Service(StaticModel(served_model, "m")), pages=read_pages())


def address(name):
    return "/" if name == "index.html" else f"/page/{name}"


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_sent_with_its_type_and_a_policy_that_forbids_all_else(application, name):
    reply = ask(application, address(name))
    assert reply.status == 200 and reply.body.decode() == FILES[name]
    kind = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert reply.headers["content-type"].startswith(kind[name.rpartition(".")[2]])
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert "img-src 'self';" in policy
    loads = dict(read_pages(images=True)[address(name)].headers)[b"content-security-policy"]
    assert b"img-src 'self' https: http:;" in loads
    again = ask(application, address(name), headers={"if-none-match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/", "/page/none.js", "/page/../site.py", "/page/%2e%2e/site.py"]
)
def test_nothing_else_is_sent(application, path):
    assert ask(application, path).status == 404


@pytest.mark.parametrize("name", FILES)
def test_no_file_needs_anything_from_elsewhere(name):
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")  # the name of a format
    assert re.findall(r"(?:https?:)?//[\w-]+\.\w|@import|url\(", text) == []


def test_no_text_becomes_a_part_of_the_page():
    scripts = "".join(text for name, text in FILES.items() if name.endswith(".js"))
    risky = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
    )
    assert re.findall(risky, scripts) == []
    page = FILES["index.html"]
    assert re.findall(r"\sstyle=|\son\w+=|<style|<script(?! type=\"module\" src=)", page) == []


def test_every_module_that_is_imported_is_there():
    named = {name for text in FILES.values() for name in re.findall(r'from "\./(.*?)"', text)}
    named |= set(re.findall(r'"page/(.*?)"', FILES["index.html"]))
    assert named | {"index.html"} == set(FILES)


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/recomend", {}, 404, "Did you mean '/v1/recommend'?"),
        ("/v1/recommend", b"", 400, "the body is not valid JSON: it is empty"),
        ("/v1/events", {"user": ANN, "item": 3}, 422, '`user`: send {"events": [...]}'),
        ("/v1/recommend/batch", [{"user": ANN}], 422, 'got `array`: send {"questions": [...]}'),
    ],
)
def test_an_answer_to_a_mistake_says_what_was_meant(service, path, body, status, said):
    found = ask(service, path, body)
    assert found.status == status and said in found.json["detail"]
