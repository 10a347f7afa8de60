"""Studies, the check of losslessness and the import of traces, over vLLM's server."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.report.measure import measure
from integrations.vllm.tests.serving import VllmServer, serving
from mars_core.types import Status
from mars_playground.__main__ import main
from storage import RunStore

pytestmark = pytest.mark.vllm
STUDY = (
    "--suite demo_arithmetic --limit 8 --max-new-tokens 32 --rules strict,mars --theta 0.5 "
    "--scope position>=2"
)


def test_a_study_over_the_server_is_the_study_in_this_process(
    server: VllmServer, tmp_path: Path
) -> None:
    """Compare at temperature 0, strict: the same answers and scores. The rule on the same server
    relaxes tokens."""
    database = f"sqlite:///{tmp_path / 'runs.db'}"
    judged = server.counter("vllm:mars_judged_tokens_total")
    # In this process on the pair whose target the server has, without placebos, which it has not.
    for where in (f"--server {server.url} --concurrency 4", "--pair bundled --no-placebos"):
        assert main(f"eval run {STUDY} {where} --quiet --db {database}".split()) == 0
        assert server.counter("vllm:mars_judged_tokens_total") > judged
    with RunStore(database) as store:
        here, there = (study.id for study in store.studies())
        results = [
            {(one.task, one.lane): one for one in store.results(study)} for study in (there, here)
        ]
        assert results[0].keys() == results[1].keys() and len(results[0]) == 16
        texts = [
            {key: [run.text for run in store.records(one.run_ids)] for key, one in by_key.items()}
            for by_key in results
        ]
        scores = [{key: one.data["scores"] for key, one in by_key.items()} for by_key in results]
        strict = [key for key in results[0] if key[1] == 0]
        assert [texts[0][key] for key in strict] == [texts[1][key] for key in strict]
        assert [scores[0][key] for key in strict] == [scores[1][key] for key in strict]
        assert any(texts[0][task, 1] != texts[0][task, 0] for task, _ in strict)
        assert all(one.data["status"] == Status.COMPLETED for one in results[0].values())
        report = measure(store, there)
        assert {row.load for row in report.loads} == {4}
        assert all(row.tokens_per_s.value > 0 for row in report.loads)


def test_the_check_passes_the_server_and_finds_a_rule_and_vllms_defect(
    server: VllmServer, tmp_path: Path
) -> None:
    """Check: the server of the other tests is mended; as vLLM for CPUs is installed it draws other
    tokens above temperature 0."""
    assert main(["check", "--server", server.url]) == 0
    for name, environ in {
        "installed": {"VLLM_PLUGINS": ""},
        "relaxed": {"MARS_RULE": "mars", "MARS_THETA": "0.5"},
    }.items():
        (tmp_path / name).mkdir()
        with serving(tmp_path / name, **environ) as other:
            assert main(["check", "--server", other.url]) == 1
