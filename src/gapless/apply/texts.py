"""The text of an edit for who writes it by hand."""

from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Value, Wrap

_PARTS = {
    "channels-last": (
        "model = model.to(memory_format=torch.channels_last)\n"
        "images = images.to(memory_format=torch.channels_last)"
    ),
    "non-blocking": "batch = batch.to(device, non_blocking=True)",
    "checkpointing-off": "y = block(x)  # instead of checkpoint(block, x)",
    "grad-scaler": (
        "scaler = torch.amp.GradScaler()\n"
        "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()"
    ),
    "no-checkpoint": "# leave out torch.save(…)",
    "no-evaluation": "# leave out the evaluation",
    "no-logging": "# leave out the logging",
}


def write_by_hand(edit: Edit) -> str:
    """Return the exact text of an edit, with the user's own names where they are not known."""
    match edit:
        case SetArgument(target, name, value):
            return f"{target.rpartition('.')[2]}(…, {name}={_write(value)})"
        case SetGlobal(target, value):
            name = target.rpartition(".")[2]
            is_setter = name.startswith(("set_", "use_", "enable_"))
            return f"{target}({_write(value)})" if is_setter else f"{target} = {_write(value)}"
        case SetEnv(name, value):
            return f"unset {name}" if value is None else f"export {name}={value}"
        case Skip(target, every):
            often = "" if every is None else f"; keep each {every}th call"
            return f"# leave out {target}(){often}"
        case Wrap():
            return _write_part(edit)


def _write(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _write_part(edit: Wrap) -> str:
    options = edit.options
    text = _PARTS.get(edit.part, "")
    match edit.part:
        case "autocast":
            text = f'with torch.autocast("cuda", torch.{options.get("dtype", "bfloat16")}):\n    y = model(x)'
        case "compile":
            names = [f"{name}={_write(value)}" for name, value in options.items() if value]
            text = f"model.compile({', '.join(names)})"
        case "device-prefetcher":
            text = f"loader = DevicePrefetcher(DataLoader(…), ahead={options.get('ahead', 1)})"
        case "worker-threads":
            text = (
                f"def init_worker(_number):\n    torch.set_num_threads({options.get('threads')})\n\n"
                "DataLoader(…, worker_init_fn=init_worker)"
            )
        case "collector":
            every = options.get("every")
            text = "gc.collect(); gc.freeze(); gc.disable()  # before the first step"
            text += f"\nif step % {every} == 0:\n    gc.collect()" if every else ""
        case "affinity":
            text = f"taskset --cpu-list {options.get('cpus')} python …"
        case "sdpa":
            backend = {"flash": "FLASH", "efficient": "EFFICIENT", "cudnn": "CUDNN"}
            name = backend.get(str(options.get("backend")), "MATH")
            suffix = "" if name == "MATH" else "_ATTENTION"
            text = f"with sdpa_kernel(SDPBackend.{name}{suffix}):\n    y = model(x)"
        case "no-sync":
            text = f"with model.no_sync():  # in all but each {options.get('every')}th backward pass\n    loss.backward()"
        case "cadence":
            text = f"if step % {options.get('every')} == 0:  # {options.get('what')}"
        case _:
            pass
    return text or f"{edit.part}: {edit.target}"
