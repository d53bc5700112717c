"""The command line. Every command imports what it needs when it runs, so that `--help` is quick."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from redqueen import __version__
from redqueen.config.schema import RECIPES

app = typer.Typer(
    name="redqueen",
    help="Red Queen: teachers and students as LoRA adapters on one frozen model, in an arms race of verifiable problems.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
sandbox_app = typer.Typer(help="Run hostile programs behind walls.", no_args_is_help=True)
bench_app = typer.Typer(help="Measure speed, as ratios within one run.", no_args_is_help=True)
pawn_app = typer.Typer(
    help="The base model that ships with the package: train it, sample what it learns from.",
    no_args_is_help=True,
)
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(pawn_app, name="pawn")
app.add_typer(bench_app, name="bench")

SandboxMode = Annotated[
    Literal["safe", "unsafe"] | None,
    typer.Option(
        "--sandbox",
        help="`unsafe` runs even where walls are missing: for programs you trust, and shown on every run.",
    ),
]
Without = Annotated[
    list[str] | None, typer.Option(help="Leave this wall down: namespaces or landlock; for tests.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A sparse TOML file of settings.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="One setting, such as verify.cpu_s=2; may be repeated."
    ),
]
Device = Annotated[
    str, typer.Option(help="auto (the GPU where there is one), cpu, cuda or cuda:1.")
]
_RECIPES = ", ".join(
    sorted(path.stem for path in RECIPES.glob("*.toml") if not path.stem.startswith("study-"))
)
BaseNow = Annotated[
    str | None,
    typer.Option(
        "--base",
        help="Where the run's base is now, if it has moved: a folder, a .gguf file, a name.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what this machine can do: Python, torch, GPU, sandbox walls, data, optional extras."""
    from redqueen.cli.doctor import examine, show

    report = examine()
    show(report, as_json)
    raise typer.Exit(0 if report.ready else 1)


@app.command()
def config(file: ConfigFile = None, settings: Settings = None) -> None:
    """Print every setting with its value and meaning, as TOML."""
    from redqueen.config.schema import load_config, to_toml

    typer.echo(to_toml(load_config(file, settings or [])), nl=False)


@app.command()
def run(
    recipe: Annotated[
        str, typer.Argument(help=f"A TOML file, or a recipe by name: {_RECIPES}.")
    ] = "pawn-cpu",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; by default a new one in ./runs.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="The base: `pawn`, a folder, a .gguf file, or owner/model on the hub."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto (the GPU where there is one), cpu, cuda or cuda:1.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Play the arms race: teachers invent problems, students solve them, both learn. Without
    arguments: on a laptop, in minutes.

    `redqueen config` prints every setting there is. Ctrl-C ends after the step, a second one at
    once; `redqueen resume` goes on.
    """
    from redqueen.cli.run import start
    from redqueen.config.schema import find_recipe, load_config

    extra = [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in (("base", base), ("device", device))
        if value is not None
    ]
    path = find_recipe(recipe)
    start([("run", load_config(path, [*extra, *(settings or [])]))], path.stem, out, Path("runs"))


@app.command()
def study(
    file: Annotated[
        str, typer.Argument(help="A study by name, or a TOML file: arms, seeds, common settings.")
    ] = "study-pawn",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; by default a new one in ./runs.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Play several sets of rules, with several seeds each, as worlds of one run on one base."""
    from redqueen.cli.run import start
    from redqueen.config.schema import find_recipe
    from redqueen.config.study import load_study

    path = find_recipe(file)
    start(load_study(path, settings or []), path.stem, out, Path("runs"))


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    steps: Annotated[
        int | None, typer.Option(min=1, help="Go on to this step, further than the run was to go.")
    ] = None,
    base: BaseNow = None,
) -> None:
    """Go on with a run that was stopped or killed, from where it was."""
    from redqueen.cli.run import resume

    resume(folder, steps, base)


@app.command()
def runs(
    root: Annotated[Path, typer.Argument(help="Folder that holds runs.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List the runs there are."""
    from redqueen.cli.runs import show

    show(root, as_json)


@app.command()
def crossplay(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a run that was played with ledger.snapshot_every.")
    ],
    each: Annotated[int, typer.Option(min=1, help="Most problems of one time.")] = 100,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda or cuda:1; by default the run's.")
    ] = None,
    base: BaseNow = None,
    as_json: Json = False,
) -> None:
    """Students of one time on problems of another: do later ones solve what earlier teachers posed,
    or does the race go in circles?"""
    from redqueen.cli.crossplay import run

    run(folder, each, device, base, as_json)


@app.command()
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs; several are shown side by side."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; by default report.html in the run's folder, or here for several runs."
        ),
    ] = None,
    png: Annotated[
        bool, typer.Option("--png", help="Also write every figure as a picture, beside the report.")
    ] = False,
    problem: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Only print the problem whose key begins like this, with all attempts.",
        ),
    ] = None,
) -> None:
    """Make report.html from a run's ledger: what happened, what looks suspicious, figures, and
    problems to look at one by one."""
    from redqueen.cli.report import run, show

    if problem is not None:
        show(folders[0], problem)
    else:
        run(folders, out, png)


