"""The text of an edit for who writes it by hand."""

from typing import Final

from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Value, Wrap

_PARTS: Final = {  # with the options of the part
    "affinity": "taskset --cpu-list {cpus} python …",
    "autocast": 'with torch.autocast("cuda", torch.{dtype}):\n    y = model(x)',
    "cadence": "if step % {every} == 0:  # {what}",
    "channels-last": (
        "model = model.to(memory_format=torch.channels_last)\n"
        "images = images.to(memory_format=torch.channels_last)"
    ),
    "bf16-hook": "model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
    "checkpointing-off": "y = block(x)  # instead of checkpoint(block, x)",
    "collector": (
        "gc.collect()  # before the first step\ngc.freeze()\ngc.disable()\n"
        "if step % {every} == 0:  # in each step\n    gc.collect()"
    ),
    "compile": "model.compile(mode={mode!r})",
    "decode-by-dali": "loader = decode_by_dali(DataLoader(…))",
    "decode-on-device": "loader = decode_on_device(DataLoader(…))",
    "device-prefetcher": "loader = DevicePrefetcher(DataLoader(…), ahead={ahead})",
    "grad-scaler": (
        "scaler = torch.amp.GradScaler()\n"
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()"
    ),
    "jpeg-decoder": "loader = decode_with(DataLoader(…), library={library!r})",
    "length-buckets": "loader = bucket_by_length(DataLoader(…))",
    "no-sync": "with model.no_sync():  # but in each {every}th backward pass\n    loss.backward()",
    "non-blocking": "batch = batch.to(device, non_blocking=True)",
    "packed-data": 'loader = read_packed(DataLoader(…), path="{path}")',
    "picture-cache": "loader = cache_pictures(DataLoader(…))",
    "read-ahead": "loader = read_ahead(DataLoader(…))",
    "recycled-collate": "loader = recycle_batches(DataLoader(…))",
    "reduced-decoding": "loader = decode_at_fraction(DataLoader(…))",
    "sample-cache": "loader = cache_samples(DataLoader(…))",
    "sdpa": "with sdpa_kernel([SDPBackend.{backend}, SDPBackend.MATH]):\n    y = model(x)",
    "uint8-by-hand": "loader = send_handwritten_uint8(DataLoader(…))",
    "uint8-to-device": "loader = send_uint8(DataLoader(…))",
    "worker-threads": (
        "def init_worker(_number):\n    torch.set_num_threads({threads})\n\n"
        "loader = DataLoader(…, worker_init_fn=init_worker)"
    ),
}
_BACKENDS: Final = {  # as torch.nn.attention.SDPBackend has them
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}
_SETTERS: Final = ("set_", "use_", "enable_")


def write_by_hand(edit: Edit) -> str:
    """Return the exact text of an edit, with names in place of the user's that are not known."""
    match edit:
        case SetArgument(target, name, value):
            return f"{target.rpartition('.')[2]}(…, {name}={write_value(value)})"
        case SetGlobal():
            return write_setting(edit)
        case SetEnv(name, value):
            return f"unset {name}" if value is None else f"export {name}={value}"
        case Skip(target, every):
            often = "" if every is None else f"; keep each {every}th call"
            return f"# leave out {target}(){often}"
        case Wrap():
            return _write_part(edit)


def write_value(value: Value) -> str:
    """Return a value as Python's source has it."""
    if isinstance(value, str):
        return '"' + repr(value)[1:-1].replace('"', '\\"') + '"'
    return repr(value)


def write_setting(edit: SetGlobal) -> str:
    """Return the line that sets a setting."""
    value = write_value(edit.value)
    is_setter = edit.target.rpartition(".")[2].startswith(_SETTERS)
    return f"{edit.target}({value})" if is_setter else f"{edit.target} = {value}"


def _write_part(edit: Wrap) -> str:
    options = {"ahead": 1, "mode": "default", "every": 1000, "dtype": "bfloat16", **edit.options}
    options["backend"] = _BACKENDS.get(str(options.get("backend")), "MATH")
    template = _PARTS.get(edit.part)
    try:
        return template.format_map(options) if template else f"{edit.part}: {edit.target}"
    except KeyError:  # an option that the text needs is not there
        return f"{edit.part}: {edit.target}"
