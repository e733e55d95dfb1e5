"""A folder of JPEG files of made-up pictures, written once, and how one is read."""
# pyright: basic, reportMissingImports=false, reportCallIssue=false

import io
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

try:
    from PIL import Image, ImageFilter
except ImportError:  # then torchvision reads and writes them
    Image = ImageFilter = None


def folder(count: int, side: int) -> list[str]:
    """Return the paths of so many pictures; what an earlier run wrote is used again."""
    place = os.path.join(tempfile.gettempdir(), "gapless-zoo", f"jpeg-{side}-{count}")
    paths = [os.path.join(place, f"{number:05d}.jpg") for number in range(count)]
    if not os.path.exists(os.path.join(place, "whole")):
        os.makedirs(place, exist_ok=True)
        with ThreadPoolExecutor() as pool:
            list(pool.map(_write, range(count), paths, [side] * count))
        with open(os.path.join(place, "whole"), "w", encoding="utf-8"):
            pass
    return paths


def _write(number: int, path: str, side: int) -> None:
    """Write a picture of clouds, whose file is about as long as that of a photograph."""
    generator = torch.Generator().manual_seed(number)
    coarse = torch.rand(1, 3, 12, 12, generator=generator)
    clouds = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic")[0]
    picture = clouds + 0.06 * torch.randn(3, side, side, generator=generator)
    body = _encoded(picture.clamp(0, 1).mul(255).to(torch.uint8))
    partial = f"{path}.{os.getpid()}.part"  # several trainings may begin at once
    with open(partial, "wb") as file:
        file.write(body)
    os.replace(partial, path)


def _encoded(picture: Tensor) -> bytes:
    if Image is None:
        from torchvision.io import encode_jpeg

        return bytes(encode_jpeg(picture, 88).numpy())
    buffer = io.BytesIO()
    Image.fromarray(picture.permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=88)
    return buffer.getvalue()


def read(path: str, side: int, storage_ms: float, blurred: float = 0.0) -> Tensor:
    """Read a picture, scaled to ``side``, blurred before; slow storage answers after a while."""
    if storage_ms:
        time.sleep(storage_ms / 1000)
    if Image is None:
        from torchvision.io import ImageReadMode, read_image

        picture = read_image(path, ImageReadMode.RGB)[None].float()
        scaled = torch.nn.functional.interpolate(picture, (side, side), mode="bilinear")
        return scaled[0].permute(1, 2, 0).to(torch.uint8).contiguous()
    with Image.open(path) as file:
        picture = file.convert("RGB")
    if blurred and ImageFilter is not None:
        picture = picture.filter(ImageFilter.GaussianBlur(blurred))
    scaled = picture.resize((side, side))
    return torch.frombuffer(bytearray(scaled.tobytes()), dtype=torch.uint8).view(side, side, 3)
