"""Model files as someone with ill intent would write them, and whether they do any harm.

    python crafted.py SEED CASES

takes saved models apart, changes some of their parts, puts them together with a checksum that fits
and loads the result. Whatever loads must answer every question. Prints what came out as JSON.
"""

import copy
import hashlib
import json
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from fmpair import Dataset, Field, load
from fmpair.bridges.adapter import ScoreTable
from fmpair.data.frame import to_polars
from fmpair.errors import ModelFileError, OptionError
from fmpair.experiment.cell import peak_mb, reset_peak
from fmpair.fitted.file_columns import ids_arrays, ids_type
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recommender import Recommender
from fmpair.models import catalog

BLANK = "0" * 64
MEGABYTES = 500  # that one case may take
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "uint64": "U64",
          "int32": "I32", "uint32": "U32", "int16": "I16", "uint16": "U16", "int8": "I8",
          "uint8": "U8", "bool": "BOOL", "complex64": "C64"}  # fmt: skip


# Models to begin with


def events(ids=str):
    """Events with context of three kinds, and attributes of users and items."""
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(12), 6), rng.permuted(np.tile(np.arange(9), (12, 1)), axis=1)
    columns = {
        "user": pl.Series([ids(n) for n in user]), "item": item[:, :6].ravel(),
        "place": pl.Series(["home", "work", None, "away"]).gather(rng.integers(0, 4, 72)),
        "heat": rng.normal(size=72), "alone": rng.random(72) < 0.5,
        "rating": rng.integers(1, 6, 72),
    }  # fmt: skip
    users = {"user": [ids(n) for n in range(12)], "age": rng.integers(10, 80, 12),
             "likes": ["rock:0.7|pop:0.3", "jazz:1", None] * 4}  # fmt: skip
    items = {"item": range(10), "tags": [["x", "y"], ["y"], None, ["z"], ["x"]] * 2,
             "price": rng.random(10)}  # fmt: skip
    return Dataset.from_frame(columns, users=users, items=items)


def models():
    """A fitted model of every kind that is read in a way of its own, by name."""
    data = events(lambda n: f"user number {n}" if n % 2 else f"u{n}")
    fields = {"age": Field("binned", bins=3), "likes": "weighted"}
    bare = Dataset.from_frame(data.frame())
    scores = np.random.default_rng(1).random((len(data.users), len(data.items)))
    kinds = {
        "fm-pair": ({"factors": 3, "epochs": 1, "fields": fields, "damping": 0.3}, data),
        "popularity": ({}, bare),
        "popularity within": ({"within": "place"}, data),
        "item-knn": ({"k": 4}, bare),
        "user-knn": ({"k": 4}, bare),
        "ease": ({}, events(int)),
        "fm": ({"factors": 3, "epochs": 2, "samples": 2, "fields": fields}, data),
        "fm of order 3": ({"factors": 2, "epochs": 1, "learner": "sgd", "order": 3}, data),
        "gpfm": ({"factors": 2, "epochs": 1, "pairs": 4, "threads": 1}, bare),
        "random": ({}, bare),
    }
    made = {name: catalog.find(name.split()[0])(**options).fit(own)
            for name, (options, own) in kinds.items()}  # fmt: skip
    return {**made, "table": Ranker.of(catalog.find("cornac")("BPR"), data, ScoreTable.of(scores))}


# Files as their parts


@dataclass
class Parts:
    """header: the inner JSON; outer: changes of the entries of arrays; raw: of the bytes."""

    header: dict
    arrays: dict
    outer: dict = field(default_factory=dict)
    inner_text: str | None = None
    outer_text: bytes | None = None
    length: int | None = None
    tail: bytes = b""


def taken_apart(content):
    length = int.from_bytes(content[:8], "little")
    outer = json.loads(content[8 : 8 + length])
    header = json.loads(outer.pop("__metadata__")["fmpair"])
    names = {short: name for name, short in DTYPES.items()}
    arrays = {
        name: np.frombuffer(content[8 + length + about["data_offsets"][0] :][
            : about["data_offsets"][1] - about["data_offsets"][0]], names[about["dtype"]]
        ).reshape(about["shape"]).copy()
        for name, about in outer.items()
    }  # fmt: skip
    return Parts(header, arrays)


