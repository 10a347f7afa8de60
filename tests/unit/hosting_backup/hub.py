"""A stand-in for the Hub in a folder, which several processes may use: the calls of HfApi that a
backup makes, by their signatures, with faults to be injected. No request is sent."""

from __future__ import annotations

import inspect
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
from filelock import FileLock
from huggingface_hub import CommitOperationAdd, DatasetCard, HfApi
from huggingface_hub.errors import HfHubHTTPError

TOKEN = "hf_not_a_secret_of_anybody"
LARGE = ".db"
HANGS_S = 600.0
Files = dict[str, bytes]


@dataclass
class Fault:
    """``status`` instead of an answer; ``hangs``: no answer comes; ``late``: nor does it, but the
    work is done."""

    status: int = 0
    hangs: bool = False
    late: bool = False


@dataclass
class Repo:
    private: bool = True
    commits: list[tuple[str, Files]] = field(default_factory=list)  # (id, files)
    stored: Files = field(default_factory=dict)  # large files by their SHA-256

    def __post_init__(self) -> None:
        self.commit({".gitattributes": b""})

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    @property
    def files(self) -> Files:
        return self.commits[-1][1]

    def commit(self, files: Files) -> None:
        """Also what a person does on the Hub's pages."""
        self.commits.append((sha1(f"{time.monotonic_ns()}".encode()).hexdigest(), files))
        large = (content for path, content in files.items() if path.endswith(LARGE))
        self.stored |= {_sha(content): content for content in large}


def _refused(status: int) -> HfHubHTTPError:
    request = httpx.Request("POST", "https://huggingface.co/api")
    response = cast(Any, httpx.Response(status, request=request))
    return HfHubHTTPError(f"no token: {TOKEN}", response=response)


def _sha(content: bytes) -> str:
    return sha256(content).hexdigest()


@dataclass
class Known:
    """What a hub knows. ``token``: the valid one; ``faults``: of the next calls, by name."""

    token: str = TOKEN
    repos: dict[str, Repo] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def create_repo(self, *, repo_id: str, private: bool, **_: object) -> None:
        self.repos.setdefault(repo_id, Repo(private))

    def dataset_info(self, *, repo_id: str, **_: object) -> SimpleNamespace:
        repo = self.repos[repo_id]
        siblings = [
            SimpleNamespace(
                rfilename=path,
                lfs=SimpleNamespace(sha256=_sha(content)) if path.endswith(LARGE) else None,
            )
            for path, content in repo.files.items()
        ]
        return SimpleNamespace(sha=repo.head, private=repo.private, siblings=siblings)

    def hf_hub_download(
        self, *, repo_id: str, filename: str, revision: str, local_dir: Path, **_: object
    ) -> str:
        path = local_dir / filename
        path.write_bytes(dict(self.repos[repo_id].commits)[revision][filename])
        return str(path)

    def create_commit(
        self, *, repo_id: str, operations: list[Any], parent_commit: str, **_: object
    ) -> None:
        repo = self.repos[repo_id]
        if parent_commit != repo.head:
            raise _refused(412)
        files = dict(repo.files)
        for each in operations:
            if not isinstance(each, CommitOperationAdd):
                files[each.path_in_repo] = repo.files[each.src_path_in_repo]
            else:
                with each.as_file() as file:
                    files[each.path_in_repo] = file.read()
        assert DatasetCard(files["README.md"].decode()).data.to_dict()
        repo.commit(files)

    def list_lfs_files(self, *, repo_id: str, **_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(oid=sha, file_oid=sha) for sha in self.repos[repo_id].stored]

    def super_squash_history(self, *, repo_id: str, **_: object) -> None:
        repo = self.repos[repo_id]
        repo.commit(repo.files)
        del repo.commits[:-1]

    def permanently_delete_lfs_files(
        self, *, repo_id: str, lfs_files: list[SimpleNamespace], **_: object
    ) -> None:
        for each in lfs_files:
            del self.repos[repo_id].stored[each.oid]


class Hub:
    """``faults`` come one a call, the first of its name first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def known(self) -> Iterator[Known]:
        """What is changed is known to all processes."""
        file = self.folder / "known"
        with FileLock(self.folder / "lock"):
            known = pickle.loads(file.read_bytes()) if file.exists() else Known()
            yield known
            file.write_bytes(pickle.dumps(known))

    def now(self) -> Known:
        with self.known() as known:
            return known

    def fail(self, call: str, *faults: Fault) -> None:
        with self.known() as known:
            known.faults[call] = [*faults]

    def api(self, token: str = TOKEN) -> HfApi:
        return cast(HfApi, _Api(self, token))


class _Api:
    def __init__(self, hub: Hub, token: str) -> None:
        self._hub, self._token = hub, token

    def __getattr__(self, name: str) -> Callable[..., Any]:
        signature = inspect.signature(getattr(HfApi, name))

        def call(*arguments: object, **named: object) -> Any:
            bound = signature.bind(self, *arguments, **named).arguments
            del bound["self"]
            with self._hub.known() as known:
                known.calls.append(name)
                fault = (known.faults.get(name) or [Fault()]).pop(0)
            if fault.hangs:
                time.sleep(HANGS_S)
            with self._hub.known() as known:
                if status := fault.status or 401 * (self._token != known.token):
                    raise _refused(status)
                answer = getattr(known, name)(**bound)
            if fault.late:
                time.sleep(HANGS_S)
            return answer

        return call
