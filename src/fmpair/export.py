"""Export: what was learned, for programs that know nothing of fmpair."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import empty_rows
from fmpair.bridges.adapter import Requirement
from fmpair.capacity import check_memory
from fmpair.checks import one_of
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, listing, named
from fmpair.files import atomic_path, check_writable, shown, write_atomically
from fmpair.fitted.question import Queries
from fmpair.fitted.recommender import Recommender
from fmpair.threads import all_threads

__all__ = ["FORMATS", "export"]


# The vectors that leave fmpair: of items, of those who ask, and of their contexts.
#
# The item's constant is one more dimension, and 1 stands there in the vector of whoever asks: so
# score(query, item) = query_vector . item_vector, and any index of inner products will do.


PAIRS = 2  # the order of a machine of pairs


class Labelled(NamedTuple):
    """labels: [rows]; vectors: float32 [rows, factors + 1]."""

    labels: np.ndarray
    vectors: np.ndarray


def folded(model: Any) -> Recommender:
    """The model itself, refused where its scores are no products of two vectors."""
    if isinstance(model, Recommender):
        return model
    raise OptionError(
        f"{type(model.recipe).__name__} cannot be exported: its scores are no inner products of a "
        "vector for each query and one for each item, as those of FMPair or ImplicitALS are"
    )


def items_of(model: Recommender) -> Labelled:
    """Every item by its id; the constant comes last."""
    return Labelled(ids_of(model.space.items), widened(model.item_vectors, model.item_constants))


def users_of(model: Recommender) -> Labelled:
    """Every known user by id, in no context; attributes and history are in the vector."""
    return Labelled(ids_of(model.space.users), widened(model.user_vectors, 1.0))


def contexts_of(model: Recommender) -> Labelled:
    """The values of categories, labelled `daytime=evening`: what each adds to a user's vector.

    None where that depends on the rest of the question: terms of order three, shares of a whole.
    """
    space = model.space
    if space.whole or getattr(model.recipe, "order", PAIRS) > PAIRS:
        return Labelled(_texts([]), np.zeros((0, model.item_vectors.shape[1] + 1), np.float32))
    places = [
        (first, encoder)
        for first, encoder in space.query.of_role("context")
        if encoder.field.kind == "categorical"
    ]
    labels = [label for _, encoder in places for label in encoder.labels()]
    rows = [np.arange(first, first + encoder.size) for first, encoder in places]
    number = np.concatenate([np.empty(0, np.int64), *rows])
    return Labelled(_texts(labels), widened(model.parameters.query[number], 0.0))


def usual_user(model: Recommender) -> np.ndarray:
    """float32 [factors + 1]: of somebody not known, in no context."""
    nothing = pl.DataFrame()
    asked = Queries(
        np.array([-1], np.int32), empty_rows(1), nothing, nothing, np.zeros(1, np.bool_)
    )
    return widened(model.vectors(asked), 1.0)[0]


def widened(vectors: np.ndarray, last: np.ndarray | float) -> np.ndarray:
    """float32 [rows, factors + 1]: vectors with one more dimension."""
    column = np.broadcast_to(np.asarray(last, np.float32), len(vectors))
    return np.column_stack([vectors, column]).astype(np.float32)


def ids_of(vocabulary: Vocabulary) -> np.ndarray:
    """Ids as plain arrays hold them: whole numbers as they are, all else as text."""
    ids = vocabulary.ids
    if ids.dtype.is_integer() and ids.dtype not in (pl.Int128, pl.UInt128):
        return ids.to_numpy()
    return _texts([str(one) for one in ids.to_list()])


def _texts(labels: list[str]) -> np.ndarray:
    longest = max(map(len, labels), default=1)
    size = f"{len(labels):,} ids or values of up to {longest:,} characters"
    check_memory("an array of texts", size, 4 * longest * len(labels), None, "give shorter ids")
    return np.array(labels, dtype=np.str_) if labels else np.empty(0, "<U1")


# Arrays for NumPy, and for all else that reads .npy: items, users, and values of the context.


def write_npz(model: Recommender, path: str | Path) -> None:
    """One .npz without pickles: ids and vectors [rows, factors + 1] of each, in the same order."""
    items, users, contexts = items_of(model), users_of(model), contexts_of(model)
    with atomic_path(path) as part, part.open("wb") as file:
        np.savez(
            file,
            item_ids=items.labels,
            item_vectors=items.vectors,
            user_ids=users.labels,
            user_vectors=users.vectors,
            context_labels=contexts.labels,
            context_vectors=contexts.vectors,
            usual_user=usual_user(model),
        )


# The ranking as an ONNX graph: query vectors in, ids and scores of the best items out.


ONNX = Requirement("onnx", "onnx", "onnx")
OPSET, FORMAT = 17, 8  # of 2022: what runtimes since then can read
MOST = (1 << 31) - 1  # bytes of a message of protocol buffers


def write_onnx(model: Recommender, path: str | Path) -> None:
    """A graph with inputs query [queries, factors + 1] and n [1], outputs items and scores.

    items: the ids themselves, whole numbers or texts [queries, n]; scores: float32 [queries, n].
    """
    onnx = ONNX.load()
    graph = _graph(onnx, *items_of(model))
    opset = [onnx.helper.make_opsetid("", OPSET)]
    made = onnx.helper.make_model(
        graph, opset_imports=opset, ir_version=FORMAT, producer_name="fmpair"
    )
    if made.ByteSize() > MOST:
        raise OptionError(
            f"{len(model.item_ids):,} items are more than the 2 GB that an ONNX file may hold: "
            "export to usearch or npz"
        )
    onnx.checker.check_model(made)
    write_atomically(path, made.SerializeToString())


def _graph(onnx: Any, ids: np.ndarray, vectors: np.ndarray) -> Any:
    """MatMul, TopK (ties go to the item that comes first, as in fmpair), Gather of the ids."""
    make, kinds = onnx.helper, onnx.TensorProto
    held = _held(ids)
    kind = kinds.STRING if held.dtype == object else make.np_dtype_to_tensor_dtype(held.dtype)
    count, width = vectors.shape
    nodes = [
        make.make_node("MatMul", ["query", "vectors"], ["every"]),
        make.make_node("Min", ["n", "count"], ["most"]),
        make.make_node("TopK", ["every", "most"], ["scores", "place"], axis=1),
        make.make_node("Gather", ["ids", "place"], ["items"]),
    ]
    return make.make_graph(
        nodes,
        "fmpair",
        [
            make.make_tensor_value_info("query", kinds.FLOAT, ["queries", width]),
            make.make_tensor_value_info("n", kinds.INT64, [1]),
        ],
        [
            make.make_tensor_value_info("items", kind, ["queries", "listed"]),
            make.make_tensor_value_info("scores", kinds.FLOAT, ["queries", "listed"]),
        ],
        [
            onnx.numpy_helper.from_array(np.ascontiguousarray(vectors.T), "vectors"),
            onnx.numpy_helper.from_array(held, "ids"),
            onnx.numpy_helper.from_array(np.array([count], np.int64), "count"),
        ],
    )


def _held(ids: np.ndarray) -> np.ndarray:
    """Ids as a graph holds them: numbers of 64 bits, or texts."""
    if not np.issubdtype(ids.dtype, np.integer):
        return ids.astype(object)
    return ids if ids.dtype == np.uint64 else ids.astype(np.int64)


# An index of nearest neighbours for USearch, which finds the best items without scoring all.


USEARCH = Requirement("usearch", "usearch", "usearch")
NEIGHBOURS, TRIED = 32, 256  # twice USearch's own: the file is made once, and asked often


def write_usearch(model: Recommender, path: str | Path) -> None:
    """An index by inner product of vectors [factors + 1]; keys are rows of `item_ids`."""
    index = USEARCH.load("index").Index(
        ndim=model.item_vectors.shape[1] + 1,
        metric="ip",
        dtype="f32",
        connectivity=NEIGHBOURS,
        expansion_add=TRIED,
    )
    vectors = items_of(model).vectors
    index.add(np.arange(len(vectors), dtype=np.uint64), vectors, threads=all_threads())
    with atomic_path(path) as part:
        index.save(str(part))


# From a fitted model to a file that other programs read.


FORMATS: dict[str, Callable[[Recommender, str | Path], None]] = {
    "npz": write_npz,
    "onnx": write_onnx,
    "usearch": write_usearch,
}


def export(model: Any, path: str | Path, to: str | None = None) -> None:
    """Write the model's vectors to one file, whole or not at all.

    to: npz, onnx or usearch; by default what the file's name ends with. Each item's constant is
    the last dimension of its vector, where that of a query has a 1.
    """
    if to is None:
        to = Path(path).suffix.removeprefix(".")
        if to not in FORMATS:
            raise OptionError(
                f"the name {shown(path)} does not tell the format: give {named('to')}, one of "
                f"{listing(FORMATS)}"
            )
    one_of("to", to, list(FORMATS))
    check_writable(path)
    FORMATS[to](folded(model), path)
