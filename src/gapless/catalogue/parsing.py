"""Settings that are tried without a name: what ``--set TARGET=VALUE`` means, as an edit."""

import re
from typing import Final

from gapless.catalogue.choosing import public
from gapless.catalogue.listing import did_you_mean
from gapless.catalogue.targets import ARGUMENTS, CLASSES, GLOBALS, KINDS
from gapless.errors import UsageError
from gapless.model.edit import Edit, SetArgument, SetEnv, SetGlobal, Skip, Value, Where
from gapless.model.facts import Facts

_FORMS: Final = (
    "DataLoader.num_workers=8, DataLoader@train.py:41.num_workers=8, "
    "torch.backends.cudnn.benchmark=True, torch.set_num_threads=1, "
    "torch.nn.functional.dropout(p)=0.1, env.OMP_NUM_THREADS=1, skip.torch.cuda.empty_cache"
)
_WHERE: Final = re.compile(r"(?P<name>[\w.]+)@(?P<file>[^@]+?):(?P<line>\d+)(?:\.(?P<rest>.+))?")
_CALL: Final = re.compile(r"(?P<target>[\w.]+)\((?P<name>\w+)\)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WORDS: Final[dict[str, Value]] = {"true": True, "false": False, "none": None}


def parse(text: str, facts: Facts | None = None) -> Edit:
    """Give the edit that a text means; names of the run's own optimizers are known by ``facts``.

    Raises ``UsageError`` that says what was meant, if it can be told.
    """
    head, equals, value = text.partition("=")
    head, where = _place(head.strip(), text)
    kind, _, rest = head.partition(".")
    if kind == "skip":
        return Skip(_qualified(rest, text), _every(value, text) if equals else None, where)
    if not equals:
        raise UsageError(f"--set {text}: there is no =VALUE; forms are {_FORMS}")
    if kind == "env":
        return _variable(rest, value, text)
    call = _CALL.fullmatch(head)
    if call is not None:
        return SetArgument(_qualified(call["target"], text), call["name"], worth(value), where)
    names = _qualified(head, text).split(".")
    if any(_is_class(name) for name in names[:-1]):
        edit = _argument(names, worth(value), where, facts)
        _fits(edit.name, edit.value, text)
        return edit
    if where is not None:
        raise UsageError(f"--set {text}: {head} is no argument, so it has no line")
    target = _global(head)
    _fits(target, worth(value), text)
    return SetGlobal(target, worth(value))


def _fits(name: str, value: Value, text: str) -> None:
    """Raise ``UsageError`` for a value that torch would refuse, before anything is run."""
    words, least = KINDS.get(name, ("", None))
    right = type(value) is bool if least is None else type(value) is int and value >= least
    if words and not right and value is not None:
        raise UsageError(f"--set {text}: {words} is meant")
    if value == "":
        raise UsageError(f"--set {text}: nothing stands behind =")


def worth(text: str) -> Value:
    """Give the value that a text stands for: True, None, 3, 0.5, or the text itself."""
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


def _place(head: str, text: str) -> tuple[str, Where | None]:
    if "@" not in head:
        return head, None
    found = _WHERE.fullmatch(head)
    if found is None:
        raise UsageError(f"--set {text}: a line is meant so: DataLoader@train.py:41.num_workers=8")
    name = ".".join(filter(None, (found["name"], found["rest"])))
    return name, Where(found["file"], int(found["line"]))


def _qualified(name: str, text: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"--set {text}: {name!r} is no name; forms are {_FORMS}")
    return name


def _every(value: str, text: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"--set {text}: every so manyth call goes through, skip.torch.save=10")
    return int(value)


def _variable(name: str, value: str, text: str) -> SetEnv:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise UsageError(f"--set {text}: {name!r} is no name of a variable")
    if name.startswith("GAPLESS_"):
        raise UsageError(f"--set {text}: that variable is gapless's own")
    return SetEnv(name, value or None)


def _is_class(name: str) -> bool:
    return name in CLASSES or name[:1].isupper()


def _argument(
    names: list[str], value: Value, where: Where | None, facts: Facts | None
) -> SetArgument:
    *owner, name = names
    target = _class(".".join(owner), facts)
    known = ARGUMENTS.get(target)
    if known is not None and name not in known:
        least = f"{owner[-1]} has no argument {name!r} that could be set"
        raise UsageError(f"{least}{did_you_mean(name, known) or ': ' + ', '.join(known)}")
    return SetArgument(target, name, value, where)


def _class(name: str, facts: Facts | None) -> str:
    """Give the qualified name of a class, or of a method of one."""
    first, _, method = name.partition(".")
    if first in CLASSES:
        return ".".join(filter(None, (CLASSES[first], method)))
    parts = name.split(".")
    at = next((at for at, one in enumerate(parts) if _is_class(one)), 0)
    if parts[0] == "torch" and parts[at] in CLASSES:  # torch.utils.data.dataloader.DataLoader
        return ".".join((CLASSES[parts[at]], *parts[at + 1 :]))
    if "." in name and not first[:1].isupper():
        return name
    own = _own(facts)
    if first in own:
        return ".".join(filter(None, (own[first], method)))
    near = did_you_mean(first, [*CLASSES, *own])
    if facts is None and not near:
        return name  # a class of the training's, of which nothing is known yet
    raise UsageError(f"{first} is not a class that is known{near or ': give its qualified name'}")


def _own(facts: Facts | None) -> dict[str, str]:
    """Give the classes that the run's optimizers and models are of, by their short names."""
    if facts is None:
        return {}
    names = [one.name for one in facts.optimizers] + [one.name for one in facts.models]
    return {name.rpartition(".")[2]: public(name) for name in names}


def _global(name: str) -> str:
    """Give the qualified name of a setting: the only one that ends so, or the name itself."""
    ends = [one for one in GLOBALS if one == name or one.endswith(f".{name}")]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise UsageError(f"{name} may be {' or '.join(ends)}")
    near = did_you_mean(name, _short())
    _miswritten(name)
    first = name.partition(".")[0]
    known = {part for one in GLOBALS for part in one.split(".")[1:-1]}  # "cudnn", "backends"
    mistaken = first in known or name.startswith("torch.backends.")
    if "." not in name or (near and mistaken):
        raise UsageError(f"there is no setting {name}{near or '; forms are ' + _FORMS}")
    return name


def _miswritten(name: str) -> None:
    """Raise ``UsageError`` for an argument of a class whose name is written small."""
    owner, _, argument = name.rpartition(".")
    for one, target in CLASSES.items():
        if one.lower() == owner.lower() and argument in ARGUMENTS.get(target, ()):
            raise UsageError(f"there is no setting {name}; did you mean {one}.{argument}?")


def _short() -> list[str]:
    """Give the ways in which the known settings may be called."""
    return [".".join(one.split(".")[at:]) for one in GLOBALS for at in range(one.count(".") + 1)]
