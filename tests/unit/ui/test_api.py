"""The endpoints for programs, asked by the real client over HTTP: named, typed, one sentence for
bad input, and nothing is lost."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio.utils import get_function_description
from gradio_client import Client
from gradio_client.exceptions import AppError

from mars_core.models import PairSpec
from mars_core.rules import RULES
from mars_core.types import Status
from storage import RunStore
from tests.serving import ROOT, Server, until
from ui.api.documents import finite
from ui.api.endpoints import Api
from ui.jobs.services import Services

NAMES = ["compare", "rules", "pairs", "comparisons", "comparison", "tokens"]
DOCS = ROOT / "docs" / "api.md"
REQUEST: dict[str, Any] = {
    "prompt": "Once upon",
    "max_new_tokens": 24,
    "temperature": 1.0,
    "seed": 2,
}
LONG = {
    "prompt": "Once",
    "max_new_tokens": 4000,
    "rules": ["none"] * 4,
}  # a random model that does not end by itself


@pytest.fixture(scope="module")
def saved(server: Server) -> Iterator[RunStore]:
    """The store of the page."""
    with RunStore(server.database) as store:
        yield store


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    client = Client(server.url, verbose=False)
    yield client
    client.close()


@pytest.fixture(scope="module")
def compared(client: Client) -> dict[str, Any]:
    """One comparison, run over HTTP."""
    answer: dict[str, Any] = client.predict(**REQUEST, api_name="/compare")
    return answer


def test_only_these_endpoints_are_public_and_all_are_typed(server: Server) -> None:
    info = httpx.get(f"{server.url}gradio_api/info").json()
    assert sorted(info["named_endpoints"]) == sorted(f"/{name}" for name in NAMES)
    assert not info["unnamed_endpoints"]
    for endpoint in info["named_endpoints"].values():
        assert all(parameter["type"] for parameter in endpoint["parameters"])
        assert "request" not in {
            parameter["parameter_name"] for parameter in endpoint["parameters"]
        }
        assert len(endpoint["returns"]) == 1
    events = httpx.get(f"{server.url}config").json()["dependencies"]
    assert {event["api_name"] for event in events if event["api_visibility"] != "private"} == set(
        NAMES
    )


def test_a_comparison_is_answered_as_it_is_saved(
    saved: RunStore, client: Client, compared: dict[str, Any]
) -> None:
    stored = saved.load(compared["id"])
    assert [run["rule"] for run in compared["runs"]] == ["strict", "mars"]
    assert (compared["state"], compared["prompt"]) == ("completed", REQUEST["prompt"])
    for run, one in zip(compared["runs"], stored.runs, strict=True):
        summary = one.trace.summary
        assert (run["text"], run["tau"], run["tokens_per_s"]) == (
            one.trace.text,
            summary.tau,
            summary.tokens_per_s,
        )
        assert (run["seed"], run["temperature"], run["max_new_tokens"]) == (2, 1.0, 24)
        assert tuple(run["token_ids"]) == one.trace.token_ids
    assert client.predict(compared["id"], api_name="/comparison") == compared
    (row,) = (row for row in client.predict(api_name="/comparisons") if row["id"] == compared["id"])
    assert row["rules"] == ["strict", "mars(theta=0.9)"]
    assert row["tau"] == [run["tau"] for run in compared["runs"]]


def test_custom_models_are_used_where_the_host_allows_it(
    services: Services, spec: PairSpec
) -> None:
    custom = {"target": spec.target.name, "draft": spec.draft.name if spec.draft else ""}
    *_, answer = Api(services).compare(**REQUEST | custom | {"drafter": "auto"})
    *_, of_the_pair = Api(services).compare(**REQUEST)
    assert [run["token_ids"] for run in answer["runs"]] == [
        run["token_ids"] for run in of_the_pair["runs"]
    ]
    public = Api(replace(services, public=True))
    for models, message in ((custom, "of its list only"), ({"drafter": "a/b"}, "of its list only")):
        with pytest.raises(gr.Error, match=message):
            list(public.compare(**REQUEST | models))


def test_a_divergence_is_where_the_tokens_part_with_its_cause(compared: dict[str, Any]) -> None:
    strict, mars = compared["runs"]
    assert strict["same_text"] is True and strict["divergence"] is None
    assert mars["same_text"] is False and mars["divergence"]["cause"] == "relaxed"
    position = mars["divergence"]["position"]
    assert mars["token_ids"][:position] == strict["token_ids"][:position]
    assert mars["token_ids"][position] != strict["token_ids"][position]


def test_tokens_make_the_text_and_the_counts(client: Client, compared: dict[str, Any]) -> None:
    for lane, run in enumerate(compared["runs"]):
        tokens = client.predict(compared["id"], lane, api_name="/tokens")
        assert "".join(token["text"] for token in tokens) == run["text"]
        counted = [token["outcome"] for token in tokens]
        assert all(
            counted.count(name) == run[name]
            for name in ("accepted", "relaxed", "recovered", "bonus")
        )


def test_what_json_cannot_hold_is_null_or_inf(client: Client, compared: dict[str, Any]) -> None:
    greedy = client.predict(**REQUEST | {"temperature": 0.0, "rules": "mars"}, api_name="/compare")
    json.dumps(greedy, allow_nan=False)
    assert greedy["runs"][0]["kl_sum"] == "inf"
    tokens = client.predict(compared["id"], api_name="/tokens")
    json.dumps(tokens, allow_nan=False)
    assert {token["q"] for token in tokens if token["outcome"] in ("recovered", "bonus")} == {None}
    assert finite({"a": (float("nan"), float("-inf"), 0.5, Status.FAILED)}) == {
        "a": [None, "-inf", 0.5, "failed"]
    }


def test_rules_and_pairs_are_returned(client: Client, compared: dict[str, Any]) -> None:
    rules = {rule["name"]: rule for rule in client.predict(api_name="/rules")}
    assert set(rules) == {*RULES, "none"}
    (theta,) = rules["mars"]["parameters"]
    assert (theta["name"], theta["default"], theta["low"], theta["high"]) == ("theta", 0.9, 0, 1)
    assert rules["fly"]["trees"] is False and rules["fly"]["draft_modes"] == ["coupled", "greedy"]
    pairs = client.predict(api_name="/pairs")
    assert [pair["key"] for pair in pairs][:2] == ["bundled", "eagle"]
    assert pairs[0]["drafters"] == ["model", "suffix", "ngram", "none"]
    assert (
        pairs[1]["drafters"] == ["eagle3", "suffix", "ngram", "none"] and pairs[0]["fits"] is True
    )
    comparisons = client.predict(api_name="/comparisons")
    # gradio_client takes every object with a path for a file to be fetched
    assert not re.search(r'"path":', json.dumps([compared, rules, pairs, comparisons]))


def test_what_is_not_there_is_named(client: Client, compared: dict[str, Any]) -> None:
    id_ = compared["id"]
    for name, values, sentence in (
        ("comparison", ["0" * 32], "There is no comparison with the id"),
        ("comparison", ["../x"], "There is no comparison with the id"),
        ("tokens", [id_, 9], "no run in lane 9; its lanes: 0, 1"),
        ("tokens", [id_, "first"], "lane is 'first'; it must be a whole number"),
        ("tokens", [id_, -1], "lane is -1; it must be a whole number from 0 to 1000000"),
        ("comparisons", [0], "limit is 0; it must be a whole number from 1 to 200"),
    ):
        with pytest.raises(AppError, match=sentence):
            client.predict(*values, api_name=f"/{name}")


def test_progress_comes_before_the_result(services: Services) -> None:
    documents = list(Api(services).compare(**REQUEST))
    assert [document["state"] for document in documents[:-1]] == ["running"] * (len(documents) - 1)
    shares = [document["progress"] for document in documents[:-1]]
    assert shares == sorted(shares) and shares[0] >= 0 and shares[-1] <= 1
    assert documents[-1]["state"] == "completed" and documents[-1]["id"] == documents[-2]["id"]


def test_a_connection_that_is_closed_ends_the_run(server: Server, saved: RunStore) -> None:
    event = httpx.post(f"{server.url}gradio_api/call/v2/compare", json=LONG).json()["event_id"]
    with httpx.stream("GET", f"{server.url}gradio_api/call/compare/{event}", timeout=60) as answer:
        (begun,) = itertools.islice((line for line in answer.iter_lines() if "tokens" in line), 1)
    (document,) = json.loads(begun.removeprefix("data: "))

    def states() -> list[Status]:
        runs = saved.load(document["id"]).runs
        return [run.trace.status for run in sorted(runs, key=lambda run: run.order)]

    until(lambda: Status.CANCELLED in states())
    assert states()[-1] is Status.CANCELLED


def test_the_examples_of_the_documentation_run(server: Server) -> None:
    output = io.StringIO()
    for example in re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        with contextlib.redirect_stdout(output):
            exec(example.replace("http://127.0.0.1:7860/", server.url), {})
    assert "mars" in output.getvalue() and "relaxed" in output.getvalue()


def test_the_documentation_names_every_endpoint_and_every_parameter(services: Services) -> None:
    written = (ROOT / "docs" / "reference" / "endpoints.md").read_text(encoding="utf-8")
    assert written.partition("\n## ")[2] == "\n## ".join(
        described(getattr(Api(services), name)) for name in NAMES
    )


def described(endpoint: Callable[..., object]) -> str:
    """Its section of docs/reference/endpoints.md."""
    description, explained, returns = get_function_description(endpoint)
    lines = [f"/{endpoint.__name__}", "", description, ""]
    for name, parameter in inspect.signature(endpoint).parameters.items():
        if name != "request":  # of gradio: no sender can give it
            assert explained[name], name
            default = parameter.default
            required = default is inspect.Parameter.empty
            lines.append(
                f"* `{name}`{'' if required else f' ({json.dumps(default)})'}: {explained[name]}"
            )
    return "\n".join([*lines, *[""] * bool(explained), f"Returns {' '.join(returns)}.", ""])
