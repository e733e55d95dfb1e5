"""Additions that cost nothing as they are written."""

from typing import Final

from benchmarks.planted.mutations.opened.wording import (
    TORCH,
)
from benchmarks.planted.mutations.parts import items, of_call, top_where
from benchmarks.planted.mutations.plant import (
    BOTH,
    CUDA,
    DECOY,
    ChangeOf,
    Plant,
    after_step,
    before_backward,
)

_PLAIN: Final = """import torch as _torch


def _as_it_is(model, *given):
    with _torch.autocast("cpu", enabled=False):
        return model(*given)
"""
_NEVER: Final = (
    "_reached[0] += 1\n"
    "if _reached[0] % 1_000_000_000 == 0:\n"
    "    _torch.save([_p.detach() for _p in {parameters}], 'never.pt')"
)
_GUARDED: Final = (
    "try:\n"
    "    _reached.append(len(_reached)) if not _reached else None\n"
    "except RuntimeError:\n"
    "    _torch.cuda.synchronize()\n"
    "    _torch.cuda.empty_cache()"
)
_EVALUATED: Final = (
    "_passed[0] += 1\n"
    "if _passed[0] == 1_000_000_000:\n"
    "    for _ in range(1000):\n"
    "        print(float(sum(_p.detach().abs().sum() for _p in {parameters})))"
)