def put_together(parts):
    """The bytes of a file, with the checksum that makes it look whole."""
    header = {**parts.header, "sha256": BLANK} if isinstance(parts.header, dict) else parts.header
    inner = parts.inner_text or json.dumps(header, sort_keys=True)
    outer, body = {"__metadata__": {"fmpair": inner}}, b""
    for name, array in parts.arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        about = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape),
                 "data_offsets": [len(body), len(body) + len(data)]}  # fmt: skip
        outer[name] = {**about, **parts.outer.get(name, {})}
        body += data
    text = parts.outer_text or json.dumps(outer).encode()
    size = len(text) if parts.length is None else parts.length
    content = (size % 2**64).to_bytes(8, "little") + text + body + parts.tail
    digest = hashlib.sha256(content).hexdigest().encode()
    return content.replace(BLANK.encode(), digest, 1)


# What is changed

HUGE = int("9" * 400)  # more than any float, and no row of zeros as in a blank checksum
NUMBERS = (0, -1, 1, 2, 7, 100, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 1 << 40)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e-300, 3e38, -3e38, 1e18, 1e300)
VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, HUGE, 0.5, -0.5, 1e308, 5e-324, float("nan"),
    float("inf"), "", "x", "user", "item", "home", "\ud800", "a\0b\n", "auto", "categorical",
    "binned", "numeric", "multi", "weighted", "boolean", "Ranker", "Recommender", "pandas",
    "pyarrow", [], {}, [1], [0.0, 0.0], [2, 1], [[]], {"a": 1}, [None], ["x", "x"],
)  # fmt: skip
RECIPES = (
    "FMPair", "EASE", "ItemKNN", "UserKNN", "GPFM", "FM", "FMMap", "Random", "Popularity",
    "RecBole", "Cornac", "Implicit", "MyFM", "LightFM", "FMPairWeighted", "SVDPlusPlus",
    "os:system", "subprocess:Popen", "builtins:exec", "fmpair.fitted.ranker:Ranker",
    "fmpair.testing.contract:ModelContract", "fmpair.models.fm:FM", "polars:DataFrame", ":",
    "a:b", "nowhere.at.all:Thing", "", "fmpair.models.catalog:find",
)  # fmt: skip


def some(rng, things):
    """One of some things."""
    things = list(things)
    return things[int(rng.integers(len(things)))]


def changed_values(rng, array):
    """Some, or all, numbers of an array in place."""
    if not array.size:
        return array
    array = array.copy()
    flat = array.reshape(-1)
    every = rng.random() < 0.15
    places = np.arange(len(flat)) if every else rng.integers(0, len(flat), int(rng.integers(1, 4)))
    kind = array.dtype.kind
    with np.errstate(all="ignore"):
        if kind in "iu":
            limits = np.iinfo(array.dtype)
            value = some(rng, [*NUMBERS, len(flat), len(flat) + 1, int(rng.integers(-5, 50))])
            flat[places] = min(max(value, limits.min), limits.max)
            if rng.random() < 0.3:
                flat[:] = rng.integers(0, max(int(array.max()), 0) + 1, len(flat))
        elif kind == "f" and rng.random() < 0.3:
            flat *= np.array(some(rng, (-1, 0, 1e-30, 1e3))).astype(array.dtype)
        elif kind == "f":
            flat[places] = np.array(some(rng, FLOATS)).astype(array.dtype)
    if rng.random() < 0.2:
        flat[:] = rng.permutation(flat)
    return array


def changed_shape(rng, array):
    """More or fewer rows or columns, other dimensions, nothing at all."""
    way = int(rng.integers(9))
    if way == 0:
        return array[:-1]
    if way == 1 and array.ndim:
        return np.concatenate([array, array[:1]])
    if way == 2:
        return array.T.copy()
    if way == 3:
        return array[None]
    if way == 4:
        return array.reshape(-1)
    if way == 5:
        return array[..., None]
    if way == 6:
        return array[:0]
    if way == 7 and array.ndim > 1:
        return array[:, :-1]
    return np.zeros((0, *array.shape), array.dtype)


