"""Checks of a job: before anything is loaded, and again with the loaded models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from evaluation.records.beside import pasted_answer
from evaluation.served.lane import checked_servers
from mars_core.jobs import AcceleratorError
from mars_core.models import ModelError, PairSpec
from mars_core.numbers import quoted
from mars_core.panics import contained
from mars_core.settings import Settings
from mars_core.types import SERVER, RunConfig
from storage import StorageError
from ui.jobs.queue import Ticket
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.kit.errors import fault
from ui.public.limits import at_most

if TYPE_CHECKING:
    from mars_core.session import Session

F = TypeVar("F")


class JobError(Exception):
    """A job that cannot start or go on: one sentence for the visitor. ``state``: that of the line
    that shows it."""

    def __init__(self, sentence: str, state: str = "failed") -> None:
        super().__init__(sentence)
        self.state = state


# between two messages to somebody who waits; gradio notices between them that a tab was closed
POLL_S = 0.5
RUNNING = (StorageError, AcceleratorError, ModelError)  # what may go wrong once the runs have begun
LIST_ONLY = "This page runs the model pairs of its list only; choose one of them."
NO_MEMORY = "The memory ran out; take a shorter prompt, fewer new tokens or a smaller pair."
REFUSED = (*RUNNING, ValueError)  # and before


@contextmanager
def job_errors(services: Services, kinds: tuple[type[Exception], ...] = REFUSED) -> Iterator[None]:
    """Converts exceptions of these types to JobError."""
    try:
        with contained():
            yield
    except kinds as error:
        raise JobError(services.sentence(error)) from error
    except MemoryError as error:
        raise JobError(NO_MEMORY) from error


def errors_as_frames(frames: Iterator[F], frame: Callable[[Strip], F], where: str) -> Iterator[F]:
    """``frames``; an error becomes the last of them: a JobError's sentence, else the id under which
    the log has the error."""
    try:
        with contained():
            yield from frames
    except JobError as error:
        yield frame(message_strip(str(error), error.state))
    except Exception as error:  # noqa: BLE001  the border to the page: nothing else may leave
        yield frame(message_strip(fault(error, where), "failed"))


def admit(services: Services, settings: Settings) -> PairSpec:
    """Return the pair of settings whose prompt and pair may be used here. Raises JobError."""
    with job_errors(services):
        if not settings.prompt.strip():
            raise ValueError(
                "The prompt is empty; type one, or take one of the examples under the box."
            )
        services.limits.check_prompt(settings.prompt, settings.system, *settings.stop)
        check_servers(services, settings)
        return chosen_pair(services, settings)


def with_answers(services: Services, settings: Settings, pasted: Mapping[int, str]) -> Services:
    """Return the services with what a visitor pasted, by lane, as the answers of those that are
    servers. Raises ValueError."""
    served = [number for number, lane in enumerate(settings.rules) if lane.rule.name == SERVER]
    texts = {number: text for number in served if (text := pasted.get(number, "")).strip()}
    if texts and not services.asks_servers:
        raise ValueError("This page takes no answers of servers.")
    prompt = settings.prompt_config
    answers = {number: pasted_answer(text, prompt) for number, text in texts.items()}
    return replace(services, answers=answers)


def check_servers(services: Services, settings: Settings) -> None:
    """Raises ValueError for a server that this page does not ask."""
    for server in checked_servers(settings, services.server_keys, services.answers):
        if (services.servers or services.public) and server.base not in services.servers:
            known = " or ".join(services.servers) or "none"
            raise ValueError(f"server is {quoted(server.url)}; this page asks {known}.")


def chosen_pair(services: Services, settings: Settings) -> PairSpec:
    """Return the pair, from the list only where strangers choose. Raises ValueError."""
    if settings.own_models and not services.custom_models:
        raise ValueError(LIST_ONLY)
    return settings.spec(services.catalog)


def check_pair(services: Services, spec: PairSpec) -> None:
    """Raises ValueError for a pair, from wherever it came, that is not offered here."""
    if spec not in services.catalog and not services.custom_models:
        raise ValueError(LIST_ONLY)


def check_configs(services: Services, session: Session, configs: Sequence[RunConfig]) -> None:
    """Checks the configurations against the loaded pair and the limits. Raises ValueError with one
    sentence."""
    services.limits.check(configs)  # first: the pair's ranges are wider
    longest = max((len(session.check(config).prompt_ids) for config in configs), default=0)
    what = "conversation" if any(config.prompt.history for config in configs) else "prompt"
    at_most(f"The {what}'s length in tokens", longest, services.limits.prompt_tokens)
    most = services.limits.new_tokens
    for config in configs:
        prefix_length = len(config.prefix)
        if most is not None and prefix_length + config.max_new_tokens > most:
            raise ValueError(
                f"The given beginning has {prefix_length} tokens and max_new_tokens is "
                f"{config.max_new_tokens}; on this public page they must be at most {most} "
                "together."
            )


def turn(queued: Ticket, stopped: Callable[[], bool]) -> Iterator[str]:
    """Yields the message of the waiting line until it is the ticket's turn. Raises JobError once
    ``stopped``."""
    ready = queued.ready(0.0)
    while not ready and not stopped():
        yield queued.message()
        ready = queued.ready(POLL_S, stopped)
    if stopped():
        raise JobError("Stopped while waiting; nothing was written.", "cancelled")
