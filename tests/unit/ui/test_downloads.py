"""Downloads hold what was asked for: all, one comparison, what a search finds, some runs in their order; the report is one of them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from storage import Choice, RunStore
from tests.unit.ui.places import client_of, keep, place_of, records
from ui.kit.components import REPORT, RUN_FILES, VOTE_FILES
from ui.report.downloads import ALL_FILES


@pytest.fixture
def client(store: RunStore) -> TestClient:
    return client_of(place_of(store))


def rows(client: TestClient, query: str, name: str = "runs.csv") -> list[dict[str, str]]:
    answer = client.get(f"/downloads/{name}{query}")
    assert answer.status_code == 200, answer.text
    return records(answer.text)


def test_a_search_downloads_what_it_finds(store: RunStore, client: TestClient) -> None:
    one, two = keep(store, "a lantern"), keep(store, "a ladder")
    assert {row["comparison_id"] for row in rows(client, "")} == {one, two}
    assert {row["comparison_id"] for row in rows(client, "?text=LANT")} == {one}
    assert rows(client, "?text=nothing") == []
    # some runs come in the order asked
    first, second = (store.load(keep(store, prompt)).runs for prompt in ("a", "b"))
    wanted = [second[1].id, first[0].id]
    assert [row["run_id"] for row in rows(client, f"?runs={','.join(wanted)}")] == wanted


def test_votes_are_downloaded_too(store: RunStore, client: TestClient) -> None:
    store.add_vote(keep(store, "a"), left_lane=0, right_lane=1, choice=Choice.LEFT)
    assert len(rows(client, "", "votes.csv")) == 1
    assert {*RUN_FILES, *VOTE_FILES, REPORT} == set(ALL_FILES)  # what the page offers is there


def test_the_report_is_named_after_its_comparison(store: RunStore, client: TestClient) -> None:
    kept = keep(store, "a lantern")
    answer = client.get(f"/downloads/{REPORT}?comparison={kept}")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert f'filename="mars-{kept[:8]}.html"' in answer.headers["content-disposition"]
    assert "a lantern" in answer.text


def test_what_is_not_there_is_one_sentence(client: TestClient) -> None:
    for query, status in (("", 400), ("?comparison=" + "0" * 32, 404), ("?text=x", 400)):
        answer = client.get(f"/downloads/{REPORT}{query}")
        assert answer.status_code == status and answer.text.endswith(".\n") and answer.text.count("\n") == 1
