"""Checkpoints: an interrupted fit goes on to the same model; others and broken ones are refused."""

from importlib.util import find_spec

import numpy as np
import pytest

from fmpair import FMPair
from fmpair.errors import DataError, OptionError
from fmpair.models import FMPairWeighted
from fmpair.testing import day_and_night, two_tastes
from fmpair.training import checkpoint
from fmpair.training.checkpoint import Checkpoint, Interrupted

DEVICES = ["cpu", *(["torch"] if find_spec("torch") else [])]


@pytest.fixture(autouse=True)
def every_epoch_is_written(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


def recipe(**options):
    return FMPair(**{"factors": 4, "epochs": 8, "threads": 1, "history": 0, **options})


def bits(model):
    return b"".join(table.tobytes() for table in model.parameters)


def stopped_after(number):
    """A progress function that interrupts as Ctrl-C does."""

    def progress(epoch):
        if epoch.number == number + 1:
            raise KeyboardInterrupt

    return progress


def interrupted(own, path, number, **options):
    with pytest.raises(Interrupted) as stop:
        own.fit(day_and_night(), checkpoint=path, progress=stopped_after(number), **options)
    return str(stop.value)


# Trials end before there is anything to keep, on every device: they run on one.
OPTIONS = ({}, {"optimizer": "adagrad", "order": 2}, {"loss": "bpr", "blocks": 2})


@pytest.mark.parametrize(
    ("device", "options"),
    [("cpu", own) for own in OPTIONS]
    + [(device, {"order": 2, **own}) for device in DEVICES[1:] for own in OPTIONS],
)
def test_a_fit_that_goes_on_ends_with_the_same_bytes(tmp_path, device, options):
    own, path = recipe(device=device, **options), tmp_path / "kept"
    line = interrupted(own, path, 6)
    assert line == (
        f"interrupted: epoch 6 of 8 was saved to {path}; run the same fit again to continue"
    )
    seen = []
    model = own.fit(day_and_night(), checkpoint=path, progress=lambda e: seen.append(e.number))
    assert seen == [7, 8]
    assert bits(model) == bits(own.fit(day_and_night()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [2, 5])
def test_the_best_epoch_is_remembered(tmp_path, number, monkeypatch):
    values = iter([0.1, 0.5, 0.3, 0.4, 0.2, 0.6, 0.1, 0.2])
    judge = "fmpair.training.epochs.Validation.judge"
    monkeypatch.setattr(judge, lambda self, model: next(values))
    own, path, told = recipe(), tmp_path / "kept", {"validation": 0.2, "patience": 4}
    interrupted(own, path, number, **told)
    values = iter([0.3, 0.4, 0.2, 0.6, 0.1, 0.2][number - 2 :])
    model = own.fit(day_and_night(), checkpoint=path, **told)
    values = iter([0.1, 0.5, 0.3, 0.4, 0.2, 0.6, 0.1, 0.2])
    assert bits(model) == bits(own.fit(day_and_night(), **told))


def test_a_fit_that_had_stopped_early_learns_nothing_more(tmp_path, monkeypatch):
    values = iter([0.5, 0.3, 0.2])
    judge = "fmpair.training.epochs.Validation.judge"
    monkeypatch.setattr(judge, lambda self, model: next(values))
    own, place = recipe(), Checkpoint(tmp_path / "kept", stays=True)
    told = {"validation": 0.2, "patience": 2, "checkpoint": place}
    first = own.fit(day_and_night(), **told)
    assert bits(own.fit(day_and_night(), **told)) == bits(first)
    assert next(values, None) is None


def test_a_fit_that_is_done_gives_its_model_again(tmp_path):
    own, place = recipe(), Checkpoint(tmp_path / "kept", stays=True)
    first = own.fit(day_and_night(), checkpoint=place)
    assert bits(own.fit(day_and_night(), checkpoint=place, progress=pytest.fail)) == bits(first)
    place.remove()
    place.remove()


def test_epochs_that_follow_at_once_are_not_all_written(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 1e9)
    assert "epoch 1 of 8 was saved" in interrupted(recipe(), tmp_path / "kept", 6)


def test_an_interrupt_in_the_first_epoch_says_that_nothing_is_kept(tmp_path):
    line = interrupted(recipe(), tmp_path / "kept", 0)
    assert line == "interrupted in the first epoch: nothing was saved"


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    interrupted(recipe(), tmp_path / "kept", 2)
    wanted = r"kept is a checkpoint of another recipe \(factors was 4, now 5\): use the same"
    with pytest.raises(DataError, match=wanted):
        recipe(factors=5).fit(day_and_night(), checkpoint=tmp_path / "kept")


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    interrupted(recipe(), tmp_path / "kept", 2)
    with pytest.raises(DataError, match="kept is a checkpoint of other data: use"):
        recipe().fit(two_tastes(), checkpoint=tmp_path / "kept")


def test_a_checkpoint_of_another_validation_is_refused(tmp_path):
    interrupted(recipe(), tmp_path / "kept", 2)
    with pytest.raises(DataError, match=r"another fit \(validation was None, now 0.2\)"):
        recipe().fit(day_and_night(), checkpoint=tmp_path / "kept", validation=0.2)


@pytest.mark.parametrize(
    "spoil", [lambda c: c[:-7], lambda c: c[:90] + b"x" + c[91:], lambda c: b""]
)
def test_a_broken_checkpoint_is_refused(tmp_path, spoil):
    path = tmp_path / "kept"
    interrupted(recipe(), path, 2)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DataError, match="kept is not a checkpoint, or damaged: remove it to"):
        recipe().fit(day_and_night(), checkpoint=path)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_learned(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        recipe().fit(day_and_night(), checkpoint=tmp_path / "none" / "kept")


def test_a_recipe_that_cannot_go_on_says_so(tmp_path):
    own = FMPairWeighted(factors=4, epochs=2, threads=1)
    with pytest.raises(OptionError, match="FMPairWeighted does not support checkpoint"):
        own.fit(day_and_night(), checkpoint=tmp_path / "kept")


def test_levels_go_on_too(tmp_path):
    frame = two_tastes().frame()
    frame = frame.with_columns(event_type=np.where(np.arange(len(frame)) % 3, "view", "buy"))
    own, path = recipe(levels=["view", "buy"], epochs=4), tmp_path / "kept"
    with pytest.raises(Interrupted):
        own.fit(frame, checkpoint=path, progress=stopped_after(2))
    assert bits(own.fit(frame, checkpoint=path)) == bits(own.fit(frame))
