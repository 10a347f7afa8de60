"""Hub models: what goes wrong on the way is reported in one sentence; what is in the cache is found
without a network."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from mars_core.models import BUNDLED_PAIR, CATALOG, ModelError, custom_pair, source
from mars_core.models.source import is_local
from mars_core.models.summary import summarised
from mars_core.types import ModelRef
from tests.checkpoints import tiny_checkpoint
from tests.folders import COMMIT, hub_snapshot, load, offline


def http(kind: type[HfHubHTTPError], status: int) -> HfHubHTTPError:
    request = httpx.Request("GET", "https://huggingface.co/api")
    return kind(
        f"{status} secret internals\nTraceback", response=httpx.Response(status, request=request)
    )


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            http(GatedRepoError, 401),
            "asks for its licence to be accepted: accept it on https://huggingface.co/org/tiny",
        ),
        (http(RepositoryNotFoundError, 404), "There is no public model org/tiny"),
        (http(RevisionNotFoundError, 404), "org/tiny has no revision 'v9'"),
        (http(HfHubHTTPError, 503), "answered 503 for org/tiny"),
        (OfflineModeIsEnabled("offline"), "cannot be reached: connect"),
        (LocalEntryNotFoundError("not cached"), "`hf download org/tiny`"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "no space left on the disk for org/tiny",
        ),
        (
            PermissionError(errno.EACCES, "denied", "/cache/x"),
            "/cache/x may not be read or written",
        ),
        (RuntimeError("CUDA error: out of memory"), "not enough memory for org/tiny"),
        (RuntimeError("DefaultCPUAllocator: not enough memory"), "not enough memory for org/tiny"),
        (
            RuntimeError("first line\nTraceback (most recent call last)"),
            "org/tiny cannot be loaded: first line.",
        ),
    ],
)
def test_a_failure_of_the_hub_is_one_sentence(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_options: object) -> str:
        raise error

    monkeypatch.setattr(source, "snapshot_download", fail)
    with pytest.raises(ModelError) as caught:
        load("org/tiny@v9")
    message = str(caught.value)
    assert sentence in message
    assert "\n" not in message and "Traceback" not in message and "internals" not in message


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    offline(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize(("branch", "text"), [("main", "org/tiny"), ("dev", "org/tiny@dev")])
def test_a_cached_model_is_loaded_offline_with_the_commit_of_its_branch(
    cache: Path, branch: str, text: str
) -> None:
    tiny_checkpoint("llama", hub_snapshot(cache, "org/tiny", branch))
    messages: list[str] = []
    pair = load(text, text, progress=messages.append)
    assert pair.target_ref == pair.draft_ref == ModelRef("org/tiny", COMMIT)
    assert messages[1].startswith("Loading org/tiny: configuration")


HOSTILE_NAMES = (
    "",
    "  ",
    "a/b/c",
    "org/<script>",
    "-org/x",
    "org/x..y",
    "org/x\x00",
    "org/\ud800",
    "x" * 500,
    "/" + "x" * 100_000,
    "/a\nb",
    "@main",
)


@pytest.mark.parametrize("text", HOSTILE_NAMES)
def test_a_name_that_is_neither_folder_nor_hub_id_is_refused(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        custom_pair(text)
    str(caught.value).encode()


def test_catalog_rows_are_pinned_and_distinct() -> None:
    assert len({spec.key for spec in CATALOG}) == len(CATALOG)
    assert summarised(BUNDLED_PAIR)[0] == BUNDLED_PAIR  # its parameters are those of its files
    for spec in (each for each in CATALOG if not is_local(each.target)):
        assert spec.draft is not None and spec.prompts and spec.note
        for ref in (spec.target, spec.draft):
            assert ref.revision is not None and len(ref.revision) == 40


def test_download_progress_is_reported_in_bytes_and_drawn_nowhere(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def download(*_args: object, tqdm_class: Callable[..., Any], **_options: object) -> str:
        with (
            tqdm_class(desc="Fetching 2 files", total=2) as files,
            tqdm_class(total=4_000_000_000, unit="B") as counter,
        ):
            files.refresh()
            counter.update(1_000_000_000)
            counter.refresh()
        return str(tmp_path)

    messages: list[str] = []
    monkeypatch.setattr(source, "snapshot_download", download)
    assert source.snapshot(ModelRef("org/tiny"), [], messages.append) == tmp_path
    assert "Loading org/tiny: downloading, 1.00 of 4.00 GB" in messages
    assert all("GB" in message for message in messages)
    assert capfd.readouterr() == ("", "")
