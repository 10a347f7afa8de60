"""The fields of a settings panel as plain values: what each reads, what stands in it, whether it
is displayed. Those of a setting follow from the table of settings. A field shows what it can of the
values that a browser holds. No gradio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from display.names import parameter_title
from mars_core.drafting import described, offered
from mars_core.models import CUSTOM, PairSpec
from mars_core.numbers import number_of
from mars_core.rules import WHERE, Parameter, Rule
from mars_core.rules.expression import VARIABLES
from mars_core.settings import CHAIN, KINDS
from mars_core.settings.kind import (
    Flag,
    Number,
    Numbers,
    SettingKind,
    Text,
    Words,
)
from mars_core.types import number_text
from ui.kit.labels import drafter_title
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.settings.own import named_models
from ui.settings.parameters import EXAMPLES, default_theta, expression_error
from ui.settings.values import (
    EnteredValues,
    as_text,
    taken,
    tree_text,
)

Choices = Sequence[tuple[str, str]]  # title and value
WIDTHS = {"number": 96, "choice": 150}  # of a kind, at least, in pixels; else WIDE
WIDE = 200
CONTROLS: Mapping[str, dict[str, Any]] = {  # of settings, where their kind is not enough
    "pair": {"kind": "choice", "width": WIDE},
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


def _control(name: str, kind: SettingKind) -> dict[str, Any]:
    """Return the field of a setting as its kind describes it."""
    label = kind.heading(name)
    words = "" if kind.help in label.lower() else kind.help.removeprefix(label.lower())
    control: dict[str, Any] = {"label": label, "section": kind.section, "help": words.strip()}
    match kind:
        case Number():
            off = f" ({kind.default:g}: off)" if "is off" in words else ""
            words = "" if kind.section == "run" else words.partition("; ")[0]
            width = 160 if words else WIDTHS["number"]
            control |= {"kind": "number", "label": label + off, "step": kind.step, "width": width}
            return control | {"help": words}
        case Numbers():
            several = "several with commas between them"
            return control | {"kind": "text", "help": "", "placeholder": several}
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


def _typed(kind: SettingKind, value: Any) -> Any:
    """Return a value of a setting as its field holds it."""
    if isinstance(kind, Numbers) and not isinstance(value, tuple):
        value = (value,)
    if isinstance(value, tuple):
        return kind.text(value)
    return "" if value is None else value


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

    def setting(self, name: str, kind: SettingKind | None = None, **more: Any) -> Any:
        """Add the field of a setting and return what stands in it. ``kind``: by default that of a
        run."""
        kind = kind or KINDS[name]
        own = CONTROLS.get(name, {}) if kind is KINDS.get(name) else {}
        field = _control(name, kind) | own | self._here(name) | more
        if field["kind"] != "number":
            field.pop("most", None)
        usual = _typed(kind, field.pop("default", kind.default))
        return self.add(name, default=usual, **field)

    def run(
        self, longest: int, table: Mapping[str, SettingKind] = KINDS, **more: dict[str, Any]
    ) -> None:
        """Add all settings of a table that have a section. ``longest``: new tokens to begin with;
        ``more``: what a tab has otherwise, by setting."""
        # as drawn, so that a drafter that was chosen is known from one that nobody changed
        usual = FormField("", "usual_drafter", "hidden", "", self.drafters[0], 0, visible=False)
        self.by_name[usual.name] = usual
        more["max_new_tokens"] = {"default": longest}
        # the pair first, by which the others are drawn
        for name in sorted(table, key="pair".__ne__):
            if table[name].section:
                self.setting(name, table[name], **more.get(name, {}))

    def _here(self, name: str) -> dict[str, Any]:
        """Return what the pair, its drafter and the limits of the page make of a field; one of
        ``DRAFTS`` is visible where the drafter takes it."""
        own: dict[str, Any]
        spec, usual = self.spec, tree_text(self.spec)
        match name:
            case "pair":
                return {"choices": self._pairs}
            case "target" | "draft" | "head":
                named = self.values.get("pair") == CUSTOM
                return {"visible": named and CUSTOM in dict(self._pairs).values()}
            case "drafter":
                titles = [(drafter_title(kind), kind) for kind in self.drafters]
                return {"kind": "choice", "choices": titles}
            case "temperature":
                return {"default": spec.temperature if spec else 1.0}
            case "max_new_tokens":
                return {"most": self._limits.new_tokens}
            case "k":
                own = {"default": spec.k if spec else 5, "most": self._limits.k}
            case "tree":
                trees = dict.fromkeys((usual, tree_text(None), CHAIN))
                own = {"default": usual, "choices": [(each, each) for each in trees]}
            case "draft_mode":
                modes = described(self.by_name["drafter"].value).modes
                own = {"choices": [(mode.value.capitalize(), mode.value) for mode in modes]}
            case _:
                return {}
        tree = as_text(self.values.get("tree", usual))
        return own | {"visible": name in taken(self.by_name["drafter"].value, tree)}

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
