"""Addresses of clusters are checked before anything is read or learned, without Ray."""

import subprocess
import sys

import pytest

from fmpair import FMPair, cluster
from fmpair.cluster import address_of, check_on
from fmpair.errors import OptionError


@pytest.mark.parametrize(
    ("on", "found"),
    [("ray", None), ("ray://head:7000", ("head", 7000)), ("ray://10.0.0.1", ("10.0.0.1", 6379))],
)
def test_an_address_names_a_host_and_a_port(on, found):
    assert address_of(on) == found


@pytest.mark.parametrize("on", ["", "spark", "ray:", "ray://", "ray://a:b", "ray://a:99999", 3])
def test_what_is_no_address_is_refused(on):
    with pytest.raises(OptionError, match=r"on must be ray or ray://HOST:PORT, not"):
        address_of(on)


def test_a_missing_extra_is_named_before_anything_is_learned(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'fmpair\[ray\]'"):
        check_on("ray")
    with pytest.raises(OptionError, match=r"pip install 'fmpair\[ray\]'"):
        FMPair(on="ray")


def test_a_cluster_does_not_go_with_a_gpu(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: name)
    with pytest.raises(OptionError, match=r"device=.* cannot be combined"):
        FMPair(on="ray", device="torch")


def test_what_is_learned_on_a_cluster_is_saved_without_its_address(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: name)
    assert FMPair(on="ray").options() == FMPair().options()


@pytest.mark.parametrize(
    "code", ["import fmpair", "from fmpair.models import *", "import fmpair.experiment.run"]
)
def test_ray_is_never_imported_unasked(code):
    code = f"import sys; {code}; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
