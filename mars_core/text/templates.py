"""Chat templates are programs of a checkpoint: they are rendered in a separate process, which
is killed where one does not end.

That process, this file as a script, renders with transformers' sandbox. Bounded are the time of a
rendering, the memory of the process (except on macOS and Windows), and the length of the text.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from threading import RLock, Timer
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SECONDS = 10.0  # of one rendering; it takes milliseconds
START_S = 240.0  # of the process; it takes a second
MEMORY = 1 << 30  # bytes
LONGEST = 10_000_000  # characters


def render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], **options: Any
) -> str:
    """Return the text that ``tokenizer.apply_chat_template`` would encode. Raises TemplateError,
    also where there is no template."""
    try:
        template = tokenizer.get_chat_template()
    except ValueError as error:
        raise TemplateError(str(error)) from error
    request = (
        {"conversations": [messages], "chat_template": template}
        | tokenizer.special_tokens_map
        | options
    )
    return _renderer(os.getpid()).render(json.dumps(request, default=str).encode())


def prepare() -> None:
    """Starts the process, which takes a second, for a rendering later on."""
    _renderer(os.getpid()).started()


class _Renderer:
    """The process, started when it is needed. Safe between threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        atexit.register(self._end)

    def render(self, request: bytes) -> str:
        with self._lock:
            process = self.started()
            if not self._ready:
                self._exchange(process, b"", START_S)
                self._ready = True
            answer = json.loads(self._exchange(process, request + b"\n", SECONDS))
        if "error" in answer:
            raise TemplateError(answer["error"])
        return str(answer["text"])

    def started(self) -> subprocess.Popen[bytes]:
        """Return the process, which is started again where it has ended."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._ready = False
                self._process = subprocess.Popen(
                    [sys.executable, "-P", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # so that Ctrl-C does not reach it
                )
            return self._process

    def _exchange(self, process: subprocess.Popen[bytes], line: bytes, seconds: float) -> bytes:
        """Return the answer to a line, within ``seconds``; else the process ends. Raises
        TemplateError."""
        assert process.stdin and process.stdout
        late, answer = Timer(seconds, process.kill), b""
        late.daemon = True
        late.start()
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(line)
                process.stdin.flush()
                answer = process.stdout.readline()
        finally:
            late.cancel()
            if not answer.endswith(
                b"\n"
            ):  # also where the wait was interrupted: the next answer would be another's
                self._end()
        if not answer.endswith(b"\n"):
            raise TemplateError(f"it needs more than {seconds:g} s or {MEMORY >> 20} MiB.")
        return answer

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@cache
def _renderer(_process_id: int) -> _Renderer:
    """Return a renderer: a forked process has another id, and so a separate one."""
    return _Renderer()


def _serve() -> None:
    """Answers every line of standard input with one, after a first one that says that it is
    ready."""
    from transformers.utils.chat_template_utils import render_jinja_template

    _limit("RLIMIT_AS", MEMORY)
    _say({})
    for line in sys.stdin.buffer:
        _limit(
            "RLIMIT_CPU", int(time.process_time() + 2 * SECONDS) + 1
        )  # where nobody is left to kill it
        try:
            text = render_jinja_template(**json.loads(line))[0][0]
            _say(
                {"text": text}
                if len(text) <= LONGEST
                else {"error": f"it writes more than {LONGEST:,} characters."}
            )
        except Exception as error:  # noqa: BLE001  a program may raise anything
            _say({"error": str(error)[:300] or type(error).__name__})


def _say(answer: Mapping[str, str]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def _limit(name: str, most: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # not on Windows, not each on macOS
        import resource

        kind = getattr(resource, name)
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


if __name__ == "__main__":
    _serve()
