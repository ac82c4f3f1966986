"""Models are swapped under load: no request fails, and a broken file costs nothing."""

import os
import shutil
import time

import pytest
from under_load import Load, Service, fitted, kept, until

from fmpair import load
from fmpair.cli import run
from fmpair.events.store import open_store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [fitted(folder, f"{epochs}.fmpair", epochs) for epochs in (1, 2)]


def put(source, target):
    shutil.copy(source, f"{target}.new")
    os.replace(f"{target}.new", target)


def in_service(service):
    return service.ask("/v1/model")[1]["models"][0]["model"]


@pytest.mark.faults
def test_fifty_swaps_under_load_fail_no_request(models, tmp_path):
    path, url = tmp_path / "model.fmpair", tmp_path / "events.db"
    put(models[0], path)
    with Service(path, "--events", url, "--watch") as service:
        with Load(service) as load:
            for number in range(50):
                before = in_service(service)
                put(models[(number + 1) % 2], path)
                until(lambda before=before: in_service(service) != before)
        assert not load.failed and not load.lost and load.asked > 50
        assert "fmpair_model_swaps_total 50" in service.ask("/metrics")[1]
        store = open_store(url)
        assert set(load.acknowledged) <= kept(store)
        store.close()
    print(f"50 swaps: {load.asked} answers and {len(load.acknowledged)} events, none failed")


def test_a_broken_file_is_refused_and_reported_everywhere(models, tmp_path):
    path = tmp_path / "model.fmpair"
    put(models[0], path)
    with Service(path, "--watch") as service:
        before = in_service(service)
        content = bytearray(models[1].read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / "broken").write_bytes(content)
        put(tmp_path / "broken", path)
        until(lambda: service.ask("/v1/model")[1]["models"][0]["refused"])
        card = service.ask("/v1/model")[1]["models"][0]
        assert card["model"] == before and "checksum does not match" in card["refused"]["why"]
        assert service.ask("/v1/recommend", {"user": "user-000"})[0] == 200
        assert "fmpair_model_refusals_total 1" in service.ask("/metrics")[1]
        until(lambda: "rejected " in service.said)
        put(models[1], path)
        until(lambda: in_service(service) != before)
        assert service.ask("/v1/model")[1]["models"][0]["refused"] is None


def test_the_arm_stands_in_every_answer_and_event(models, tmp_path):
    url = tmp_path / "events.db"
    options = ("--events", url, "--candidate", models[1], "--share", 0.5)
    with Service(models[0], *options) as service:
        arms = {}
        for number in range(30):
            user = f"user-{number:03}"
            _, answer = service.ask("/v1/recommend", {"user": user, "n": 5})
            arms[user] = answer["arm"], answer["model"]
            event = {"user": user, "item": answer["items"][0]["item"]}
            assert service.ask("/v1/events", {"events": [event]})[0] == 200
        assert {arm for arm, _ in arms.values()} == {"current", "candidate"}
        assert len(set(arms.values())) == 2
    store = open_store(url)
    assert {event.user: (event.arm, event.model) for event in store.after(0, 100)} == arms
    shown = store.impressions(0, 100)
    assert {one.user: (one.arm, one.model) for one in shown} == arms
    assert all(len(one.items) == 5 for one in shown)
    store.close()


def test_events_are_known_to_every_worker_and_after_a_new_start(models, tmp_path):
    url = tmp_path / "events.db"
    service = Service(models[0], "--events", url, workers=2).start()
    try:
        for number in range(20):
            user = f"user-{number:03}"
            best = service.ask("/v1/recommend", {"user": user, "n": 1})[1]["items"][0]["item"]
            service.ask("/v1/events", {"events": [{"user": user, "item": best}]})
            assert best not in items(service, user)  # whoever answers
        newcomer = {"user": "zoe", "n": 3}
        assert best in items(service, "zoe")
        service.ask("/v1/events", {"events": [{"user": "zoe", "item": best}]})
        after = service.ask("/v1/recommend", newcomer)[1]
        assert after["unknown"] == ["user"] and best not in items(service, "zoe")
        service.stop()
        service.start()
        assert best not in items(service, user)
        assert service.ask("/v1/recommend", newcomer)[1]["items"] == after["items"]
        assert service.ask("/v1/events?after=20&n=5")[1]["events"][0]["user"] == "zoe"
    finally:
        service.stop()
        time.sleep(0)


def test_what_was_learned_of_the_events_is_swapped_in_and_counts_once(models, tmp_path):
    path, url, following = (tmp_path / name for name in ("m.fmpair", "events.db", "next.fmpair"))
    put(models[0], path)
    with Service(path, "--events", url, "--watch") as service:
        told = [("zoe", "book-001"), ("zoe", "brand-new"), ("user-003", "book-002")]
        events = [{"user": user, "item": item, "time": 1_750_000_000} for user, item in told]
        assert service.ask("/v1/events", {"events": events})[0] == 200
        assert run(["update", str(path), "--events", str(url), "-o", str(following), "-q"]) == 0
        before = in_service(service)
        os.replace(following, path)
        until(lambda: in_service(service) != before)
        card = service.ask("/v1/model")[1]["models"][0]
        grown = load(path)
        assert card["users"] == len(grown.user_ids) and "zoe" in grown.user_ids
        assert not {"book-001", "brand-new"} & set(items(service, "zoe"))
        for user in ("zoe", "user-003", "user-004"):
            assert items(service, user) == grown.recommend(user, 60)["item"].to_list()
        more = [{"user": "user-004", "item": "brand-new"}]
        assert "brand-new" in items(service, "user-004")
        assert service.ask("/v1/events", {"events": more})[0] == 200
        assert "brand-new" not in items(service, "user-004")


def items(service, user):
    return [
        one["item"] for one in service.ask("/v1/recommend", {"user": user, "n": 60})[1]["items"]
    ]
