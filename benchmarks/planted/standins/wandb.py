"""A stand-in for wandb that keeps nothing."""


class _Run:
    config = {}

    def __getattr__(self, name):
        return lambda *_, **__: None


class _Config(dict):
    def update(self, *_, **__):
        return None


def init(*_, **__):
    run = _Run()
    run.config = _Config()
    return run


def log(*_, **__):
    return None


Image = Histogram = lambda *_, **__: None
