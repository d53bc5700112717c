"""The simulations behind `redqueen bench selection`, with few trials."""

from redqueen.cli.bench.selection import bench_selection


def test_selection_finds_the_weaker_student_and_intervals_hold_what_they_say() -> None:
    result = bench_selection(trials=16)
    assert result.ranks_by_skill
    assert result.culled_worse.keys() == {"79", "50", "30"}
    assert min(result.culled_worse.values()) >= 0.6, result
    assert result.coverage.keys() == {"3", "5", "8"}
    assert all(0.9 < share < 0.99 for share in result.coverage.values()), result
    exams = result.exam_against_skill
    assert exams["96 x 1"] < exams["384 x 8"] and exams["384 x 8"] > 0.5, exams