def changed_array(rng, parts):
    """One array other than it was."""
    name = some(rng, parts.arrays)
    array = parts.arrays[name]
    way = int(rng.integers(12))
    if way < 5:
        parts.arrays[name] = changed_values(rng, array)
    elif way < 7:
        parts.arrays[name] = changed_shape(rng, array)
    elif way == 7:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts.arrays[name] = array.astype(some(rng, DTYPES))
    elif way == 8:
        del parts.arrays[name]
    elif way == 9:
        parts.arrays[some(rng, ("more", "scorer.more", "ids.more", "ids.field.99", "seen"))] = array
    elif way == 10:
        other = some(rng, parts.arrays)
        parts.arrays[name], parts.arrays[other] = parts.arrays[other], array
    elif name.endswith(".start") and len(array):
        parts.arrays[name] = np.sort(rng.integers(-1, array[-1] + 2, len(array)))
    else:
        parts.arrays[name] = rng.permutation(array)


TYPES = (
    ["Int64"], ["Int8"], ["UInt64"], ["Float32"], ["Float64"], ["Boolean"], ["Date"], ["Time"],
    ["Datetime", "ms", None], ["Datetime", "us", "UTC"], ["Datetime", "us", "Nowhere"],
    ["Duration", "ms"], ["Null"], ["String"], ["Binary"], ["Int128"], ["Decimal", 10, 2],
    ["Decimal", 99, -1], ["List"], ["Categorical"], ["Datetime"], [], [None], "String", None,
)  # fmt: skip


def other_ids(rng, parts, name, count):
    """Ids of another type or number, with tensors that fit or nearly do."""
    numbers = pl.Series(range(count), dtype=pl.Int64)
    texts = pl.Series([f"some text or other {n}" for n in range(count)])
    ids = some(rng, (
        numbers, texts, texts.cast(pl.Binary), numbers.cast(pl.Boolean), numbers * 0,
        pl.Series([""] * count), pl.Series([float("nan"), *range(1, count)]),
        pl.Series([], dtype=pl.Null), pl.Series([], dtype=pl.String),
        numbers.cast(some(rng, (pl.Date, pl.Time, pl.Duration("ms"), pl.Float32, pl.Int128,
                                pl.Datetime("us", "UTC"), pl.Int8, pl.Decimal(10, 2)))),
        (numbers + 2**62).cast(some(rng, (pl.Datetime("ms"), pl.Duration("ms"),
                                          pl.Datetime("us")))),
    ))  # fmt: skip
    parts.arrays.pop(f"ids.{name}", None)
    parts.arrays.pop(f"ids.{name}.offsets", None)
    parts.arrays |= ids_arrays(name, ids)
    parts.header["ids"][name] = ids_type(ids.dtype)


def changed_ids(rng, parts):
    """The type, the bytes or the offsets of one list of ids."""
    name = some(rng, parts.header["ids"])
    if not isinstance(name, str):  # an earlier change replaced them all
        return
    chance = rng.random()
    if chance < 0.3:
        other_ids(rng, parts, name, some(rng, (1, 3, 4, 9, 10, 12, 12, 10)))
        return
    if chance < 0.45:
        parts.header["ids"][name] = copy.deepcopy(some(rng, TYPES))
        return
    tensors = [own for own in parts.arrays if own.startswith(f"ids.{name}")]
    if not tensors:  # an earlier change took them away
        return
    tensor = some(rng, tensors)
    array = parts.arrays[tensor]
    content = np.frombuffer(array.tobytes(), np.uint8).copy()
    if chance < 0.55 or not len(content):
        parts.arrays[tensor] = array[: int(rng.integers(len(array) + 1))]
        return
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(content)))
        if rng.random() < 0.3 and at + 8 < len(content):
            value = some(rng, (0, 1, 255, 2**16, 2**31 - 1, 2**32, 2**60, 2**63 - 1, 2**63))
            content[at : at + 8] = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
        else:
            content[at] = some(rng, (0, 1, 127, 128, 255, int(rng.integers(256))))
    parts.arrays[tensor] = np.frombuffer(content.tobytes(), array.dtype).reshape(array.shape)


