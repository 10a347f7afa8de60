"""The fields of a settings panel as plain values: what each reads, what stands in it, whether it
is displayed. Those of a setting follow from the table of settings. A field shows what it can of the
values that a browser holds. No gradio."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from markupsafe import Markup

from display.names import parameter_title, rule_title
from mars_core.drafting import described, offered
from mars_core.models import CUSTOM, PairSpec
from mars_core.numbers import number_of
from mars_core.rules import RULES, WHERE, Parameter, Rule, Siblings
from mars_core.rules.expression import VARIABLES
from mars_core.settings import CHAIN, KINDS, Settings
from mars_core.settings.drafts import SERVED
from mars_core.settings.setting import Flag, Number, SettingKind, Text, Words
from mars_core.types import SERVER, DraftMode, number_text
from ui.kit.labels import LANE_NAMES, drafter_title
from ui.kit.panel import render
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.settings.own import named_models
from ui.settings.parameters import EXAMPLES, default_theta, expression_error
from ui.settings.values import (
    DRAFTS,
    MODELS,
    SHARED,
    EnteredValues,
    as_text,
    taken,
    tree_text,
)

Choices = Sequence[tuple[str, str]]  # title and value
DEFAULT_RULES = ("strict", "mars", "lenience", "typical")  # of the lanes
USUAL = Settings()
WIDTHS = {"number": 96, "choice": 150}  # of a kind, at least, in pixels; else WIDE
WIDE = 200
SECTIONS = {  # settings by section, in the order of the table, the pair first
    section: sorted((name for name in KINDS if KINDS[name].section == section), key="pair".__ne__)
    for section in dict.fromkeys(kind.section for kind in KINDS.values())
}
CONTROLS: Mapping[str, dict[str, Any]] = {  # of settings, where their kind is not enough
    "pair": {"kind": "choice", "width": WIDE},
    "drafter": {"kind": "choice"},
    "repeats": {
        "kind": "choice",
        "choices": [("Auto", "0"), ("1", "1"), ("3", "3"), ("5", "5")],
        "default": "0",
    },
    "system": {"kind": "lines", "width": 300, "placeholder": ""},
    "logit_bias": {"width": 300},
    "draft_mode": {
        "help": "Coupled drafts are drawn with the target's own noise: strict accepts most of them and writes the target's text. "
        "Greedy is the paper's setting. With sampled drafts MARS may lose."
    },
}


@dataclass(frozen=True, slots=True)
class FormField:
    """``kind``: number, text, lines, choice, radio, check or many. A change has the panel drawn
    again, of a ``live`` one also while it is typed. ``width``: at least, in pixels. ``wrong``:
    ``help`` is an error."""

    id: str
    name: str
    kind: str
    label: str
    value: Any
    width: int
    section: str = ""
    choices: Choices = ()
    step: float = 1
    most: float | None = None
    help: str = ""
    placeholder: str = ""
    also: str = ""  # what errors call it, beside its name and the beginning of its label
    visible: bool = True
    live: bool = False
    wrong: bool = False


class LaneFields(NamedTuple):
    """A rule with its parameters, and the drafter of a lane. ``note``: HTML on the rule."""

    fields: dict[str, FormField]
    parameters: tuple[FormField, ...]
    note: Markup

    @property
    def values(self) -> dict[str, Any]:
        return {field.name: field.value for field in (*self.fields.values(), *self.parameters)}


def _control(name: str, kind: SettingKind) -> dict[str, Any]:
    """Return the field of a setting as its kind describes it."""
    label, usual = kind.heading(name), getattr(USUAL, name)
    words = "" if kind.help in label.lower() else kind.help.removeprefix(label.lower())
    control: dict[str, Any] = {"label": label, "section": kind.section, "help": words.strip()}
    match kind:
        case Number():
            off = f" ({usual:g}: off)" if "is off" in words else ""
            words = "" if kind.section == "run" else words.partition("; ")[0]
            width = 160 if words else WIDTHS["number"]
            control |= {"kind": "number", "label": label + off, "step": kind.step, "width": width}
            return control | {"help": words}
        case Flag(default=None):
            offered = [("Model’s default", ""), ("On", "on"), ("Off", "off")]
            return control | {"kind": "radio", "choices": offered}
        case Flag():
            return control | {"kind": "check"}
        case Words():
            one = kind.metavar if "=" in (kind.metavar or "") else "one"
            return control | {"kind": "lines", "label": f"{label}, {one} a line"}
        case Text() if kind.choices:
            titles = [(each.capitalize(), str(each)) for each in kind.choices]
            return control | {"kind": "radio", "choices": titles}
    return control | {"kind": "text", "help": "", "placeholder": kind.help}


class Fields:
    """Fields by name, each with the value that was given for it or its default. ``scope`` begins
    their ids; ``spec``: the chosen pair (None: a custom one) of ``pairs``."""

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
        self.drafters = offered(spec or named_models(values))
        self._scope = f"{scope}-" if scope else ""

    def add(self, name: str, kind: str, label: str, default: Any = "", **more: Any) -> Any:
        """Add a field and return what stands in it. ``most``: the largest number that may be
        requested; what is beyond it is refused by the reader, which names the field."""
        known = [value for _, value in more.get("choices", ())]
        if more.get("most") is not None:
            default = min(default, more["most"])
        value = self.values.get(name, default)
        match kind:
            case "number":
                value = number_of(value)
            case "check":
                value = bool(value)
            case "many":
                value = [each for each in known if isinstance(value, Sequence) and each in value]
            case "choice" | "radio":  # what is not offered becomes the default, else the first
                value = next((each for each in (str(value), default, *known) if each in known), "")
            case "text" | "lines":
                value = as_text(value)
        id_ = f"{self._scope}{'stop-strings' if name == 'stop' else name.replace('_', '-')}"
        width = more.pop("width", WIDTHS.get(kind, WIDE))
        self.by_name[name] = FormField(id_, name, kind, label, value, width, **more)
        return value

    def setting(self, name: str, **more: Any) -> Any:
        """Add the field of a setting and return what stands in it."""
        kind = KINDS[name]
        field = _control(name, kind) | CONTROLS.get(name, {}) | more
        usual = field.pop("default", getattr(USUAL, name))
        if isinstance(kind, Words) or usual is None:
            usual = "" if usual is None else kind.text(usual)
        return self.add(name, default=usual, **field)

    def run(self, longest: int, *left_out: str, **more: Mapping[str, Any]) -> None:
        """Add all settings of a run but those that are ``left_out``. ``longest``: new tokens to
        begin with; ``more``: what a tab has otherwise, by setting."""
        custom = self.values.get("pair") == CUSTOM and CUSTOM in dict(self._pairs).values()
        own: dict[str, Any] = {
            **{name: {"visible": custom} for name in MODELS},
            "pair": {"choices": self._pairs},
            "drafter": {"choices": [(drafter_title(kind), kind) for kind in self.drafters]},
            "temperature": {"default": self.spec.temperature if self.spec else 1.0},
            "max_new_tokens": {"default": longest, "most": self._limits.new_tokens},
        }
        # as drawn, so that a drafter that was chosen is known from one that nobody changed
        usual = FormField("", "usual_drafter", "hidden", "", self.drafters[0], 0, visible=False)
        self.by_name[usual.name] = usual
        for section, names in SECTIONS.items():
            for name in names if section else ():
                if name in DRAFTS:
                    self.draft(name, **more.get(name, {}))
                elif name not in left_out:
                    self.setting(name, **own.get(name, {}) | more.get(name, {}))

    def draft(self, name: str, **more: Any) -> None:
        """Add one of ``DRAFTS``, visible where the chosen drafter takes it."""
        drafter = self.by_name["drafter"].value
        modes = [(mode.value.capitalize(), mode.value) for mode in described(drafter).modes]
        trees = dict.fromkeys((tree_text(self.spec), tree_text(None), CHAIN))
        own: dict[str, Any] = {
            "k": {"default": self.spec.k if self.spec else 5, "most": self._limits.k},
            "tree": {"default": tree_text(self.spec), "choices": [(each, each) for each in trees]},
            "draft_mode": {"choices": modes},
        }
        self.setting(name, **own[name] | more)
        tree = as_text(self.values.get("tree", tree_text(self.spec)))
        visible = name in taken(drafter, tree)
        self.by_name[name] = replace(self.by_name[name], visible=visible)

    def parameter(self, rule: Rule, parameter: Parameter) -> None:
        """Add the text of a number or, where that may be, an expression, checked as it is typed."""
        name, words = parameter.name, parameter.help
        usual = default_theta(self.spec).value if name == "theta" else parameter.default
        given = self.values.get(name, "" if parameter is WHERE else usual)
        number = number_of(given)
        text = given if isinstance(given, str) else "" if number is None else number_text(number)
        expression = bool(text.strip()) and number is None
        if expression:
            words += (
                f". An expression of {', '.join(VARIABLES)}; values are moved into "
                f"{parameter.low:g} to {parameter.high:g}."
            )
        elif not (parameter.is_integer or parameter is WHERE):
            words += "; or an expression"
        error = expression_error(rule, name, text)
        more = {"help": error or words, "wrong": bool(error), "live": True}
        more |= {"width": 240 if expression else 120}
        more["placeholder"] = "" if parameter.is_integer else EXAMPLES[parameter is WHERE]
        self.values = {**self.values, name: text}
        self.add(name, "text", parameter_title(name), **more)


def lane(
    index: int, form: Fields, values: EnteredValues, rules: Collection[str], *, votes: bool
) -> LaneFields:
    """Describe a rule with its parameters, and in a lane of Compare what its drafts come from: the
    drafter of ``form`` or one of its own; a server has neither. ``rules``: that are offered."""
    served = values.get("rule") == SERVER
    own = {"rule", "answer", *SERVED} if served else values.keys()
    values = {name: value for name, value in values.items() if name in own}
    id_ = f"{'votes-' if votes else ''}rule-{index}"
    fields = Fields(values, f"lane-{index}", form.spec)
    titles = [(rule_title(name), name) for name in rules]
    label = ("First rule", "Second rule")[index] if votes else f"{LANE_NAMES[index]} rule"
    rule = fields.add("rule", "choice", label, DEFAULT_RULES[index], choices=titles)
    # hidden: the browser's name of a saved answer, and a server while another rule is looked at
    for name in ("answer", *(SERVED if rule != SERVER else ())):
        fields.add(name, "text", "")
    if not votes:
        # the rule "Target alone" drafts nothing
        kinds = [(drafter_title(each), each) for each in form.drafters[:-1]]
        more = {"choices": [("As above", SHARED), *kinds], "width": 120, "visible": not served}
        fields.add("drafter", "choice", "Drafts", SHARED, **more)
        fields.draft("k", label="K, this lane")
        fields.draft("tree")
        fields.draft("draft_mode")
    by_name = fields.by_name | {"rule": replace(fields.by_name["rule"], id=id_)}
    numbers = Fields(values, f"{id_}-parameter", form.spec)
    for parameter in RULES[rule].settable if rule in RULES else ():
        numbers.parameter(RULES[rule], parameter)
    for name in SERVED if rule == SERVER else ():
        numbers.add(name, "text", KINDS[name].heading(name), placeholder=KINDS[name].help)
    return LaneFields(by_name, tuple(numbers.by_name.values()), Markup(rule_html(rule)))


def rule_html(name: str) -> str:
    """Return what the page says under the chooser: summary, formula, source and limits of a rule."""
    if name == SERVER:
        return "<p>A server writes this lane; asked at the address above.</p>"
    rule = RULES[name]
    limits = ["chains only, no tree"] if rule.siblings is Siblings.REFUSED else []
    if len(rule.modes) < len(DraftMode):
        limits.append(f"{' and '.join(rule.modes)} drafts only")
    if rule.needs_distribution:
        limits.append("needs the drafter’s probabilities")
    source = " · ".join([rule.source, *limits])
    return render("settings/templates/rule.html.jinja", rule=rule, source=source)
