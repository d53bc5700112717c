"""One vocabulary, the field's: words that we once had for ourselves do not come back.

Each row is a pattern, in regular-expression syntax, and what to say instead. Where a word is also
ordinary English, the pattern asks for the sense that is meant.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from redqueen.config.renamed import RENAMED

REPOSITORY = Path(__file__).parents[2]
FILES = [
    path
    for folder, suffixes in {
        "src": {".py", ".js", ".css", ".sql", ".toml"},
        "docs": {".md"},
        "examples": {".py"},
        "scripts": {".py", ".sh"},
    }.items()
    for path in sorted((REPOSITORY / folder).rglob("*"))
    if path.suffix in suffixes
] + [REPOSITORY / "README.md", REPOSITORY / "src/redqueen/pawn/weights/README.md"]
NAME_THE_OLD = {"cli/lazy.py", "config/renamed.py", "ledger/migration.py"}
"""They translate options, settings and ledgers of version 0.1."""

WORDS = {
    # engine
    r"[Ll]anes?": "sequence slot, or worker",
    r"rows[_ ]in[_ ]flight": "max_num_seqs",
    r"TrainRow|class Row|rows: Sequence\[(?:SampleRequest|TrainSample)\]": "SampleRequest, TrainSample",
    r"[Ss]cribe": "sampler",
    r"Ask|Writing|Written(?=[(\],:])": "request, rollout, completion",
    r"ended: Literal|(?:rollout|completion)\.ended": "finish_reason",
    r"[Ss]isters?": "fused projections",
    r"[Rr]ecordings?|recorded (?:graphs?|steps?)": "CUDA graph",
    r"(?:turned|normed|gated)_\w+|def (?:turned|normed|gated)|turning queries": "rotary embedding, "
    "RMSNorm, SwiGLU",
    r"pass(?:es)? over (?:the )?prompts": "prefill",
    r"read(?:s|ing)?[ _]ahead": "prefetch, prefill while others decode",
    r"[Ss]hea(?:f|ves)|[Hh]arvests?": "packed sequence, finished batch",
    r"steps_between_looks": "decode_steps_per_sync",
    r"(?<!max_)prefill_tokens": "max_prefill_tokens",
    r"train_tokens(?!_per_s)": "max_tokens_per_microbatch",
    r"heats": "temperatures",
    r"(?<!of )(?<!has )no numbers?": "NaN, non-finite",
    # step
    r"Turn(?=[(\],:])|Posed": "StepState, ProposalResult",
    r"draws?: (?:random\.)?Random|Draws": "rng, OperatorRng",
    r"sort: (?:str|Hashable)": "role and kind",
    r"lazy_steps|still_steps": "steps_without_problem, steps_without_update",
    # tasks
    r"(?<!chain of )[Tt]houghts?": "reasoning, chain of thought",
    r"Worked|worked examples?": "FewShot, few-shot example",
    r"(?:[Pp]rompt|chat|compact|the|its) packs?|(?:Prompt|Chat|Compact)Pack": "prompt format",
    r"pack: (?:str|Prompt)|(?:base|self|ports|request)\.pack": "prompt_format",
    r"is_right|right (?:answers?|attempts?|verdicts?)|(?:answers?|attempts?) (?:is|are) right|% right": (
        "correct"
    ),
    r"verdict\W+right|[\"']right[\"'], [\"']wrong": "correct",
    r"solved by (?:none|all|nobody|no attempt)": "zero-pass, all-pass",
    r"unsolved_frac|trivial_frac": "zero_pass_frac, all_pass_frac",
    # evaluation
    r"Respondent|Chosen|Candidate|Judges|class Sav(?:ed|ing)\b(?!Member)": "EvalTask, Model",
    r"[Bb]allots?": "majority vote, vote_key",
    # evolution, report
    r"thin(?: factors)?": "low-rank",
    r"surprise per token": "mean NLL",
}
SAYS_IT_FOR_A_REASON = {
    'stream(seed, "pawn", "thoughts", number)': "the name of a stream fixes Pawn's documents",
}
FORMER_MODULES = (
    "lane scribe turn overlap succession hall fixed streams threads terminal assembly sisters thin "
    "draws chance waiting blocks course crossing kept chosen plain side family race story cards "
    "worked pack jobs"
).split()


@cache
def lines() -> list[tuple[str, str]]:
    """Every line that is looked at, and where it stands."""
    return [
        (f"{where}:{number}", line)
        for path in FILES
        if (where := path.relative_to(REPOSITORY).as_posix())
        if where.removeprefix("src/redqueen/") not in NAME_THE_OLD
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if not any(text in line for text in SAYS_IT_FOR_A_REASON)
    ]


def find(pattern: str) -> list[str]:
    """Where a word stands, by itself or as a part of a name."""
    compiled = re.compile(rf"(?<![A-Za-z])(?:{pattern})(?![a-z])")
    return [f"{where}: {line.strip()[:100]}" for where, line in lines() if compiled.search(line)]


@pytest.mark.parametrize("pattern", WORDS)
def test_a_word_of_our_own_does_not_come_back(pattern: str) -> None:
    places = find(pattern)
    assert not places, f"say {WORDS[pattern]}:\n" + "\n".join(places)


@pytest.mark.parametrize("name", FORMER_MODULES)
def test_a_module_has_no_former_name(name: str) -> None:
    assert not list((REPOSITORY / "src").rglob(f"{name}.py"))


@pytest.mark.parametrize("name", RENAMED)
def test_a_setting_is_not_called_by_its_former_name(name: str) -> None:
    assert not find(re.escape(name))


def test_the_list_finds_what_it_is_there_for() -> None:
    former = (
        "a lane of its own", "lane_count", "LaneState", "rows_in_flight=256", "class Scribe:",
        "two sisters", "a recording is replayed", "def normed(x):", "passes over prompts",
        "prompts are read ahead", "prefill_tokens = 4", "is no number", "turns: list[Turn]",
        "draw: Random", "begins with a thought", "Worked(", "the chat pack", "right answers",
        "solved by none", "lazy_steps", "a Respondent", "vote by ballot", "thin factors",
    )  # fmt: skip
    patterns = [re.compile(rf"(?<![A-Za-z])(?:{pattern})(?![a-z])") for pattern in WORDS]
    for text in former:
        assert any(pattern.search(text) for pattern in patterns), text
    for text in ("struct.pack(4)", "a chain of thought", "max_prefill_tokens", "align right"):
        assert not any(pattern.search(text) for pattern in patterns), text
