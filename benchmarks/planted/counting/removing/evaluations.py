"""Keep no graph while a model evaluates: from ``eval()`` until it, or another one, trains again."""

from .notes import note


def _watch_modes(module):
    import torch

    train, depth = module.Module.train, []

    def switched(self, mode=True):
        was_training = self.training
        depth.append(None)
        try:
            result = train(self, mode)
        finally:
            depth.pop()
        if not depth and (mode or was_training):
            torch.set_grad_enabled(bool(mode))
            if not mode:
                note("removed")
        return result

    module.Module.train = switched


ACTS = {"torch.nn.modules.module": _watch_modes}
