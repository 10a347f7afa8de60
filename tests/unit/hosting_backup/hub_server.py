"""A stand-in of the Hub over HTTP: what huggingface_hub itself asks of a dataset repository, with
faults to be injected.

Written from huggingface_hub's requests: information, creation, preupload, LFS upload, commit,
download, squash, LFS list.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import yaml  # type: ignore[import-untyped]

from tests.answering import Answers, answering

TOKEN = "hf_not_a_secret_of_anybody"
LARGE = (".db",)
STAMP = "2026-11-21T00:00:00.000Z"


Answer = tuple[int, Any] | tuple[int, Any, Mapping[str, str]]


@dataclass
class Fault:
    """``status`` instead of an answer; ``delay_s`` before it; ``late``: the work is done and the
    answer lost."""

    status: int = 0
    delay_s: float = 0.0
    late: bool = False


@dataclass
class Repo:
    private: bool = True
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)  # (id, files)
    stored: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # LFS objects: name, content

    def __post_init__(self) -> None:
        self.commit({".gitattributes": b""})

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1][1]

    def commit(self, files: dict[str, bytes]) -> None:
        """Also what a person does on the Hub's pages."""
        number = f"{len(self.commits)}-{time.monotonic_ns()}"
        self.commits.append((hashlib.sha1(number.encode()).hexdigest(), files))


@dataclass
class Hub:
    """``faults``: by a word of the request's path, one a request; ``token``: the one that is
    valid."""

    url: str = ""
    token: str = TOKEN
    repos: dict[str, Repo] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, word: str, *faults: Fault) -> None:
        self.faults.setdefault(word, []).extend(faults)

    def fault(self, path: str) -> Fault:
        with self.lock:
            for word, waiting in self.faults.items():
                if word in path and waiting:
                    return waiting.pop(0)
        return Fault()


@contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()
    with answering(type("Handler", (_Handler,), {"hub": hub})) as hub.url:
        yield hub


def _large(path: str, content: bytes) -> dict[str, Any]:
    about = {
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "pointerSize": 134,
    }
    return {"lfs": about} if path.endswith(LARGE) else {}


class _Handler(Answers):
    protocol_version = "HTTP/1.1"

    hub: Hub

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        self.hub.requests.append(f"{self.command} {path}")
        fault = self.hub.fault(path)
        if fault.delay_s:
            time.sleep(fault.delay_s)
        if fault.status:
            return self._answer(fault.status, {"error": "injected"})
        if (
            not path.startswith("/lfs/")
            and self.headers.get("Authorization") != f"Bearer {self.hub.token}"
        ):
            return self._answer(
                401,
                {"error": "no"},
                {"X-Error-Message": "Invalid credentials in Authorization header"},
            )
        with self.hub.lock:
            answer = self._route(path, body)
        if fault.late:
            self.close_connection = True
            return None
        return self._answer(*answer)

    do_GET = do_HEAD = do_POST = do_PUT = _serve

    def _route(self, path: str, body: bytes) -> Answer:
        hub = self.hub
        if path == "/api/repos/create":
            request = json.loads(body)
            name = f"{request['organization']}/{request['name']}"
            status = 409 if name in hub.repos else 200
            hub.repos.setdefault(name, Repo(private=request.get("visibility") == "private"))
            return status, {"url": f"{hub.url}/datasets/{name}"}
        if path.startswith("/lfs/"):
            repo_name, oid, name = (
                base64.urlsafe_b64decode(path.removeprefix("/lfs/")).decode().split("\n")
            )
            assert hashlib.sha256(body).hexdigest() == oid
            hub.repos[repo_name].stored[oid] = (name, body)
            return 200, {}
        if path == "/api/validate-yaml":
            front = json.loads(body)["content"].split("---\n")[1]
            return 200, {
                "errors": []
                if isinstance(yaml.safe_load(front), dict)
                else [{"message": "no mapping"}]
            }
        match = re.fullmatch(r"/(?:api/)?datasets/([^/]+/[^/.]+)(?:\.git)?(?:/(.*))?", path)
        if match is None or match[1] not in hub.repos:
            return 404, {"error": "no"}, {"X-Error-Code": "RepoNotFound"}
        return self._in_repo(match[1], hub.repos[match[1]], match[2] or "", body)

    def _in_repo(self, name: str, repo: Repo, what: str, body: bytes) -> Answer:
        if not what or what.startswith("revision/"):
            siblings = [
                {"rfilename": path, **_large(path, content)} for path, content in repo.files.items()
            ]
            return 200, {
                "id": name,
                "sha": repo.head,
                "private": repo.private,
                "siblings": siblings,
                "tags": [],
            }
        if what.startswith("paths-info/"):
            named = parse_qs(body.decode())["paths"]
            return 200, [
                {"type": "file", "path": path, "size": len(repo.files[path]), "oid": path}
                | {
                    "lfs": {
                        "oid": _large(path, repo.files[path])["lfs"]["sha256"],
                        "size": 1,
                        "pointerSize": 1,
                    }
                }
                for path in named
                if path in repo.files
            ]
        if what.startswith("preupload/"):
            files = json.loads(body)["files"]
            for file in files:
                file["uploadMode"] = "lfs" if file["path"].endswith(LARGE) else "regular"
            return 200, {"files": [file | {"shouldIgnore": False} for file in files]}
        if what == "info/lfs/objects/batch":
            objects = [self._upload(name, item) for item in json.loads(body)["objects"]]
            return 200, {"transfer": "basic", "objects": objects}
        if what.startswith("commit/"):
            return self._commit(name, repo, [json.loads(line) for line in body.splitlines()])
        if what.startswith("resolve/"):
            _, commit, path = what.split("/", 2)
            files = next((files for number, files in repo.commits if number == commit), {})
            if path not in files:
                return 404, {"error": "no"}, {"X-Error-Code": "EntryNotFound"}
            etag = hashlib.sha256(files[path]).hexdigest()
            return (
                200,
                files[path],
                {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"},
            )
        if what.startswith("super-squash/"):
            repo.commits = [repo.commits[-1]]
            repo.commit(repo.files)
            repo.commits = repo.commits[-1:]
            return 200, {}
        if what == "lfs-files":
            return 200, [
                {
                    "fileOid": oid,
                    "filename": at,
                    "oid": oid,
                    "pushedAt": STAMP,
                    "ref": None,
                    "size": len(content),
                }
                for oid, (at, content) in repo.stored.items()
            ]
        if what == "lfs-files/batch":
            for oid in json.loads(body)["deletions"]["sha"]:
                del repo.stored[oid]
            return 200, {}
        return 404, {"error": f"unknown request {what}"}

    def _upload(self, repo: str, item: dict[str, Any]) -> dict[str, Any]:
        address = base64.urlsafe_b64encode(f"{repo}\n{item['oid']}\n".encode()).decode()
        return {**item, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{address}"}}}

    def _commit(self, name: str, repo: Repo, lines: list[dict[str, Any]]) -> tuple[int, Any]:
        parent = lines[0]["value"].get("parentCommit")
        if parent is not None and parent != repo.head:
            return 412, {"error": "A commit has happened since. Please refresh and try again."}
        files = dict(repo.files)
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                _, content = repo.stored[value["oid"]]
                repo.stored[value["oid"]] = (value["path"], content)
                files[value["path"]] = content
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        repo.commit(files)
        url = f"{self.hub.url}/datasets/{name}"
        answer = {
            "commitUrl": f"{url}/commit/{repo.head}",
            "pullRequestUrl": f"{url}/discussions/1",
        }
        return 200, answer | {"commitOid": repo.head}

    def _answer(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
