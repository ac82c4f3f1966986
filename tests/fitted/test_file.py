"""One file that holds a whole model, and refuses to be anything else."""

import datetime
import hashlib
import json
import mmap
import os
import re
import zipfile
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_bytes
from safetensors.numpy import save_file

from fmpair import Dataset, Field, FMPair, Popularity, load
from fmpair.errors import DataError, ModelFileError
from fmpair.experiment.cell import peak_mb, reset_peak
from fmpair.fitted import file
from fmpair.fitted import recipe as option
from fmpair.testing import day_and_night


def rich_data():
    events = day_and_night().frame()
    rng = np.random.default_rng(0)
    events = events.with_columns(heat=pl.Series(rng.normal(size=len(events))))
    users = {"user": [f"u{n}" for n in range(40)], "age": rng.integers(10, 80, 40)}
    items = {"item": range(20), "tags": [["x", "y"], ["y"], None, ["z"]] * 5}
    return Dataset.from_frame(events, users=users, items=items)


RECIPE = FMPair(
    factors=3, epochs=3, seed=7, blocks=2, regularization={"user": 0.02, "tags": 0.1},
    fields={"age": Field(kind="binned", bins=4), "heat": {"start": 0.1}},
)  # fmt: skip


@cache
def learned():
    return RECIPE.fit(rich_data())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.fmpair"
    learned().save(path)
    return path


def test_a_loaded_model_is_the_one_saved(saved):
    again = load(saved)
    for part, wanted in zip(again.parameters, learned().parameters):
        np.testing.assert_array_equal(part, wanted)
    asked = {"context": {"time": "night", "heat": 0.3}, "n": 4}
    assert again.recommend(**asked).equals(learned().recommend(**asked))
    assert again.explain("u1", 3).equals(learned().explain("u1", 3))
    assert option.plain(again.recipe) == option.plain(learned().recipe)
    assert repr(again) == repr(learned())


def test_a_loaded_model_goes_on_learning_as_the_one_saved(saved):
    more = pl.DataFrame({"user": ["u1", "new"], "item": [3, 5], "time": ["dusk", "day"]})
    for go_on in ("update", "fold_in"):
        ours, theirs = (getattr(m, go_on)(more, epochs=2) for m in (learned(), load(saved)))
        for part, wanted in zip(theirs.parameters, ours.parameters):
            np.testing.assert_array_equal(part, wanted)


def test_saving_again_gives_the_same_bytes(saved, tmp_path):
    load(saved).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_a_file_has_the_bytes_that_safetensors_writes(tmp_path):
    kinds = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8"]
    arrays = {f"b{kind}": np.ones((2, 3), kind)[:, ::2] for kind in kinds}
    arrays |= {f"\u00e9{kind}": np.ones((size, 2), kind) for size, kind in enumerate(kinds)}
    header = {"format": file.FORMAT, "sha256": file.BLANK, "text": 'a "b" \u00e9 \\'}
    file.write(tmp_path / "arrays", arrays, header)
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(header, sort_keys=True)
    wanted = safetensors_bytes(whole, metadata={"fmpair": text})
    digest = hashlib.sha256(wanted).hexdigest()
    wanted = wanted.replace(file.BLANK.encode(), digest.encode(), 1)
    assert (tmp_path / "arrays").read_bytes() == wanted


def test_saving_copies_no_table(tmp_path):
    table = np.ones((1 << 20, 8))  # 64 MB
    reset_peak()
    before = peak_mb()
    header = {"format": file.FORMAT, "sha256": file.BLANK}
    file.write(tmp_path / "arrays", {"table": table}, header)
    assert peak_mb() - before < 32


def test_any_number_of_threads_gives_the_same_bytes(tmp_path):
    data, hashes = rich_data(), set()
    for threads in (1, 2, 4):
        recipe = FMPair(**{**option.plain(RECIPE), "blocks": 4, "threads": threads})
        recipe.fit(data).save(tmp_path / "m")
        hashes.add(hashlib.sha256((tmp_path / "m").read_bytes()).hexdigest())
    assert len(hashes) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda n: n,
        lambda n: n * 10**12,
        lambda n: f"ü, {n}\n",
        lambda n: n + 0.5,
        lambda n: datetime.date(2024, 1, 1) + datetime.timedelta(days=n),
        lambda n: datetime.datetime(2024, 1, 1, 12, n),
    ],
    ids=["int", "large int", "text", "float", "date", "time"],
)
def test_ids_of_any_type_survive(make, tmp_path):
    rows = [(make(u), make(i)) for u in range(6) for i in range(8) if (u + i) % 3]
    model = FMPair(factors=2, epochs=2).fit(
        pl.DataFrame(rows, schema=["user", "item"], orient="row")
    )
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.recommend(make(1)).equals(model.recommend(make(1)))
    assert again.recommend(make(1))["user"][0] == make(1)
    assert again.space.items.ids.dtype == model.space.items.ids.dtype


def test_popularity_is_saved_too(tmp_path):
    model = Popularity().fit(day_and_night())
    model.save(tmp_path / "p")
    assert load(tmp_path / "p").recommend(n=3).equals(model.recommend(n=3))


def test_options_given_as_numpy_numbers_are_saved(tmp_path):
    recipe = FMPair(factors=np.int64(2), epochs=1, learning_rate=np.float32(0.05))
    recipe.fit(day_and_night()).save(tmp_path / "m")
    assert load(tmp_path / "m").recipe.factors == 2


