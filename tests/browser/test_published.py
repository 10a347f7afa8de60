"""A published site in a real browser, from a folder: no server is behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import HfApi
from playwright.sync_api import BrowserContext, expect

from mars_playground.__main__ import main
from storage import RunStore
from tests.traces import make_trace
from tests.unit.evaluation.report.studies import stored_study
from tests.unit.storage.exports import save

HOSTILE = "<script>window.ran=1</script>"


def test_a_site_of_files_shows_its_studies_and_comparisons(
    tmp_path: Path, context: BrowserContext, capsys: pytest.CaptureFixture[str]
) -> None:
    database, site = f"sqlite:///{tmp_path}/log.db", tmp_path / "out" / "site"
    with RunStore(database) as store:
        study = stored_study(store)
        chosen = save(store, make_trace())
        store.annotate(chosen, name=HOSTILE, tags=["shown"])
        save(store, make_trace())
    words = ["publish", str(site), "--db", database, "--title", f"Ours {HOSTILE}"]
    assert main([*words, "--studies", "none"]) == 2
    assert "There is nothing to publish" in capsys.readouterr().err and not site.exists()
    site.mkdir(parents=True)
    (site / "index.html").write_text("mine")
    assert main([*words, "--tag", "shown"]) == 2  # a folder with something else in it is left
    assert "must be new, empty or a site written before" in capsys.readouterr().err
    assert (site / "index.html").read_text() == "mine"
    (site / "index.html").unlink()
    for _ in range(2):  # again, over the first
        assert main([*words, "--tag", "shown"]) == 0
    assert f"1 study and 1 comparison: {site}/index.html." in capsys.readouterr().out
    assert sorted(path.name for path in site.parent.iterdir()) == ["site"]
    assert "sdk: static" in (site / "README.md").read_text()

    page, said, requested = context.new_page(), list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    page.goto((site / "index.html").as_uri())
    expect(page.locator("h1")).to_have_text(f"Ours {HOSTILE}")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    rows.nth(0).locator("a").click()
    expect(page.locator("#verdict h2")).to_be_visible()
    assert page.url.endswith(f"studies/{study}/report.html")
    page.go_back()
    rows.nth(1).get_by_role("link", name=HOSTILE).click()
    expect(page.locator(".mars-lane .tok").first).to_be_visible()
    assert page.url.endswith(f"comparisons/{chosen}.html")
    assert page.evaluate("window.ran") is None and said == []
    assert {url.partition(":")[0] for url in requested} <= {"file", "data", "blob"}
    page.close()


def test_a_space_gets_exactly_the_files_and_a_refusal_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, dict[str, object]]] = []
    for name in ("create_repo", "upload_folder"):

        def call(_: HfApi, *__: object, name: str = name, **options: object) -> str:
            calls.append((name, options))
            return "https://huggingface.co/spaces/me/it"

        monkeypatch.setattr(HfApi, name, call)
    database, folder = f"sqlite:///{tmp_path}/log.db", tmp_path / "site"
    with RunStore(database) as store:
        store.annotate(save(store, make_trace()), tags=["shown"])
    words = ["publish", str(folder), "--db", database, "--tag", "shown", "--space"]
    assert main([*words, "me/it"]) == 0
    assert capsys.readouterr().out.endswith("and at https://huggingface.co/spaces/me/it.\n")
    (_, made), (_, uploaded) = calls
    assert (made["space_sdk"], made["repo_type"]) == ("static", "space")
    assert (uploaded["folder_path"], uploaded["delete_patterns"]) == (folder, "*")
    monkeypatch.undo()
    assert main([*words, "not a name"]) == 2
    assert "but not a name has not got it: " in capsys.readouterr().err