@app.command()
def retention(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a run: its two best students are the parents.")
    ],
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="Only this operator; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Children of each operator.")] = 3,
    updates: Annotated[
        int, typer.Option(min=3, help="Updates in which a child has to be back.")
    ] = 20,
    problems: Annotated[
        int, typer.Option(min=1, help="Fixed problems for everybody in an update.")
    ] = 16,
    base: BaseNow = None,
    as_json: Json = False,
) -> None:
    """Which operators make children that return to their parents' level, beside a copy and a plain
    mean."""
    from redqueen.cli.retention import run

    run(folder, operators or [], seeds, updates, problems, base, as_json)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[Path, typer.Option(help="Folder to write to; it must not hold anything.")],
    member: Annotated[
        str | None, typer.Option(help="A living member, such as S2 or T1.30, as a PEFT folder.")
    ] = None,
    soup: Annotated[
        bool,
        typer.Option(
            "--soup", help="The average of all students, in their rank, as a PEFT folder."
        ),
    ] = False,
    merged: Annotated[
        bool,
        typer.Option(
            "--merged", help="With --member or --soup: full weights instead of an adapter."
        ),
    ] = False,
    problems: Annotated[
        bool,
        typer.Option(
            "--problems", help="The curriculum with verified answers and difficulty, as a data set."
        ),
    ] = False,
    world: Annotated[int | None, typer.Option(min=0, help="Which world of a study.")] = None,
    form: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option("--format", help="Of the problems; parquet needs the extra of that name."),
    ] = "jsonl",
    base: BaseNow = None,
) -> None:
    """Take a member, the students' average, or the problems out of a run, for other tools to use."""
    from redqueen.cli.export import Wanted, run

    run(folder, out, Wanted(member, soup, merged, problems, world, form, base))


@app.command()
def watch(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs; several are shown side by side."),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8733,
    host: Annotated[
        str,
        typer.Option(help="Where to answer; anything but this machine asks readers for a token."),
    ] = "127.0.0.1",
) -> None:
    """Show the report of a run in a browser while it goes on. It only reads; the run does not wait
    for it."""
    from redqueen.cli.watch import run

    run(folders, host, port)


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs; NAME=FOLDER says which arm it is. Runs that differ in their seed alone are one arm.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.md, compare.html and compare.json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set arms or runs side by side: means and intervals over seeds, paired tests, what each spent,
    and both ways to match that."""
    from redqueen.cli.compare import run

    run(runs, out, as_json)


@app.command()
def digest(folder: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Print one hash over all records of a run, timings left out: equal for equal runs."""
    from redqueen.ledger.store import digest

    typer.echo(digest(folder))


@app.command()
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="Proposals, one JSON object a line: `kind`, `text` as a model wrote it, for code_f also `program`."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Write one JSON object a line here: the problem or the rejection."),
    ] = None,
    prompt_format: Annotated[
        str | None,
        typer.Option(help="Prompt prompt_format the texts are written in: chat or compact."),
    ] = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    sandbox: SandboxMode = None,
    as_json: Json = False,
) -> None:
    """StepState proposals into problems with verified answers, or say why not."""
    from redqueen.cli.verify import run

    extra = [f"tasks.prompt_format={prompt_format}"] if prompt_format else []
    extra += [f"sandbox.unsafe={'true' if sandbox == 'unsafe' else 'false'}"] if sandbox else []
    run(file, out, config_file, [*(settings or []), *extra], as_json)