def places_of(value, path=()):
    """The paths of everything inside plain values."""
    yield path
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, inner in inside:
        yield from places_of(inner, (*path, key))


def changed_header(rng, parts):
    """One entry of the header replaced, left out, or put elsewhere."""
    if rng.random() < 0.15:
        parts.header["recipe"] = some(rng, RECIPES)
        if rng.random() < 0.5:
            parts.header["options"] = {}
        return
    *way, last = some(rng, [path for path in places_of(parts.header) if path])
    inside = parts.header
    for key in way:
        inside = inside[key]
    chance = rng.random()
    if chance < 0.15:
        del inside[last]
    elif chance < 0.25:
        inside[last] = copy.deepcopy(some(rng, parts.header.values()))
    elif chance < 0.3:
        inside[last] = deep(int(rng.integers(1, 60)))
    else:
        inside[last] = copy.deepcopy(some(rng, VALUES))


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def changed_container(rng, parts):
    """What safetensors itself says of the arrays, or the bytes around it."""
    name = some(rng, parts.arrays)
    array = parts.arrays[name]
    ways = (
        lambda: parts.outer.setdefault(name, {}).update(dtype=some(rng, ("BF16", "F8_E4M3", "x"))),
        lambda: parts.outer.setdefault(name, {}).update(
            shape=some(rng, ([], [0], [2**40, 2**40], [-1], [0, 2**50], [1.5], ["a"], None))),
        lambda: parts.outer.setdefault(name, {}).update(
            data_offsets=some(rng, ([0, 0], [0, 2**62], [8, 0], [-8, 8], [], None, [0, 8]))),
        lambda: setattr(parts, "length", some(rng, (0, 1, 2**63, 2**64 - 1, 10**8, 100, 2**31))),
        lambda: setattr(parts, "tail", b"more"),
        lambda: setattr(parts, "inner_text", "[" * 10**5),
        lambda: setattr(parts, "inner_text", json.dumps(parts.header | {"sha256": BLANK})[:-1]
                        + ', "a": ' + "9" * some(rng, (400, 5000)) + "}"),
        lambda: setattr(parts, "outer_text", b'{"__metadata__": ' + b"[" * 10**5),
        lambda: setattr(parts, "outer_text", some(rng, (b"[]", b"null", b"\xff\xfe", b"{}"))),
        lambda: parts.arrays.update({name: np.zeros((0, 2**40), array.dtype)}),
    )  # fmt: skip
    some(rng, ways)()


def changed_together(rng, parts):
    """Several arrays at once, so that they still fit each other."""
    tables = [name for name, array in parts.arrays.items() if array.ndim == 2]
    factor = some(rng, (0, 1, 2))
    way = int(rng.integers(4))
    for name, array in parts.arrays.items():
        if way == 0 and name in tables and not name.endswith("weights"):
            parts.arrays[name] = np.tile(array, (1, factor))
        elif way == 1 and name.endswith((".start", "start")):
            parts.arrays[name] = array * 0
        elif way == 1 and name.endswith((".column", ".value")):
            parts.arrays[name] = array[:0]
        elif way == 2 and array.dtype.kind == "f":
            parts.arrays[name] = array * np.array(some(rng, (0, -1, 1e6, 1e12, 1e30)), array.dtype)
        elif way == 3 and name.endswith((".column", ".value")) and len(array):
            parts.arrays[name] = np.repeat(array, 2)
        elif way == 3 and name.endswith(".start"):
            parts.arrays[name] = array * 2


CHANGES = (changed_array, changed_array, changed_ids, changed_header, changed_header,
           changed_container, changed_together)  # fmt: skip


