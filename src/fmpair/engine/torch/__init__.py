"""The engine of minibatches on PyTorch: one GPU, or the same code on the CPU."""

from fmpair.engine.torch.torch_training import begin

__all__ = ["begin"]
