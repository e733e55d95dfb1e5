"""The recipes of the docs: their files are read, and what they start is what gapless takes."""

import argparse
import ast
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml

from gapless import cli

RECIPES: Final = Path(__file__).parents[2] / "docs/recipes"
_STUB: Final = """#!/bin/bash
printf '%s\\t' "${0##*/}" "$@" >>"$CALLS"; echo >>"$CALLS"
"""


def parse_run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """Return what the command line makes of ``gapless run …``."""
    kept: list[argparse.Namespace] = []

    def keep(arguments: argparse.Namespace) -> int:
        kept.append(arguments)
        return 0

    monkeypatch.setattr(cli.module_of("run"), "main", keep)
    assert words[0] == "gapless"
    assert cli.main(words[1:]) == 0
    return kept[0]


def write_tool(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_the_batch_script_starts_a_torchrun_on_each_node_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tool(tmp_path, "gapless", _STUB)
    write_tool(tmp_path, "scontrol", "#!/bin/bash\nprintf 'n1\\nn2\\n'\n")
    write_tool(tmp_path, "srun", '#!/bin/bash\n"$@"; "$@"; exit 3\n')
    (tmp_path / "runs/42").mkdir(parents=True)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_ID": "42",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_NNODES": "2",
    }
    script = subprocess.run(
        ["/bin/bash", str(RECIPES / "train.sbatch")], env=environment, check=False, timeout=30
    )
    assert script.returncode == 3  # the training's own
    calls = [line.strip("\t").split("\t") for line in (tmp_path / "calls").read_text().splitlines()]
    assert [call[1] for call in calls] == ["run", "run", "report"]
    assert calls[2][2:] == [str(tmp_path / "runs/42")]
    arguments = parse_run(calls[0], monkeypatch)
    assert str(arguments.out) == calls[2][2]
    command = " ".join(arguments.command_line)
    assert "--rdzv-id 42" in command
    assert "--rdzv-endpoint n1:29500" in command


def container(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        document = document[key]
    return cast("dict[str, Any]", document["containers"][0])


@pytest.mark.parametrize("role", ["Master", "Worker"])
def test_the_training_operator_runs_gapless_on_every_node(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = yaml.safe_load((RECIPES / "pytorchjob.yaml").read_text())
    replicas = document["spec"]["pytorchReplicaSpecs"]
    node = container(replicas, role, "template", "spec")
    arguments = parse_run(node["command"], monkeypatch)
    assert arguments.command_line == ["torchrun", "train.py"]
    mounts = {mount["mountPath"] for mount in node["volumeMounts"]}
    assert any(arguments.out.is_relative_to(mount) for mount in mounts)
    assert (document["kind"], replicas["Worker"]["replicas"]) == ("PyTorchJob", 3)


def test_a_jobset_numbers_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    document = yaml.safe_load((RECIPES / "jobset.yaml").read_text())
    name, job = document["metadata"]["name"], document["spec"]["replicatedJobs"][0]
    spec = job["template"]["spec"]
    node = container(spec, "template", "spec")
    (line,) = node["args"]
    words = shlex.split(line)
    command = parse_run(words[1:], monkeypatch).command_line
    options = dict(zip(command[1:-1:2], command[2:-1:2], strict=True))
    assert options["--nnodes"] == str(spec["parallelism"]) == str(spec["completions"])
    assert options["--node-rank"] == "$JOB_COMPLETION_INDEX"
    assert options["--master-addr"] == f"{name}-{job['name']}-0-0.{name}"


def test_ray_train_records_the_loop_of_each_worker() -> None:
    tree = ast.parse((RECIPES / "ray_train.py").read_text())
    (loop,) = (
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "train_loop"
    )
    (block,) = (node for node in loop.body if isinstance(node, ast.With))
    assert ast.unparse(block.items[0]) == "gapless.record(out=config['runs'])"
    assert "train(config)" in ast.unparse(block.body[0])
