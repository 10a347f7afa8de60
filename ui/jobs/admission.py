"""What comes before anything is computed: which pair, the limits, the place in the line; and what is said where it cannot be.

Knows no component.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from mars_core.jobs import AcceleratorError
from mars_core.models import ModelError, PairSpec
from mars_core.types import RunConfig
from storage import StorageError
from ui.jobs.line import Ticket
from ui.kit.components import Strip, words
from ui.kit.faults import fault
from ui.kit.told import told
from ui.services import Services
from ui.settings.form import Form, read_pair

if TYPE_CHECKING:
    from mars_core.session import Session

F = TypeVar("F")
LOOK_S = 0.5  # between two frames of somebody who waits; gradio notices between them that a tab was closed


class Withdrawn(Exception):
    """Stopped before its turn came."""


REFUSALS = (ValueError, StorageError, AcceleratorError, Withdrawn)  # one sentence each, and nothing was computed

BROKEN_OFF = (StorageError, AcceleratorError, ModelError)  # one sentence each, while something was computed


def refusal(services: Services, error: Exception) -> Strip:
    """The line above the lanes for one of REFUSALS or BROKEN_OFF."""
    return words(told(error, public=services.public), "cancelled" if isinstance(error, Withdrawn) else "failed")


def chosen_pair(services: Services, form: Form) -> PairSpec:
    """The pair of a form, from the list only where strangers choose. Raises ValueError."""
    return read_pair(form, services.catalog, own_models=services.own_models)


def check_own(services: Services) -> None:
    """Raises ValueError where models of the visitor's own are not run."""
    if not services.own_models:
        raise ValueError("This page runs the model pairs of its list only; choose one of them.")


def check_pair(services: Services, spec: PairSpec) -> None:
    """Raises ValueError for a pair, from wherever it came, that is not offered here."""
    if spec not in services.catalog:
        check_own(services)


def ticket(services: Services, visitor: str, *, runs: int, new_tokens: float | None) -> Ticket:
    """A place in the line for ``runs`` of at most ``new_tokens`` each; what is no number is told later. Raises LineError."""
    longest = new_tokens if isinstance(new_tokens, int | float) and 0 < new_tokens < 10**6 else 1
    return services.line.ticket(services.visitor.owner or visitor, runs=runs, tokens=int(longest * runs))


def turn(ticket: Ticket, stopped: Callable[[], bool]) -> Iterator[str]:
    """What to say, again and again, until it is the ticket's turn. Raises Withdrawn once ``stopped``."""
    ready = ticket.ready(0.0)
    while not ready and not stopped():
        yield ticket.said()
        ready = ticket.ready(LOOK_S, stopped)
    if stopped():
        raise Withdrawn("Stopped while waiting; nothing was written.")


def waiting(text: str) -> Strip:
    """``text`` of ``turn`` as the line above the lanes."""
    return words(text, "running")


def check_configs(services: Services, session: Session, configs: Sequence[RunConfig]) -> None:
    """Whether these models can run them, and strangers may. Raises ValueError with one sentence."""
    longest = max((len(session.check(config).prompt_ids) for config in configs), default=0)
    services.limits.check(configs, longest)
    most = services.limits.new_tokens
    for config in configs:
        given = len(config.prefix)
        if most is not None and given + config.max_new_tokens > most:
            raise ValueError(
                f"The given beginning has {given} tokens and max_new_tokens is {config.max_new_tokens}; on this public page "
                f"they must be at most {most} together."
            )


def unbroken(frames: Iterator[F], frame: Callable[[Strip], F], where: str) -> Generator[F, None, None]:
    """``frames``; an error of this program becomes the last of them, which names the id under which the log tells more."""
    try:
        yield from frames
    except Exception as error:  # noqa: BLE001  the border to the page: nothing else may leave
        yield frame(words(fault(error, where), "failed"))
