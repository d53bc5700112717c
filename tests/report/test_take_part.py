"""People take part in a run on the live page: only with the token, only from the page itself, and
what they write stays text."""

import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from redqueen.ledger.people import FILE, Inbox
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import digest
from redqueen.report.chromium import find_chromium, open_tab
from redqueen.report.page import gather_report, report_page
from redqueen.report.watch import WatchServer
from tests.report.synthetic import Synthetic
from tests.report.test_watch import ask, serve
from tests.scripted import TrustingSandbox, play, scripted_run, student, teacher

HOSTILE = "</script><img src=x onerror=alert(1)>"
SETTINGS = {"tasks": {"kinds": ["code_o"]}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    Synthetic(steps=2, person=HOSTILE, settings=SETTINGS).write(tmp_path / "live")
    return tmp_path / "live"


@pytest.fixture
def server(run: Path) -> Iterator[WatchServer]:
    yield from serve(WatchServer([run], "127.0.0.1", 0, every_s=0.1))


@pytest.fixture
def open_server(run: Path) -> Iterator[WatchServer]:
    """One that any machine can reach."""
    yield from serve(WatchServer([run], "0.0.0.0", 0))


def request(**changes: Any) -> dict[str, Any]:
    blocks = [["program", "def f(x): return x"], ["input", "1"]]
    content = {"kind": "code_o", "blocks": blocks}
    return {"view": 0, "author": "Ada", "action": "pose", "content": content, **changes}


def post(
    server: WatchServer, body: Any = None, path: str = "/people", **headers: str
) -> tuple[int, str]:
    port = server.server_address[1]
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    data = (
        body
        if isinstance(body, bytes)
        else json.dumps(request() if body is None else body).encode()
    )
    own = {
        "Host": f"127.0.0.1:{port}",
        "Origin": f"http://127.0.0.1:{port}",
        "Cookie": f"{server.cookie}={server.token}",
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
    }
    connection.putrequest("POST", path, skip_host=True)
    for name, value in {
        **own,
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders(data)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def key(run: Path, place: int = 0) -> str:
    with open_run(run) as reader:
        return reader.problems()[place]["problem"]


def test_what_is_posed_waits_beside_the_ledger_which_stays_as_it_was(
    server: WatchServer, run: Path
) -> None:
    before = digest(run)
    status, text = post(server)
    (action,) = Inbox(run).waiting()
    assert status == 200 and json.loads(text) == {"id": action.id}
    assert (action.author, action.action, action.world) == ("Ada", "pose", 0)
    assert digest(run) == before


def test_vetoes_and_ratings_say_what_the_ledger_knows_of_the_problems(
    server: WatchServer, run: Path
) -> None:
    first, last = key(run), key(run, -1)
    assert (
        post(server, request(action="veto", content={"problem": first, "template": True}))[0] == 200
    )
    assert (
        post(server, request(action="veto", content={"problem": last, "structure": "x"}))[0] == 200
    )
    assert post(server, request(action="rate", content={"better": first, "worse": last}))[0] == 200
    template, single, rating = Inbox(run).waiting()
    assert template.content == {"problem": first, "structure": first[:6]}
    assert single.content == {"problem": last, "structure": ""}
    assert rating.content["better"] == {"problem": first, "teacher": "T0", "structure": first[:6]}
    assert rating.content["worse"]["problem"] == last


def test_an_action_goes_to_the_run_and_the_world_that_are_shown(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "study"
    Synthetic(steps=1, worlds=2, arm="full", settings=SETTINGS).write(other)
    served = serve(WatchServer([run, other], "127.0.0.1", 0))
    server = next(served)
    assert post(server, request(view=2))[0] == 200
    assert [action.world for action in Inbox(other).waiting()] == [1]
    assert not (run / FILE).exists()
    next(served, None)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Cookie": ""}, 401),
        ({"Cookie": "redqueen_token=wrong"}, 401),
        ({"Origin": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),  # another page on this machine
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "[", "Origin": "http://["}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Length": "x"}, 411),
        ({"Content_Length": "-5"}, 411),
        ({"Content_Length": "900000"}, 413),
        ({"Content_Length": "9" * 5000}, 413),
        ({"path": "/data.json"}, 404),
    ],
)  # fmt: skip
def test_nobody_else_can_write(
    headers: dict[str, str], status: int, server: WatchServer, run: Path
) -> None:
    """Neither without the token, nor a page of another origin, nor more than fits."""
    assert post(server, **headers)[0] == status
    assert not (run / FILE).exists()


def test_the_token_in_the_address_becomes_a_cookie_and_without_it_the_page_only_reads(
    server: WatchServer,
) -> None:
    assert server.token in server.address
    answer, _ = ask(server, f"/?token={server.token}")
    cookie = answer.getheader("Set-Cookie") or ""
    assert answer.status == 303 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    _, body = ask(server, "/data.json", Cookie=cookie.partition(";")[0])
    assert json.loads(body)["can_write"] is True
    _, body = ask(server, "/data.json")
    assert json.loads(body)["can_write"] is False


def test_on_an_open_address_nobody_takes_part(open_server: WatchServer, run: Path) -> None:
    status, text = post(open_server)
    assert status == 403 and "SSH tunnel" in text
    cookie = f"{open_server.cookie}={open_server.token}"
    assert json.loads(ask(open_server, "/data.json", Cookie=cookie)[1])["can_write"] is False
    assert not (run / FILE).exists()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "Expecting"),
        (b"[]", "expected an object"),
        (b"[" * 100_000, "recursion"),
        (b"\xff", "codec"),
        ({"view": 7}, "no such view"),
        ({"view": True}, "no such view"),
        ({"author": ""}, "a name has 1 to 60"),
        ({"author": "x" * 61}, "a name has 1 to 60"),
        ({"author": {"a": 1}}, "a name has 1 to 60"),
        ({"action": "answer"}, "pose, veto or rate"),
        ({"action": ["pose"]}, "pose, veto or rate"),
        ({"content": 5}, "not an object"),
        ({"content": {"kind": "code_x", "blocks": [["a", "b"]]}}, "plays the kinds code_o"),
        ({"content": {"kind": "code_o", "blocks": [["a", "b" * 30_000]]}}, "at most 20,000"),
        ({"content": {"kind": "code_o", "blocks": [["a", "b"]] * 99}}, "1 to 64 pairs"),
        ({"content": {"kind": "code_o", "blocks": [["a", "\ud800"]]}}, "half a character"),
        ({"action": "veto", "content": {"problem": "x' OR 1"}}, "no such problem"),
        ({"action": "rate", "content": {"better": "x", "worse": "y"}}, "no such problem"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    body: Any, why: str, server: WatchServer, run: Path
) -> None:
    status, text = post(server, request(**body) if isinstance(body, dict) else body)
    assert status == 400 and why in text
    assert not (run / FILE).exists()


