"""The settings from environment variables, read once by app.py."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluation.served.server import Server
from mars_core.models import PairSpec
from mars_core.numbers import read_integer

PUBLIC_PAIRS = ("smollm2-135m", "bundled")
ON, OFF, AUTO = "on", "off", "auto"
# owner/name on the Hub
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
# Name → meaning (default)
SETTINGS: Mapping[str, str] = {
    "HOST": "address to listen on (127.0.0.1; Space: 0.0.0.0)",
    "PORT": "port to listen on (7860)",
    "MARS_ROOT_PATH": "path under which a proxy serves the page, such as /mars",
    "MARS_HOSTS": "further names of a private page, such as `lab.example,*.lab.example`; `*`: any",
    "MARS_PROXY": "on: a proxy sets X-Forwarded-Host and X-Forwarded-Proto; off: both are removed "
    "(auto: on for a Space or with MARS_ROOT_PATH)",
    "MARS_DATABASE_URL": "sqlite:////folder/file.db or postgresql://user:password@host/database "
    "(a file in the user's data folder)",
    "MARS_DEVICE": "cpu, cuda, cuda:1 (auto: cuda, else cpu)",
    "MARS_DTYPE": "float32, bfloat16, float16, gguf (auto: bfloat16 on cuda, without it float16; "
    "on a CPU by model)",
    "MARS_GRAPHS": "off: no CUDA graphs (auto: on except on ZeroGPU)",
    "MARS_MCP": "on: endpoints are MCP tools (off)",
    "MARS_PUBLIC": "on: public mode; off: private mode (auto: on for a Space)",
    "MARS_PAIRS": "keys of the offered pairs, as `mars models` prints them, the default first "
    f"(all; public: {','.join(PUBLIC_PAIRS)})",
    "MARS_LIMITS": "changed limits, such as new_tokens=256,seconds=60,waiting=off",
    "MARS_RETENTION_DAYS": "what was created in public mode is removed after so many days "
    "(0: never)",
    "MARS_BACKUP_REPO": "dataset repository for backups, owner/name",
    "MARS_BACKUP_MINUTES": "between two pushes (10)",
    "MARS_BACKUP_TOKEN": "with write access to the repository, ideally to nothing else (HF_TOKEN)",
    "MARS_SERVERS": "base URLs of the servers that may be compared with, such as "
    "https://llm.example/v1 (any; public: none)",
    "MARS_METRICS": "on: /metrics (off)",
    "MARS_JSON_LOG": "on: the log is JSON; off: text (auto: on in public mode)",
    "SPACE_ID": "set by Spaces",
    "SPACE_HOST": "set by Spaces",
    "SPACES_ZERO_GPU": "set by Spaces",
    "OAUTH_CLIENT_ID": "set by Spaces",
    "OAUTH_CLIENT_SECRET": "set by Spaces",
}
_SWITCH: Mapping[str, bool] = {
    ON: True,
    "1": True,
    "true": True,
    OFF: False,
    "0": False,
    "false": False,
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The values of ``SETTINGS``."""

    host: str = "127.0.0.1"
    port: int = 7860
    root_path: str = ""  # path prefix behind a proxy, e.g. /mars
    database: str | None = None
    device: str = AUTO
    dtype: str = AUTO
    graphs: bool = True
    hosts: tuple[str, ...] = ()  # further names of a private page
    proxy: bool = False  # a proxy in front sets X-Forwarded-Host and X-Forwarded-Proto
    mcp: bool = False  # whether the endpoints are also MCP tools
    public: bool = False
    pairs: tuple[
        str, ...
    ] = ()  # keys of the catalog; empty: all in private mode, PUBLIC_PAIRS in public
    limits: str = ""  # changes to the limits of the mode, e.g. new_tokens=256,seconds=60
    sign_in: bool = False  # a Space with hf_oauth
    retention_days: int | None = None
    backup_repo: str = ""  # dataset repository owner/name
    backup_minutes: int = 10
    backup_token: str = ""
    servers: tuple[str, ...] = ()  # base URLs that may be asked; empty: all, in public mode none
    metrics: bool = False
    json_log: bool = False
    zero_gpu: bool = False

    def __repr__(self) -> str:
        """Return a text without the secrets, so that they cannot be logged."""
        return f"Settings(host={self.host!r}, port={self.port}, public={self.public})"


