"""Random streams depend on their path alone."""

from redqueen.rng import seed_for, stream


def test_a_stream_repeats_itself_and_differs_from_others() -> None:
    assert [stream(1, "a", 2).random() for _ in range(3)] == [
        stream(1, "a", 2).random() for _ in range(3)
    ]
    paths: list[tuple[int | str, ...]] = [
        (),
        ("a",),
        ("b",),
        ("a", 1),
        ("a", "1"),
        ("a1",),
        (1, "a"),
    ]
    assert len(
        {seed_for(0, *path) for path in paths} | {seed_for(1, *path) for path in paths}
    ) == 2 * len(paths)


def test_streams_stay_what_they_are_from_release_to_release() -> None:
    """Changing this changes every recorded run."""
    assert seed_for(0, "world", 3, "match") == 17341669315755152434
