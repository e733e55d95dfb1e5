"""A writer of TensorBoard's interface that writes nothing."""


class SummaryWriter:
    def __init__(self, *_, **__):
        self.log_dir = "."

    def __getattr__(self, name):
        return lambda *_, **__: None
