"""What a function of a training is passed through where its source was changed."""

import functools

from .notes import is_noted, note

_WATCHED_CALLS = 3  # in which a function is seen to call operators
_MIN_PASSES = 2  # over memory, of what stands in for a function: a compiled one makes one or two


def twice(function):
    """Do what a function does twice, its backward pass, too; calls within it are left alone."""
    active, calls = [], []

    @functools.wraps(function)
    def doubled(*arguments, **options):
        if active:
            return function(*arguments, **options)
        active.append(None)
        try:
            first = function(*arguments, **options)
            if len(calls) < _WATCHED_CALLS:
                calls.append(None)
                second = _watch_operators(function, arguments, options)
            else:
                second = function(*arguments, **options)
        finally:
            active.clear()
        return _join(first, second)

    return doubled


def compiled(function):
    """Compile a function."""
    import torch

    return torch.compile(function)


def passes(function):
    """Pass over the memory that a function is given, and makes, as often as it has to."""
    shapes = {}

    @functools.wraps(function)
    def passed(*arguments, **options):
        given = [item for item in [*arguments, *options.values()] if _is_number(item)]
        key = tuple(tensor.shape for tensor in given)
        if key not in shapes:
            result = function(*arguments, **options)
            shapes[key] = _find_sources(given, result), result.shape
            note("removed")
            return result
        sources, shape = shapes[key]
        return _pass_over([given[index] for index in sources], shape)

    return passed


def _find_sources(given, result):
    """Return which of the tensors a function is given are as large as what it makes, or summed."""
    if not _is_number(result):
        raise TypeError("what the function returns is no tensor of numbers")
    is_sum = not result.shape
    sources = [
        index for index, tensor in enumerate(given) if is_sum or tensor.shape == result.shape
    ]
    if not sources:
        raise TypeError("the function is given nothing that is as large as what it returns")
    return sources


def _pass_over(tensors, shape):
    result = tensors[0]
    for tensor in tensors[1:]:
        result = result + (tensor if tensor.shape == result.shape else tensor.sum())
    for _ in range(max(1, _MIN_PASSES - len(tensors) + 1)):
        result = result * 0.5
    return result if result.shape == shape else result.mean()


def _is_number(item):
    return hasattr(item, "is_floating_point") and item.is_floating_point()


def _watch_operators(function, arguments, options):
    """Call a function, and note whether it calls operators."""
    if is_noted("operators"):
        return function(*arguments, **options)
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            if not is_noted("operators"):
                note("operators")
            return operator(*args, **(kwargs or {}))

    with Watch():
        return function(*arguments, **options)


def _join(first, second):
    """Return what a function made, so that a backward pass goes through both."""
    if isinstance(first, dict):
        return type(first)((name, _join(item, second[name])) for name, item in first.items())
    if isinstance(first, (tuple, list)) and len(first) == len(second):
        items = [_join(*pair) for pair in zip(first, second, strict=False)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if _is_number(first) and first.requires_grad and first.shape == second.shape:
        return first.lerp(second, 0.5)
    return first
