"""What a user may type wrongly: every command ends with one message that says what to do, and none
with a traceback."""

import json
import os
import shlex
import shutil
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.errors import RedQueenError
from redqueen.ledger.members import newest_checkpoint, read_newest
from redqueen.ledger.packed import pack_ledger
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import digest
from redqueen.report.export.members import export_member

TINY = [
    "steps=1", "population.teachers=1", "population.students=2", "propose.prompts=1",
    "propose.samples=1", "propose.max_tokens=8", "solve.attempts=2", "solve.max_tokens=4",
    "tasks.kinds=['code_o']", "evaluate.suite=", "lora.rank=2", "evolve.exam.problems=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was played, and with things that are none."""
    folder = tmp_path_factory.mktemp("place")
    with Run.create(load_config("pawn-cpu", TINY), folder / "run1") as run:
        assert len(list(run)) == 1
    with open_run(folder / "run1") as played:
        pack_ledger(played.connection, folder / "packed.sqlite.xz")
    for name in ("broken", "empty", "other"):
        (folder / name).mkdir()
    (folder / "broken" / "run.sqlite").write_bytes(bytes(range(256)) * 20)
    (folder / "other" / "notes.txt").write_text("mine")
    (folder / "afile").write_text("text")
    (folder / "bad.toml").write_text("a = [")
    (folder / "binary.toml").write_bytes(b"\xff\xfe")
    (folder / "bad.jsonl").write_text("{bad\n")
    (folder / "odd.jsonl").write_text('{"a": 1}\n')
    (folder / "binary.jsonl").write_bytes(b"\xff")
    (folder / "unknown.toml").write_text("steps = 3\n[nope]\nx = 1\n")
    return folder


COMMANDS = {
    "rnu": "unknown command 'rnu'. Did you mean 'run'?",
    "--nope": "No such option: --nope",
    "run nope": "unknown recipe 'nope'. Choose from:",
    "run pawn-cpuu": "Did you mean 'pawn-cpu'?",
    "run missing.toml": "there is no config file missing.toml",
    "run bad.toml": "bad.toml is not a readable TOML file: Invalid value (at end of document)",
    "run binary.toml": "binary.toml is not a readable TOML file",
    "run study-pawn": "is a study: play it with `redqueen study`",
    "run --set": "Option '--set' requires an argument",
    "run --set steps": "--set takes a name and a value, such as verify.cpu_s=2; got 'steps'",
    "run --set stps=3": "unknown setting 'stps'. Did you mean 'steps'?",
    "run --set update.lr=1": "unknown setting 'lr'. Did you mean update.learning_rate?",
    "run --set learning_rate=1": "Did you mean warmup.learning_rate or update.learning_rate?",
    "run --set temperature=1": "Did you mean propose.temperature or solve.temperature?",
    "run --set tasks.kinds=code_x": "tasks.kinds: takes a list, such as \"tasks.kinds=['code_x']\"",
    "run --set trackers=[wandb,x]": "such as \"trackers=['wandb', 'x']\"; got '[wandb,x]'",
    "run --set propose=3": "propose: is a section: set one of its settings, such as propose.",
    "run --set propose.samples=true": "propose.samples: takes a number; got true",
    "run --set population.learning_rates=[true]": "learning_rates: takes a number; got true",
    "run --set steps=abc": "steps: takes a whole number; got 'abc'",
    "run --set steps=nan": "steps: takes a finite number; got nan",
    "run --set steps=9999999999": "steps: must be less than or equal to 1000000000",
    "run --set seed=99999999999999999999": "seed: must be less than",
    "run --set solve.temperature=inf": "solve.temperature: takes a finite number; got inf",
    "run --set update.learning_rate=inf": "learning_rate: takes a finite number; got inf",
    "run --set reward.student.correct=nan": "correct: takes a finite number; got nan",
    "run --set rate.mu=nan": "rate.mu: takes a finite number; got nan",
    "run --set propose.samples=1000000000": "lower population, propose.prompts, propose.samples",
    "run --set lora.rank=99999999": "8 adapters of rank 99,999,999 need 341,606 GB",
    "run --set population.students=99996": "100,000 adapters of rank 8 need 342 GB",
    "run --base nope": "unknown base 'nope'. Choose from: pawn, pawn-games.",
    "run --base ''": "no base is named: `pawn`, `pawn-games`, a folder, a .gguf file, or owner/model",
    "run --base /nope": "there is no folder /nope, and '/nope' cannot be a name on the hub",
    "run --base x.gguf": "there is no file x.gguf",
    "run --device tpu": "unknown device 'tpu': auto, cpu, cuda or cuda:1",
    "run --out run1": "run1 already has a run. Choose another folder with --out",
    "run --out other": "other has other files (notes.txt). Choose a new folder, or an empty one",
    "run --out afile": "afile is not a folder",
    "run --out afile/sub": "afile is not a folder",
    "run --set trackers=['nope']": "takes a list",
    "run --set evaluate.suite=nope": "unknown suite 'nope'. Choose from:",
    "run --set evaluate.suite=nope.jsonl": "there is no file nope.jsonl",
    "run --set reward.teacher=nope:f": "the teacher reward 'nope:f' cannot be imported",
    "run --set archive.seeds=nope.jsonl": "there is no file nope.jsonl",
    "run --set engine.type=nope": "unknown engine 'nope'. Choose from: processes, ray, torch",
    "config nope": "unknown recipe 'nope'",
    "config study-pawn": "is a study",
    "study pawn-cpu": "pawn-cpu is a recipe, not a study: it has no arms. Play it with `redqueen run",
    "resume nothere": "there is no run in nothere",
    "resume broken": "broken/run.sqlite is not the ledger of a run",
    "resume run1 --steps 0": "Invalid value for '--steps'",
    "fork run1": "has played 1 of 1 steps: say how far the fork is to go, such as --set steps=2",
    "fork nothere": "there is no run in nothere",
    "fork run1 --set lora.rank=4": "lora.rank cannot change in a fork",
    "fork run1 --set steps=2 --out other": "other has other files",
    "fork run1 --set steps=2 --set match.scheme=self_play": "every member has both roles",
    "watch nothere": "no run in nothere",
    "watch broken": "broken/run.sqlite is not the ledger of a run",
    "watch run1 --port 99999": "Invalid value for '--port'",
    "report nothere": "no run in nothere: it has no run.sqlite",
    "report run1 --problem zzz": "no problem in run1 has a key that starts with 'zzz'",
    "report run1 --out other": "cannot write other: Is a directory",
    "compare run1": "a comparison needs at least two runs",
    "digest broken": "is not the ledger of a run",
    "eval nope": "unknown base 'nope'",
    "eval run1/S9": "unknown living member 'S9'. Did you mean 'S",
    "eval run1 --world 3": "there is no world 3: this run has 1, from 0",
    "eval pawn --suite nope": "unknown suite 'nope'",
    "eval pawn --suite humaneval --data empty": "there is no humaneval.jsonl",
    "eval pawn --temperature nan": "Invalid value for '--temperature'",
    "eval pawn --out nothere/x.json": "--out nothere/x.json: there is no folder nothere",
    "eval other": "other is a folder without config.json",
    "crossplay run1": "ledger.snapshot_every",
    "export run1 --out x": "say what to export: one of --member ID, --soup",
    "export run1 --member S0 --soup --out x": "got --member and --soup",
    "export run1 --member S9 --out x": "unknown living member 'S9'",
    "export run1 --member S0 --out other": "other is not empty: choose another folder with --out",
    "export run1 --member S0 --out afile": "afile is not empty",
    "export run1 --problems --all --out afile/x": "cannot write afile/x: Not a directory. Choose another place.",
    "export run1 --problems --all --out /proc/x": "cannot write /proc/x: No such file or directory",
    "export run1 --member S0 --as trl --out x": "give --problems as well",
    "export run1 --problems --as nope --out x": "Invalid value for '--as'",
    "export run1 --soup --world 4 --out x": "there is no world 4",
    "export broken --soup --out x": "is not the ledger of a run",
    "verify nothere.jsonl": "there is no file nothere.jsonl",
    "verify bad.jsonl": "line 1: not JSON",
    "kind check nope --texts bad.jsonl": "unknown task kind 'nope'",
    "kind check code_o --texts nothere": "there is no file nothere",
    "pawn train --out afile/x --tokens 100000": "cannot write afile/x",
    "pawn sample --tier 11": "Invalid value for '--tier'",
    "help": "type `redqueen --help`, or `redqueen COMMAND --help`",
    "run --steps 3": "--steps is a setting: --set steps=VALUE",
    "study study-pawn --lr=1e-4": "--lr is a setting: --set update.learning_rate=1e-4",
    "run pawn-cpu single-azr": "Got unexpected extra argument(s) (single-azr)",
    "run --set =3": "--set takes a name and a value, such as verify.cpu_s=2; got '=3'",
    "run --set steps=": "steps: takes a whole number; got ''",
    "run --set evolve.mutations=[]": "mutations are empty: name some, or set crossover_share = 1",
    "run --set sandbox.type=docker": "unknown sandbox 'docker'. Choose from: auto, pool, ray",
    "run --set evaluate.suite=bad.jsonl": "bad.jsonl, line 1: not JSON",
    "run unknown.toml": "unknown setting 'nope'",
    "run --base run1": "run1 is a folder without config.json: not a model",
    "study unknown.toml": "unknown.toml: unknown part of a study 'steps'. Did you mean 'seeds'?",
    "runs nothere": "there is no folder nothere: name one that has runs in it",
    "runs afile": "afile is not a folder: name one that has runs in it",
    "play run1 --problem zzz --answer 1": "no problem in run1 has a key that starts with 'zzz'",
    "plot run1 --figure nope --out x.pdf": "unknown figure 'nope'. Choose from: difficulty, race",
    "plot run1 --out x.docx": "--out x.docx: the name ends in one of .pdf, .svg, .png",
    "plot run1 --world 5 --out x.pdf": "there is no world 5: this run has 1, from 0",
    "compare run1 run1": "are both seed 0 of the arm 'run', and a seed counts once",
    "eval run1 --suite odd.jsonl": "odd.jsonl, line 1: the field 'kind' is missing or not text",
    "eval pawn --suite source=nope": "unknown problem source 'nope'. Choose from: examples, logic",
    "eval pawn --suite nope.mod:Suite": "the suite 'nope.mod:Suite' cannot be imported",
    "export run1 --member s0 --out x": "unknown living member 's0'. Did you mean 'S0'?",
    "export run1 --soup": "say where to write to with --out, or where to upload it with --push",
    "export run1 --soup --push me/x": "the base 'pawn' has no name on the hub, so that nobody could",
    "export run1 --soup --push mine --out x": "--push takes a name on the hub, owner/name; got",
    "verify binary.jsonl": "binary.jsonl cannot be read: 'utf-8' codec can't decode byte 0xff",
    "sandbox run odd.jsonl": "odd.jsonl, line 1: the field 'name' is missing or not text",
    "serve nothere": "there is no run in nothere. To train on a base, give it with --base",
    "serve --base pawn --host 0.0.0.0": "can be reached from other machines: give tenants keys",
    "lineage run1 --member S9": "unknown member 'S9'. Did you mean 'S",
    "retention run1 --operator nope:f": "'nope:f' cannot be imported: No module named 'nope'",
    "retention nothere": "there is no run in nothere",
    "open nothere.sqlite.xz": "there is no file nothere.sqlite.xz",
    "eval packed.sqlite.xz": "packed.sqlite.xz is a packed ledger: it has no members",
    "chat packed.sqlite.xz --prompt x": "packed.sqlite.xz is a packed ledger: it has no members",
    "export packed.sqlite.xz --soup --out x": "is a packed ledger: it has no members",
    "export run1 --problems --out x": "no problem was solved sometimes. `--all` keeps",
    "export run1 --attempts --as sft --out x": "no problem was solved sometimes. `--all` keeps",
    "open afile": "afile is not a packed ledger, a file NAME.sqlite.xz or NAME.sqlite.gz",
    "config --set tasks.kinds=[]": "tasks.kinds: takes at least 1 item; got []",
    "config --set \"evaluate.members=['nobody']\"": "unknown member 'nobody'. Choose from: chosen",
    "config --set \"evaluate.between=['Soup']\"": "unknown member 'Soup'. Did you mean 'soup'?",
    'config --set \'reward.teacher={"type":"azr"}\'': "a table is TOML, such as {type = 'NAME'",
    "config --set engine.threads=100000": "engine.threads: must be less than or equal to 1024; got",
    "run --set sandbox.workers=65000": "sandbox.workers=65000: this machine has",
    "config --set sandbox.workers=100000": "sandbox.workers: must be less than or equal to 65536",
    "config --set archive.seed_count=100000000": "archive.seed_count: must be less than or equal to",
    "config --set fixed.problems=100000000": "fixed.problems: must be less than or equal to 1000000",
    "eval pawn --samples 99999999": "Invalid value for '--samples': Input should be less than or equal to 10000",
    "config --set engine.block=7x": "engine.block: must be 'auto', 'world' or 'all', or a whole",
    "config --set engine.block=0": "'world' or 'all', or greater than 0; got 0",
    "config --set ledger.background=x": "ledger.background: must be 'auto', or true or false; got",
    "config --set update.target_bounds=[2,0.1]": "target_bounds: the smaller one first; got [2.0,",
    "config --set update.target_bounds=[]": "update.target_bounds: takes at least 2 items; got []",
    "config --set archive.seed_tiers=[1,2,3]": "archive.seed_tiers: takes at most 2 items; got",
    "config --set archive.seed_tiers=[5,2]": "archive.seed_tiers: the lowest and the highest tier",
    "config --set fixed.tiers=[0,2]": "fixed.tiers: the lowest and the highest tier, from 1 to 10",
    "config --set evolve.perturb.temperature_low=2": "temperature_low=2 is above temperature_high",
    "config --set verify.memory_mb=99999999": "verify.memory_mb: must be less than or equal to",
    "run --set sandbox.memory_mb=100": "verify.memory_mb=256: all programs that run at a time have",
    "run --set stop.drift={a=1}": "stop.drift: unknown metric 'a'. Choose from: answer_echo",
    "run --dry-run --set 'stop.drift={\"names/code_x\"=1}'": "unknown task kind of this run 'code_x'",
    "fork run1 --set steps=2 --set stop.drift={a=1}": "stop.drift: unknown metric 'a'.",
    "serve --base pawn --threads 100000": "Invalid value for '--threads': Input should be less than or equal",
    "resume run1 --set x=1": "a run goes on with its own settings. `redqueen fork RUN --set",
    "chat run1 --prompt ''": "--prompt is empty: say something, or leave it out and talk",
    "report run1 --problem ''": "the key is empty: give the first characters of a problem's key",
    "play run1 --problem '' --answer 1": "the key is empty: give the first characters of a",
    "bench nope": "unknown command 'nope'. Choose from: blocks, engine, evolve, sandbox",
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_wrong_command_says_what_was_wrong_and_leaves_nothing(
    line: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.iterdir())
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, shlex.split(line))
    error = result.exception
    assert isinstance(error, RedQueenError | SystemExit), f"{type(error)}: {error}"
    message = result.output if isinstance(error, SystemExit) else str(error)
    assert COMMANDS[line] in message
    assert not any(word in message for word in ("tuple", "dictionary", "instance of"))
    assert result.exit_code
    assert sorted(path.name for path in place.iterdir()) == before


def test_a_fork_has_the_records_of_its_origin_and_says_what_changed(
    place: Path, tmp_path: Path
) -> None:
    settings = ["steps=2", "update.learning_rate=0.5"]
    with Run.fork(place / "run1", tmp_path / "fork", settings) as run:
        assert run.step == 1 and run.config.update.learning_rate == 0.5
        origin = json.loads(run.ledger.about["origin"])
        assert (origin["run"], origin["step"]) == ("run1", 1)
        assert origin["settings"] == {"steps": 2, "update.learning_rate": 0.5}
        assert run.ledger.about["ended"] == ""
        assert len(list(run)) == 1
    with Run.resume(place / "run1") as first:
        assert (first.step, first.config.steps) == (1, 1)


def test_a_fork_with_the_same_settings_plays_as_its_origin_would(
    place: Path, tmp_path: Path
) -> None:
    shutil.copytree(place / "run1", tmp_path / "origin")
    with Run.fork(tmp_path / "origin", tmp_path / "fork", ["steps=2"]) as fork:
        list(fork)
    with Run.resume(tmp_path / "origin", steps=2) as origin:
        list(origin)
    assert digest(tmp_path / "fork") == digest(tmp_path / "origin")


def test_a_checkpoint_that_a_run_deletes_meanwhile_is_read_from_the_newer_one(
    place: Path, tmp_path: Path
) -> None:
    run, gone = place / "run1", tmp_path / "gone"
    newest = newest_checkpoint(run)
    tries = []

    def read(checkpoint: object) -> int:
        tries.append(checkpoint)
        if len(tries) == 1:
            newest.folder.rename(gone)
            raise FileNotFoundError(newest.folder)
        return len(tries)

    try:
        assert read_newest(run, read) == 2
    finally:
        gone.rename(newest.folder)


def test_exported_weights_are_as_readable_as_the_umask_says(place: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        folder = export_member(place / "run1", "S0", tmp_path / "s0")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}
    assert modes == {0o640}
