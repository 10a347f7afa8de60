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


def again(plan: Plan) -> str | None:
    """One shell command; None where the lanes are not every rule with every drafter, which the command line cannot say."""
    lanes = [lane for lane in plan.lanes if lane.rule.name != PLAIN]
    drafters = list(dict.fromkeys(_shape(lane.drafter) for lane in lanes))
    values = _values(lanes)
    if {(_shape(lane.drafter), repr(lane.rule)) for lane in lanes} != {
        (drafter, repr(rule)) for drafter, rule in product(drafters, _rules(lanes))
    } or not _complete(lanes, values):
        return None
    drawn = _drafting(drafters)
    if drawn is None:
        return None
    names = [PLAIN] * (plan.none is not None) + list(dict.fromkeys(lane.rule.name for lane in lanes))
    words = ["python", "-m", "evaluation", "run", *_models(plan)]
    for suite in plan.suites:
        words += ["--suite", suite.source or suite.name]
    words += ["--rules", ",".join(names)]
    for (rule, parameter), each in values.items():
        words += ["--set", f"{rule}.{parameter}={','.join(f'{value:g}' for value in each)}"]
    return shlex.join([*words, *drawn, *_settings(plan)])


Shape = tuple[str, int, str, str]  # kind, K, tree, mode


def _shape(drafter: DrafterConfig) -> Shape:
    tree = drafter.tree
    return drafter.kind, drafter.k, f"{tree.tokens}/{tree.depth}/{tree.top_k}" if tree else "", drafter.mode.value


def _rules(lanes: Sequence[Lane]) -> list[object]:
    return list({repr(lane.rule): lane.rule for lane in lanes}.values())


def _values(lanes: Sequence[Lane]) -> dict[tuple[str, str], list[float]]:
    """(rule, parameter) → its values in the order of the plan."""
    found: dict[tuple[str, str], list[float]] = {}
    for lane in lanes:
        for name, value in lane.rule.parameters.items():
            values = found.setdefault((lane.rule.name, name), [])
            if value not in values:
                values.append(value)
    return found


def _complete(lanes: Sequence[Lane], values: dict[tuple[str, str], list[float]]) -> bool:
    """Whether every rule has every combination of its parameters' values."""
    rules = {repr(lane.rule): lane.rule for lane in lanes}.values()
    for name in {rule.name for rule in rules}:
        combinations = 1
        for (rule, _), each in values.items():
            combinations *= len(each) if rule == name else 1
        if combinations != sum(rule.name == name for rule in rules):
            return False
    return BASELINE in {rule.name for rule in rules}


def _drafting(drafters: Sequence[Shape]) -> list[str] | None:
    """The options of the drafters; None where one K, one tree and one mode cannot say them all."""
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
    words = ["--target", _ref(models.target)]
    for option, ref in (("--draft", models.draft), ("--head", models.head)):
        words += [option, _ref(ref)] if ref else []
    return words


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