@app.command("eval")
def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            help="A base (`pawn`, a folder, a .gguf file, owner/model on the hub), a PEFT adapter folder, the folder of a run (all members at once), "
            "a member of it (RUN/S2), or `gold`."
        ),
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="heldout, heldout-quick, proposals, a benchmark (humaneval+, gsm8k, ...), or code, math, all; may be repeated."
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a run: only this member, or `students`, or `teachers`; may be repeated."
        ),
    ] = None,
    world: Annotated[
        int | None, typer.Option(min=0, help="Of a run with several worlds: only this one.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of benchmark files; by default REDQUEEN_DATA, else the hub."),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Replies to each item; more than one gives pass@k.")
    ] = 1,
    temperature: Annotated[
        float | None,
        typer.Option(min=0, help="By default 0 (greedy), or 0.8 with several samples."),
    ] = None,
    prompt_format: Annotated[
        str | None,
        typer.Option(
            help="Prompt prompt_format of Pawn's suites: chat or compact. By default what the base understands."
        ),
    ] = None,
    style: Annotated[
        Literal["chat", "base"] | None,
        typer.Option(help="Prompts of benchmarks; by default chat where there is a template."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The base of an adapter or a run, where its own config does not lead to it."
        ),
    ] = None,
    device: Device = "auto",
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(help="Of the weights; auto: bfloat16 on a GPU, else float32."),
    ] = "auto",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Only so many items: of a benchmark the first, else spread over the suite."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Room for one answer; by default what the suite needs."),
    ] = None,
    sandbox: SandboxMode = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the JSON here, and every attempt beside it: a second call goes on from these."
        ),
    ] = None,
    wrong: Annotated[
        bool,
        typer.Option("--wrong", help="With `gold`: answers that are known to be wrong instead."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Score a base, an adapter, or the members of a run on suites, with confidence intervals. What
    is measured of a run goes into its ledger.

    `eval gold` grades the benchmarks' own answers: they must all be right.
    """
    from redqueen.cli import evaluate, gold
    from redqueen.cli.benchmarks import BenchmarkOptions

    unsafe = sandbox == "unsafe"
    if target == "gold":
        raise typer.Exit(
            0 if gold.run(suite or ["all"], data, limit, wrong, unsafe, as_json, out) else 1
        )
    journal = out.with_suffix(".attempts.jsonl") if out else None
    benchmarks = BenchmarkOptions(data, samples, temperature, limit, max_tokens, style, journal)
    options = evaluate.EvalOptions(
        prompt_format,
        device,
        dtype,
        limit,
        max_tokens,
        unsafe,
        as_json,
        base,
        out,
        tuple(member or ()),
        world,
        benchmarks,
    )
    evaluate.run(target, suite or ["heldout"], options)


@pawn_app.command("train")
def pawn_train(
    out: Annotated[Path, typer.Option(help="Folder for the model, in the Hugging Face format.")],
    device: Device = "auto",
    tokens: Annotated[int, typer.Option(min=100_000, help="Tokens to learn from.")] = 900_000_000,
    hidden: Annotated[
        int, typer.Option(min=32, help="Width of the model, a multiple of 32.")
    ] = 256,
    layers: Annotated[int, typer.Option(min=1, help="Depth of the model.")] = 6,
    thought_share: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of code_o's answers that come with a thought."),
    ] = 0.4,
    learning_rate: Annotated[
        float,
        typer.Option(min=0, help="Highest learning rate; a tenth of it is enough to read on."),
    ] = 2.5e-3,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Read on from this model, of its size: a folder, or pawn. Give another --seed.",
        ),
    ] = "",
    seed: Annotated[int, typer.Option(help="Of the documents and of the first weights.")] = 0,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes that make documents; 0: one for each core.")
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model that is in the folder.")
    ] = False,
) -> None:
    """Pre-train Pawn: minutes on a GPU, a day on a CPU."""
    from os import cpu_count

    from redqueen.cli.pawn import train
    from redqueen.pawn.pretrain import Pretraining

    settings = Pretraining(
        seed=seed,
        start=start,
        hidden=hidden,
        layers=layers,
        tokens=tokens,
        thought_share=thought_share,
        learning_rate=learning_rate,
    )
    train(out, device, settings, workers or cpu_count() or 1, force)


@pawn_app.command("sample")
def pawn_sample(
    tier: Annotated[int, typer.Option(min=1, max=10, help="Difficulty.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed prints the same programs.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    as_json: Json = False,
) -> None:
    """Print random programs with inputs and outputs, as Pawn is trained on."""
    from redqueen.cli.pawn import sample

    sample(tier, seed, count, as_json)


@pawn_app.command("suites")
def pawn_suites(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    each: Annotated[int, typer.Option(min=1, help="Problems of each kind and tier.")] = 100,
) -> None:
    """Build the held-out suites anew, as they were frozen."""
    from redqueen.cli.pawn import build

    build(out, each)


@sandbox_app.command("run")
def sandbox_run(
    cases: Annotated[
        Path, typer.Argument(help="Programs, one JSON object a line: `name`, `program`, `input`.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the results here instead of to the terminal.")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.001, max=3600, help="CPU seconds for each run of a program.")
    ] = 1.0,
    memory_mb: Annotated[
        int, typer.Option(min=16, help="Memory beyond the interpreter's own, in MiB.")
    ] = 256,
    input_as: Annotated[
        Literal["literal", "expression"],
        typer.Option(help="`expression` evaluates inputs inside the sandbox: for benchmark data."),
    ] = "literal",
    sandbox: SandboxMode = None,
    without: Without = None,
) -> None:
    """Run programs on inputs, three times each in different processes, and write one outcome a
    line, in order."""
    from redqueen.cli.sandbox_run import run
    from redqueen.config.schema import load_config
    from redqueen.sandbox import Limits

    settings = [
        f"sandbox.unsafe={'true' if sandbox == 'unsafe' else 'false'}",
        f"sandbox.without={without or []}",
    ]
    run(cases, out, Limits(timeout_s, memory_mb), input_as, load_config(None, settings).sandbox)


@bench_app.command("engine")
def bench_engine(
    model: Annotated[
        str,
        typer.Option(
            help="A base (pawn, a folder, ...) or a shape with random weights: 0.5b, 1.5b, 7b."
        ),
    ] = "pawn",
    device: Device = "auto",
    members: Annotated[int, typer.Option(min=2, help="Members that are compared with one.")] = 8,
    prompts: Annotated[
        int, typer.Option(min=1, help="Different prompts, for all members together.")
    ] = 16,
    attempts: Annotated[int, typer.Option(min=1, help="Completions of each prompt.")] = 8,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")] = 64,
    longest: Annotated[
        int, typer.Option(min=8, help="Most tokens of a completion; most are far shorter.")
    ] = 160,
    skew: Annotated[
        int,
        typer.Option(
            min=1, help="How unequal lengths are: 2 as of Pawn's proposals, 4 as of its answers."
        ),
    ] = 4,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 8,
    max_num_seqs: Annotated[
        int, typer.Option(min=1, help="Rows that are sampled side by side.")
    ] = 256,
    max_prefill_tokens: Annotated[
        int, typer.Option(min=1, help="Prompt tokens that go through the model together.")
    ] = 16_384,
    max_tokens_per_microbatch: Annotated[
        int, typer.Option(min=1, help="Tokens that are trained on together.")
    ] = 8192,
    rounds: Annotated[int, typer.Option(min=1, help="Times each way is measured.")] = 3,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Measure training, too.")
    ] = True,
    peft: Annotated[bool, typer.Option("--peft/--no-peft", help="Compare with PEFT, too.")] = True,
    as_json: Json = False,
) -> None:
    """What a population costs beside one member, the bare base, and PEFT one adapter at a time."""
    from redqueen.cli.bench.engine import Workload
    from redqueen.cli.bench_engine import run
    from redqueen.config.engine import EngineConfig, LoraConfig

    config = EngineConfig(
        max_num_seqs=max_num_seqs,
        max_prefill_tokens=max_prefill_tokens,
        max_tokens_per_microbatch=max_tokens_per_microbatch,
    )
    run(
        model,
        device,
        Workload(members, prompts, attempts, prompt_tokens, 8, longest, skew, rounds, train),
        config,
        LoraConfig(rank=rank, alpha=2 * rank),
        peft,
        as_json,
    )


@bench_app.command("evolve")
def bench_evolve(
    shape: Annotated[
        Literal["0.5b", "1.5b", "7b"], typer.Option(help="Whose projections the members adapt.")
    ] = "7b",
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 32,
    device: Device = "auto",
    rounds: Annotated[int, typer.Option(min=1, help="Times each operator is measured.")] = 3,
    as_json: Json = False,
) -> None:
    """Seconds of one replacement, operator by operator, with random members."""
    from redqueen.cli.bench_evolve import run

    run(shape, rank, device, rounds, as_json)


@bench_app.command("sandbox")
def bench_sandbox(
    programs: Annotated[
        int, typer.Option(min=20, help="Programs to run in each row of the table.")
    ] = 2000,
    soak: Annotated[
        int, typer.Option(min=0, help="Also run this many jobs in a row and look for leaks.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Programs per second through the sandbox, beside a fresh interpreter for each program and
    beside plain exec."""
    from redqueen.cli.bench.sandbox import run

    run(programs, soak, as_json)


def main() -> None:
    """The entry point: errors a user can cause are messages, not tracebacks."""
    from redqueen.errors import RedQueenError

    try:
        app()
    except RedQueenError as error:
        typer.echo(f"redqueen: {error}", err=True)
        sys.exit(2)
