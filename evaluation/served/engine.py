"""The runs of a study on servers: one request per turn, with the rule of the lane where the server
has the plugin mars-vllm."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Self

from evaluation.plan.lane import BASELINE
from evaluation.plan.plan import Plan, Task
from evaluation.scoring.metrics import check_libraries
from evaluation.served.client import Client, with_model
from evaluation.served.counters import DRAFTS
from evaluation.served.counts import with_no_drafts
from evaluation.served.request import request_of
from evaluation.served.server import Server, ServerDown, ServerError, with_key
from evaluation.served.trace import answer_trace, failed_trace
from evaluation.study.engine import config_of
from mars_core.rules import WHERE
from mars_core.types import SERVER, RunConfig, Trace

MAX_DOWN = 3  # requests in a row without an answer after which a study stops
_PLUGIN = re.compile(
    r'^vllm:mars_enabled\{[^}]*?version="([^"]{1,40})"[^}]*\} 1(\.0)?$', re.MULTILINE
)


def find_server(environment: Mapping[str, str], url: str, model: str) -> tuple[str, str]:
    """Find the base URL of a server and its model, as ``with_model``."""
    server = with_model(with_key(environment, Server(url, model)))
    return server.base, server.model


class ServedEngine:
    """Sends the runs of a plan to its servers; thread-safe. Use it as a context manager."""

    def __init__(self, plan: Plan, environment: Mapping[str, str]) -> None:
        assert plan.served is not None
        self._stack = ExitStack()
        self._clients: dict[str, Client] = {}
        self.plugins: dict[str, str] = {}  # version of mars-vllm by URL
        self._counting: dict[str, bool] = {}
        self._down = 0
        for url in filter(None, (plan.served.url, plan.served.baseline_url)):
            client = Client(with_key(environment, Server(url)))
            self._clients[url] = self._stack.enter_context(client)

    def __enter__(self) -> Self:
        """Detects the plugin, with which vLLM's metrics have ``vllm:mars_enabled``, and whether the
        server counts drafts."""
        for url, client in self._clients.items():
            try:
                metrics = client.metrics()
            except ServerDown:
                raise
            except ServerError:  # without /metrics
                continue
            if plugin := _PLUGIN.search(metrics):
                self.plugins[url] = plugin[1]
            self._counting[url] = DRAFTS in metrics
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def warm_up(self, config: RunConfig) -> None:
        """Does nothing: ``check`` has sent a request for every setting."""

    def run(self, config: RunConfig) -> Generator[int, None, Trace]:
        """Run; a failed request gives a failed trace. Raises ServerDown where MAX_DOWN requests in
        a row had no answer."""
        url = config.environment[SERVER]
        if plugin := self.plugins.get(url):
            config = replace(config, environment={**config.environment, "plugin": plugin})
        names = {WHERE.name: "scope"}  # as the plugin has them
        xargs = {"mars_rule": config.rule.name} | {
            f"mars_{names.get(name, name)}": value for name, value in config.rule.parameters.items()
        }
        xargs = xargs if plugin and config.rule.name != SERVER else {}
        parts = self._clients[url].stream(**request_of(config), xargs=xargs)
        try:
            while True:
                yield next(parts).tokens
        except StopIteration as end:
            self._down = 0
            answer = with_no_drafts(end.value) if self._counting.get(url) else end.value
            return answer_trace(config, answer)
        except ServerError as error:
            self._down = self._down + 1 if isinstance(error, ServerDown) else 0
            if self._down >= MAX_DOWN:
                raise
            return failed_trace(config, error)
        finally:
            parts.close()


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
