"""Export the vectors of a model for programs without fmpair: npz, ONNX, USearch.

The constant of an item is one more dimension of its vector, where the vector of a query has 1:
score(query, item) = query_vector . item_vector, so any index of inner products can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import empty_rows
from fmpair.bridges.adapter import Requirement
from fmpair.checks import check_memory, one_of
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, listing, named
from fmpair.features.field import FAR
from fmpair.files import atomic_path, check_writable, shown, write_atomically
from fmpair.fitted.question import Queries
from fmpair.fitted.recommender import Recommender
from fmpair.fitted.visitor import Placing, placing, rare_bias
from fmpair.threads import all_threads
from fmpair.training.options import FMPairOptions

__all__ = ["FORMATS", "export"]

ONNX = Requirement("onnx", "onnx", "onnx")
OPSET, IR_VERSION = 17, 8  # of 2022, for older runtimes
MAX_BYTES = (1 << 31) - 1  # of a message of protocol buffers
USEARCH = Requirement("usearch", "usearch", "usearch")
NEIGHBOURS, EXPANSION = 32, 256  # twice USearch's defaults: the file is written once, read often


def export(model: Any, path: str | Path, to: str | None = None) -> None:
    """Write the vectors of a model to one file, completely or not at all.

    to: npz, onnx or usearch; by default the suffix of the file. The constant of an item is the
    last dimension of its vector, where the vector of a query has 1.
    """
    if to is None:
        to = Path(path).suffix.removeprefix(".")
        if to not in FORMATS:
            raise OptionError(
                f"cannot infer the format from the name {shown(path)}: give {named('to')}, one of "
                f"{listing(FORMATS)}"
            )
    one_of("to", to, list(FORMATS))
    check_writable(path)
    if not isinstance(model, Recommender):
        raise OptionError(
            f"{type(model.recipe).__name__} cannot be exported: its scores are not inner products "
            "of a query vector and an item vector, as those of FMPair or ImplicitALS are"
        )
    FORMATS[to](model, path)


def write_npz(model: Recommender, path: str | Path) -> None:
    """Write an .npz file without pickles: ids and vectors [rows, factors + 1] in the same order."""
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
            usual_user=unknown_user(model),
            **vector_maps(model),  # type: ignore[arg-type]  # the stub takes it for allow_pickle
        )


def write_onnx(model: Recommender, path: str | Path) -> None:
    """Write a graph with inputs query [queries, factors + 1] and n [1], outputs items and scores.

    items: the ids, whole numbers or texts [queries, n]; scores: float32 [queries, n].
    """
    onnx = ONNX.load()
    graph = _graph(onnx, *items_of(model))
    opset = [onnx.helper.make_opsetid("", OPSET)]
    made = onnx.helper.make_model(
        graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="fmpair"
    )
    if made.ByteSize() > MAX_BYTES:
        raise OptionError(
            f"{len(model.item_ids):,} items exceed the 2 GB limit of an ONNX file: export to "
            "usearch or npz"
        )
    onnx.checker.check_model(made)
    write_atomically(path, made.SerializeToString())


def _graph(onnx: Any, ids: np.ndarray, vectors: np.ndarray) -> Any:
    """Return MatMul, TopK (ties go to the item that comes first, as in fmpair), Gather of ids."""
    make, kinds = onnx.helper, onnx.TensorProto
    if not np.issubdtype(ids.dtype, np.integer):
        ids, kind = ids.astype(object), kinds.STRING
    else:
        ids = ids if ids.dtype == np.uint64 else ids.astype(np.int64)
        kind = make.np_dtype_to_tensor_dtype(ids.dtype)
    count, width = vectors.shape
    info, from_array = make.make_tensor_value_info, onnx.numpy_helper.from_array
    nodes = [
        make.make_node("MatMul", ["query", "vectors"], ["every"]),
        make.make_node("Min", ["n", "count"], ["most"]),
        make.make_node("TopK", ["every", "most"], ["scores", "place"], axis=1),
        make.make_node("Gather", ["ids", "place"], ["items"]),
    ]
    inputs = [info("query", kinds.FLOAT, ["queries", width]), info("n", kinds.INT64, [1])]
    outputs = [
        info("items", kind, ["queries", "listed"]),
        info("scores", kinds.FLOAT, ["queries", "listed"]),
    ]
    constants = [
        from_array(np.ascontiguousarray(vectors.T), "vectors"),
        from_array(ids, "ids"),
        from_array(np.array([count], np.int64), "count"),
    ]
    return make.make_graph(nodes, "fmpair", inputs, outputs, constants)


def write_usearch(model: Recommender, path: str | Path) -> None:
    """Write an index by inner product of vectors [factors + 1]; keys are rows of `item_ids`."""
    index = USEARCH.load("index").Index(
        ndim=model.item_vectors.shape[1] + 1,
        metric="ip",
        dtype="f32",
        connectivity=NEIGHBOURS,
        expansion_add=EXPANSION,
    )
    vectors = items_of(model).vectors
    index.add(np.arange(len(vectors), dtype=np.uint64), vectors, threads=all_threads())
    with atomic_path(path) as part:
        index.save(str(part))


FORMATS: dict[str, Callable[[Recommender, str | Path], None]] = {
    "npz": write_npz,
    "onnx": write_onnx,
    "usearch": write_usearch,
}


# The vectors of items, users and contexts.


class Labelled(NamedTuple):
    """labels: [rows]; vectors: float32 [rows, factors + 1]."""

    labels: np.ndarray
    vectors: np.ndarray


def items_of(model: Recommender) -> Labelled:
    """Return every item by its id; the constant is the last dimension."""
    return Labelled(ids_of(model.space.items), widened(model.item_vectors, model.item_constants))


def users_of(model: Recommender) -> Labelled:
    """Return every known user by id, without context; attributes and history are included."""
    return Labelled(ids_of(model.space.users), widened(model.user_vectors, 1.0))


def contexts_of(model: Recommender) -> Labelled:
    """Return what each category, labelled `daytime=evening`, adds to a user's vector.

    Empty where that depends on the rest of the query: terms of order three, normalized features.
    """
    space = model.space
    if space.whole or space.pairing is not None:
        return Labelled(_texts([]), np.zeros((0, model.item_vectors.shape[1] + 1), np.float32))
    encoders = [
        (first, encoder)
        for first, encoder in space.query.of_role("context")
        if encoder.field.kind == "categorical"
    ]
    labels = [label for _, encoder in encoders for label in encoder.labels()]
    rows = [np.arange(first, first + encoder.size) for first, encoder in encoders]
    number = np.concatenate([np.empty(0, np.int64), *rows])
    return Labelled(_texts(labels), widened(model.parameters.query[number], 0.0))


def vector_maps(model: Recommender) -> dict[str, np.ndarray]:
    """Return what places a new item by its vectors, by name; empty where more than a sum does.

    For each field of kind `vector`: vector.NAME.matrix [dimensions, factors], .mean and .spread
    [dimensions], and .length, the least and greatest length of a vector x that is centred and
    divided by the spread. The new item is the sum p of x @ matrix over all fields, scaled to the
    length new.length, with new.constant as its last dimension.

    If the model does not place new items by their content, there is no new.length. The constant
    then gains x @ .bias of each field, and the pairs within the item: (p . p - x^2 @ .squares) / 2.
    """
    space, p, out = model.space, model.parameters, dict[str, np.ndarray]()
    vectors = [(first, e) for first, e in space.item.of_role("item") if e.is_vector]
    if space.whole or space.pairing is not None or not vectors:
        return out
    found = _placing(model)
    if found is not None:
        out["new.length"] = np.array(found.length, np.float32)
    constant = rare_bias(p.item_bias, model.item_counts) if found is None else found.constant
    out["new.constant"] = np.array(constant, np.float32)
    for first, encoder in vectors:
        inside, scale = slice(first, first + encoder.size), np.float32(encoder.field.scale)
        bounds = (0.0, FAR) if encoder.field.normalize is False else (1.0, 1.0)
        arrays = {
            "matrix": p.features[inside] * scale,
            "mean": np.array(encoder.means, np.float32),
            "spread": np.array(encoder.spreads, np.float32),
            "length": np.array(bounds, np.float32),
        }
        if found is None:
            arrays["bias"] = p.feature_bias[inside] * scale
            arrays["squares"] = (arrays["matrix"] ** 2).sum(axis=1)
        out |= {f"vector.{encoder.name}.{name}": array for name, array in arrays.items()}
    return out


def _placing(model: Recommender) -> Placing | None:
    """Return how the model places new items by their content; None if it does not."""
    if not (isinstance(model.recipe, FMPairOptions) and model.recipe.places_new):
        return None
    content = model.space.item.content(model.item_rows)
    return placing(model.parameters, model.item_rows, content, model.item_counts, None)


def unknown_user(model: Recommender) -> np.ndarray:
    """Return float32 [factors + 1]: the vector of an unknown user without context."""
    nobody, no_table = np.array([-1], np.int32), pl.DataFrame()
    query = Queries(nobody, empty_rows(1), no_table, no_table, np.zeros(1, np.bool_))
    return widened(model.vectors(query), 1.0)[0]


def widened(vectors: np.ndarray, last: np.ndarray | float) -> np.ndarray:
    """Return float32 [rows, factors + 1]: vectors with one more dimension."""
    column = np.broadcast_to(np.asarray(last, np.float32), len(vectors))
    return np.column_stack([vectors, column]).astype(np.float32)


def ids_of(vocabulary: Vocabulary) -> np.ndarray:
    """Return ids as a plain array: whole numbers as they are, all else as text."""
    ids = vocabulary.ids
    if ids.dtype.is_integer() and ids.dtype not in (pl.Int128, pl.UInt128):
        return ids.to_numpy()
    return _texts([str(id) for id in ids.to_list()])


def _texts(labels: list[str]) -> np.ndarray:
    longest = max(map(len, labels), default=1)
    size = f"{len(labels):,} ids or values of up to {longest:,} characters"
    check_memory("an array of texts", size, 4 * longest * len(labels), None, "give shorter ids")
    return np.array(labels, dtype=np.str_) if labels else np.empty(0, "<U1")
