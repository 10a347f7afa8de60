"""``mars check``: samples one or two servers and writes one page of verdicts."""

from __future__ import annotations

import json
import math
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from display.format import count, displayable, plural
from evaluation.lossless.greedy import Greedy
from evaluation.lossless.values import Finding, LosslessVerdict, limits, overall
from evaluation.served.client import Client, with_model
from evaluation.served.counters import Counters, counters_of
from evaluation.served.server import Server, with_key
from mars_core.models.catalog import BUNDLED_PROMPTS, GENERAL_PROMPTS
from mars_core.text.files import read_lines

if TYPE_CHECKING:
    from evaluation.lossless.reference import Reference
    from evaluation.lossless.referred import Referred

DRAWS, MOST_PROMPTS = (20, 10_000), 100
DEFAULT_DRAWS = {False: 100, True: 20}  # by whether there is a reference, which reads long answers
MINUTES, IN_FLIGHT = 24 * 60, 64
TITLE = "Counters of /metrics"
ENOUGH = 50  # drafts of a server whose counters are judged
DRAFTING = (  # asked too where there are fewer: answers that repeat themselves are drafted most
    "Write the line 'red green blue yellow' twenty times.",
    "Copy this ten times: def add(a, b): return a + b",
    "Count from 1 to 40, one number a line.",
    "Repeat the word 'echo' fifty times.",
)
STATUS = {LosslessVerdict.LOSSLESS: 0, LosslessVerdict.NOT_KNOWN: 2}  # else 1


def check(options: Namespace, environment: Mapping[str, str]) -> int:
    """Write the page and return the exit status. Raises ValueError for bad options, ServerError for
    a server that does not answer."""
    for name, least, most in (
        ("draws", *DRAWS),
        ("repeats", *DRAWS),
        ("seed", 0, 2**31 - 1),
        ("minutes", 0, MINUTES),
        ("in_flight", 1, IN_FLIGHT),
    ):
        if (value := getattr(options, name)) is not None and not least <= value <= most:
            raise ValueError(
                f"--{name.replace('_', '-')} is {value:g}; it must be {least} to {most:,}."
            )
    if options.reference and options.against:
        raise ValueError("--reference and --against are given; one of them is compared with.")
    draws = options.draws or DEFAULT_DRAWS[bool(options.reference)]
    prompts = (
        read_prompts(Path(options.prompts))
        if options.prompts
        else (*BUNDLED_PROMPTS, *GENERAL_PROMPTS)
    )
    with ExitStack() as stack:
        server = stack.enter_context(
            _client(environment, options.server, options.server_model, "server")
        )
        against = options.against, options.against_model, "second server"
        other = stack.enter_context(_client(environment, *against)) if options.against else None
        servers = [client.server for client in (server, other) if client]
        sys.stdout.write(header(servers, options.reference, prompts, draws))
        sys.stdout.flush()
        if options.reference:
            from evaluation.lossless.reference import Reference  # loads torch
            from evaluation.lossless.referred import Referred

            checking: Callable[..., Greedy | Referred] = Referred
            judge: Client | Reference | None = Reference(options.reference)
        else:
            checking, judge = Greedy, other
        before = counters_of(server)
        checked = checking(server, judge, prompts, options.in_flight)
        if drafts_of(before, counters_of(server)) < ENOUGH:
            checked = checking(server, judge, (*prompts, *DRAFTING), options.in_flight)
        drawn = checked.drawn(draws, options.repeats, options.seed)
        checked.rounds.repeat(options.in_flight, options.minutes)
        findings = [*checked.findings(), *drawn]
        findings.append(counters_finding(before, counters_of(server)))
    worth = limits(findings, itself=judge is None)
    sys.stdout.write(page(findings, worth))
    if options.json:
        text = json.dumps(_document(options, draws, servers, findings, worth), indent=2)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return STATUS.get(overall(findings), 1)


def read_prompts(path: Path) -> tuple[str, ...]:
    """Read one prompt per line. Raises ValueError."""
    prompts = tuple(line.removesuffix("\n") for line in read_lines(path) if line.strip())
    if not 1 <= len(prompts) <= MOST_PROMPTS:
        raise ValueError(
            f"--prompts has {len(prompts):,} lines with a prompt; it must have 1 to {MOST_PROMPTS}."
        )
    return prompts