def refused(content, path, message):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        load(path)


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    return tmp_path_factory.mktemp("spoiled") / "m.fmpair"


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_a_single_flipped_bit_is_noticed(saved, spoiled, place, bit):
    content = bytearray(saved.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    refused(bytes(content), spoiled, "m.fmpair' (is damaged|has model format|cannot be read)")


@given(place=st.integers(0, 6000), bit=st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_a_flipped_bit_in_the_header_is_noticed(saved, spoiled, place, bit):
    content = bytearray(saved.read_bytes())
    content[place % len(content)] ^= 1 << bit
    refused(bytes(content), spoiled, "m.fmpair' (is damaged|has model format|cannot be read)")


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=50, deadline=None)
def test_a_truncated_file_is_noticed(saved, spoiled, share):
    content = saved.read_bytes()
    refused(content[: int(share * len(content))], spoiled, "is (damaged|empty)")


def test_a_file_with_something_appended_is_noticed(saved, spoiled):
    refused(saved.read_bytes() + b"more", spoiled, "is damaged")


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign"
    refused(b"", path, "is empty")
    refused(b"user,item\n1,2\n", path, "not an fmpair model")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "hello")
    refused(path.read_bytes(), path, "not an fmpair model")
    save_file({"x": np.zeros(3)}, path)
    refused(path.read_bytes(), path, "not an fmpair model")
    save_file({"x": np.zeros(3)}, path, metadata={"fmpair": "[1, 2]"})
    refused(path.read_bytes(), path, "not an fmpair model")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot read model .*gone.fmpair.*No such file"):
        load(tmp_path / "gone.fmpair")
    with pytest.raises(ModelFileError, match="directory"):
        load(tmp_path)


def rewritten(saved, gone=None, **changes):
    """The file with other values in its header, or without one, and a checksum that fits."""
    content = saved.read_bytes()
    length = int.from_bytes(content[:8], "little")
    outer = json.loads(content[8 : 8 + length])
    header = {**json.loads(outer["__metadata__"]["fmpair"]), "sha256": "0" * 64, **changes}
    header.pop(gone, None)
    outer["__metadata__"]["fmpair"] = json.dumps(header, sort_keys=True)
    text = json.dumps(outer).encode()
    blank = len(text).to_bytes(8, "little") + text + content[8 + length :]
    digest = hashlib.sha256(blank).hexdigest().encode()
    return re.sub(b"0{64}", digest, blank, count=1)


def test_another_format_is_refused_with_the_way_out(saved, tmp_path):
    refused(
        rewritten(saved, format=6), tmp_path / "m", "of format 6; this fmpair reads 5: upgrade with"
    )
    for older in (1, 2, 3):
        reason = f"model file of format {older}; this fmpair reads 5: fit again"
        refused(rewritten(saved, format=older), tmp_path / "m", reason)


def test_a_file_from_before_the_catalogue_loads(tmp_path):
    Popularity().fit(day_and_night()).save(tmp_path / "m")
    content = rewritten(tmp_path / "m", format=4, catalogue=())
    (tmp_path / "old").write_bytes(content)
    assert load(tmp_path / "old").catalogue is None


def test_a_model_keeps_what_happens_to_refunds_and_older_files_leave_them_out(tmp_path):
    sales = day_and_night().frame().select("user", "item").with_columns(did=pl.lit("buy"))
    data = Dataset.from_frame(sales, event_type="did", refunds="keep")
    Popularity().fit(data).save(tmp_path / "m")
    assert load(tmp_path / "m").space.refunds == ("keep", "did")
    (tmp_path / "old").write_bytes(rewritten(tmp_path / "m", gone="refunds"))
    assert load(tmp_path / "old").space.refunds == ("drop", None)
    wrong = rewritten(tmp_path / "m", refunds=["maybe", "did"])
    refused(wrong, tmp_path / "wrong", "its 'refunds' must be drop or keep, and a column")


def test_a_recipe_or_option_of_another_version_is_named(saved, tmp_path):
    refused(rewritten(saved, recipe="Oracle"), tmp_path / "m", "unknown model 'Oracle'")
    options = {**option.plain(learned().recipe), "magic": 1}
    refused(rewritten(saved, options=options), tmp_path / "m", "unknown option 'magic'")


def test_an_interrupted_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.fmpair"
    learned().save(path)
    before = path.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FMPair(factors=2, epochs=1).fit(day_and_night()).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["m.fmpair"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DataError, match=r"cannot write .*No space left"):
        FMPair(factors=2, epochs=1).fit(day_and_night()).save(path)
    assert path.read_bytes() == before


def test_a_target_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        learned().save(tmp_path / "none" / "m.fmpair")
    with pytest.raises(DataError, match="it is a folder"):
        learned().save(tmp_path)


def test_a_file_is_checked_before_its_tables_are_read(tmp_path):
    path = tmp_path / "m.fmpair"
    learned().save(path)
    with path.open("r+b") as file:
        file.truncate(4 << 30)  # sparse: on disk it is as small as before
    reset_peak()
    began = peak_mb()
    with pytest.raises(ModelFileError, match="its size does not match"):
        load(path)
    assert peak_mb() - began < 500


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.fmpair")
    with pytest.raises(ModelFileError, match="it is a device or a pipe, not a file"):
        load(tmp_path / "m.fmpair")


def test_a_mapped_model_answers_alike_from_the_pages_of_its_file(tmp_path):
    path = tmp_path / "m.fmpair"
    learned().save(path)
    mapped = load(path, mapped=True)
    array = mapped.parameters.items
    while isinstance(array.base, np.ndarray):
        array = array.base
    assert isinstance(memoryview(array.base).obj, mmap.mmap)
    assert mapped.recommend(n=3).equals(learned().recommend(n=3))
    learned().damped(0.5).save(path)  # replaces the file: the mapped one is still there
    assert mapped.recommend(n=3).equals(learned().recommend(n=3))
