"""Parsing of ``--set TARGET=VALUE`` into an edit."""

import re
from typing import Final

from gapless.catalogue.declare.listing import did_you_mean
from gapless.catalogue.declare.selectors import public_name
from gapless.catalogue.declare.targets import ARGUMENTS, CLASSES, GLOBALS, KINDS
from gapless.errors import UsageError
from gapless.model.edit import Edit, Location, SetArgument, SetEnv, SetGlobal, Skip, Value
from gapless.model.facts import Facts

_FORMS: Final = (
    "DataLoader.num_workers=8, DataLoader@train.py:41.num_workers=8, "
    "torch.backends.cudnn.benchmark=True, torch.set_num_threads=1, "
    "torch.nn.functional.dropout(p)=0.1, env.OMP_NUM_THREADS=1, skip.torch.cuda.empty_cache"
)
_LOCATION: Final = re.compile(r"(?P<name>[\w.]+)@(?P<file>[^@]+?):(?P<line>\d+)(?:\.(?P<rest>.+))?")
_CALL: Final = re.compile(r"(?P<target>[\w.]+)\((?P<name>\w+)\)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WORDS: Final[dict[str, Value]] = {"true": True, "false": False, "none": None}


def parse_setting(text: str, facts: Facts | None = None) -> Edit:
    """Return the edit for a text; ``facts`` provide the names of the run's own optimizers.

    Raises ``UsageError`` with what was probably meant, if that is clear.
    """
    head, equals, value = text.partition("=")
    head, location = _split_location(head.strip(), text)
    kind, _, remainder = head.partition(".")
    if kind == "skip":
        return Skip(
            _check_name(remainder, text), _parse_every(value, text) if equals else None, location
        )
    if not equals:
        raise UsageError(f"--set {text}: there is no =VALUE; forms are {_FORMS}")
    if kind == "env":
        return _parse_variable(remainder, value, text)
    call = _CALL.fullmatch(head)
    if call is not None:
        return SetArgument(
            _check_name(call["target"], text), call["name"], parse_value(value), location
        )
    names = _check_name(head, text).split(".")
    if any(_is_class(name) for name in names[:-1]):
        edit = _resolve_argument(names, parse_value(value), location, facts)
        _check_value(edit.name, edit.value, text)
        return edit
    if location is not None:
        raise UsageError(f"--set {text}: {head} is no argument, so it has no line")
    target = _resolve_global(head)
    _check_value(target, parse_value(value), text)
    return SetGlobal(target, parse_value(value))


def _check_value(name: str, value: Value, text: str) -> None:
    """Raise ``UsageError`` for a value that torch would reject, before anything is run."""
    requirement, minimum = KINDS.get(name, ("", None))
    is_valid = type(value) is bool if minimum is None else type(value) is int and value >= minimum
    if requirement and not is_valid and value is not None:
        raise UsageError(f"--set {text}: {requirement} is meant")
    if value == "":
        raise UsageError(f"--set {text}: nothing stands behind =")


def parse_value(text: str) -> Value:
    """Return the value of a text: True, None, 3, 0.5, or the text itself."""
    plain = text.strip()
    if plain.lower() in _WORDS:
        return _WORDS[plain.lower()]
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\"":
        return plain[1:-1]
    return plain


def _split_location(head: str, text: str) -> tuple[str, Location | None]:
    if "@" not in head:
        return head, None
    match = _LOCATION.fullmatch(head)
    if match is None:
        raise UsageError(f"--set {text}: a line is meant so: DataLoader@train.py:41.num_workers=8")
    name = ".".join(filter(None, (match["name"], match["rest"])))
    return name, Location(match["file"], int(match["line"]))


def _check_name(name: str, text: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"--set {text}: {name!r} is no name; forms are {_FORMS}")
    return name


def _parse_every(value: str, text: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"--set {text}: only every n-th call is made, as in skip.torch.save=10")
    return int(value)


def _parse_variable(name: str, value: str, text: str) -> SetEnv:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise UsageError(f"--set {text}: {name!r} is no name of a variable")
    if name.startswith("GAPLESS_"):
        raise UsageError(f"--set {text}: that variable is gapless's own")
    return SetEnv(name, value or None)


def _is_class(name: str) -> bool:
    return name in CLASSES or name[:1].isupper()


def _resolve_argument(
    names: list[str], value: Value, location: Location | None, facts: Facts | None
) -> SetArgument:
    *owner, name = names
    target = _resolve_class(".".join(owner), facts)
    arguments = ARGUMENTS.get(target)
    if arguments is not None and name not in arguments:
        message = f"{owner[-1]} has no argument {name!r} that could be set"
        raise UsageError(f"{message}{did_you_mean(name, arguments) or ': ' + ', '.join(arguments)}")
    return SetArgument(target, name, value, location)


def _resolve_class(name: str, facts: Facts | None) -> str:
    """Return the qualified name of a class, or of a method of one."""
    class_name, _, method = name.partition(".")
    if class_name in CLASSES:
        return ".".join(filter(None, (CLASSES[class_name], method)))
    parts = name.split(".")
    index = next((position for position, word in enumerate(parts) if _is_class(word)), 0)
    if parts[0] == "torch" and parts[index] in CLASSES:  # torch.utils.data.dataloader.DataLoader
        return ".".join((CLASSES[parts[index]], *parts[index + 1 :]))
    if "." in name and not class_name[:1].isupper():
        return name
    run_classes = _find_run_classes(facts)
    if class_name in run_classes:
        return ".".join(filter(None, (run_classes[class_name], method)))
    suggestion = did_you_mean(class_name, [*CLASSES, *run_classes])
    if facts is None and not suggestion:
        return name  # a class of the training itself, not known here
    raise UsageError(
        f"{class_name} is not a class that is known{suggestion or ': give its qualified name'}"
    )


def _find_run_classes(facts: Facts | None) -> dict[str, str]:
    """Return the classes of the run's optimizers and models, by their short names."""
    if facts is None:
        return {}
    names = [optimizer.name for optimizer in facts.optimizers] + [
        model.name for model in facts.models
    ]
    return {name.rpartition(".")[2]: public_name(name) for name in names}


def _resolve_global(name: str) -> str:
    """Return the qualified name of a setting: the only one with this ending, or the name itself."""
    candidates = [setting for setting in GLOBALS if setting == name or setting.endswith(f".{name}")]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise UsageError(f"{name} may be {' or '.join(candidates)}")
    suggestion = did_you_mean(name, _short_names())
    _check_spelling(name)
    namespace = name.partition(".")[0]
    namespaces = {
        word for setting in GLOBALS for word in setting.split(".")[1:-1]
    }  # "cudnn", "backends"
    is_mistaken = namespace in namespaces or name.startswith("torch.backends.")
    if "." not in name or (suggestion and is_mistaken):
        raise UsageError(f"there is no setting {name}{suggestion or '; forms are ' + _FORMS}")
    return name


def _check_spelling(name: str) -> None:
    """Raise ``UsageError`` for an argument of a class whose name is in lower case."""
    owner, _, argument = name.rpartition(".")
    for class_name, target in CLASSES.items():
        if class_name.lower() == owner.lower() and argument in ARGUMENTS.get(target, ()):
            raise UsageError(f"there is no setting {name}; did you mean {class_name}.{argument}?")


def _short_names() -> list[str]:
    """Return the short names of the known settings."""
    return [
        ".".join(setting.split(".")[start:])
        for setting in GLOBALS
        for start in range(setting.count(".") + 1)
    ]
