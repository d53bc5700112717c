"""Whether the race is engaged: are there problems to learn from, and does the teachers' reward pull
back to them?"""

from dataclasses import dataclass
from typing import Any

from redqueen.evaluate.statistics import Accuracy, mean, t_quantile
from redqueen.report.run_view import RunView, round_digits


@dataclass(frozen=True, slots=True)
class Race:
    """Over the last quarter of a run."""

    solved_sometimes: float
    zero_pass: float
    all_pass: float
    problems: int
    slope: tuple[float, float, float] | None
    """What a teacher earns more for a problem where all is solved than where nothing is, by least
    squares over pairings (mean reward of its problems against their solve rate); with its 95 %
    interval. Above zero, rewards pull back to easier problems."""

    @property
    def is_disengaged(self) -> bool:
        """Fewer than half of the problems are solved sometimes, by more than chance."""
        return Accuracy(self.solved_sometimes * self.problems, self.problems).interval()[1] < 0.5

    @property
    def sentence(self) -> str:
        shares = (
            f"in the last quarter {100 * self.solved_sometimes:.0f} % of the problems are solved "
            f"sometimes, {100 * self.zero_pass:.0f} % never, {100 * self.all_pass:.0f} % always"
        )
        if self.slope is None:
            return f"{shares}."
        value, low, high = (self.slope[place] / 10 for place in range(3))
        pull = "easier" if low > 0 else "harder" if high < 0 else "neither easier nor harder"
        return (
            f"{shares}. Teachers' rewards favour {pull} problems ({value:+.3f} "
            f"[{low:+.3f}, {high:+.3f}] for 10 points more solved)."
        )


def measure_race(view: RunView) -> Race | None:
    """None where nobody proposed a problem."""
    rows = view.rows(
        """SELECT step, pairing, count(*) AS problems, sum(solve_rate = 0) AS zero_pass,
            sum(solve_rate = 1) AS all_pass, avg(solve_rate) AS solved, avg(reward) AS reward
        FROM proposals WHERE world = :world AND step > :after AND solve_rate IS NOT NULL
        GROUP BY step, pairing""",
        after=view.last - max(1, view.last // 4),
    )
    problems = sum(row["problems"] for row in rows)
    if not problems:
        return None
    zero_pass = sum(row["zero_pass"] for row in rows) / problems
    all_pass = sum(row["all_pass"] for row in rows) / problems
    points = [(row["solved"], row["reward"]) for row in rows]
    slope = _slope(points)
    return Race(1 - zero_pass - all_pass, zero_pass, all_pass, problems, slope)


def race_figures(race: Race | None) -> dict[str, Any] | None:
    if race is None:
        return None
    slope = race.slope and [round_digits(value) for value in race.slope]
    return {
        "solved_sometimes": round_digits(race.solved_sometimes),
        "zero_pass": round_digits(race.zero_pass),
        "all_pass": round_digits(race.all_pass),
        "slope": slope,
        "disengaged": race.is_disengaged,
        "sentence": race.sentence,
    }


def _slope(points: list[tuple[float, float]]) -> tuple[float, float, float] | None:
    """By least squares, with its 95 % interval; None where too few pairings differ."""
    count = len(points)
    if count < 4:
        return None
    x_mean, y_mean = mean([x for x, _ in points]), mean([y for _, y in points])
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    if spread < 1e-9:
        return None
    slope = sum((x - x_mean) * (y - y_mean) for x, y in points) / spread
    rest = sum((y - y_mean - slope * (x - x_mean)) ** 2 for x, y in points)
    half = t_quantile(count - 2) * (rest / (count - 2) / spread) ** 0.5
    return slope, slope - half, slope + half
