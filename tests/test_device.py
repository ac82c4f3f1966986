"""Why a GPU cannot be used is one clear line each."""

from types import SimpleNamespace

import pytest

from fmpair import FMPair, device
from fmpair.errors import OptionError
from fmpair.testing import two_tastes


@pytest.fixture(autouse=True)
def fresh():
    device.gpu_problem.cache_clear()
    yield
    device.gpu_problem.cache_clear()


def machine(monkeypatch, error=None, cuda="13.0", installed=True):
    """A machine whose PyTorch says this when its GPU is started."""

    def init():
        if error:
            raise RuntimeError(error)

    torch = SimpleNamespace(
        __version__="2.13.0",
        version=SimpleNamespace(cuda=cuda),
        zeros=lambda *size, device: None,
        cuda=SimpleNamespace(
            init=init,
            device_count=lambda: 1,
            mem_get_info=lambda number: (100 << 30, 139 << 30),
            get_device_name=lambda number: "NVIDIA H200",
        ),
    )
    monkeypatch.setattr(device, "find_spec", lambda name: object() if installed else None)
    monkeypatch.setattr(device, "import_module", lambda name: torch)


OLD = "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU"
NONE = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"installed": False}, r"PyTorch is not installed: pip install 'fmpair\[gpu\]'"),
        ({"cuda": None}, "PyTorch 2.13.0 is built without CUDA: install a build that has it"),
        ({"error": NONE}, "no GPU was found"),
        ({"error": "No CUDA GPUs are available"}, "no GPU was found"),
        ({"error": OLD}, "the GPU driver is too old for PyTorch 2.13.0"),
        ({"error": "CUDA error: odd\nmore lines"}, "PyTorch cannot use the GPU: CUDA error: odd$"),
    ],
)  # fmt: skip
def test_what_keeps_a_gpu_from_use_is_said_in_one_line(monkeypatch, there, said):
    machine(monkeypatch, **there)
    with pytest.raises(OptionError, match=f"device='cuda' cannot be used: {said}") as error:
        FMPair(device="cuda", history=0).fit(two_tastes())
    assert "\n" not in str(error.value)
    assert device.usable_gpus() == []
    assert device.resolve_device("auto") == "cpu"


def test_without_the_extra_pytorch_on_the_cpu_is_refused_too(monkeypatch):
    machine(monkeypatch, installed=False)
    with pytest.raises(
        OptionError, match="device='torch' cannot be used: PyTorch is not installed"
    ):
        FMPair(device="torch", history=0).fit(two_tastes())


def test_a_gpu_that_can_be_used_is_named_and_taken(monkeypatch):
    machine(monkeypatch)
    assert device.usable_gpus() == ["NVIDIA H200, 100 of 139 GB free"]
    assert device.resolve_device("auto") == device.resolve_device("cuda") == "cuda"


def test_a_device_that_is_none_is_refused_with_those_there_are():
    with pytest.raises(
        OptionError, match="device must be one of cpu, torch, cuda, auto, not 'tpu'"
    ):
        FMPair(device="tpu")
    with pytest.raises(OptionError, match="device takes 'cuda' for a GPU, not 'gpu'"):
        FMPair(device="gpu")


@pytest.mark.parametrize(
    ("given", "queries", "where"),
    [
        ("cpu", 100, None),
        ("cuda", 100, "cuda"),
        ("cuda", 1, None),
        ("torch", 100, "cpu"),
        ("auto", 100, "cuda"),
    ],
)
def test_a_model_ranks_where_it_was_learned(monkeypatch, given, queries, where):
    machine(monkeypatch)
    assert device.ranking_device(FMPair(device=given), queries) == where


def test_a_model_of_a_gpu_ranks_on_a_machine_without_one(monkeypatch):
    machine(monkeypatch, error=NONE)
    assert device.ranking_device(FMPair(device="cuda"), 100) is None
