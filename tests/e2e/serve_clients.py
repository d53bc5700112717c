"""Tenants with the official SDK, unmodified, each in a thread: REINFORCE with a reward of its own,
the share of its favourite token. Prints what each was told, as JSON.

    python serve_clients.py URL STEPS KEY...
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from tinker import types

PROMPT = [5, 9, 12, 30, 44, 61, 77, 90]
FAVOURITES = (10, 26, 25, 12, 31, 44, 50, 61)


def rollout(sampler: Any, number: int, step: int) -> tuple[list[Any], list[float]]:
    params = types.SamplingParams(max_tokens=8, temperature=1.0, seed=1000 * number + step)
    prompt = types.ModelInput.from_ints(PROMPT)
    reply = sampler.sample(prompt=prompt, num_samples=8, sampling_params=params).result()
    favourite = FAVOURITES[number]
    return reply.sequences, [
        float(np.mean(np.array(s.tokens) == favourite)) for s in reply.sequences
    ]


def to_datum(sequence: Any, advantage: float) -> types.Datum:
    full, before, new = PROMPT + list(sequence.tokens), len(PROMPT) - 1, len(sequence.tokens)
    inputs: Any = {
        "target_tokens": np.array(full[1:], np.int64),
        "logprobs": np.array([0.0] * before + list(sequence.logprobs), np.float32),
        "advantages": np.array([0.0] * before + [advantage] * new, np.float32),
    }
    return types.Datum(model_input=types.ModelInput.from_ints(full[:-1]), loss_fn_inputs=inputs)


def learn(url: str, key: str, number: int, steps: int) -> dict[str, Any]:
    service = tinker.ServiceClient(base_url=url, api_key=key)
    names = [model.model_name for model in service.get_server_capabilities().supported_models]
    training = service.create_lora_training_client(
        base_model=names[0] or "", rank=4 + number % 2, seed=number
    )
    told: dict[str, Any] = {
        "rewards": [],
        "steps": [],
        "gap": 0.0,
        "rank": training.get_info().lora_rank,
    }
    for step in range(steps):
        sampler = training.save_weights_and_get_sampling_client()
        sequences, rewards = rollout(sampler, number, step)
        data = [
            to_datum(s, r - float(np.mean(rewards)))
            for s, r in zip(sequences, rewards, strict=True)
        ]
        gradients = training.forward_backward(data, loss_fn="importance_sampling")
        stepped = training.optim_step(types.AdamParams(learning_rate=5e-3, grad_clip_norm=1.0))
        outputs = gradients.result().loss_fn_outputs
        told["steps"].append((stepped.result().metrics or {})["step"])
        if progress := os.environ.get("PROGRESS"):
            with Path(progress).open("a") as file:
                file.write(f"{number}\n")
        told["rewards"].append(float(np.mean(rewards)))
        for sequence, output in zip(sequences, outputs, strict=True):
            trained = np.array(output["logprobs"].tolist())[len(PROMPT) - 1 :]
            gap = float(np.abs(trained - np.array(sequence.logprobs)).max())
            told["gap"] = max(told["gap"], gap)
    path = training.save_state("last").result().path
    again = service.create_training_client_from_state_with_optimizer(path)
    data = [to_datum(s, 1.0) for s in sequences]
    both = [c.forward(data, "importance_sampling").result() for c in (training, again)]
    told["restored"] = [result.metrics["loss:sum"] for result in both]
    saved = service.create_rest_client().list_checkpoints(training.model_id).result().checkpoints
    told["saved"] = [checkpoint.tinker_path for checkpoint in saved] == [path]
    return told


def main() -> None:
    url, steps, keys = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    told: dict[int, Any] = {}

    def work(number: int, key: str) -> None:
        try:
            told[number] = learn(url, key, number, steps)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is told)
            told[number] = {"error": repr(error)}

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(keys)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps([told[number] for number in range(len(keys))]) + "\n")


if __name__ == "__main__":
    main()
