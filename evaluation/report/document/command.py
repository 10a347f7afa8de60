"""The command that plans and runs a study again, from its plan. Runs nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import product

from evaluation.study.plan import BASELINE, Lane, Plan
from mars_core.models import CATALOG
from mars_core.models.source import is_local
from mars_core.rules import PLAIN
from mars_core.types import DrafterConfig, DraftMode, ModelRef

Shape = tuple[str, int, str, str]  # kind, K, tree, mode
Values = dict[str, dict[str, list[float]]]  # rule → parameter → its values in the order of the plan


def again(plan: Plan) -> str | None:
    """One shell command; None where the lanes are not every rule with every drafter, which the command line cannot express."""
    lanes = [lane for lane in plan.lanes if lane.rule.name != PLAIN]
    drafters, values = list(dict.fromkeys(_shape(lane.drafter) for lane in lanes)), _values(lanes)
    planned = {(_shape(lane.drafter), lane.rule.name, tuple(lane.rule.parameters.values())) for lane in lanes}
    expressible = {
        (drafter, rule, chosen)
        for drafter, (rule, parameters) in product(drafters, values.items())
        for chosen in product(*parameters.values())
    }
    drafting = _drafting(drafters)
    if planned != expressible or BASELINE not in values or drafting is None:
        return None
    words = ["python", "-m", "evaluation", "run", *_models(plan)]
    words += [word for suite in plan.suites for word in ("--suite", suite.source or suite.name)]
    words += ["--rules", ",".join([PLAIN] * (plan.none is not None) + list(values))]
    for rule, parameters in values.items():
        for name, each in parameters.items():
            words += ["--set", f"{rule}.{name}={','.join(f'{value:g}' for value in each)}"]
    return shlex.join([*words, *drafting, *_settings(plan)])


def _shape(drafter: DrafterConfig) -> Shape:
    tree = drafter.tree
    return drafter.kind, drafter.k, f"{tree.tokens}/{tree.depth}/{tree.top_k}" if tree else "", drafter.mode.value


def _values(lanes: Sequence[Lane]) -> Values:
    found: Values = {}
    for lane in lanes:
        parameters = found.setdefault(lane.rule.name, {})
        for name, value in lane.rule.parameters.items():
            values = parameters.setdefault(name, [])
            values += [] if value in values else [value]
    return found


def _drafting(drafters: Sequence[Shape]) -> list[str] | None:
    """The options of the drafters; None where one K, one tree and one mode cannot express them all."""
    kinds = [kind for kind, *_ in drafters]
    lengths = {k for _, k, tree, _ in drafters if not tree}
    trees = {tree for kind, _, tree, _ in drafters if kind == "eagle3"}
    modes = {mode for kind, _, _, mode in drafters if kind == "model"}
    if len(set(kinds)) < len(kinds) or max(len(lengths), len(trees), len(modes)) > 1:
        return None
    words = ["--drafter", ",".join(kinds)]
    words += ["--k", str(*lengths)] if lengths else []
    words += ["--tree", *trees] if trees - {""} else []
    return [*words, *(["--draft-mode", *modes] if modes - {DraftMode.GREEDY.value} else [])]


def _models(plan: Plan) -> list[str]:
    models = plan.models
    if models.key in {spec.key for spec in CATALOG}:
        return ["--pair", models.key]
    named = (("--target", models.target), ("--draft", models.draft), ("--head", models.head))
    return [word for option, ref in named if ref for word in (option, _ref(ref))]


def _ref(ref: ModelRef) -> str:
    """The revision of a folder is a hash of its content, which no option takes."""
    return f"{ref.name}@{ref.revision}" if ref.revision and not is_local(ref) else ref.name


def _settings(plan: Plan) -> list[str]:
    words = ["--temperature", ",".join(f"{each:g}" for each in plan.temperatures), "--seeds", str(plan.repeats)]
    words += ["--seed", str(plan.seed), "--max-new-tokens", str(plan.max_new_tokens), "--margin", f"{plan.margin:g}"]
    words += ["--top-k", str(plan.top_k)] if plan.top_k else []
    words += ["--top-p", f"{plan.top_p:g}"] if plan.top_p < 1 else []
    words += ["--system", plan.system] if plan.system else []
    words += [] if plan.chat else ["--no-chat"]
    words += [] if plan.thinking is None else ["--thinking", "on" if plan.thinking else "off"]
    words += [word for stop in plan.stop for word in ("--stop", stop)]
    words += ["--limit", str(plan.limit)] if plan.limit else []
    words += ["--skip-long"] if plan.skip_long else []
    words += ["--execute-code"] if plan.execute_code else []
    return [*words, "--name", plan.name]
