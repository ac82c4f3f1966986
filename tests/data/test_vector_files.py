"""Files of vectors: their ids, their order, and messages."""

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file

from fmpair import Dataset, read
from fmpair.data.vector_files import vector_columns, vector_files, with_vector_paths
from fmpair.errors import DataError

EVENTS = {"user": [1, 2, 3, 1], "item": ["a", "b", "a", "c"]}
X = np.arange(12, dtype=np.float32).reshape(3, 4) + 1


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("titles.npy", X)
    return tmp_path


def title_of(data, item, column="titles"):
    return data.item_table[column][int(data.items.number(item))]


def test_ids_beside_the_file_name_its_rows(folder):
    (folder / "titles.ids.txt").write_text("c\nz\na\n")
    data = Dataset.from_frame(EVENTS, vectors="titles.npy")
    assert title_of(data, "a").to_list() == X[2].tolist()
    assert title_of(data, "z").to_list() == X[1].tolist()
    assert title_of(data, "b") is None
    assert vector_files("titles.npy") == ["titles.npy", "titles.ids.txt"]


def test_without_ids_rows_are_in_the_order_of_the_items():
    items = {"item_id": ["c", "a", "b"], "year": [1, 2, 3]}
    data = Dataset.from_frame(EVENTS, items=items, vectors={"text": "titles.npy"})
    assert title_of(data, "c", "text").to_list() == X[0].tolist()
    assert title_of(data, "b", "year") == 3


def test_a_file_may_have_several_vectors_and_their_ids():
    np.savez("both.npz", ids=np.array(["a", "b", "c"]), title=X, image=X[:, :2])
    data = Dataset.from_frame(EVENTS, vectors=["both.npz"])
    assert title_of(data, "c", "image").to_list() == X[2, :2].tolist()
    assert vector_columns("both.npz") == ["title", "image"]


def test_numbers_as_ids_meet_texts_and_numbers_of_events(folder):
    save_file({"title": X, "ids": np.array([3, 1, 2])}, "t.safetensors")
    for ids in ([1, 2, 3, 1], ["1", "2", "3", "1"]):
        data = Dataset.from_frame({**EVENTS, "item": ids}, vectors="t.safetensors")
        assert title_of(data, ids[2], "title").to_list() == X[0].tolist()


def test_reading_a_file_of_events_takes_files_of_vectors(folder):
    (folder / "titles.ids.txt").write_text("a\nb\nc\n")
    pl.DataFrame(EVENTS).write_csv("clicks.csv")
    assert read("clicks.csv", vectors="titles.npy").item_table.columns == ["titles"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vectors": "titles.npy"}, "write the item ids to titles.ids.txt"),
        ({"vectors": "titles.npy", "items": {"item": ["a"]}}, "but the item table has length 1:"),
        ({"vectors": "nothing.npy"}, "cannot read vectors from nothing.npy: No such file"),
        ({"vectors": "titles.csv"}, "files ending in .npy, .npz, .safetensors, not titles.csv"),
        ({"vectors": X}, "must be files such as titles.npy, not ndarray"),
    ],
)
def test_what_is_wrong_is_one_line(options, message):
    with pytest.raises(DataError, match=message) as error:
        Dataset.from_frame(EVENTS, **options)
    assert "\n" not in str(error.value)


def object_array(folder):
    array = np.empty(3, object)
    array[:] = [[1.0, 2.0], [1.0], [3.0, 1.0]]
    np.save("objects.npy", array)
    return "objects.npy"


def object_ids(folder):
    np.save("titles.ids.npy", np.array(["a", "b", "c"], object))
    return "titles.npy"


def shorter_than_it_says(folder):
    whole = (folder / "titles.npy").read_bytes()
    (folder / "claim.npy").write_bytes(whole.replace(b"(3, 4)", b"(3000000000, 400)")[:200])
    return "claim.npy"


def key_of_ids_misspelt(folder):
    save_file({"title": X, "id": np.array([3, 1, 2])}, "t.safetensors")
    return "t.safetensors"


def no_rows(folder):
    np.save("none.npy", X[:0])
    return "none.npy"


def ids_of_two_columns(folder):
    np.savez("table.npz", ids=np.array([["a", "b"]] * 3), title=X)
    return "table.npz"


def missing_id(folder):
    np.savez("gap.npz", ids=np.array([1.0, np.nan, 2.0]), title=X)
    return "gap.npz"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (object_array, "from objects.npy: it holds Python objects; save vectors of one length"),
        (object_ids, "cannot read ids from titles.ids.npy: it holds Python objects"),
        (shorter_than_it_says, "from claim.npy: the file is shorter than its array"),
        (key_of_ids_misspelt, "'id' is int64 of shape .* and ids are named 'ids'"),
        (no_rows, r"'none' is float32 of shape \[0, 4\]; vectors are numbers of shape"),
        (ids_of_two_columns, r"table.npz: ids have shape \[3, 2\], not \[items\]"),
        (missing_id, "gap.npz: the id of row 1 is missing"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(folder, write, message):
    with pytest.raises(DataError, match=message) as error:
        Dataset.from_frame(EVENTS, vectors=write(folder))
    assert "\n" not in str(error.value)


def test_equal_vectors_are_told(folder, caplog):
    np.savez("same.npz", ids=np.array(["a", "b", "c"]), title=np.ones((3, 4)))
    Dataset.from_frame(EVENTS, vectors="same.npz")
    assert "all vectors of 'title' are equal" in caplog.text


def test_paths_move_with_an_experiment_file():
    assert with_vector_paths("a.npy", lambda path: f"../{path}") == "../a.npy"
    assert with_vector_paths({"t": "a.npy"}, str.upper) == {"t": "A.NPY"}
    assert with_vector_paths(["a.npy"], str.upper) == ["A.NPY"]


def test_an_id_has_one_vector(folder):
    (folder / "titles.ids.txt").write_text("a\nb\na\n")
    with pytest.raises(DataError, match="has more than one vector for 'a'"):
        Dataset.from_frame(EVENTS, vectors="titles.npy")


def test_ids_of_other_items_are_told(folder, caplog):
    (folder / "titles.ids.txt").write_text("x\ny\nz\n")
    Dataset.from_frame(EVENTS, vectors="titles.npy")
    assert "titles.npy: no id is that of a known item, such as 'a'" in caplog.text
