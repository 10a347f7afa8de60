"""Everything that the environment can say, read once by app.py, which is the only one to pass an environment in."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mars_core.models import PairSpec

PUBLIC_PAIRS = ("bundled",)
ON, OFF, AUTO = "on", "off", "auto"


@dataclass(frozen=True, slots=True)
class Settings:
    """``docs/hosting.md`` explains each."""

    host: str = "127.0.0.1"
    port: int = 7860
    root_path: str = ""  # the path under which a proxy shows the page, as /mars
    database: str | None = None
    device: str = AUTO
    dtype: str = AUTO
    graphs: bool = True
    exact: str = AUTO
    proxy: bool = False  # a proxy in front sets X-Forwarded-Host and X-Forwarded-Proto
    mcp: bool = False  # whether the endpoints are tools of an MCP server too
    public: bool = False
    pairs: tuple[str, ...] = ()  # keys of the catalog; empty: all in private mode, the bundled one in public
    limits: str = ""  # changes to the limits of the mode, as new_tokens=256,seconds=60
    sign_in: bool = False  # a Space with hf_oauth
    retention_days: int | None = None
    backup_repo: str = ""  # dataset repository owner/name, or bucket hf://buckets/owner/name
    backup_minutes: int = 10
    backup_token: str = ""
    metrics: bool = False
    json_log: bool = False
    zero_gpu: bool = False

    def __repr__(self) -> str:
        """Without the secrets, so that no log can hold them."""
        return f"Settings(host={self.host!r}, port={self.port}, public={self.public})"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Raises ValueError with one sentence for the first variable that is no value."""
    said = environment.get
    space = bool(said("SPACE_ID"))
    zero_gpu = said("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
    public = _switch("MARS_PUBLIC", said("MARS_PUBLIC", AUTO), space)
    days = _whole("MARS_RETENTION_DAYS", said("MARS_RETENTION_DAYS", "0"), 0, 36_500)
    root_path = _path(said("MARS_ROOT_PATH", ""))
    return Settings(
        host=said("HOST", "0.0.0.0" if space else "127.0.0.1"),
        port=_whole("PORT", said("PORT", "7860"), 1, 65_535),
        root_path=root_path,
        proxy=_switch("MARS_PROXY", said("MARS_PROXY", AUTO), space or bool(root_path)),
        database=said("MARS_DATABASE_URL") or None,
        device=said("MARS_DEVICE", AUTO),
        dtype=said("MARS_DTYPE", AUTO),
        graphs=_switch("MARS_GRAPHS", said("MARS_GRAPHS", AUTO), not zero_gpu),
        exact=said("MARS_EXACT", AUTO),
        mcp=_switch("MARS_MCP", said("MARS_MCP", OFF), False),
        public=public,
        pairs=tuple(filter(None, map(str.strip, said("MARS_PAIRS", "").split(",")))),
        limits=said("MARS_LIMITS", ""),
        sign_in=space and bool(said("OAUTH_CLIENT_ID")) and bool(said("OAUTH_CLIENT_SECRET")),
        retention_days=days or None,
        backup_repo=said("MARS_BACKUP_REPO", "").strip(),
        backup_minutes=_whole("MARS_BACKUP_MINUTES", said("MARS_BACKUP_MINUTES", "10"), 1, 10_080),
        backup_token=said("MARS_BACKUP_TOKEN") or said("HF_TOKEN") or "",
        metrics=_switch("MARS_METRICS", said("MARS_METRICS", OFF), False),
        json_log=_switch("MARS_JSON_LOG", said("MARS_JSON_LOG", AUTO), public),
        zero_gpu=zero_gpu,
    )


def json_log(environment: Mapping[str, str]) -> bool:
    """Whether the log is JSON, for the sentence that says that another variable is no value."""
    try:
        public = _switch("MARS_PUBLIC", environment.get("MARS_PUBLIC", AUTO), bool(environment.get("SPACE_ID")))
        return _switch("MARS_JSON_LOG", environment.get("MARS_JSON_LOG", AUTO), public)
    except ValueError:
        return True


def offered(chosen: Settings, catalog: Sequence[PairSpec]) -> tuple[PairSpec, ...]:
    """The pairs that may be chosen, the default first. Raises ValueError."""
    by_key = {pair.key: pair for pair in catalog}
    keys = (
        chosen.pairs or (tuple(key for key in PUBLIC_PAIRS if key in by_key) if chosen.public else ()) or tuple(by_key)
    )
    for key in keys:
        if key not in by_key:
            raise ValueError(f"MARS_PAIRS names {key[:80]!r}; it can name {', '.join(by_key)}.")
    return tuple(by_key[key] for key in dict.fromkeys(keys))


def check(chosen: Settings) -> None:
    """Without its package Gradio would pass over the wish for MCP in silence. Raises ValueError."""
    if chosen.mcp and importlib.util.find_spec("mcp") is None:
        raise ValueError(
            "MARS_MCP is on and the package mcp is missing; install it with pip install -r requirements-mcp.txt."
        )


_SWITCH: Mapping[str, bool] = {ON: True, "1": True, "true": True, OFF: False, "0": False, "false": False}


def _switch(name: str, said: str, automatic: bool) -> bool:
    word = said.strip().lower()
    if word in (AUTO, ""):
        return automatic
    if word not in _SWITCH:
        raise ValueError(f"{name} is {said[:80]!r}; it must be {ON}, {OFF} or {AUTO}.")
    return _SWITCH[word]


def _whole(name: str, said: str, low: int, high: int) -> int:
    word = said.strip()
    if not (word.isascii() and word.isdecimal() and low <= int(word) <= high):
        raise ValueError(f"{name} is {said[:80]!r}; it must be a whole number from {low} to {high}.")
    return int(word)


def _path(said: str) -> str:
    path = said.strip().rstrip("/")
    if path and (not path.startswith("/") or not path.isprintable() or " " in path or "?" in path or "#" in path):
        raise ValueError(f"MARS_ROOT_PATH is {said[:80]!r}; it must be a path such as /mars.")
    return path
