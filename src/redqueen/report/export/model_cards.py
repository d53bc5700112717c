"""The README of an export: what it is, where it comes from, how it scored, how to use it, and its
limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redqueen import __version__
from redqueen.models.bundled import BUNDLED
from redqueen.report.escape import escape_controls
from redqueen.report.export.base_names import is_hub_name
from redqueen.tasks import stored_kind

_USE_ADAPTER = """```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained({path})
tokenizer = AutoTokenizer.from_pretrained({path})
model = PeftModel.from_pretrained(base, "this-folder")
```"""
_USE_PAWN = """```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = AutoModelForCausalLM.from_pretrained("this-folder/base")
tokenizer = AutoTokenizer.from_pretrained("this-folder/base")
model = PeftModel.from_pretrained(base, "this-folder")
```

`base/` is a copy of its Pawn. `AutoPeftModelForCausalLM.from_pretrained("this-folder")` finds it
only where the folder was exported to, since PEFT takes no place relative to the adapter. After a
move, load it as above; `redqueen eval this-folder` finds it anywhere."""
_USE_VLLM = (
    "\n\nWith vLLM: `vllm serve {base} --enable-lora --lora-modules {name}=this-folder "
    "--max-lora-rank {max_rank}`."
)
_VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM accepts as --max-lora-rank; it loads any adapter up to it."""
_USE_MODEL = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("this-folder")
tokenizer = AutoTokenizer.from_pretrained("this-folder")
```"""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a model card says about the weights."""

    name: str
    run: str
    base: str
    """Where loaders find it: its name on the hub, its place, or the name of a bundled one."""
    rank: int
    step: int
    """The step after which they were saved."""
    steps: str
    """Steps the run was to have."""
    created: str
    scores: Sequence[tuple[str, str, str]] = ()
    """Suite, score and gain over the base."""
    license_id: str = ""
    """Empty where nobody knows."""


def model_card(what: str, facts: CardFacts, merged: bool) -> str:
    """`what` says in a sentence what the weights are."""
    form = "Full weights, merged into the base." if merged else "A LoRA adapter in PEFT format."
    known = facts.base in BUNDLED or is_hub_name(facts.base)
    front_matter = [
        *([f"license: {facts.license_id}"] if facts.license_id else []),
        *([f"base_model: {facts.base}"] if known else []),  # the hub refuses a place
        f"library_name: {'transformers' if merged else 'peft'}",
        "tags: [lora, reinforcement-learning, redqueen]",
    ]
    parts = [
        "---\n" + "\n".join(front_matter) + "\n---",
        f"# {facts.name}, from the run {facts.run}",
        f"{what} {form}",
        f"Trained by Red Queen {__version__}, after PopuLoRA (arXiv 2605.16727): teachers propose "
        "problems with verified answers, students solve them, both learn, and the weakest are "
        f"replaced. Base: `{facts.base}`. Rank {facts.rank}. Saved after step {facts.step} of "
        f"{facts.steps}; the run began {facts.created}.",
        "## How to use it",
        _USE_MODEL if merged else _adapter_usage(facts),
        "## Scores",
        _score_table(facts.scores),
        "## Limits",
        "It was trained only on small problems whose answers can be verified, not for safety and "
        "not for facts. It inherits the licence and the flaws of the base. The scores are of one "
        "run; other seeds give other scores.",
    ]
    return escape_controls("\n\n".join(parts)) + "\n"


def _adapter_usage(facts: CardFacts) -> str:
    if facts.base in BUNDLED:
        return _USE_PAWN
    usage = _USE_ADAPTER.format(path=f'"{facts.base}"')
    max_rank = next((rank for rank in _VLLM_RANKS if rank >= facts.rank), None)
    if max_rank is None:
        return usage
    return usage + _USE_VLLM.format(base=facts.base, name=facts.name.lower(), max_rank=max_rank)


def _score_table(scores: Sequence[tuple[str, str, str]]) -> str:
    if not scores:
        return "These weights were not measured on a held-out suite."
    head = "| suite | correct (95 % interval) | points over the base, paired by item |"
    rows = [f"| {suite} | {score} | {gain} |" for suite, score, gain in scores]
    return "\n".join([head, "|---|---|---|", *rows])


LEFT_OUT = "Those that every attempt solved, or none, are left out."


def data_card(
    run: str,
    base: str,
    steps: int,
    file: str,
    kinds: Mapping[str, int],
    license_id: str,
    *,
    everything: bool,
) -> str:
    counted = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    return escape_controls(
        _DATA_CARD.format(
            run=run,
            base=base,
            steps=steps,
            file=file,
            license=license_id,
            count=sum(kinds.values()),
            kinds=counted,
            left_out="" if everything else f"\n{LEFT_OUT}",
            tasks="; ".join(
                f"`{kind}`: {stored_kind(kind).summary or 'its own'}" for kind in kinds
            ),
        )
    )


_DATA_CARD = """---
license: {license}
task_categories: [text-generation]
tags: [code, synthetic, verifiable, redqueen]
---

# The curriculum of the run {run}

`{file}`: {count:,} problems ({kinds}) that teachers on `{base}` invented in {steps} steps, in the
order in which they were proposed, each once. All of them were verified: programs and queries by
running them in a sandbox, puzzles by an exact solver, so answers can be checked.{left_out}

| field | meaning |
|---|---|
| `kind` | {tasks} |
| `payload`, or its fields (of code: `program`, `inputs`, `message`) | the problem |
| `prompt`, `answer` | the messages that a student is given, and a correct answer |
| `gold` | the answer, or what it must give |
| `solve_rate`, `correct`, `attempts` | how the matched student did |
| `difficulty` | one minus the solve rate |
| `difficulty_rating` | the skill that would solve it half of the time, as a TrueSkill rating |
| `teacher`, `teacher_rating`, `teacher_ancestors` | who proposed it, and its ancestors |
| `student`, `student_rating` | who attempted it |
| `shown` | keys of the problems in the teacher's prompt |
| other numbers (of code: `ast_depth`, `cyclomatic`, `loc`, `variables`, \
`steps_executed`) | complexity |
| `cell` | cell of the coverage map |
| `structure` (also `canonical`), `behaviour` | hashes: equal programs up to names and layout; \
equal outputs for probe inputs |
| `step`, `world`, `arm`, `seed`, `license` | when and where |

A solve rate is of one student at one time: it says as much about the student as about the problem.
The problems were written by models and read by no one: run programs in a sandbox only. Red Queen
reads the JSONL back: name it in `archive.seeds` or `fixed.source`.
"""
