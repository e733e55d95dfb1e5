"""Samples that are made once and kept, as a careful user keeps what is small."""

import torch.utils.data

_MOST = 20_000


class _Prepared(torch.utils.data.Dataset):
    def __init__(self, data, samples):
        self.data_set = data
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]

    def __getattr__(self, name):
        return getattr(self.__dict__["data_set"], name)


def prepared(data):
    """Return a data set whose samples are there; as it is where it is endless, or too large."""
    if isinstance(data, torch.utils.data.IterableDataset):
        return data
    try:
        number = len(data)
    except TypeError:
        return data
    if number > _MOST:
        return data
    return _Prepared(data, [data[index] for index in range(number)])
