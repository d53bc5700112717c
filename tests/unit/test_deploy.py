"""The files for containers and clusters can be read, and agree with each other and with us."""

import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # with transformers
from typer.main import get_command

from redqueen.cli.app import app
from redqueen.config.toml import load_config

DEPLOY = Path(__file__).parents[2] / "deploy"
JOB = yaml.safe_load((DEPLOY / "kuberay.yaml").read_text())
SBATCH = (DEPLOY / "redqueen.sbatch").read_text()


def pods() -> list[dict[str, Any]]:
    cluster = JOB["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def check_command(words: list[str]) -> None:
    """A command of ours, with settings that there are."""
    program, name, *rest = words
    assert program == "redqueen"
    commands = get_command(app)
    context = commands.make_context("redqueen", [name], resilient_parsing=True)
    command = commands.get_command(context, name)  # type: ignore[attr-defined]
    options = {option for one in command.params for option in one.opts}
    assert {word for word in rest if word.startswith("--")} <= options
    load_config(None, [after for word, after in pairwise(rest) if word == "--set"])


def test_the_job_of_kubernetes_calls_a_command_of_ours() -> None:
    assert (JOB["apiVersion"], JOB["kind"]) == ("ray.io/v1", "RayJob")
    check_command(shlex.split(JOB["spec"]["entrypoint"]))


def test_only_workers_have_gpus_and_all_pods_have_the_runs() -> None:
    head, worker = pods()
    gpus = [pod["containers"][0]["resources"]["limits"].get("nvidia.com/gpu") for pod in pods()]
    assert gpus == [None, "1"]
    for pod in (head, worker):
        (container,) = pod["containers"]
        (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
        assert mount["name"] == volume["name"] and mount["mountPath"] == "/runs"
    assert JOB["spec"]["entrypoint"].count("/runs/") == 2, "study and run are on that volume"


def test_nobody_reaches_the_cluster_without_a_token() -> None:
    cluster = JOB["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    assert tuple(map(int, cluster["rayVersion"].split("."))) >= (2, 52, 0), "older ones have none"
    assert "RAY_AUTH_MODE=token" in SBATCH


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_images_have_the_ray_that_the_cluster_expects(name: str) -> None:
    text = (DEPLOY / name).read_text()
    version = JOB["spec"]["rayClusterSpec"]["rayVersion"]
    assert re.findall(r"ray\[default\]==([\d.]+)", text) == [version]
    assert re.search(r"^USER player$", text, re.M), "not root"
    uid = re.search(r"--uid (\d+)", text)
    assert uid and all(pod["securityContext"]["fsGroup"] == int(uid[1]) for pod in pods())
    instructions = {line.split()[0] for line in text.splitlines() if line and line[0].isalpha()}
    assert instructions == {"FROM", "RUN", "WORKDIR", "COPY", "USER", "CMD"}


def run_sbatch(folder: Path, *arguments: str) -> list[str]:
    """What it would run, with programs of SLURM that only say how they are called."""
    scripts = {
        "scontrol": "printf 'one\\ntwo\\n'",
        "srun": 'printf "%s\\n" "$@"',
        "python": "echo secret",
    }
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    environment = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "one,two",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_CPUS_PER_TASK": "64",
    }
    bash = shutil.which("bash") or "bash"
    result = subprocess.run(
        [bash, DEPLOY / "redqueen.sbatch", *arguments],
        env=environment, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return result.stdout.splitlines()


def test_the_job_of_slurm_starts_ray_on_all_machines_and_a_study_on_one(tmp_path: Path) -> None:
    lines = run_sbatch(tmp_path, "my study.toml")
    play = lines[lines.index("--") + 1 :]
    assert play[:4] == ["redqueen", "study", "my study.toml", "--out"] and play[4] == "runs/7"
    check_command(play)
    assert "--cpus-per-task=64" in lines and "one:6379" in lines
    assert lines[lines.index("--min-nodes") + 1] == "2"
    assert (tmp_path / ".ray-token").stat().st_mode & 0o077 == 0, "for nobody else"


def test_the_job_of_slurm_goes_on_with_a_run(tmp_path: Path) -> None:
    lines = run_sbatch(tmp_path, "resume", "runs/7")
    assert lines[lines.index("--") + 1 :] == ["redqueen", "resume", "runs/7"]


def test_the_job_of_slurm_has_whole_machines_and_one_task_on_each() -> None:
    options = re.findall(r"^#SBATCH --(\S+)", SBATCH, re.M)
    assert {"exclusive", "ntasks-per-node=1", "nodes=2"} <= set(options)
