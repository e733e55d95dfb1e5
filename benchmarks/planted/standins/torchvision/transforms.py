import random

import numpy as np
import torch
from PIL import Image


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class ToTensor:
    def __call__(self, image):
        values = np.array(image, copy=True)
        if values.ndim == 2:
            values = values[:, :, None]
        tensor = torch.from_numpy(values).permute(2, 0, 1).contiguous()
        return tensor.float().div(255) if tensor.dtype == torch.uint8 else tensor


class Normalize:
    def __init__(self, mean, std):
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def __call__(self, tensor):
        return (tensor - self.mean) / self.std


class Resize:
    def __init__(self, size, *_):
        self.size = size

    def __call__(self, image):
        if isinstance(self.size, int):
            ratio = self.size / min(image.size)
            size = tuple(round(side * ratio) for side in image.size)
        else:
            size = self.size[::-1]
        return image.resize(size, Image.Resampling.BILINEAR)


class CenterCrop:
    def __init__(self, size):
        self.size = (size, size) if isinstance(size, int) else size

    def __call__(self, image):
        left, top = (image.width - self.size[1]) // 2, (image.height - self.size[0]) // 2
        return image.crop((left, top, left + self.size[1], top + self.size[0]))


class RandomCrop:
    def __init__(self, size, padding=0):
        self.size, self.padding = size, padding

    def __call__(self, image):
        side = self.padding
        wide = Image.new(image.mode, (image.width + 2 * side, image.height + 2 * side))
        wide.paste(image, (side, side))
        left = random.randint(0, wide.width - self.size)
        top = random.randint(0, wide.height - self.size)
        return wide.crop((left, top, left + self.size, top + self.size))


class RandomHorizontalFlip:
    def __call__(self, image):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


class Pad(RandomCrop):
    def __init__(self, padding):
        self.padding = padding

    def __call__(self, image):
        side = self.padding
        wide = Image.new(image.mode, (image.width + 2 * side, image.height + 2 * side))
        wide.paste(image, (side, side))
        return wide


class Lambda:
    def __init__(self, act):
        self.act = act

    def __call__(self, image):
        return self.act(image)
