"""`redqueen bench engine`: the table of ratios."""

import json

from rich.console import Console
from rich.table import Table

from redqueen.cli.bench.engine import EngineBench, Workload, bench_engine
from redqueen.cli.console import notes
from redqueen.config.engine import EngineConfig, LoraConfig

_MEANING = {
    "generate_8_over_1": "seconds to sample the same tokens from all members / from one",
    "train_8_over_1": "seconds to train on the same tokens, all members / one",
    "step_8_over_1": "both together",
    "generate_over_base": "tokens/s of all members / of the bare base in the same engine",
    "peft_generate_over_ours": "seconds of PEFT with generate(), one adapter at a time / ours",
    "peft_train_over_ours": "seconds of PEFT training, one adapter at a time / ours",
    "tokens_per_s": "tokens sampled per second, all members",
    "train_tokens_per_s": "tokens trained on per second, prompts counted once",
    "idle_frac": "share of lane steps without a row",
    "padding_frac": "share of padding in training",
    "shared_frac": "tokens that training was spared because attempts share prompts",
    "logprob_gap": "mean difference of log-probabilities, sampled and trained",
    "peak_gb": "most GPU memory",
}


def run(
    model: str,
    device: str,
    workload: Workload,
    config: EngineConfig,
    lora: LoraConfig,
    with_peft: bool,
    as_json: bool,
) -> None:
    result = bench_engine(model, device, config, lora, workload, with_peft, notes.print)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        Console().print(_table(result))


def _table(result: EngineBench) -> Table:
    table = Table(
        title=f"{result.model}, {result.workload.members} members, {result.device}",
        title_justify="left",
    )
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("meaning")
    values = result.as_json()
    for name, meaning in _MEANING.items():
        value = values[name]
        table.add_row(
            name,
            "-" if value is None else f"{value:,.0f}" if value > 1000 else f"{value:.3g}",
            meaning,
        )
    return table
