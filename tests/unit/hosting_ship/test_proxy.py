"""The examples for nginx are what nginx takes, and what the page does without the queue gets through the doors of public mode."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ui.public.access import is_open

DEPLOY = Path(__file__).parents[3] / "deploy"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("pages", ["http://127.0.0.1:7860/", "http://mars_pages/"])
def test_nginx_takes_the_examples(pages: str, tmp_path: Path) -> None:
    text = (DEPLOY / "nginx" / "mars.conf").read_text(encoding="utf-8")
    assert "proxy_pass http://127.0.0.1:7860/;" in text
    (tmp_path / "mars.conf").write_text(text.replace("http://127.0.0.1:7860/", pages), encoding="utf-8")
    shutil.copy(DEPLOY / "nginx" / "two-pages.conf", tmp_path)
    folders = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {folders} include {tmp_path}/two-pages.conf;"
        f" server {{ listen 127.0.0.1:1; include {tmp_path}/mars.conf; }} }}",
        encoding="utf-8",
    )
    said = subprocess.run([str(NGINX), "-t", "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_event_streams_are_not_held_back() -> None:
    text = (DEPLOY / "nginx" / "mars.conf").read_text(encoding="utf-8")
    assert re.search(r"^\s*proxy_buffering off;", text, re.MULTILINE) and re.search(
        r"^\s*gzip off;", text, re.MULTILINE
    )


def test_events_without_a_queue_get_through() -> None:
    """The browser sends them to run/: with that door closed, nothing on a public page answers."""
    assert is_open("/gradio_api/run/predict") and is_open("/gradio_api/queue/join")
    assert not is_open("/gradio_api/upload") and not is_open("/gradio_api/file=/etc/passwd")
