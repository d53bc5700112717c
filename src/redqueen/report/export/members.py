"""Members of a run for other tools: PEFT adapters or full weights, with a model card.

The weights are those of the newest checkpoint.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.errors import ConfigError
from redqueen.evaluate.replies import SOUP
from redqueen.ledger.store import base_weights
from redqueen.models.bundled import BUNDLED
from redqueen.report.export.base_names import license_of_base, name_base, own_base
from redqueen.report.export.folder import check_empty, choose_world, fill
from redqueen.report.export.model_cards import CardFacts, model_card
from redqueen.report.run_view import Run, RunView, open_views
from redqueen.report.scores import suites

if TYPE_CHECKING:
    from redqueen.ledger.checkpoint import Checkpoint
    from redqueen.ledger.members import SavedMember
    from redqueen.models.adapter import Adapter

_ROLES = {
    "teacher": "A teacher: it proposes problems.",
    "student": "A student: it solves problems.",
    "both": "A member of a self-play run: it proposes and solves problems.",
}


def export_member(
    run: Run,
    member: str,
    out: str | Path,
    *,
    merged: bool = False,
    world: int | None = None,
    base: str | None = None,
    portable: bool = False,
    license_id: str | None = None,
) -> Path:
    """Write a living member as a PEFT folder, or merged into its base as full weights.

    - `run`: its folder, a reader, or the run itself.
    - `member`: its id, such as S2.
    - `out`: the folder to write.
    - `merged`: full weights instead of an adapter.
    - `world`: which world of a study.
    - `base`: where the base is, for the adapter's config, or to load it from if it moved.
    - `portable`: for other machines, so that an adapter names a base that is on the hub, or `base`.
    - `license_id`: of the weights; by default the base's, where its card has one.
    """
    from redqueen.evaluate.saved_adapters import load_adapters
    from redqueen.ledger.members import choose_member, read_newest, saved_members

    folder = check_empty(Path(out))
    with open_views([run]) as views:
        view = choose_world(views, world)
        named = name_base(view, base, portable=portable and not merged)

        def read(checkpoint: "Checkpoint") -> "tuple[int, SavedMember, Adapter]":
            saved = choose_member(saved_members(checkpoint, view.world), member)
            (adapter,) = load_adapters(view.folder, checkpoint, [saved], base)
            return checkpoint.step, saved, adapter

        step, saved, adapter = read_newest(view.folder, read)
        scores = _scores(view, member, step)
        facts = _facts(view, member, named, license_id, adapter.rank, step, scores)
        _write(view, base, adapter, folder, merged, portable, _ROLES[saved.role], facts)
    return folder


def export_soup(
    run: Run,
    out: str | Path,
    *,
    merge: str | None = None,
    merged: bool = False,
    world: int | None = None,
    base: str | None = None,
    portable: bool = False,
    license_id: str | None = None,
) -> Path:
    """Write all living students merged into one adapter, as `redqueen eval RUN/soup` measures it.

    - `run`: its folder, a reader, or the run itself.
    - `out`: the folder to write.
    - `merge`: a row of the table of merges; by default the run's own (`evolve.merge`), which by
      default is their mean, truncated to their rank.
    - `merged`: full weights instead of an adapter.
    - `world`: which world of a study.
    - `base`: where the base is, for the adapter's config, or to load it from if it moved.
    - `portable`: for other machines, so that an adapter names a base that is on the hub, or `base`.
    - `license_id`: of the weights; by default the base's, where its card has one.
    """
    from redqueen.core.build import read_arms
    from redqueen.evaluate.saved_adapters import load_adapters
    from redqueen.ledger.members import read_newest, saved_members
    from redqueen.stages.evolve.merge import MERGES, merge_adapters

    folder = check_empty(Path(out))
    with open_views([run]) as views:
        view = choose_world(views, world)
        named = name_base(view, base, portable=portable and not merged)

        def read(checkpoint: "Checkpoint") -> "tuple[int, list[SavedMember], list[Adapter]]":
            living = saved_members(checkpoint, view.world)
            students = [saved for saved in living if saved.role != "teacher"]
            if not students:
                raise ConfigError(f"{view.name} has no students to average")
            return checkpoint.step, students, load_adapters(view.folder, checkpoint, students, base)

        step, students, adapters = read_newest(view.folder, read)
        own = read_arms(view.folder)[view.world][1].evolve.merge
        choice = MERGES.choose(merge) if merge else own
        alone = len(adapters) == 1  # as it is measured: a student alone is its own soup
        adapter = adapters[0] if alone else merge_adapters(adapters, choice)
        names = ", ".join(saved.id for saved in students)
        how = "The average" if choice.type == "mean" else f"The merge `{choice.type}`"
        what = f"{how} of the students {names}, truncated to their rank. It was never trained."
        if alone:
            what = f"The student {names}, the only one: there was nothing to merge it with."
        # what the run measured is the merge that its settings name
        scores = _scores(view, SOUP, step) if alone or choice == own else []
        facts = _facts(view, SOUP, named, license_id, adapter.rank, step, scores)
        _write(view, base, adapter, folder, merged, portable, what, facts)
    return folder


def _write(
    view: RunView,
    base: str | None,
    adapter: "Adapter",
    folder: Path,
    merged: bool,
    portable: bool,
    what: str,
    facts: CardFacts,
) -> None:
    if merged:
        from redqueen.evaluate.saved_adapters import load_run_base
        from redqueen.models.merge import merge_adapter, save_model

        loaded = load_run_base(view.folder, base)
        merge_adapter(loaded, adapter)
        with fill(folder):
            save_model(loaded, folder)
            (folder / "README.md").write_text(model_card(what, facts, merged), encoding="utf-8")
    else:
        from redqueen.models.peft_io import save_adapter

        with fill(folder):
            place = facts.base
            if facts.base in BUNDLED:
                copied = _copy_bundled(facts.base, folder / "base")
                place = facts.base if portable else copied
            save_adapter(adapter, folder, base=place, fingerprint=base_weights(view.about))
            (folder / "README.md").write_text(model_card(what, facts, merged), encoding="utf-8")


def _copy_bundled(base: str, to: Path) -> str:
    """Pawn has no name on the hub: `AutoPeftModel` finds this copy of it beside the adapter, as
    long as it stays where it is. PEFT has no word for a place relative to the adapter."""
    to.mkdir()
    for file in BUNDLED[base].iterdir():  # `copytree` hides a full disk in an error of its own
        shutil.copyfile(file, to / file.name)
    return str(to.resolve())


def _facts(
    view: RunView,
    name: str,
    base: str,
    license_id: str | None,
    rank: int,
    step: int,
    scores: list[tuple[str, str, str]],
) -> CardFacts:
    about = view.about
    return CardFacts(
        name=name,
        run=view.name,
        base=base,
        license_id=license_id or license_of_base(base) or license_of_base(own_base(view)),
        rank=rank,
        step=step,
        steps=about.get("steps", "?"),
        created=about.get("created", ""),
        scores=scores,
    )


def _scores(view: RunView, member: str, step: int) -> list[tuple[str, str, str]]:
    """Suite, score and gain, measured at exactly this step: earlier ones are of other weights."""
    scores = []
    for suite in suites(view):
        members = suite["subjects"] if suite["lines"]["steps"][-1:] == [step] else []
        products = suite["products"] if suite["step"] == step else []
        for subject in [*members, *products]:
            if subject["subject"] == member:
                mean, low, high = (100 * value for value in subject["score"])
                gain = "–"
                if subject["gain"] is not None:
                    points = (100 * value for value in subject["gain"])
                    gain = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*points)
                scores.append((suite["suite"], f"{mean:.1f} % [{low:.1f}, {high:.1f}]", gain))
    return scores
