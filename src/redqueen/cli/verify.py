"""`redqueen verify`: turns proposals into problems, or rejects them with a reason."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from redqueen.cli.console import VisibleConsole, warn_if_unsafe
from redqueen.cli.options import ConfigFile, Json, SandboxMode, Settings
from redqueen.config.schema import Config
from redqueen.config.toml import load_config
from redqueen.errors import DataError, unknown
from redqueen.evaluate.verify_again import verify_again
from redqueen.jsonl import open_output, read_jsonl
from redqueen.records import Problem, Proposal, Rejection
from redqueen.report.escape import escape_controls
from redqueen.sandbox.backends import open_sandbox
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import load_kind, load_kinds
from redqueen.tasks.code.programs import unverified_reference
from redqueen.tasks.kind import problem_fields
from redqueen.tasks.prompts import load_prompt_format


def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="Proposals, one JSON object a line: `kind`, `text` as a model wrote it, "
            "for code_f also `program`. With --again: the folder of a run."
        ),
    ],
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Verify the problems of a run again, and count the verdicts that differ.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write one JSON object a line here: the problem or the rejection."),
    ] = None,
    prompt_format: Annotated[
        str | None, typer.Option(help="Format the texts are written in: chat or compact.")
    ] = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    sandbox: SandboxMode = None,
    as_json: Json = False,
) -> None:
    """Turn proposals into problems with verified answers, or say why not."""
    extra = [f"tasks.prompt_format={prompt_format}"] if prompt_format else []
    extra += [f"sandbox.unsafe={'true' if sandbox == 'unsafe' else 'false'}"] if sandbox else []
    config = load_config(config_file, [*(settings or []), *extra])
    if again:
        _verify_again(file, config, as_json)
        return
    kinds = load_kinds(*config.tasks.kinds)
    name = config.tasks.prompt_format
    prompts = load_prompt_format("chat" if name == "auto" else name)
    proposals = [
        _proposal(row, config, f"{file}, line {number}")
        for number, row in read_jsonl(file, required=("kind", "text"))
    ]
    warn_if_unsafe(config.sandbox.unsafe)
    with open_output(out) as output, open_sandbox(config.sandbox) as pool:
        verdicts = verify_proposals(proposals, kinds, prompts, pool, config.verify)
        if as_json or out is not None:
            for proposal, verdict in zip(proposals, verdicts, strict=True):
                output.write(json.dumps(_record(proposal, verdict)) + "\n")
    if not as_json:
        console = VisibleConsole(soft_wrap=True)
        for number, (proposal, verdict) in enumerate(zip(proposals, verdicts, strict=True), 1):
            _show(console, number, proposal, verdict)
        console.print(_summary(verdicts), style="bold")


def _verify_again(folder: Path, config: Config, as_json: bool) -> None:
    warn_if_unsafe(config.sandbox.unsafe)
    with open_sandbox(config.sandbox) as pool:
        result = verify_again(folder, pool)
    console = VisibleConsole(soft_wrap=True)
    if as_json:
        console.print(Text(json.dumps(asdict(result))))
    else:
        for one in result.disagreements:
            console.print(Text(f"{one.problem[:8]} in world {one.world}: {_cut(one.verdict)}"))
        console.print(
            f"{len(result.disagreements):,} of {result.problems:,} problems have another verdict "
            "than the recorded one",
            style="bold",
        )
    if result.disagreements:
        raise typer.Exit(1)


def _proposal(row: dict[str, Any], config: Config, where: str) -> Proposal:
    if row["kind"] not in config.tasks.kinds:
        raise DataError(
            f"{where}: "
            + unknown("task kind", row["kind"], config.tasks.kinds)
            + " (tasks.kinds says which are played.)"
        )
    program = row.get("program")
    if program is not None and not isinstance(program, str):
        raise DataError(f"{where}: the field 'program' is not text")
    references = () if program is None else (unverified_reference(program),)
    return Proposal(row["kind"], row["text"], references)


def _record(proposal: Proposal, verdict: Problem | Rejection) -> dict[str, Any]:
    if isinstance(verdict, Rejection):
        return {
            "kind": proposal.kind,
            "valid": False,
            "reason": verdict.reason,
            "detail": verdict.detail,
        }
    fields = problem_fields(verdict)
    return {"valid": True, **{name: fields[name] for name in fields if name != "author"}}


def _show(console: Console, number: int, proposal: Proposal, verdict: Problem | Rejection) -> None:
    """The verdict on one line, then the problem or the rejected text. What models wrote is neither
    markup nor control codes."""
    if isinstance(verdict, Problem):
        features = " · ".join(f"{name} {value:g}" for name, value in verdict.features.items())
        console.print(
            Text(f"✓ {number:2} {proposal.kind}", "bold green"),
            f" problem {verdict.key[:8]} ",
            Text(features, "dim"),
        )
        for label, text in load_kind(verdict.kind).show(verdict):
            if "\n" in text:
                _indented(console, text)
            else:
                _indented(console, f"{label}: {_cut(text)}", "green")
    else:
        console.print(
            Text(f"✗ {number:2} {proposal.kind}", "bold red"),
            Text(f" {verdict.reason}: {escape_controls(_cut(verdict.detail))}"),
        )
        _indented(console, _cut(_without_tags(proposal.text), 400), "dim")


def _indented(console: Console, text: str, style: str = "") -> None:
    for line in text.strip("\n").splitlines():
        console.print(Text("     " + escape_controls(line), style))


def _without_tags(text: str) -> str:
    """The text between the answer tags, without code fences; the whole text if it has no tags."""
    answer = text.rpartition("<answer>")[2].partition("</answer>")[0]
    return "\n".join(line for line in answer.splitlines() if not line.startswith("```"))


def _summary(verdicts: list[Problem | Rejection]) -> str:
    reasons = Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Rejection))
    valid = len(verdicts) - sum(reasons.values())
    counts = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return f"{valid} of {len(verdicts)} proposals are problems" + (
        f"; rejected: {counts}" if counts else ""
    )


def _cut(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
