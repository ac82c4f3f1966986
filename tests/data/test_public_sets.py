"""Public sets by name: found, downloaded, or asked for."""

import hashlib
import http.server
import threading
from functools import partial

import pytest

from fmpair.data import public_sets
from fmpair.data.describe import figures
from fmpair.data.filters import core
from fmpair.data.formats.research_sets import read_negatives
from fmpair.data.public_sets import SETS, File, PublicSet
from fmpair.errors import DataError, OptionError, UnknownError

COUNTS = {
    "ml-100k": (943, 1682, 100_000),
    "ml-1m": (6040, 3706, 1_000_209),
    "ml-1m-ncf": (6040, 3706, 994_169 + 6040),
    "frappe": (957, 4082, 96_203),
    "frappe-cfm": (957, 4082, 92_808 + 3387),
    "amazon-cdtf": (2505, 17_000, 403_014),
    "xing-2016": (35_158, 156_049, 395_116),
    "yelp2018": (31_668, 38_048, 1_237_259 + 324_147),
    "ml-1m-sequences": (6040, 3416, 999_611),
    "amazon-beauty": (22_363, 12_101, 198_502),
    "depaul-movie": (97, 79, 5043),
    "citeulike-a": (5551, 16_980, 204_986),
}


@pytest.mark.realdata
@pytest.mark.parametrize("name", COUNTS)
def test_every_set_has_its_published_size_and_bytes(name):
    data = public_sets.load(name)
    assert (len(data.users), len(data.items), len(data)) == COUNTS[name]
    public_sets.verify(name)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "train", "test"),
    [("ml-1m-ncf", 994_169, 6040), ("frappe-cfm", 92_808, 3387), ("yelp2018", 1_237_259, 324_147)],
)
def test_given_parts_share_their_vocabularies(name, train, test):
    parts = public_sets.load_parts(name)
    assert (len(parts[0]), len(parts[1])) == (train, test)
    assert parts[0].users is parts[1].users
    assert len(public_sets.load(name, part="test")) == test


@pytest.mark.realdata
def test_frappe_has_its_contexts():
    found = figures(public_sets.load("frappe"))
    sizes = {"daytime": 7, "weekday": 7, "isweekend": 2, "homework": 3, "weather": 9,
             "country": 80, "city": 233}  # fmt: skip
    assert {name: found[f"context {name}, distinct values"] for name in sizes} == sizes
    assert found["item attribute cost, distinct values"] == 2
    assert found["distinct pairs"] == 18_842


@pytest.mark.realdata
def test_amazon_has_its_domains():
    found = figures(public_sets.load("amazon-cdtf"))
    sizes = {"Book": (6000, 145_043), "Music": (5000, 77_280), "DVD": (3000, 92_915),
             "Video": (3000, 87_776)}  # fmt: skip
    for name, (items, events) in sizes.items():
        assert (found[f"domain {name}, items"], found[f"domain {name}, events"]) == (items, events)


@pytest.mark.realdata
def test_the_core_of_xing_has_its_published_size():
    data = core(public_sets.load("xing-2016"), users=5, items=5)
    assert (len(data.users), len(data.items), len(data)) == (9173, 11_374, 110_915)


@pytest.mark.realdata
def test_movielens_has_its_tables():
    data = public_sets.load("ml-100k", titles=True)
    toy_story = data.items.number(1)
    assert data.item_table[toy_story].row(0) == (1995, ["Animation", "Children's", "Comedy"])
    assert data.catalogue["title"][toy_story] == "Toy Story (1995)"  # to show, not to learn from
    assert data.user_table[data.users.number(1)].row(0) == (24, "M", "technician", "85711")


@pytest.mark.realdata
def test_each_ncf_test_event_has_its_negatives():
    negatives = read_negatives(public_sets.fetch("ml-1m-ncf") / "ml-1m.test.negative")
    assert len(negatives) == 6040 * 99
    assert set(negatives.group_by("user", "positive").len()["len"]) == {99}


def test_names_are_all_known_and_a_wrong_one_gets_the_nearest():
    assert set(public_sets.names()) == set(COUNTS)
    with pytest.raises(UnknownError, match=r"unknown data set 'ml100k'\. Did you mean 'ml-100k'\?"):
        public_sets.load("ml100k")


def test_parts_are_only_given_where_there_are_any():
    with pytest.raises(OptionError, match="ml-100k has no published train and test part"):
        public_sets.load("ml-100k", part="train")
    with pytest.raises(OptionError, match=r"unknown part 'tset'\. Did you mean 'test'\?"):
        public_sets.load("yelp2018", part="tset")


def test_a_set_without_an_address_says_which_file_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("FMPAIR_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(
        DataError, match=r"frappe cannot be .*baltrunas.* put frappe\.csv into .*frappe"
    ):
        public_sets.load("frappe")
    monkeypatch.delenv("FMPAIR_DATA")
    with pytest.raises(DataError, match="a folder frappe and set FMPAIR_DATA to its parent"):
        public_sets.load("frappe")


def test_every_pinned_hash_looks_like_one():
    for known in SETS:
        for file in known.files:
            assert len(bytes.fromhex(file.sha256)) == 32


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing: the test's output stays clean."""


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A set of one file on a server of this machine; nothing of it is downloaded yet."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "clicks.csv").write_bytes(b"user,item\n1,2\n")
    monkeypatch.delenv("FMPAIR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    handler = partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}"
        yield lambda sha: PublicSet("toy", "a toy", "free", "here", (File("clicks.csv", sha),),
                                    "delimited", address, train="clicks.csv")  # fmt: skip
        server.shutdown()


def test_a_set_is_downloaded_once_and_checked(served, monkeypatch, tmp_path):
    toy = served(hashlib.sha256(b"user,item\n1,2\n").hexdigest())
    monkeypatch.setattr(public_sets, "SETS", (toy,))
    assert public_sets.held("toy") is None
    assert public_sets.load("toy").frame().rows() == [(1, 2)]
    assert public_sets.held("toy") == public_sets.fetch("toy")
    (tmp_path / "site" / "clicks.csv").unlink()
    assert public_sets.load("toy").frame().rows() == [(1, 2)], "the second time it is there"
    (public_sets.fetch("toy") / "clicks.csv").write_text("user,item\n1,3\n")
    with pytest.raises(
        DataError, match=r"clicks\.csv in .* differs from what the owner of toy published"
    ):
        public_sets.verify("toy")


def test_a_download_with_other_bytes_is_refused(served, monkeypatch):
    monkeypatch.setattr(public_sets, "SETS", (served("0" * 64),))
    with pytest.raises(DataError, match=r"toy could not be downloaded.*put clicks\.csv into"):
        public_sets.load("toy")
