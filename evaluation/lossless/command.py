"""``mars check``: asks one or two servers and writes one page of verdicts."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import Any

from evaluation.format import displayable
from evaluation.lossless.counters import counters_finding, counters_of
from evaluation.lossless.greedy import greedy_findings
from evaluation.lossless.sampled import sampled_findings
from evaluation.lossless.values import Finding, Verdict, overall
from evaluation.served.client import Client, Server, with_model
from mars_core.models.catalog import BUNDLED_PROMPTS, GENERAL_PROMPTS

DRAWS, MOST_PROMPTS = (20, 10_000), 100
STATUS = {Verdict.LOSSLESS: 0, Verdict.NOT_LOSSLESS: 1, Verdict.NOT_KNOWN: 2}


def check(options: Namespace, key: str) -> int:
    """Write the page and return the exit status. Raises ValueError for bad options, ServerError for a server that does not answer."""
    if not DRAWS[0] <= options.draws <= DRAWS[1]:
        raise ValueError(f"--draws is {options.draws}; it must be {DRAWS[0]} to {DRAWS[1]:,}.")
    if not 0 <= options.seed < 2**31:
        raise ValueError(f"--seed is {options.seed}; it must be 0 to {2**31 - 1:,}.")
    prompts = read_prompts(Path(options.prompts)) if options.prompts else (*BUNDLED_PROMPTS, *GENERAL_PROMPTS)
    with ExitStack() as stack:
        server = stack.enter_context(_client(options.server, options.server_model, key, "server"))
        against = [options.against, options.against_model, key, "second server"]
        reference = stack.enter_context(_client(*against)) if options.against else None
        before = counters_of(server)
        findings = greedy_findings(server, reference, prompts)
        findings += sampled_findings(server, reference, prompts, options.draws, options.seed)
        findings.append(counters_finding(before, counters_of(server)))
    servers = [client.server for client in (server, reference) if client]
    sys.stdout.write(page(servers, findings))
    if options.json:
        Path(options.json).write_text(
            json.dumps(_document(options, servers, findings), indent=2) + "\n", encoding="utf-8"
        )
    return STATUS[overall(findings)]


def read_prompts(path: Path) -> tuple[str, ...]:
    """One prompt per line. Raises ValueError."""
    try:
        prompts = tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, ValueError) as error:
        raise ValueError(f"--prompts is {str(path)!r}, which cannot be read: {error}.") from None
    if not 1 <= len(prompts) <= MOST_PROMPTS:
        raise ValueError(f"--prompts has {len(prompts):,} lines with a prompt; it must have 1 to {MOST_PROMPTS}.")
    return prompts


def _client(url: str, model: str | None, key: str, role: str) -> Client:
    return Client(with_model(Server(url, model or "", key, role=role)))


def page(servers: Sequence[Server], findings: Sequence[Finding]) -> str:
    lines = [
        f"{role}  {each.base}, model {each.model}" for role, each in zip(("Server ", "Against"), servers, strict=False)
    ]
    lines += ["", f"Verdict  {overall(findings)}", ""]
    for finding in findings:
        lines += [
            f"{finding.check}: {finding.verdict}",
            *wrap(finding.reason, 100, initial_indent="  ", subsequent_indent="  "),
        ]
    return displayable("\n".join(lines)) + "\n"


def _document(options: Namespace, servers: Sequence[Server], findings: Sequence[Finding]) -> dict[str, Any]:
    named = [{"url": each.base, "model": each.model} for each in servers]
    settings = {"servers": named, "draws": options.draws, "seed": options.seed}
    return settings | {"verdict": overall(findings), "findings": [asdict(finding) for finding in findings]}