def crafted(seed, contents):
    """(name of the model begun with, the bytes of case number `seed`, whether only damaged)."""
    rng = np.random.default_rng(seed)
    name = some(rng, contents)
    content = contents[name]
    if rng.random() < 0.1:  # damaged, and the checksum as it was
        spoiled = bytearray(content)
        if rng.random() < 0.5:
            del spoiled[int(rng.integers(len(spoiled))) :]
        else:
            spoiled[int(rng.integers(len(spoiled)))] ^= 1 << int(rng.integers(8))
        return name, bytes(spoiled), True
    parts = taken_apart(content)
    with np.errstate(all="ignore"):
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            if parts.arrays and parts.header:
                some(rng, CHANGES)(rng, parts)
    return name, put_together(parts), False


# Whether they do harm


def asked(model):
    """A value of every context, a known one where there is any."""
    found = {}
    for encoder in model.space.query.encoders:
        if encoder.role != "context" or encoder.name in ("user", "item"):
            continue  # what such a column means is for the one who asks to settle
        known = encoder.vocabulary
        if known is None:
            found[encoder.name] = True if encoder.field.kind == "boolean" else 0.5
        elif encoder.field.kind != "weighted" and len(known):
            found[encoder.name] = known.ids[0]
    return found


def answers(model):
    """Every question to a model; what it cannot tell it may refuse, by an OptionError."""
    users, items = model.space.users.ids.head(3), model.space.items.ids.head(3)
    context = asked(model)
    repr(model)
    yield model.recommend(n=3)
    yield model.recommend(n=2, context=context, exclude_seen=False)
    yield model.recommend(users, n=50, candidates=items)
    yield model.recommend("no such user", n=3, unknown="features")
    yield model.recommend("no such user", n=3, unknown="popular", context=context)
    pairs = users.to_frame("user").join(items.to_frame("item"), how="cross")
    yield model.score(pairs.with_columns(pl.lit(v).alias(name) for name, v in context.items()))
    with suppress(OptionError):
        yield model.similar_users(users[0], 3)
    with suppress(OptionError):
        yield model.explain(users[0], items[0], context)
    with suppress(OptionError):
        yield model.similar_items(items[0], 3)
    if isinstance(model, Recommender):
        yield model.recommend_users(items[0], 3, context=context)


def outcome(path, content, damaged):
    """answered, refused, or what went wrong."""
    path.write_bytes(content)
    try:
        model = load(path)
    except ModelFileError as error:
        one = len(str(error).splitlines()) == 1 and len(str(error)) < 1000
        return "refused" if one else f"more than a line: {error}"
    except BaseException:
        return f"loading: {traceback.format_exc()}"
    if damaged:
        return "a damaged file was loaded"
    try:
        for frame in answers(model):
            numbers = to_polars(frame).select(pl.col(pl.Float32, pl.Float64))
            for column in set(numbers.columns) & {"score", "similarity", "value"}:
                if not numbers[column].is_finite().all():
                    return f"{column} is not finite"
    except BaseException:
        return f"answering: {traceback.format_exc()}"
    return "answered"


def limit_memory():
    """Let what takes more than its share fail, not the machine."""
    if not Path("/proc/self/statm").exists():  # only Linux tells
        return
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = used + MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(seed, cases):
    warnings.simplefilter("error")
    found, wrong, slowest, largest = Counter(), [], (0.0, -1), (0.0, -1)
    with tempfile.TemporaryDirectory() as folder:
        path, contents = Path(folder) / "m.fmpair", {}
        for name, model in models().items():
            model.save(path)
            contents[name] = path.read_bytes()
            whole = outcome(path, put_together(taken_apart(contents[name])), False)
            if whole != "answered":
                wrong.append([name, whole])
        limit_memory()
        for case in range(seed, seed + cases):
            print(f"case {case}", file=sys.stderr, flush=True)
            name, content, damaged = crafted(case, contents)
            reset_peak()
            before, began = peak_mb(), time.perf_counter()
            said = outcome(path, content, damaged)
            slowest = max(slowest, (time.perf_counter() - began, case))
            largest = max(largest, (peak_mb() - before, case))
            found[said if said in ("answered", "refused") else "wrong"] += 1
            if said not in ("answered", "refused"):
                wrong.append([f"{name}, case {case}", said])
    print(json.dumps({"found": found, "wrong": wrong, "seconds": slowest, "megabytes": largest}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
