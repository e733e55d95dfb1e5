"""The entries of ``traceEvents`` as msgspec reads them: what no column needs is skipped.

Numbers that become nanoseconds stay text (``Raw``): a float cannot hold them. An event that does
not match goes through ``text.mend`` first, and comes back in this form.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct, field

_LOW, _HIGH = -(2**63), 2**63 - 1
Number = Annotated[int, Meta(ge=_LOW, le=_HIGH)]
NOTHING: Final = Raw(b"")


class Args(Struct, gc=False):
    """What columns are made from; −1 or an empty text where the event does not say."""

    correlation: Number = -1
    device: Number = -1
    stream: Raw = NOTHING  # HIP's runtime events write "0x0"
    graph_node: Number = field(default=-1, name="graph node id")
    bytes: Number = -1
    wait_event: Number = field(default=-1, name="wait_on_cuda_event_record_corr_id")
    wait_stream: Number = field(default=-1, name="wait_on_stream")
    sequence: Number = field(default=-1, name="Sequence number")
    dims: Raw = field(default=NOTHING, name="Input Dims")
    old_dims: Raw = field(default=NOTHING, name="Input dims")
    types: Raw = field(default=NOTHING, name="Input type")
    strides: Raw = field(default=NOTHING, name="Input Strides")
    concrete: Raw = field(default=NOTHING, name="Concrete Inputs")
    grid: Raw = NOTHING
    block: Raw = NOTHING
    registers: Raw = field(default=NOTHING, name="registers per thread")
    shared: Raw = field(default=NOTHING, name="shared memory")
    blocks_per_sm: Raw = field(default=NOTHING, name="blocks per SM")
    warps_per_sm: Raw = field(default=NOTHING, name="warps per SM")
    occupancy: Raw = field(default=NOTHING, name="est. achieved occupancy %")
    collective: Raw = field(default=NOTHING, name="Collective name")
    dtype: Raw = NOTHING
    in_elements: Raw = field(default=NOTHING, name="In msg nelems")
    out_elements: Raw = field(default=NOTHING, name="Out msg nelems")
    group: Raw = field(default=NOTHING, name="Process Group Name")
    group_size: Raw = field(default=NOTHING, name="Group size")
    ranks: Raw = field(default=NOTHING, name="Process Group Ranks")
    seq: Raw = field(default=NOTHING, name="Seq")
    receiver: Raw = field(default=NOTHING, name="Dst Rank")
    sender: Raw = field(default=NOTHING, name="Src Rank")
    moved: Number = field(default=0, name="Bytes")  # allocator events
    allocated: Number = field(default=-1, name="Total Allocated")
    reserved: Number = field(default=-1, name="Total Reserved")
    device_type: Number = field(default=0, name="Device Type")
    device_id: Number = field(default=-1, name="Device Id")


NO_ARGS: Final = Args()
ARGS: Final = frozenset(f.encode_name for f in msgspec.structs.fields(Args))
WHOLE_ARGS: Final = frozenset(
    f.encode_name for f in msgspec.structs.fields(Args) if f.type is not Raw
)


class CompleteEntry(Struct, tag_field="ph", tag="X", gc=False):
    """A complete event; its members in the order in which Kineto writes them."""

    cat: str = ""
    name: str = ""
    pid: Number | str = ""
    tid: Number | str = ""
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Args | None = None


class InstantEntry(Struct, tag_field="ph", tag="i", gc=False):
    """A point in time: an allocator event, or a mark that nobody needs."""

    ts: Raw = NOTHING
    name: str = ""
    args: Args | None = None


class LabelEntry(Struct, tag_field="ph", tag="M", gc=False):
    """A name for a process or a thread."""

    name: str = ""
    pid: Number | str = ""
    tid: Number | str = ""
    args: Any = None


class BeginEntry(Struct, tag_field="ph", tag="B", gc=False):
    """The start of an event that a later ``EndEntry`` on the same track completes."""

    ts: Raw = NOTHING
    name: str = ""
    cat: str = ""
    pid: Number | str = ""
    tid: Number | str = ""


class EndEntry(Struct, tag_field="ph", tag="E", gc=False):
    """The end of the innermost open ``BeginEntry`` of its track."""

    ts: Raw = NOTHING
    pid: Number | str = ""
    tid: Number | str = ""


# Flows, counters, asynchronous spans, objects, samples and the rest: counted, nothing else.
_SKIPPED_PHASES: Final = "IstfCbneSTpFNODPRcv(),V"
_SKIPPED_KINDS: Final = [
    msgspec.defstruct(f"Skipped{ord(tag)}", [], tag_field="ph", tag=tag, gc=False)
    for tag in dict.fromkeys(_SKIPPED_PHASES)
]
READ_KINDS: Final = (CompleteEntry, InstantEntry, LabelEntry, BeginEntry, EndEntry)
PHASES: Final = frozenset("XiMBE" + _SKIPPED_PHASES)


def entry_decoder() -> "msgspec.json.Decoder[list[Any]]":
    """Return a decoder of a list of entries; numbers written as text are numbers to it."""
    entry = READ_KINDS[0]
    for kind in (*READ_KINDS[1:], *_SKIPPED_KINDS):
        entry = entry | kind
    return msgspec.json.Decoder(list[entry], strict=False)
