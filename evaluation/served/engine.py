"""The runs of a study on servers: one request per turn, with the rule of the lane where the server
has the plugin mars-vllm."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, Self

from evaluation.plan.lane import BASELINE, SERVER
from evaluation.plan.plan import Plan, Task
from evaluation.scoring.metrics import check_libraries
from evaluation.served.client import Client, Server, ServerDown, ServerError, with_model
from evaluation.served.trace import answer_trace, served_trace
from evaluation.study.engine import config_of
from mars_core.types import RunConfig, StopReason, Trace

KEY = "MARS_SERVER_KEY"  # of the environment
MAX_DOWN = 3  # requests in a row without an answer after which a study stops
# Else vLLM takes those of the model's generation_config.json.
_PLAIN: dict[str, Any] = {"min_p": 0.0, "repetition_penalty": 1.0}
_PLUGIN = re.compile(
    r'^vllm:mars_enabled\{[^}]*?version="([^"]{1,40})"[^}]*\} 1(\.0)?$', re.MULTILINE
)


def find_server(environment: Mapping[str, str], url: str, model: str) -> tuple[str, str]:
    """Find the base URL of a server and its model, as ``with_model``."""
    server = with_model(Server(url, model, environment.get(KEY, "")))
    return server.base, server.model


class ServedEngine:
    """Sends the runs of a plan to its servers; thread-safe. Use it as a context manager."""

    def __init__(self, plan: Plan, environment: Mapping[str, str]) -> None:
        assert plan.served is not None
        self._stack = ExitStack()
        self._clients: dict[str, Client] = {}
        self.plugins: dict[str, str] = {}  # version of mars-vllm by URL
        self._down = 0
        for url in filter(None, (plan.served.url, plan.served.baseline_url)):
            client = Client(Server(url, key=environment.get(KEY, "")))
            self._clients[url] = self._stack.enter_context(client)

    def __enter__(self) -> Self:
        """Detects the plugin: vLLM's metrics then have ``vllm:mars_enabled``."""
        for url, client in self._clients.items():
            try:
                if plugin := _PLUGIN.search(client.metrics()):
                    self.plugins[url] = plugin[1]
            except ServerError as error:  # without /metrics
                if isinstance(error, ServerDown):
                    raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def warm_up(self, config: RunConfig) -> None:
        """Does nothing: ``check`` has sent a request for every setting."""

    def run(self, config: RunConfig) -> Generator[int, None, Trace]:
        """Run; a failed request gives a failed trace. Raises ServerDown where MAX_DOWN requests in
        a row had no answer."""
        url, sampling = config.environment["server"], config.sampling
        if plugin := self.plugins.get(url):
            config = replace(config, environment={**config.environment, "plugin": plugin})
        xargs = {"mars_rule": config.rule.name} | {
            f"mars_{name}": value for name, value in config.rule.parameters.items()
        }
        try:
            answer = yield from self._clients[url].stream(
                _prompt(config),
                model=config.target.name,
                max_tokens=config.max_new_tokens,
                seed=config.seed,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                stop=config.prompt.stop,
                xargs=xargs if plugin and config.rule.name != SERVER else None,
                **_PLAIN,
                **_thinking(config),
            )
        except ServerError as error:
            self._down = self._down + 1 if isinstance(error, ServerDown) else 0
            if self._down >= MAX_DOWN:
                raise
            return served_trace(
                config, text="", tokens=(), stop_reason=StopReason.ERROR, error=str(error)
            )
        self._down = 0
        return answer_trace(config, answer)


def check(plan: Plan, engine: ServedEngine) -> None:
    """Sends a request for every lane and temperature, up to its first token. Raises ValueError for
    a rule that the server cannot follow, and with the server's message where it refuses a
    request."""
    assert plan.served is not None
    check_libraries(plan.suites, execute_code=plan.execute_code)
    for lane in plan.lanes:
        url, _ = plan.served.of(baseline=lane.rule.name == BASELINE)
        free = lane.rule.name == SERVER or (lane.rule.name == BASELINE and plan.served.baseline_url)
        if url not in engine.plugins and not free:
            raise ValueError(
                f"The rule is {lane.rule.name}, but the server {url} does not have the plugin "
                "mars-vllm (its /metrics has no vllm:mars_enabled). Install it, or compare two "
                "servers with --baseline URL --rules strict,server."
            )
    for temperature in plan.temperatures:
        for number in range(len(plan.lanes)):
            with closing(
                engine.run(config_of(plan, None, Task(0, 0, 0, temperature), number))
            ) as run:
                if error := _early_error(run):
                    raise ValueError(error)


def _early_error(run: Generator[int, None, Trace]) -> str:
    """Return the error of a run that fails before its first token."""
    try:
        while not next(run):
            pass
    except StopIteration as end:
        return str(end.value.error)
    return ""


def _prompt(config: RunConfig) -> str | list[dict[str, str]]:
    from mars_core.text.prompting import (
        joined,
        messages_of,
    )  # imported here because it loads transformers

    messages = messages_of(config.prompt)
    return messages if config.prompt.chat else joined(messages)


def _thinking(config: RunConfig) -> dict[str, Any]:
    """Return the switch of the chat template, in vLLM's field. Raises ValueError without a
    template."""
    thinking = config.prompt.thinking
    if thinking is not None and not config.prompt.chat:
        raise ValueError(
            "thinking is set, but no chat template is used; it must be left at the model's default."
        )
    return {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