def described() -> str:
    """Return the list of docs/reference/settings.md and of ``mars-playground --help``."""
    return "".join(f"* `{name}`: {meaning}\n" for name, meaning in SETTINGS.items())


def read_settings(environment: Mapping[str, str]) -> ServerSettings:
    """Raises ValueError with one sentence for the first variable whose value is not allowed."""
    get = environment.get
    space = bool(get("SPACE_ID"))
    zero_gpu = get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
    public = _switch(environment, "MARS_PUBLIC", space)
    root_path = get("MARS_ROOT_PATH", "").strip().rstrip("/")
    if root_path and (
        not root_path.startswith("/") or not root_path.isprintable() or set(" ?#") & set(root_path)
    ):
        raise ValueError(
            f"MARS_ROOT_PATH is {get('MARS_ROOT_PATH', '')[:80]!r}; it must be a path such as "
            "/mars."
        )
    hosts = _items(get("MARS_HOSTS", "")) + _items(get("SPACE_HOST", ""))
    for host in hosts:
        if not re.fullmatch(r"[\w.*-]+", host):
            raise ValueError(
                f"MARS_HOSTS is {host[:80]!r}; it must be names such as lab.example or "
                "*.lab.example, without ports."
            )
    mcp = _switch(environment, "MARS_MCP", False)
    if mcp and importlib.util.find_spec("mcp") is None:  # Gradio would ignore it silently
        message = "MARS_MCP is on but the package mcp is missing; install the extra mcp (make mcp)."
        raise ValueError(message)
    return ServerSettings(
        host=get("HOST", "0.0.0.0" if space else "127.0.0.1"),
        port=read_integer(get("PORT", "7860"), "PORT", 1, 65_535),
        root_path=root_path,
        hosts=hosts,
        proxy=_switch(environment, "MARS_PROXY", space or bool(root_path)),
        database=get("MARS_DATABASE_URL") or None,
        device=get("MARS_DEVICE", AUTO),
        dtype=get("MARS_DTYPE", AUTO),
        graphs=_switch(environment, "MARS_GRAPHS", not zero_gpu),
        mcp=mcp,
        public=public,
        pairs=_items(get("MARS_PAIRS", "")),
        limits=get("MARS_LIMITS", ""),
        sign_in=space and bool(get("OAUTH_CLIENT_ID")) and bool(get("OAUTH_CLIENT_SECRET")),
        retention_days=read_integer(
            get("MARS_RETENTION_DAYS", "0"), "MARS_RETENTION_DAYS", 0, 36_500
        )
        or None,
        backup_repo=get("MARS_BACKUP_REPO", "").strip(),
        backup_minutes=read_integer(
            get("MARS_BACKUP_MINUTES", "10"), "MARS_BACKUP_MINUTES", 1, 10_080
        ),
        backup_token=get("MARS_BACKUP_TOKEN") or get("HF_TOKEN") or "",
        servers=tuple(map(_server, _items(get("MARS_SERVERS", "")))),
        metrics=_switch(environment, "MARS_METRICS", False),
        json_log=_switch(environment, "MARS_JSON_LOG", public),
        zero_gpu=zero_gpu,
    )


def offered(chosen: ServerSettings, catalog: Sequence[PairSpec]) -> tuple[PairSpec, ...]:
    """Return the available pairs, the default first. Raises ValueError."""
    by_key = {pair.key: pair for pair in catalog}
    strangers = [key for key in PUBLIC_PAIRS if key in by_key] if chosen.public else []
    keys = dict.fromkeys(chosen.pairs or strangers or by_key)
    for key in keys:
        if key not in by_key:
            raise ValueError(f"MARS_PAIRS names {key[:80]!r}; it can name {', '.join(by_key)}.")
    return tuple(by_key[key] for key in keys)


def _items(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _server(url: str) -> str:
    try:
        return Server(url).base
    except ValueError:
        raise ValueError(
            f"MARS_SERVERS is {url[:80]!r}; it must be base URLs such as https://llm.example/v1."
        ) from None


def _switch(environment: Mapping[str, str], name: str, automatic: bool) -> bool:
    value = environment.get(name, AUTO)
    word = value.strip().lower()
    if word in (AUTO, ""):
        return automatic
    if word not in _SWITCH:
        raise ValueError(f"{name} is {value[:80]!r}; it must be {ON}, {OFF} or {AUTO}.")
    return _SWITCH[word]
