"""`redqueen kind`: plays both sides of a task kind on written texts, without a model."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from redqueen.cli.console import VisibleConsole, warn_if_unsafe
from redqueen.cli.lazy import new_app
from redqueen.cli.options import SandboxMode
from redqueen.config.stages import VerifyConfig
from redqueen.config.toml import load_config
from redqueen.errors import DataError
from redqueen.jsonl import read_jsonl
from redqueen.records import Problem, Proposal, Rejection
from redqueen.report.escape import escape_controls
from redqueen.sandbox import Sandbox
from redqueen.sandbox.backends import open_sandbox
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import KINDS, TaskKind, load_kind
from redqueen.tasks.prompts import PromptFormat, load_prompt_format

app = new_app(no_args_is_help=True)


@app.callback()
def kind() -> None:
    """Show what problems can be about, and check a kind of your own."""


@app.command("list")
def list_kinds() -> None:
    """List the kinds of the package, and what a student has to do."""
    console = VisibleConsole(soft_wrap=True)
    for name in KINDS:
        console.print(f"{name:8} {load_kind(name).summary}")


@dataclass(frozen=True)
class _Line:
    """What a teacher wrote, and what students answered."""

    where: str
    proposal: str
    answers: tuple[tuple[str, bool], ...]
    """With whether each is correct."""


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A kind by name or import path, `module:Class`.")],
    texts: Annotated[
        Path,
        typer.Option(
            help="One JSON object a line: `proposal`, a teacher's text; `correct` and `wrong`, "
            "lists of students' texts. Without either, the proposal must be rejected."
        ),
    ],
    prompt_format: Annotated[str, typer.Option(help="Format of the texts.")] = "chat",
    prompts: Annotated[
        bool, typer.Option("--prompts", help="Show what teachers and students are asked.")
    ] = False,
    sandbox: SandboxMode = None,
) -> None:
    """Play both sides of a kind on written texts, and say what is not as the file says."""
    own, form = load_kind(name), load_prompt_format(prompt_format)
    config = load_config(None, [f"sandbox.unsafe={'true' if sandbox == 'unsafe' else 'false'}"])
    warn_if_unsafe(config.sandbox.unsafe)
    lines = [_read(row, f"{texts}, line {n}") for n, row in read_jsonl(texts, ("proposal",))]
    console = VisibleConsole(soft_wrap=True)
    with open_sandbox(config.sandbox) as box:
        problems, failed = [], 0
        for line in lines:
            verdict, remarks = _play(line, name, own, form, box)
            failed += sum(not ok for ok, _ in remarks)
            for ok, remark in remarks:
                text = f"{'✓' if ok else '✗'} {line.where}: {remark}"
                console.print(Text(text, "green" if ok else "bold red"))
            if isinstance(verdict, Problem):
                problems.append(verdict)
                if prompts:
                    console.print(Text(escape_controls(form.render(own.ask_answer(verdict)).text)))
        if prompts:
            shown = problems[: own.reference_count]
            console.print(Text(escape_controls(form.render(own.ask_proposal(shown)).text)))
    console.print(f"{len(problems)} problems of {len(lines)} proposals; {failed} not as expected")
    if failed:
        raise typer.Exit(1)


def _read(row: dict[str, Any], where: str) -> _Line:
    answers = []
    for field, is_correct in (("correct", True), ("wrong", False)):
        given = row.get(field, [])
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise DataError(f"{where}: the field '{field}' is not a list of texts")
        answers += [(text, is_correct) for text in given]
    return _Line(where, row["proposal"], tuple(answers))


def _play(
    line: _Line, name: str, own: TaskKind, form: PromptFormat, box: Sandbox
) -> tuple[Problem | Rejection, list[tuple[bool, str]]]:
    """The verdict on the proposal, and remarks: whether something is as expected, and what."""
    kinds, rules = {name: own}, VerifyConfig()
    (verdict,) = verify_proposals([Proposal(name, line.proposal)], kinds, form, box, rules)
    if isinstance(verdict, Rejection):
        reason = f"rejected as {verdict.reason}: {verdict.detail}"
        return verdict, [(not line.answers, reason)]
    return verdict, [
        (bool(line.answers), f"problem {verdict.key[:8]}, gold {' · '.join(verdict.gold)[:200]}"),
        *_grade(line, verdict, kinds, form, box),
    ]


def _grade(
    line: _Line, problem: Problem, kinds: dict[str, TaskKind], form: PromptFormat, box: Sandbox
) -> Iterator[tuple[bool, str]]:
    pairs = [(problem, text) for text, _ in line.answers]
    attempts = grade_answers(pairs, kinds, form, box, VerifyConfig())
    for (text, expected), attempt in zip(line.answers, attempts, strict=True):
        is_correct = attempt.verdict == "correct"
        remark = f"{text[-60:]!r} is {attempt.verdict} {attempt.detail}".strip()
        yield is_correct == expected, remark
