"""The fields of a settings panel as plain values: what each reads, what stands in it, whether it
is displayed. No gradio. A field shows what it can of the values that a browser holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from markupsafe import Markup

from mars_core.drafting import described, offered
from mars_core.models import CUSTOM, PairSpec
from mars_core.numbers import number_of
from mars_core.rules import RULES, WHERE, Parameter, Rule, Siblings
from mars_core.rules.expression import VARIABLES
from mars_core.settings import CHAIN, KINDS, PROCESSORS, Settings
from mars_core.settings.setting import Number
from mars_core.types import DraftMode
from ui.kit.labels import LANE_NAMES, parameter_title, rule_title
from ui.kit.panel import render
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.settings.drafters import FIELDS, TREE, choices, taken, tree_shape
from ui.settings.parameters import EXAMPLES, default_theta, expression_error, step_of
from ui.settings.values import SHARED, EnteredValues, as_text

Choices = Sequence[tuple[str, str]]  # title and value
DEFAULT_RULES = ("strict", "mars", "lenience", "typical")  # of the lanes
CUSTOM_MODELS = {
    "target": ("Target", "owner/name, owner/name@revision, a folder or a .gguf file"),
    "draft": ("Draft model (may be empty)", "shares the target's vocabulary"),
    "head": ("EAGLE-3 head (may be empty)", "trained for the target: Hub id or folder"),
}
USUAL = Settings()
IDS = {
    "max_new_tokens": "max",
    "stop": "stop-strings",
    "draft_mode": "mode",
    **{name: f"own-{name}" for name in CUSTOM_MODELS},
}  # where it is not the name


@dataclass(frozen=True, slots=True)
class FormField:
    """``kind``: number, text, lines, choice, radio, check, many, or none for a mere switch.
    ``redraws``: a change has the panel drawn again, because other fields follow; a ``live`` one
    also while it is typed. ``width``: of the field, at least, in pixels. ``switches``: it has a
    button that makes it a number or an expression. ``wrong``: ``help`` is an error."""

    id: str
    name: str
    kind: str
    label: str
    value: Any
    choices: Choices = ()
    step: float = 1
    most: float | None = None
    help: str = ""
    placeholder: str = ""
    list: str = ""  # id of the list of what may be typed
    also: str = ""  # what errors call it, beside its name and the beginning of its label
    width: int = 96
    visible: bool = True
    redraws: bool = False
    live: bool = False
    switches: bool = False
    wrong: bool = False


class LaneFields(NamedTuple):
    """A rule with its parameters, and the drafter of a lane. ``note``: HTML on the rule."""

    fields: dict[str, FormField]
    parameters: tuple[FormField, ...]
    note: Markup

    @property
    def values(self) -> dict[str, Any]:
        return {field.name: field.value for field in (*self.fields.values(), *self.parameters)}


class Fields:
    """Fields by name, each with the value that was given for it or its default. ``scope``: what
    their ids begin with; ``spec``: the chosen pair (None: a custom one) of ``pairs``."""

    def __init__(
        self,
        values: EnteredValues,
        scope: str = "",
        spec: PairSpec | None = None,
        pairs: Choices = (),
        limits: Limits = PRIVATE_LIMITS,
    ) -> None:
        self.values, self.by_name = values, dict[str, FormField]()
        self.spec, self._pairs, self._limits = spec, pairs, limits
        self._scope = f"{scope}-" if scope else ""
        self._models = f"{scope or 'compare'}-settings-models"

    def _add(self, name: str, kind: str, label: str, value: Any, **more: Any) -> None:
        id_ = more.pop("id", IDS.get(name, name).replace("_", "-"))
        self.by_name[name] = FormField(f"{self._scope}{id_}", name, kind, label, value, **more)

    def number(self, name: str, label: str, default: float, **more: Any) -> None:
        """``most``: the largest that may be requested. What is beyond it is refused by the reader,
        which names the field."""
        most = more.get("most")
        value = self.values.get(name, default if most is None else min(default, most))
        self._add(name, "number", label, number_of(value), **more)

    def text(self, name: str, label: str, default: str = "", **more: Any) -> None:
        self._add(
            name, more.pop("kind", "text"), label, as_text(self.values.get(name, default)), **more
        )

    def choice(
        self, name: str, label: str, choices: Choices, default: str = "", **more: Any
    ) -> None:
        """Add a choice: what is not among the choices becomes the default, else the first."""
        known = [value for _, value in choices]
        value = str(self.values.get(name, default))
        chosen = (
            value if value in known else default if default in known else known[0] if known else ""
        )
        self._add(name, more.pop("kind", "choice"), label, chosen, choices=tuple(choices), **more)

    def check(self, name: str, label: str, default: bool, **more: Any) -> None:
        self._add(name, "check", label, bool(self.values.get(name, default)), **more)

    def many(
        self, name: str, label: str, choices: Choices, default: Sequence[str], **more: Any
    ) -> None:
        values = self.values.get(name, default)
        chosen = [value for _, value in choices if isinstance(values, Sequence) and value in values]
        self._add(name, "many", label, chosen, choices=tuple(choices), **more)

    def parameter(self, rule: Rule, parameter: Parameter) -> None:
        """Add a number, or the text of an expression, which is checked as it is typed; of WHERE
        only this."""
        name, title = parameter.name, parameter_title(parameter.name)
        value, switches = self.values.get(name), not parameter.is_integer
        if switches and isinstance(value, str):
            error = expression_error(rule, name, value)
            example = EXAMPLES[parameter is WHERE]
            self.text(
                name,
                title,
                placeholder=example,
                help=error
                or f"{parameter.help}. An expression of {', '.join(VARIABLES)}, such as {example}; "
                f"values are moved into {parameter.low:g} to {parameter.high:g}.",
                width=240,
                live=True,
                switches=True,
                wrong=bool(error),
            )
        elif parameter is WHERE:
            self._add(name, "none", title, None, help=parameter.help, width=0, switches=True)
        else:
            self.number(
                name,
                title,
                default_theta(self.spec).value if name == "theta" else parameter.default,
                step=step_of(parameter),
                help=parameter.help,
                width=90,
                live=rule.margin_threshold is not None,
                switches=switches,
            )

    # of several tabs

    def bar(self, longest: int, *, lists: bool = False) -> None:
        """Pair, drafter and numbers; ``lists``: K and temperature are lists as text, and a drafter
        is needed."""
        self.choice("pair", "Model pair", self._pairs, width=200, redraws=True)
        kinds, temperature = offered(self.spec), self.spec.temperature if self.spec else 1.0
        known = choices(kinds[:-1] if lists else kinds)
        self.choice("drafter", "Drafts from", known, width=150, redraws=True)
        if lists:
            self.text("ks", "K, drafted tokens", f"{self.k}", placeholder="3, 5, 7")
            self.text("temperatures", "Temperatures", f"{temperature:g}", placeholder="0, 1")
        else:
            self.number("k", "K, drafted tokens", self.k, most=self._limits.k)
            self.number("temperature", "Temperature", temperature, step=0.1, redraws=True)
        self.setting(
            "max_new_tokens",
            "Max new tokens",
            default=longest,
            help="",
            most=self._limits.new_tokens,
        )
        self.number("seed", "First seed" if lists else "Seed", 0)
        self.tree()
        custom = self.values.get("pair") == CUSTOM and CUSTOM in [value for _, value in self._pairs]
        for name, (label, placeholder) in CUSTOM_MODELS.items():
            more: dict[str, Any] = {"placeholder": placeholder, "list": self._models, "width": 200}
            self.text(name, label, visible=custom, redraws=True, **more)

    @property
    def k(self) -> int:
        """The pair's, to begin with."""
        return self.spec.k if self.spec else 5

    def tree(self) -> None:
        """Add the fields of an EAGLE-3 draft, and the draft mode; of ``FIELDS`` those are visible
        that the chosen drafter takes."""
        default = tree_shape(self.spec)
        self.choice(
            "shape",
            "Shape of the draft",
            [("Tree", TREE), ("Chain of K", CHAIN)],
            CHAIN if self.spec and not self.spec.tree else TREE,
            kind="radio",
            redraws=True,
        )
        most = self._limits.tree_tokens, self._limits.tree_depth, None
        titles = zip(("Drafted tokens", "Depth", "Tree top-k"), most, strict=True)
        for (title, limit), (name, size) in zip(titles, asdict(default).items(), strict=True):
            self.number(f"tree_{name}", title, size, most=limit, also=f"{name} of tree")
        drafter, shape = self.by_name["drafter"].value, self.by_name["shape"].value
        modes = described(drafter).modes
        self.choice(
            "draft_mode",
            "Draft mode",
            [(mode.value.capitalize(), mode.value) for mode in modes],
            kind="radio",
            help="Coupled drafts are drawn with the target's own noise: strict accepts most of them and writes the target's text. "
            "Greedy is the paper's setting. With sampled drafts MARS may lose.",
        )
        for name in FIELDS:
            field = "ks" if "ks" in self.by_name and name == "k" else name
            self.by_name[field] = replace(
                self.by_name[field], visible=name in taken(drafter, shape)
            )

    def setting(self, name: str, label: str = "", **more: Any) -> None:
        """Add a field as the table of settings describes it: a number, or texts, one a line."""
        kind, default = KINDS[name], more.pop("default", getattr(USUAL, name))
        title = (
            label or f"{parameter_title(name).replace('_', ' ').capitalize()} ({default:g}: off)"
        )
        if isinstance(kind, Number):
            more = {"help": kind.help.partition("; ")[0]} | more
            self.number(name, title, default, step=kind.step, **more)
        else:
            self.text(
                name, title, kind.text(default), **{"kind": "lines", "help": kind.help} | more
            )

    def sampling(self) -> None:
        """Everything but the temperature."""
        self.setting("top_k", "Top-k (0: off)", help="")
        self.setting("top_p", "Top-p (1: off)", help="")
        for name in PROCESSORS[:-2]:
            self.setting(name, width=160)
        self.setting("logit_bias", "Logit biases, WORD=VALUE a line", width=300)
        self.setting("protect", "Protected tokens, one a line", width=200)

    def advanced(self) -> None:
        self.sampling()
        self.setting("stop", "Stop strings, one a line", width=200, help="")
        self.setting("system", "System prompt", width=300, redraws=True, help="")
        self.check(
            "chat", "Use the chat template", True, help="Where the tokenizer has one.", redraws=True
        )
        choices = [("Model’s default", "default"), ("On", "on"), ("Off", "off")]
        self.choice(
            "thinking",
            "Thinking",
            choices,
            kind="radio",
            help="Of models that have the switch.",
            redraws=True,
        )


