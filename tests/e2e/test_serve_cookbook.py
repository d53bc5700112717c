"""Recipes of tinker-cookbook, unmodified, against `redqueen serve` on Pawn.

The cookbook pins a transformers older than ours, so it lives in a virtual environment of its own:
`make cookbook` makes it and runs these tests. Recipes load a tokenizer by the base's name, which can
be a folder.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from redqueen.models.base import PAWN
from tests.e2e.test_serve_sdk import KEYS, free_port, start

PYTHON = Path(os.environ.get("REDQUEEN_COOKBOOK", ".venv-cookbook/bin/python")).absolute()
"""Not resolved: a link in a virtual environment says which one it is."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.cookbook,
    pytest.mark.skipif(
        not PYTHON.exists(),
        reason=f"there is no {PYTHON}, a Python with tinker-cookbook: `make cookbook` makes one and "
        "runs these tests; REDQUEEN_COOKBOOK names another",
    ),
]


def play(folder: Path, recipe: str, *options: str) -> list[dict[str, float]]:
    """The metrics of each step."""
    (folder / "local").mkdir()
    (folder / "local" / "pawn").symlink_to(PAWN)
    port = free_port()
    server = start(folder / "served", port, "local/pawn", folder)
    command = [str(PYTHON), "-m", f"tinker_cookbook.recipes.{recipe}", *options]
    command += ["model_name=local/pawn", "renderer_name=role_colon", "lora_rank=8"]
    command += [f"log_path={folder / 'log'}", f"base_url=http://127.0.0.1:{port}"]
    try:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment |= {"TINKER_API_KEY": KEYS[0], "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        server.terminate()
        server.wait()
    assert done.returncode == 0, done.stderr[-3000:]
    rows = (folder / "log" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(row) for row in rows]


def test_reinforcement_learning_on_arithmetic(tmp_path: Path) -> None:
    sizes = ("groups_per_batch=4", "group_size=4", "max_tokens=8", "max_steps=2")
    metrics = play(tmp_path, "math_rl.train", "env=arithmetic", "learning_rate=1e-3", *sizes)
    gaps = [row["optim/kl_sample_train_v2"] for row in metrics if "optim/kl_sample_train_v2" in row]
    assert gaps and max(gaps) < 1e-4


def test_supervised_learning_on_chats(tmp_path: Path) -> None:
    chats = [
        [
            {"role": "user", "content": f"{n} + {n % 5}"},
            {"role": "assistant", "content": str(n + n % 5)},
        ]
        for n in range(48)
    ]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    sizes = ("batch_size=8", "max_length=256", "max_steps=4", "eval_every=0")
    metrics = play(tmp_path, "chat_sl.train", f"dataset={file}", "learning_rate=1e-2", *sizes)
    losses = [row["train_mean_nll"] for row in metrics if "train_mean_nll" in row]
    assert losses[-1] < losses[0]
