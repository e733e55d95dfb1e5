"""The image, built and used: by Podman, from Debian's base, with the torch of the usual index.

It takes some minutes, root, Podman and debootstrap, and leaves no image behind.
"""

import os
import shutil
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
_BASE: Final = "localhost/gapless-test-base"
_IMAGE: Final = "localhost/gapless-test"
_PIP_SETTINGS: Final = ("cert", "find-links", "index-url")
_LIMITS: Final = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
_MEMORY: Final = ("--shm-size", "1g")
_CONFINED: Final = ("--cap-drop", "all", "--security-opt", "no-new-privileges")
_TRAINING: Final = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64), index % 10

model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for features, labels in DataLoader(Slow(), batch_size=16, num_workers=1):
    loss = torch.nn.functional.cross_entropy(model(features), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_ASK: Final = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=9).read())"
_SSH: Final = "ssh -p 2222 -o StrictHostKeyChecking=no localhost"
_SERVE_SSH: Final = """
ssh-keygen -q -t ed25519 -N '' -f key && cp key.pub keys
export SSH_KEYS=$PWD/keys
exec /opt/gapless/deploy/entry.sh serve-ssh
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("podman", "debootstrap"))),
        reason="needs root, podman and debootstrap",
    ),
]


def run(*words: str, code: int | None = 0) -> str:
    """Run a command; return what it prints, errors included."""
    process = subprocess.run(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert code is None or process.returncode == code, process.stdout[-4000:]
    return process.stdout


def pip_settings() -> list[str]:
    """Return options with which pip in a build is told where packages are as pip here is."""
    settings: dict[str, str] = {}
    mounts: set[str] = set()
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        name, value = name.rpartition(".")[2], value.strip("'")
        if name not in _PIP_SETTINGS:
            continue
        for word in value.split():
            path = Path(urllib.parse.urlsplit(word).path)
            if path.is_absolute() and path.exists():
                mounts.add(f"{path}:/run/pip{path}:ro")
                value = value.replace(word, f"/run/pip{path}")
        settings[name.replace("-", "_").upper()] = value
    environment = (f"--env=PIP_{name}={value}" for name, value in settings.items())
    return [*environment, *(f"--volume={mount}" for mount in mounts)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    base = tmp_path_factory.mktemp("base") / "root"
    run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(base))
    archive = base.with_suffix(".tar")
    run("tar", "-C", str(base), "-cf", str(archive), ".")
    run("podman", "import", str(archive), _BASE)
    arguments = {"BASE": _BASE, "SSH": "yes", "TORCH": "torch==2.13.0", "TORCH_INDEX": ""}
    words = [word for pair in arguments.items() for word in ("--build-arg", "=".join(pair))]
    words += ["--file", "deploy/Containerfile", "--tag", _IMAGE, *_LIMITS, *pip_settings()]
    # HEALTHCHECK is not in OCI's format
    options = ("--isolation", "chroot", "--network", "host", "--format", "docker")
    try:
        run("podman", "build", *options, *words, ".")
        yield _IMAGE
    finally:
        run("podman", "rmi", "--force", _IMAGE, _BASE, code=None)
        run("podman", "image", "prune", "--force")
        shutil.rmtree(base.parent)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(_TRAINING)
    tmp_path.chmod(0o777)
    return tmp_path


Start = Callable[..., str]


@pytest.fixture
def start(image: str, place: Path) -> Generator[Start]:
    """Start a container that goes on; return its name."""
    names: list[str] = []

    def start_container(*words: str, options: tuple[str, ...] = ()) -> str:
        names.append(f"gapless-test-{len(names)}")
        run(*podman_run("--detach", "--name", names[-1], *options, place=place), image, *words)
        return names[-1]

    yield start_container
    for name in names:
        run("podman", "rm", "--force", name)


def podman_run(*options: str, place: Path) -> tuple[str, ...]:
    runtime = ("--runtime", "runc") if shutil.which("runc") else ()  # crun knows fewer kernels
    mount = ("--network", "none", "--volume", f"{place}:/work")
    return ("podman", *runtime, "run", *_LIMITS, *mount, *options)


def wait_for(name: str, script: str, words: str) -> None:
    """Try a script in a container until it prints these words; fail with what it prints."""
    text = ""
    for _ in range(30):
        text = run("podman", "exec", name, "bash", "-c", script, code=None)
        if words in text:
            return
        time.sleep(1)
    pytest.fail(f"{text}\n{run('podman', 'logs', name)}")


def test_a_training_is_recorded_without_a_capability(image: str, place: Path) -> None:
    start_it = podman_run("--rm", *_MEMORY, *_CONFINED, place=place)
    text = run(*start_it, image, "gapless", "run", "python", "train.py")
    assert "which 1 worker loads (train.py:15)" in text, text
    (folder,) = (place / ".gapless" / "runs").glob("2*")
    assert folder.stat().st_uid == 1000
    nobody = podman_run("--rm", "--user", "4321:4321", place=place)
    page = run(*nobody, image, "gapless", "report", "--html", "/tmp/page.html")  # noqa: S108
    assert "page: /tmp/page.html" in page
    compiled = "import torch; print(torch.compile(lambda x: x.sin() + 1)(torch.zeros(9)).sum())"
    assert "tensor(9.)" in run(*nobody, image, "python", "-c", compiled)


def test_the_health_check_sees_small_shared_memory_and_limits(start: Start) -> None:
    small = start("sleep", "600", options=("--shm-size", "64m"))
    run("podman", "healthcheck", "run", small, code=1)
    healthy = start("sleep", "600", options=("--shm-size", "8g", "--memory", "4g", "--cpus", "1.5"))
    run("podman", "healthcheck", "run", healthy)
    ask = ("gapless", "doctor", "--full", "--only", "shared-memory,memory,processors")
    text = " ".join(run("podman", "exec", healthy, *ask).split())
    assert "a quota of 1.5 processors" in text
    assert "the control group may use 4.0 GiB" in text
    assert "the control group's memory, of which it takes, has" in text


def test_services_answer(start: Start) -> None:
    lab = start("serve-lab", options=("--env", "JUPYTER_TOKEN="))
    board = start("serve-tensorboard", options=("--env", "CUDA_VISIBLE_DEVICES=", *_MEMORY))
    wait_for(lab, f"python -c '{_ASK}' http://localhost:8888/api", "version")
    wait_for(lab, f"python -c '{_ASK}' http://localhost:8888/api/contents", "403")
    wait_for(board, f"python -c '{_ASK}' http://localhost:6006/data/plugins_listing", "gapless")
    run("podman", "healthcheck", "run", board)


def test_ssh_takes_keys_alone(image: str, start: Start, place: Path) -> None:
    refused = run(*podman_run("--rm", place=place), image, "serve-ssh", code=2)
    assert "/keys/authorized_keys cannot be read" in refused
    name = start("bash", "-c", _SERVE_SSH)
    wait_for(name, f"{_SSH} -i key 'id -un; which gapless'", "gapless\n/opt/venv/bin/gapless")
    wait_for(name, f"{_SSH} -o PubkeyAuthentication=no true", "Permission denied (publickey)")
