"""``mars models | rules``: lists, for which nothing is decoded and no library of models imported."""

from __future__ import annotations

from argparse import Namespace

from mars_core.models import CATALOG, ModelPool
from mars_core.rules import RULES, Siblings
from mars_core.settings.command_line import machine
from mars_playground.output import report_bad_input, show


def main(options: Namespace) -> int:
    if options.command == "rules":
        show(_rules_table())
        return 0
    try:
        show(_models_table(ModelPool(**machine(options))))
    except ValueError as error:
        return report_bad_input(error)
    return 0


def _models_table(pool: ModelPool) -> str:
    rows = []
    for spec in CATALOG:
        fit = pool.fits(spec)
        size = f"{spec.target_parameters / 1e6:,.0f} M + {spec.draft_parameters / 1e6:,.0f} M parameters"
        memory = f"{fit.needed_bytes / 1e9:.1f} GB of {fit.available_bytes / 1e9:.1f} GB free on {fit.device}"
        refs = [ref for ref in (spec.target, spec.draft, spec.head, spec.classifier) if ref]
        names = " ← ".join(
            f"{ref.name}@{ref.revision}" if ref.revision else ref.name for ref in refs
        )
        need = f"{size}; {'fits' if fit.fits else 'too large'}: {memory}"
        rows.append(f"\n{'':20}".join([f"{spec.key:20}{spec.title}", names, need, spec.note]))
    return "\n".join(rows)


def _rules_table() -> str:
    """List every rule: summary, formula, supported drafts, parameters and source."""
    blocks = []
    for rule in RULES.values():
        shapes = "chains only" if rule.siblings is Siblings.REFUSED else "chains and trees"
        where = f"{' and '.join(rule.modes)} drafts; {shapes}" if rule.modes else "no drafts"
        lines = [f"{rule.name:18}{rule.summary}", rule.formula, where]
        lines += [
            f"{p.name} = {p.default:g} ({p.low:g} to {p.high:g}): {p.help}" for p in rule.parameters
        ]
        blocks.append(f"\n{'':18}".join([*lines, f"source: {rule.source}"]))
    return "\n\n".join(blocks)
