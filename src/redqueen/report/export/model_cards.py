"""The README of an export: what it is, where it comes from, how it was measured, how to use it, and
what it is not."""

from pathlib import Path
from typing import Any

from redqueen import __version__
from redqueen.report.escape import plain

_USE_ADAPTER = """```python
from peft import PeftModel
{more}from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained({path})
tokenizer = AutoTokenizer.from_pretrained({path})
model = PeftModel.from_pretrained(base, "this-folder")
```"""
_IN_VLLM = "\n\nIn vLLM: `vllm serve {base} --enable-lora --lora-modules {name}=this-folder --max-lora-rank {room}`."
_RANKS_OF_VLLM = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as --max-lora-rank: it refuses other numbers, but loads any adapter up to the one
it is given."""
_USE_MODEL = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("this-folder")
tokenizer = AutoTokenizer.from_pretrained("this-folder")
```"""


def model_card(what: str, name: str, run: dict[str, Any], merged: bool) -> str:
    """`what` says in a sentence what the weights are; `run` has base, rank, step, steps, created,
    name, scores."""
    head = [
        "base_model: " + run["base"],
        "library_name: " + ("transformers" if merged else "peft"),
        "tags: [lora, reinforcement-learning, redqueen]",
    ]
    more, path = (
        ("from redqueen.models.base import PAWN\n", "PAWN")
        if run["base"] == "pawn"
        else ("", f'"{plain(run["base"])}"')
    )
    room = next((rank for rank in _RANKS_OF_VLLM if rank >= run["rank"]), None)
    form = (
        _USE_MODEL
        if merged
        else _USE_ADAPTER + ("" if run["base"] == "pawn" or room is None else _IN_VLLM)
    )
    use = form.format(more=more, path=path, base=plain(run["base"]), name=name.lower(), room=room)
    parts = [
        "---\n" + "\n".join(plain(line) for line in head) + "\n---",
        f"# {plain(name)}, from the run {plain(run['name'])}",
        what,
        f"Trained by Red Queen {__version__}, after PopuLoRA (arXiv 2605.16727): teachers invent problems with verified answers, students solve "
        f"them, both learn, the weakest are replaced. Base: `{plain(run['base'])}`. Rank {run['rank']}. "
        f"Taken after step {run['step']} of {run['steps']}; the run began {plain(run['created'])}.",
        "## How to use it",
        use,
        "## Scores",
        _scores(run["scores"]),
        "## Limits",
        "It was trained on small programs in Python whose answers can be checked, and on nothing else: not for safety, not for facts. "
        "It inherits the base's licence and its faults. Scores are of one run; other seeds give other scores.",
    ]
    return "\n\n".join(parts) + "\n"


def _scores(scores: list[tuple[str, str, str]]) -> str:
    if not scores:
        return "The run measured none of these weights on a held-out suite."
    rows = [f"| {suite} | {score} | {gain} |" for suite, score, gain in scores]
    return "\n".join(
        [
            "| suite | right (95 % interval) | points over the base, item by item |",
            "|---|---|---|",
            *rows,
        ]
    )


def data_card(run: dict[str, Any], file: Path, count: int, kinds: dict[str, int]) -> str:
    counted = ", ".join(f"{number:,} {plain(kind)}" for kind, number in kinds.items())
    return f"""---
task_categories: [text-generation]
tags: [code, synthetic, verifiable, redqueen]
---

# The curriculum of the run {plain(run["name"])}

`{file.name}`: {count:,} problems ({counted}) that teachers on `{plain(run["base"])}` invented in {run["step"]} steps, in the order in which they were
posed, each once. Every program ran in a sandbox, in three processes alike; `outputs` are what it returned, so answers can be checked by running it.

| field | what it is |
|---|---|
| `kind` | `code_o`: give the output; `code_i`: give an input with that output; `code_f`: give the program, from half of the pairs and `message` |
| `program`, `inputs`, `outputs` | a function `f`; arguments of calls, as between the parentheses; what came of them |
| `solve_rate`, `right`, `attempts` | how the matched student did |
| `difficulty_rating` | the skill that would solve it half of the time, on the scale of the run's TrueSkill ratings |
| `teacher`, `teacher_rating`, `teacher_ancestors` | who wrote it, and whom that member descends from |
| `student`, `student_rating` | who attempted it |
| `shown` | keys of the problems that the teacher was shown |
| `ast_depth`, `cyclomatic`, `loc`, `variables`, `steps_executed`, `cell` | complexity, and the structural cell |
| `structure`, `behaviour` | hashes: equal programs but for names and layout; equal results for probe inputs |
| `step`, `world`, `arm`, `seed` | when and where |

A solve rate is one student's, at one moment: it says as much about the student as about the problem. Programs are by models and unread by people:
run them in a sandbox only. Red Queen reads the JSONL back: `archive.seeds` or `fixed.source` may name it.
"""