def lane(
    index: int, spec: PairSpec | None, values: EnteredValues, *, votes: bool = False
) -> LaneFields:
    """Describe a rule with its parameters, and in a lane of Compare what its drafts come from: the
    form's drafter or one of its own."""
    fields, id_ = Fields(values, f"lane-{index}", spec), f"{'votes-' if votes else ''}rule-{index}"
    titles = [(rule_title(name), name) for name in RULES]
    label = ("First rule", "Second rule")[index] if votes else f"{LANE_NAMES[index]} rule"
    fields.choice("rule", label, titles, DEFAULT_RULES[index], width=160, redraws=True)
    rule = fields.by_name["rule"].value
    if not votes:
        kinds = choices(offered(spec)[:-1])  # the rule "Target alone" drafts nothing
        fields.choice(
            "drafter", "Drafts", [("As above", SHARED), *kinds], SHARED, width=120, redraws=True
        )
        fields.number("k", "K, this lane", fields.k)
        fields.tree()
    by_name = fields.by_name | {"rule": replace(fields.by_name["rule"], id=id_)}
    numbers = Fields(values, f"{id_}-parameter", spec)
    for parameter in RULES[rule].settable:
        numbers.parameter(RULES[rule], parameter)
    return LaneFields(by_name, tuple(numbers.by_name.values()), Markup(rule_html(rule)))


def rule_html(name: str) -> str:
    """Return what the page says under the chooser: summary, formula, source and limits of a rule."""
    rule = RULES[name]
    return render(
        "settings/templates/rule.html.jinja",
        rule=rule,
        source=" · ".join([rule.source, *_limits(rule)]),
    )


def _limits(rule: Rule) -> list[str]:
    """Return for which drafts the rule is not defined, in words."""
    chains = ["chains only, no tree"] if rule.siblings is Siblings.REFUSED else []
    modes = [f"{' and '.join(rule.modes)} drafts only"] if len(rule.modes) < len(DraftMode) else []
    distribution = ["needs the drafter’s probabilities"] if rule.needs_distribution else []
    return [*chains, *modes, *distribution]