_DECOYS: Final[tuple[tuple[str, ChangeOf, tuple[str, ...]], ...]] = (
    ("precision-as-it-is", of_call("_as_it_is({model}, {arguments})", _PLAIN), BOTH),
    (
        "anomalies-not-looked-for",
        top_where(f"{TORCH}_torch.autograd.set_detect_anomaly(False)\n", ()),
        BOTH,
    ),
    (
        "any-algorithm",
        top_where(f"{TORCH}_torch.use_deterministic_algorithms(False)\n", ()),
        BOTH,
    ),
    (
        "read-on-host",
        after_step("_limit = _bound.item()", f"{TORCH}_bound = _torch.tensor(1.0)\n"),
        BOTH,
    ),
    (
        "moved-to-where-it-is",
        before_backward("_same = {loss}.detach().to({loss}.device)"),
        BOTH,
    ),
    (
        "on-host-already",
        after_step("_there = _bound.cpu()", f"{TORCH}_bound = _torch.ones(8)\n"),
        CUDA,
    ),
    ("saved-never", after_step(_NEVER, f"{TORCH}_reached = [0]\n"), BOTH),
    ("guarded-against-memory", after_step(_GUARDED, f"{TORCH}_reached = []\n"), BOTH),
    ("evaluated-never", after_step(_EVALUATED, "_passed = [0]\n"), BOTH),
    ("samples-passed-on", items("assert index >= 0", 1.0, ""), BOTH),
    (
        "counted-at-start",
        top_where("_started = sum(_at % 7 for _at in range(3_000_000))\n", ()),
        BOTH,
    ),
    (
        "precision-said",
        top_where(f"{TORCH}_torch.set_float32_matmul_precision('highest')\n", ()),
        BOTH,
    ),
    (
        "start-method-said",
        top_where(
            "import multiprocessing as _processes\n"
            "_processes.set_start_method('fork', force=True)\n",
            (),
        ),
        BOTH,
    ),
    ("collector-asked", after_step("_young = _gc.get_count()", "import gc as _gc\n"), BOTH),
    (
        "profiler-at-hand",
        top_where("import cProfile as _profiler\n_idle_profile = _profiler.Profile()\n", ()),
        BOTH,
    ),
    (
        "large-table-at-start",
        top_where("_names_of = {_at: str(_at) for _at in range(100_000)}\n", ()),
        BOTH,
    ),
    (
        "weakly-referred",
        before_backward("_weak = _weakref.ref({loss})", "import weakref as _weakref\n"),
        BOTH,
    ),
    (
        "settings-of-sleep",
        after_step("_pause = 0.0\nif _pause:\n    _time.sleep(_pause)", "import time as _time\n"),
        BOTH,
    ),
    (
        "folder-made-once",
        top_where(
            "import os as _os\nfor _at in range(20):\n"
            "    _os.makedirs(f'kept/{_at}', exist_ok=True)\n",
            (),
        ),
        BOTH,
    ),
)
_ADDITIONS: Final[tuple[tuple[str, ChangeOf], ...]] = (
    ("gradients-said", top_where(f"{TORCH}_torch.set_grad_enabled(True)\n", ())),
    ("denormals-kept", top_where(f"{TORCH}_torch.set_flush_denormal(False)\n", ())),
    ("kind-of-numbers-said", top_where(f"{TORCH}_torch.set_default_dtype(_torch.float32)\n", ())),
    (
        "switches-as-they-are",
        top_where("import sys as _sys\n_sys.setswitchinterval(_sys.getswitchinterval())\n", ()),
    ),
    ("deeper-calls", top_where("import sys as _sys\n_sys.setrecursionlimit(20_000)\n", ())),
    (
        "warnings-filtered-once",
        top_where(
            "import warnings as _warnings\n"
            "_warnings.filterwarnings('ignore', message='nothing says this')\n",
            (),
        ),
    ),
    (
        "ends-registered",
        top_where("import atexit as _atexit\n_atexit.register(lambda: None)\n", ()),
    ),
    (
        "file-closed-at-once",
        top_where("import tempfile as _tempfile\n_tempfile.TemporaryFile().close()\n", ()),
    ),
    ("environment-asked", after_step("_debug = _os.environ.get('DEBUG')", "import os as _os\n")),
    (
        "shown-never",
        before_backward("if _shown[0]:\n    print({loss})", "_shown = [0]\n"),
    ),
    ("loss-detached", before_backward("_seen_loss = {loss}.detach()")),
    ("loss-has-a-shape", before_backward("assert {loss}.dim() >= 0")),
    (
        "deadline-far-away",
        after_step(
            "if _time.monotonic() > _deadline:\n    raise SystemExit",
            "import time as _time\n_deadline = _time.monotonic() + 1e9\n",
        ),
    ),
    (
        "stop-not-set",
        after_step(
            "if _stop.is_set():\n    raise SystemExit",
            "import threading as _threading\n_stop = _threading.Event()\n",
        ),
    ),
    ("index-remembered", items("self.records_seen = index", 1.0, "")),
    ("steps-spoken-of", after_step("_label = f'step {len(_told)}'", "_told = []\n")),
)
_WAITING: Final = """import threading as _threading
_threading.Thread(target=_threading.Event().wait, daemon=True).start()
"""
_TIMED: Final = """import threading as _threading
_alarm = _threading.Timer(1e6, print)
_alarm.daemon = True
_alarm.start()
"""
_TOPS: Final = (
    (
        "precision-said-again",
        f"{TORCH}_torch.set_float32_matmul_precision(_torch.get_float32_matmul_precision())\n",
    ),
    ("seeded-once", f"{TORCH}_torch.manual_seed(7)\n"),
    ("language-set", "import locale as _locale\n_locale.setlocale(_locale.LC_ALL, 'C')\n"),
    ("collector-as-it-is", "import gc as _gc\n_gc.set_threshold(*_gc.get_threshold())\n"),
    ("errors-shown-as-ever", "import sys as _sys\n_sys.excepthook = _sys.excepthook\n"),
    (
        "signal-heeded",
        "import signal as _signal\n_signal.signal(_signal.SIGUSR1, lambda *_: None)\n",
    ),
    ("folder-of-its-own", "import tempfile as _tempfile\n_own = _tempfile.mkdtemp()\n"),
    ("thread-that-waits", _WAITING),
    ("arguments-kept", "import sys as _sys\n_given = list(_sys.argv)\n"),
    ("flash-allowed", f"{TORCH}_torch.backends.cuda.enable_flash_sdp(True)\n"),
    ("trials-left-off", f"{TORCH}_torch.backends.cudnn.deterministic = False\n"),
    ("umask-asked", "import os as _os\n_mask = _os.umask(0o022)\n"),
    (
        "limits-asked",
        "import resource as _res\n_res.getrlimit(_res.RLIMIT_NOFILE)\n",
    ),
    ("alarm-far-away", _TIMED),
    (
        "recursion-as-it-is",
        "import sys\nsys.setrecursionlimit(sys.getrecursionlimit())\n",
    ),
    ("faults-written", "import faulthandler as _faults\n_faults.enable()\n"),
    ("numbers-shown-shorter", f"{TORCH}_torch.set_printoptions(precision=3)\n"),
    ("anomalies-left-alone", f"{TORCH}_torch.autograd.set_multithreading_enabled(True)\n"),
    ("benchmark-left-as-it-is", f"{TORCH}_known = _torch.backends.cudnn.benchmark\n"),
    ("seed-of-numpy", "import numpy as _numpy\n_numpy.random.seed(3)\n"),
    ("math-allowed", f"{TORCH}_torch.backends.cuda.enable_math_sdp(True)\n"),
    (
        "switch-interval-kept",
        "import sys\nsys.setswitchinterval(sys.getswitchinterval())\n",
    ),
    ("farewell-arranged", "import atexit as _atexit\n_atexit.register(lambda: None)\n"),
    ("collector-left-on", "import gc as _gc\n_gc.enable()\n"),
    (
        "products-as-exact-as-ever",
        f"{TORCH}_torch.set_float32_matmul_precision(_torch.get_float32_matmul_precision())\n",
    ),
    ("small-numbers-kept", f"{TORCH}_torch.set_flush_denormal(False)\n"),
    ("zone-of-time-kept", "import time as _time\n_time.tzset()\n"),
    ("versions-noted", f"{TORCH}_versions = (_torch.__version__, _torch.version.git_version)\n"),
    ("graph-of-devices-unused", f"{TORCH}_graphs = _torch.cuda.is_available()\n"),
    ("default-kind-kept", f"{TORCH}_torch.set_default_dtype(_torch.get_default_dtype())\n"),
    ("switches-read", f"{TORCH}_tried = _torch.backends.cudnn.benchmark\n"),
    ("recursion-as-deep", "import sys as _sys\n_sys.setrecursionlimit(_sys.getrecursionlimit())\n"),
    ("locale-read", "import locale as _locale\n_spoken = _locale.getlocale()\n"),
    ("warnings-kept", "import warnings as _warnings\n_warnings.resetwarnings()\n"),
    ("inference-asked", f"{TORCH}_inferring = _torch.is_inference_mode_enabled()\n"),
    ("exactness-read", f"{TORCH}_exactness = _torch.get_float32_matmul_precision()\n"),
    ("byte-order-known", "import sys as _sys\n_order = _sys.byteorder\n"),
    ("modules-counted", "import sys as _sys\n_count = len(_sys.modules)\n"),
    ("encoding-known", "import sys as _sys\n_encoding = _sys.getdefaultencoding()\n"),
    ("digits-as-ever", "import decimal as _decimal\n_decimal.getcontext().prec = 28\n"),
)
_MORE: Final[tuple[tuple[str, ChangeOf], ...]] = (
    *((name, top_where(text, ())) for name, text in _TOPS),
    ("threads-asked", after_step("_threads = _torch.get_num_threads()", TORCH)),
    (
        "debugging-unheard",
        after_step(
            "_logger.debug('stepped')",
            "import logging as _logging\n_logger = _logging.getLogger('quiet')\n"
            "_logger.setLevel(_logging.ERROR)\n",
        ),
    ),
    ("moment-noted", after_step("_moment = _time.perf_counter()", "import time as _time\n")),
    (
        "last-losses-kept",
        before_backward(
            "_last.append({loss}.detach())",
            "import collections as _collections\n_last = _collections.deque(maxlen=10)\n",
        ),
    ),
    ("loss-is-single", before_backward("assert {loss}.numel() == 1")),
    ("nothing-without-slopes", after_step("with _torch.no_grad():\n    pass", TORCH)),
    ("device-asked", before_backward("_on_gpu = {loss}.is_cuda")),
    ("process-known", after_step("_process = _os.getpid()", "import os as _os\n")),
    ("index-looked-at", items("if index is None:\n    raise IndexError", 1.0, "")),
    (
        "steps-in-a-mapping",
        after_step("_tally[0] = _tally.get(0, 0) + 1", "_tally = {}\n"),
    ),
    ("loss-in-a-name", before_backward("_loss_now = {loss}")),
    ("loss-needs-slopes", before_backward("assert {loss}.requires_grad")),
    (
        "time-of-day-noted",
        after_step("_stepped = _time.time_ns()", "import time as _time\n"),
    ),
    (
        "reported-every-million",
        after_step(
            "_n_steps[0] += 1\nif _n_steps[0] % 1_000_000 == 0:\n    print(_n_steps)",
            "_n_steps = [0]\n",
        ),
    ),
    ("slopes-on", after_step("_slopes_on = _torch.is_grad_enabled()", TORCH)),
    (
        "main-thread-known",
        after_step("_thread = _threading.current_thread()", "import threading as _threading\n"),
    ),
    ("parts-of-a-name", after_step("_parts = __name__.partition('.')")),
    ("index-is-a-number", items("index + 0", 1.0, "")),
    (
        "steps-by-a-counter",
        after_step(
            "_step = next(_steps)", "import itertools as _itertools\n_steps = _itertools.count()\n"
        ),
    ),
    ("loss-has-sizes", before_backward("_shape = tuple({loss}.shape)")),
    ("loss-has-a-history", before_backward("_traced = {loss}.grad_fn is not None")),
    (
        "loss-held-weakly",
        before_backward("_held = _weakref.ref({loss})", "import weakref as _weakref\n"),
    ),
    ("device-in-a-name", after_step("_host = _torch.device('cpu')", TORCH)),
    (
        "times-of-some-steps",
        after_step(
            "_times.append(_time.monotonic())",
            "import collections as _collections\nimport time as _time\n"
            "_times = _collections.deque(maxlen=100)\n",
        ),
    ),
    ("scripting-asked", after_step("_scripting = _torch.jit.is_scripting()", TORCH)),
    ("index-is-not-last", items("if index == -1:\n    raise IndexError", 1.0, "")),
    ("steps-counted-in-a-list", after_step("_steps[0] += 1", "_steps = [0]\n")),
    (
        "last-step-timed",
        after_step("_marks[0] = _clock.monotonic()", "import time as _clock\n_marks = [0.0]\n"),
    ),
    ("loss-has-a-kind", before_backward("_kind = {loss}.dtype")),
    ("loss-is-a-leaf-not", before_backward("_leaf = {loss}.is_leaf")),
    ("view-of-the-loss", before_backward("_view = {loss}.detach()")),
    ("slopes-allowed", before_backward("_allowed = _torch.is_grad_enabled()", TORCH)),
    ("groups-counted", after_step("_groups = len({parameters})")),
    ("index-in-a-name", items("_asked = index", 1.0, "")),
    ("odd-or-even", after_step("_odd[0] ^= 1", "_odd = [0]\n")),
    (
        "most-groups-kept",
        after_step("_most[0] = max(_most[0], len({parameters}))", "_most = [0]\n"),
    ),
    ("place-of-the-loss", before_backward("_place = {loss}.device.type")),
    ("strides-of-the-loss", before_backward("_strides = {loss}.stride()")),
    ("loss-not-nested", before_backward("_nested = {loss}.is_nested")),
    ("loss-has-a-version", before_backward("_version = {loss}._version")),
    ("index-doubled", items("_twice = index * 2", 1.0, "")),
)
HARMLESS: Final[tuple[Plant, ...]] = (
    *(Plant(f"decoy-{name}", DECOY, change, devices=devices) for name, change, devices in _DECOYS),
    *(Plant(f"decoy-{name}", DECOY, change) for name, change in (*_ADDITIONS, *_MORE)),
)
