"""The minibatch engine on PyTorch, for one GPU or the CPU."""

from fmpair.engine.torch.torch_training import begin

__all__ = ["begin"]
