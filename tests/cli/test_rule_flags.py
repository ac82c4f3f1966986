"""Flags of rules: what they give, files of rules, and the lists that a service logged."""

import shutil

import pytest

from fmpair.cli.flags import in_shell
from fmpair.errors import OptionError
from fmpair.events.event import Event, Impression, ItemChange, now
from fmpair.events.store import beside, open_store
from fmpair.fitted.rules import rules_of

DAY = 86_400_000_000


@pytest.fixture
def own(files, model, tmp_path):
    """A copy of the model with an event store beside it: user-001 was shown the first two."""
    path = tmp_path / "model.fmpair"
    shutil.copy(model, path)
    return path


def listed(fmpair, model, *arguments):
    done = fmpair("recommend", model, "--user", "user-001", "-n", "3", *arguments)
    assert done.code == 0, done.err
    return [line.split(",")[1] for line in done.out.splitlines()[1:]]


def test_lists_that_a_service_logged_are_left_out(fmpair, own, tmp_path):
    first = listed(fmpair, own)
    store = open_store(beside(own))
    store.record([Impression("user-001", (first[0],), now()), Impression("x", (first[2],), now())])
    store.record([Impression("user-001", (first[1],), now() - 2 * DAY)])
    store.close()
    assert listed(fmpair, own, "--exclude-shown", "7d")[0] == first[2]
    assert listed(fmpair, own, "--exclude-shown", "1d")[:2] == first[1:]
    rules = tmp_path / "rules.yaml"
    rules.write_text("front_page: {exclude_shown: 7d}\n")
    named = ["--rules", rules, "--rule", "front_page"]
    assert listed(fmpair, own, *named)[0] == first[2]
    assert listed(fmpair, own, *named, "--exclude-shown", "1d")[:2] == first[1:]
    everyone = ["recommend", own, "--all", "-n", "3", "--exclude-shown", "7d"]
    assert fmpair(*everyone, "-o", tmp_path / "all.csv").code == 0
    lines = (tmp_path / "all.csv").read_text().splitlines()
    best = next(line.split(",")[1] for line in lines if line.startswith("user-001,"))
    assert best == first[2]
    assert fmpair(*everyone, "-o", tmp_path / "parts").code == 0
    assert fmpair(*everyone, "-o", tmp_path / "parts").code == 0  # resumes


def test_an_event_store_gives_the_lists_of_its_service(fmpair, own, tmp_path):
    best, second, third = listed(fmpair, own)
    url = tmp_path / "shop.db"
    store = open_store(url)
    store.put_items([ItemChange(best, {"removed": True}), ItemChange(third, {"price": 5})])
    store.append([Event("user-001", second, now())])
    store.close()
    live = listed(fmpair, own, "--events", url)
    assert live[0] == third and not {best, second} & {*live}
    assert listed(fmpair, own, "--events", url, "--where", "price<=5") == [third]
    everyone = fmpair("recommend", own, "--all", "-n", "3", "--events", url)
    assert best not in everyone.out and everyone.code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--exclude-shown", "7d"], "model.events.db does not exist: give the one with the lists"),
        (["--exclude-shown", "soon"], "--exclude-shown must be a time such as '30d'"),
        (["--events", "x.db"], "error: the event store x.db does not exist\n"),
        (["--limit", "kind=0"], "--limit kind=0: the number must be whole and at least 1"),
        (["--boost", "kind:a=1e99"], "--boost kind:a=1e+99: the number must be from"),
        (
            ["--where", "nothing=1"],
            "--where: the model knows no columns of items: fit it with --items",
        ),
    ],
)
def test_a_wrong_flag_is_one_line(fmpair, own, arguments, said):
    done = fmpair("recommend", own, "--user", "user-001", *arguments)
    assert done.code == 1 and said in done.err and done.err.count("\n") == 1


def test_a_rule_of_a_file_is_not_blamed_on_a_flag(fmpair, own, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("front_page: {where: [nothing=1]}\n")
    for verb in (["recommend", own, "--user", "user-001", "--rule", "front_page"], ["serve", own]):
        done = fmpair(*verb, "--rules", rules, *(["--port", "0"] if verb[0] == "serve" else []))
        assert done.code == 1
        assert f"{rules}: front_page: where: the model knows no columns of items" in done.err


def test_a_diversity_of_0_is_given_to_the_model(fmpair, own, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("varied: {diversity: 1}\n")
    named = ["--rules", rules, "--rule", "varied"]
    plain = listed(fmpair, own)
    assert listed(fmpair, own, *named) != plain
    assert listed(fmpair, own, *named, "--diversity", "0") == plain


def test_boosts_in_messages_are_written_as_flags():
    from fmpair.cli.application import command

    with pytest.raises(OptionError) as error:
        rules_of(boost={"brand": {"ACME": "much"}})
    spelled = error.value.spelled(in_shell(command(), ["recommend"]))
    assert spelled.startswith("--boost brand:ACME=much: the number must be from")