def test_a_problem_is_not_compared_with_itself(server: WatchServer, run: Path) -> None:
    one = key(run)
    assert post(server, request(action="rate", content={"better": one, "worse": one}))[0] == 400


def test_names_and_problems_cannot_end_the_page_that_shows_them(
    server: WatchServer, run: Path
) -> None:
    blocks = [["program", HOSTILE], ["input", "\u2028"]]
    assert (
        post(server, request(author=HOSTILE, content={"kind": "code_o", "blocks": blocks}))[0]
        == 200
    )
    _, body = ask(server, "/")
    assert HOSTILE.encode() not in body and b"<img" not in body
    people = gather_report([run])["views"][0]["people"]
    assert people["waiting"][0]["author"] == HOSTILE == people["rows"][0]["author"]


def test_the_report_ranks_teachers_as_people_do_beside_what_they_earned(tmp_path: Path) -> None:
    Synthetic(steps=8, settings=SETTINGS).write(tmp_path)
    figures = gather_report([tmp_path])["views"][0]["people"]
    first, last = figures["teachers"][0], figures["teachers"][-1]
    assert first["teacher"] == "T0" and first["won"] == 4 and first["strength"] > 0
    assert last["strength"] < 0 and last["lost"] > 0 and isinstance(last["reward"], float)
    assert {row["action"] for row in figures["rows"]} == {"pose", "veto", "rate", "answer"}
    assert "Whose problems people prefer" in report_page(gather_report([tmp_path]))


# in a browser


@pytest.fixture
def played(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A run of scripted members after two steps, and what plays the next one."""
    folder, settings = tmp_path / "live", ["steps=9", "archive.policy=all"]
    members = [teacher(0.0, 1.0), teacher(1.0)], [student(0.0), student(1.0)]
    with scripted_run(folder, TrustingSandbox(), *members, settings) as scripted:
        play(scripted, 2)
        yield folder, lambda: play(scripted, scripted.step + 1)


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium in the path")
def test_a_person_poses_rates_and_vetoes_in_a_browser_and_sees_what_came_of_it(
    played: tuple[Path, Callable[[], None]],
) -> None:
    folder, next_step = played
    server = WatchServer([folder], "127.0.0.1", 0, every_s=0.1)
    served = serve(server)
    next(served)
    program = "def f(x):\n    level = 0.5\n    return x + 17"
    with open_tab() as browser:
        browser.resize(1400, 900)
        browser.open(server.address)
        browser.write("[name=author]", HOSTILE)
        browser.write("#pose [name=program]", program)
        browser.write("#pose [name=input]", "3")
        browser.click("#pose .main")
        browser.wait_for("document.querySelector('#pose .status').className.includes('good')")
        browser.click("#rate .side .main")
        browser.wait_for("document.querySelector('#rate .status').className.includes('good')")
        browser.wait_for("document.querySelectorAll('#figure-people-rows tbody tr').length === 2")
        browser.click(".list .row")
        browser.click(".veto [data-template=true]")
        assert len(Inbox(folder).waiting()) == 2  # the first click only asks
        browser.click(".veto [data-template=true]")
        browser.wait_for("document.querySelectorAll('#figure-people-rows tbody tr').length === 3")
        posed, rated, vetoed = Inbox(folder).waiting()
        assert {action.author for action in (posed, rated, vetoed)} == {HOSTILE}
        assert posed.content["blocks"] == [["program", program], ["input", "3"]]
        assert vetoed.content["structure"]
        browser.write("#pose [name=program]", "half")  # what is being written survives a new step
        server.figures._rest_until = 0.0
        next_step()
        server.figures._rest_until = 0.0
        browser.wait_for("document.querySelector('.tiles .tile b').textContent === '3'")
        assert browser.evaluate("document.activeElement.value") == "half"
        table = browser.evaluate("document.querySelector('#figure-people-rows').textContent")
        assert "accepted: " in table and "vetoed: " in table and HOSTILE in table
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
        assert browser.problems == []
    with open_run(folder) as run:
        outcomes = [(row["step"], row["action"], row["outcome"]) for row in run.people()]
    assert outcomes == [(3, "pose", "accepted"), (3, "rate", "counted"), (3, "veto", "vetoed")]
    next(served, None)


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium in the path")
def test_whoever_opens_the_page_without_the_token_is_told_how_to_take_part(
    server: WatchServer,
) -> None:
    with open_tab() as browser:
        browser.open(server.address.partition("?")[0])
        text = browser.evaluate("document.querySelector('#people').textContent")
        assert "open the address with the token" in text
        assert browser.evaluate("document.querySelectorAll('form#pose, .veto, img').length") == 0
        assert browser.problems == []
