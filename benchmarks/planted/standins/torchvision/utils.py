import torch
from PIL import Image


def make_grid(tensor, nrow=8, *_, **__):
    if isinstance(tensor, list):
        tensor = torch.stack(tensor)
    rows = [torch.cat(list(part), dim=-1) for part in tensor.split(nrow) if len(part) == nrow]
    return torch.cat(rows, dim=-2) if rows else tensor[0]


def save_image(tensor, path, nrow=8, *_, **__):
    grid = make_grid(tensor.detach().cpu(), nrow) if tensor.dim() == 4 else tensor.detach().cpu()
    values = grid.mul(255).clamp(0, 255).to(torch.uint8)
    Image.fromarray(values.permute(1, 2, 0).numpy().squeeze()).save(path)