def _client(environment: Mapping[str, str], url: str, model: str | None, role: str) -> Client:
    server = Server(url, model or "", role=role)
    return Client(with_model(with_key(environment, server)))


def header(
    servers: Sequence[Server], reference: str | None, prompts: Sequence[str], draws: int
) -> str:
    """Return what is going to be done, which is written before the first request."""
    roles = zip(("Server ", "Against"), servers, strict=False)
    lines = [f"{role}  {each.base}, model {each.model}" for role, each in roles]
    lines += [f"Against  {reference}, read by this program"] * bool(reference)
    lines.append(f"Prompts  {count(len(prompts))}, {count(draws)} answers to each at temperature 1")
    return displayable("\n".join(lines)) + "\n\n"


def page(findings: Sequence[Finding], worth: str) -> str:
    """``worth``: what ``limits`` says."""
    lines = [f"Verdict  {overall(findings)}", *wrap(worth, 100), ""]
    for finding in findings:
        text = f"{finding.reason} {finding.power}".strip()
        reason = wrap(text, 100, initial_indent="  ", subsequent_indent="  ")
        lines += [f"{finding.check}: {finding.verdict}", *reason]
    return displayable("\n".join(lines)) + "\n"


def _document(
    options: Namespace,
    draws: int,
    servers: Sequence[Server],
    findings: Sequence[Finding],
    worth: str,
) -> dict[str, Any]:
    named = [{"url": each.base, "model": each.model} for each in servers]
    settings = {
        "servers": named,
        "reference": options.reference,
        "draws": draws,
        "repeats": options.repeats,
        "seed": options.seed,
    }
    return settings | {
        "verdict": overall(findings),
        "limits": worth,
        "findings": [asdict(finding) for finding in findings],
    }


def drafts_of(before: Counters | None, after: Counters | None) -> float:
    """Return the drafts between two readings; nan where they are not counted."""
    return after.drafts - before.drafts if before and after else math.nan


def counters_finding(before: Counters | None, after: Counters | None) -> Finding:
    """Return what the requests of the check added to the counters; those of other clients in the
    meantime are in it."""
    if before is None or after is None or not after.drafts > 0:  # nan without counters
        return Finding(TITLE, LosslessVerdict.NOT_TESTED, "The server counts no drafts.")
    added = after.since(before)
    drafts, drafted, accepted = map(int, (added.drafts, added.drafted, added.accepted))
    by_position = list(map(int, added.accepted_at))
    doubts = list(_doubts(drafts, drafted, accepted, by_position))
    verdict = LosslessVerdict.NOT_KNOWN if doubts else LosslessVerdict.LOSSLESS
    counted = f"{plural(drafts, 'draft')}, {count(accepted)} of {plural(drafted, 'drafted token')} accepted."
    return Finding(TITLE, verdict, " ".join([counted, *doubts]))


def _doubts(drafts: int, drafted: int, accepted: int, by_position: list[int]) -> Iterator[str]:
    """Yield the doubts. ``by_position[i]``: drafts of which more than i tokens were accepted."""
    if drafts < ENOUGH:
        yield (
            f"Fewer than {ENOUGH}, also to prompts whose answers repeat themselves: speculative "
            "decoding was hardly tested; prompts with which the server drafts more (--prompts) help."
        )
    elif accepted == 0:
        yield "No drafted token was accepted: drafts are useless or not verified."
    elif accepted == drafted:
        yield "Every drafted token was accepted: they may not be verified."
    elif by_position:
        length = round(drafted / drafts)
        deepest = max(
            (position + 1 for position, number in enumerate(by_position) if number), default=0
        )
        if sum(by_position) != accepted:
            yield f"The accepted tokens by position add up to {count(sum(by_position))}: the histogram is incomplete."
        elif deepest < length and by_position[deepest - 1] >= ENOUGH:
            cut = f"{count(by_position[deepest - 1])} drafts have {deepest} accepted tokens of {length}, and none has more"
            yield f"{cut}: the histogram or the acceptance is cut there."
