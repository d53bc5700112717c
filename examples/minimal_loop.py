"""The method, written out: teachers and students as LoRA adapters on one frozen model.

    python examples/minimal_loop.py

Two teachers and two students on Pawn, the tiny base that ships with the package. A run adds ratings
by TrueSkill, more task kinds, crossover, checkpoints, a ledger and a report.
"""

from random import Random

from redqueen import Sandbox
from redqueen.config.stages import ArchiveConfig, VerifyConfig
from redqueen.engine.protocol import EngineSpec, OptimizerSettings, TrainSample, create_engine
from redqueen.engine.text_sampler import EngineTextSampler, TextCompletion, TextRequest
from redqueen.records import Attempt, Problem, Proposal
from redqueen.stages.evolve.breed import breed
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.plan import PlannedOperator
from redqueen.stages.solve import grade_answers
from redqueen.stages.update.losses import LOSSES, bind_loss
from redqueen.stages.verify import verify_payloads, verify_proposals
from redqueen.tasks import load_kind
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.sources import seed_payloads

STEPS, TEACHERS, STUDENTS, PROPOSALS, ATTEMPTS = 4, (0, 1), (2, 3), 6, 4
KIND = "code_o"  # deduction: what does this program return?
RATE = {**dict.fromkeys(TEACHERS, 2e-3), **dict.fromkeys(STUDENTS, 6e-4)}


def main() -> None:
    rng = Random(0)
    # four adapter slots; every adapter starts as the base itself
    engine = create_engine("torch", EngineSpec("pawn", slots=4, device="cpu"))
    sampler = EngineTextSampler(engine, engine.tokenizer, engine.base.context)
    kind, kinds = load_kind(KIND), {KIND: load_kind(KIND)}
    prompts = load_prompt_format(engine.base.prompt_format)
    with Sandbox() as sandbox:
        payloads = seed_payloads(ArchiveConfig(seeds="pawn"), (KIND,), seed=0)
        seeds = [(name, code, None) for name, code in payloads]
        verdicts = verify_payloads(seeds, kinds, sandbox, VerifyConfig())
        archive = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
        fitness = dict.fromkeys((*TEACHERS, *STUDENTS), 0.0)
        for step in range(1, STEPS + 1):
            # match: any student may meet any teacher
            students = dict(zip(TEACHERS, rng.sample(STUDENTS, len(STUDENTS)), strict=True))

            # propose: teachers write problems after a few from the archive
            shown = {teacher: rng.sample(archive, 3) for teacher in TEACHERS}
            requests = [
                TextRequest(
                    teacher,
                    prompts.render(kind.ask_proposal(shown[teacher])),
                    max_tokens=192,
                    seed=rng.getrandbits(32),
                )
                for teacher in TEACHERS
                for _ in range(PROPOSALS)
            ]
            written = sampler.sample(requests, temperature=1.0)

            # verify: the sandbox runs each program three times and computes the gold answer
            proposals = [Proposal(KIND, text.text) for text in written]
            known = {problem.key for problem in archive}
            checked = verify_proposals(proposals, kinds, prompts, sandbox, VerifyConfig(), known)

            # solve: the matched student attempts every valid problem several times
            problems = [
                (text, verdict)
                for text, verdict in zip(written, checked, strict=True)
                if isinstance(verdict, Problem)
            ]
            tries = [
                TextRequest(
                    students[text.request.slot],
                    prompts.render(kind.ask_answer(problem)),
                    max_tokens=160,
                    seed=rng.getrandbits(32),
                    item=problem,
                )
                for text, problem in problems
                for _ in range(ATTEMPTS)
            ]
            answers = sampler.sample(tries, temperature=1.0)
            texts = [(answer.request.item, answer.text) for answer in answers]
            attempts = grade_answers(texts, kinds, prompts, sandbox, VerifyConfig())

            # reward: hard but solvable problems for teachers, correct answers for students
            solved = solve_rates(attempts)
            earned: list[tuple[TextCompletion, object, float]] = [
                (text, text.request.prompt, teacher_reward(verdict, solved))
                for text, verdict in zip(written, checked, strict=True)
            ]
            earned += [
                (answer, attempt.problem.key, 1.0 if attempt.verdict == "correct" else -0.5)
                for answer, attempt in zip(answers, attempts, strict=True)
            ]

            # update: every member learns from its own samples, all in one pass
            engine.accumulate(advantages(earned), bind_loss(LOSSES.choose("reinforce")))
            engine.step(
                {slot: OptimizerSettings(learning_rate=rate) for slot, rate in RATE.items()}
            )

            # evolve: halfway, the weaker student is replaced by a mutation of the stronger one
            for text, _, reward in earned:
                fitness[text.request.slot] += reward
            if step == STEPS // 2:
                weak, strong = sorted(STUDENTS, key=fitness.__getitem__)
                mutation = PlannedOperator(MUTATIONS.choose("gaussian"), crosses=False)
                child = breed([engine.read(strong)], mutation, seed=step)
                engine.write(weak, child, reset_optimizer=True)

            archive += [problem for _, problem in problems]
            rate = sum(solved.values()) / max(1, len(solved))
            print(f"step {step}: {len(problems)} of {len(checked)} valid, {rate:.0%} solved")


def solve_rates(attempts: list[Attempt]) -> dict[str, float]:
    """By problem, the share of correct attempts."""
    verdicts: dict[str, list[bool]] = {}
    for attempt in attempts:
        verdicts.setdefault(attempt.problem.key, []).append(attempt.verdict == "correct")
    return {key: sum(correct) / len(correct) for key, correct in verdicts.items()}


def teacher_reward(verdict: object, solved: dict[str, float]) -> float:
    if not isinstance(verdict, Problem):
        return -1.0
    rate = solved[verdict.key]
    return 1 - rate if rate > 0 else 0.0


def advantages(earned: list[tuple[TextCompletion, object, float]]) -> list[TrainSample]:
    """Less the mean reward of the member's samples for the same prompt."""
    groups: dict[object, list[float]] = {}
    for text, group, reward in earned:
        groups.setdefault((text.request.slot, group), []).append(reward)
    samples = []
    for text, group, reward in earned:
        rewards, rollout = groups[text.request.slot, group], text.rollout
        advantage = reward - sum(rewards) / len(rewards)
        tokens = rollout.prompt, rollout.tokens
        samples.append(TrainSample(text.request.slot, *tokens, advantage, rollout.logprobs))
    return samples


if __name__ == "__main__":
    main()
