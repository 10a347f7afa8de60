"""The settings of a run: prompt, pair, drafter, numbers, sampling. One panel, of which every tab that runs something shows its parts.

A tab lays the parts out in its own order; ``wire`` then makes them follow each other. Ids of fields begin with the panel's scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.models.catalog import GENERAL_PROMPTS
from ui.jobs.services import Services
from ui.kit.components import chips_component, chips_html, text_panel
from ui.kit.events import PRIVATE, event_data
from ui.settings.drafter import (
    TREE_NUMBERS,
    drafter_field,
    for_pair,
    mode_field,
    number_field,
    tree_fields,
    wire_drafter,
)
from ui.settings.form import CUSTOM, Form, PairForm, catalog_pair, read_pair
from ui.settings.pair_note import note_html, pair_note, sentence_html
from ui.settings.rules import RuleFields

OWN_FIELDS = {
    "own_target": ("Target", "owner/name, owner/name@revision, or a folder"),
    "own_draft": ("Draft model (may be empty)", "shares the target's vocabulary"),
    "own_head": ("EAGLE-3 head (may be empty)", "trained for the target: Hub id or folder"),
}
TEXTS = frozenset(("prompt", "system", "stop", *OWN_FIELDS))  # an empty text box gives None


class SettingsPanel:
    """Parts of the panel, built in the layout that is open when they are called. ``by_name``: the fields so far, by name of Form.

    ``lists``: K and temperature are lists as text, and a drafter is needed: fields of a form that varies them. ``repeats``: what stands
    in that field; None: there is none.
    """

    def __init__(self, services: Services, scope: str = "", *, lists: bool = False, repeats: int | None = None) -> None:
        self.services, self.by_name = services, dict[str, Any]()
        self.chips: gr.HTML | None = None
        self._repeats = repeats
        self._scope, self._lists, self._first = scope, lists, services.catalog[0]
        self._own: gr.Row | None = None
        self._note: gr.HTML | None = None

    def id(self, name: str) -> str:
        return f"{self._scope}-{name}" if self._scope else name

    def prompt(self, placeholder: str) -> None:
        """The prompt, which grows to five lines, so that a long one leaves the result in sight."""
        self.by_name["prompt"] = gr.Textbox(
            self._first.prompts[0], label="Prompt", lines=1, max_lines=5, elem_id=self.id("prompt"), scale=5, min_width=300,
            placeholder=placeholder,
        )  # fmt: skip

    def examples(self) -> None:
        """The pair's example prompts as buttons."""
        self.chips = chips_component(self._first.prompts, self.id("chips"))

    def bar(self) -> None:
        """Pair, drafter and numbers in a row; then the fields of a tree, and the limits of a public page."""
        limits, by_name = self.services.limits, self.by_name
        with gr.Row(elem_classes=["mars-bar"]):
            by_name["pair"] = gr.Dropdown(
                pair_choices(self.services), value=self._first.key, label="Model pair", elem_classes=["mars-bar-pair"],
                min_width=200, elem_id=self.id("pair"),
            )  # fmt: skip
            by_name["drafter"] = drafter_field(self._first, self.id("drafter"), none=not self._lists)
            if self._lists:
                by_name["ks"] = self.list("K, drafted tokens", "5", "3, 5, 7", "ks", 110)
                by_name["temperatures"] = self.list("Temperatures", "1", "0, 1", "temperatures", 110)
            else:
                by_name["k"] = number_field("K, drafted tokens", 5, 1, most=limits.k, name=self.id("k"))
                by_name["temperature"] = number_field("Temperature", 1.0, 0.1, name=self.id("temperature"))
            by_name["max_new_tokens"] = number_field(
                "Max new tokens", 96 if self._lists else 128, 16, most=limits.new_tokens, name=self.id("max")
            )
            if self._repeats is not None:
                label = "Repeats" if self._lists else "Runs per lane (0: auto)"
                by_name["repeats"] = number_field(label, self._repeats, 1, name=self.id("repeats"))
            by_name["seed"] = number_field("First seed" if self._lists else "Seed", 0, 1, name=self.id("seed"))
        by_name.update(tree_fields(self._first, limits))
        if sentence := limits.sentence(sweep=self._lists):
            text_panel("mars-page mars-limits", sentence)

    def list(self, label: str, value: str, placeholder: str, name: str, width: int) -> gr.Textbox:
        """Several values of one setting, as text."""
        return gr.Textbox(
            value, label=label, placeholder=placeholder, lines=1, max_lines=1, elem_id=self.id(name), min_width=width,
            elem_classes=["mars-sweep-list"],
        )  # fmt: skip

    def own_pair(self) -> None:
        """The fields of a pair that is not of the list, hidden until it is chosen."""
        with gr.Row(visible=False, elem_classes=["mars-own"]) as self._own:
            for name, (label, placeholder) in OWN_FIELDS.items():
                self.by_name[name] = gr.Textbox(
                    label=label, placeholder=placeholder, elem_id=self.id(name.replace("_", "-"))
                )

    def note(self) -> None:
        """What the chosen pair can do and needs."""
        self._note = pair_note(self.services.pool, self._first, public=self.services.public)

    def advanced(self, title: str, *, first: Callable[[], None] = lambda: None) -> None:
        """What few change, folded. ``first`` adds fields before;"""
        by_name = self.by_name
        with gr.Accordion(title, open=False, elem_classes=["mars-advanced"]):
            with gr.Row():
                first()
                by_name["top_k"] = number_field("Top-k (0: off)", 0, 1, name=self.id("top-k"))
                by_name["top_p"] = number_field("Top-p (1: off)", 1.0, 0.05, name=self.id("top-p"))
                by_name["stop"] = gr.Textbox(
                    label="Stop strings, one a line", lines=1, max_lines=4, min_width=200, elem_id=self.id("stop-strings")
                )  # fmt: skip
            with gr.Row():
                by_name["system"] = gr.Textbox(
                    label="System prompt", lines=1, max_lines=6, scale=3, elem_id=self.id("system")
                )
                by_name["chat"] = gr.Checkbox(
                    True, label="Use the chat template", info="Where the tokenizer has one.", scale=1
                )
                by_name["thinking"] = gr.Radio(
                    [("Model’s default", "default"), ("On", "on"), ("Off", "off")], value="default", label="Thinking",
                    info="Of models that have the switch.", min_width=220,
                )  # fmt: skip
            by_name["mode"] = mode_field()

    def wire(self, follow: Callable[..., tuple[Any, ...]] = lambda *_: (), others: tuple[Any, ...] = ()) -> None:
        """What the choice of a pair, a drafter or an example changes. ``follow``: updates of ``others`` from the chosen pair (None:
        one's own) and the values of ``others``."""
        by_name, none = self.by_name, not self._lists
        wire_drafter(by_name if "k" in by_name else {**by_name, "k": by_name["ks"]})
        shown: dict[Any, Callable[[PairSpec | None], Any]] = {
            self._own: lambda spec: gr.update(visible=spec is None),
            self.chips: lambda spec: chips_html(_examples(spec)),
            self._note: lambda spec: note_html(self.services.pool, spec, public=self.services.public),
        }
        shown.pop(None, None)  # parts that this tab has not

        def choose(key: str, kind: str, *values: Any) -> tuple[Any, ...]:
            spec = self._spec(key)
            own = (update(spec) for update in shown.values())
            return *for_pair(spec, kind, none=none), *own, *follow(spec, *values)

        drafter = by_name["drafter"]
        changed = [drafter, *(by_name[name] for name in TREE_NUMBERS), *shown, *others]
        by_name["pair"].change(choose, [by_name["pair"], drafter, *others], changed, **PRIVATE)
        if self.chips is not None:
            self.chips.select(self._example, by_name["pair"], by_name["prompt"], **PRIVATE)
        if self._note is not None and self._own is not None:
            own = [by_name[name] for name in OWN_FIELDS]
            gr.on([field.blur for field in own], self._own_note, own, self._note, **PRIVATE)

    def _spec(self, key: str) -> PairSpec | None:
        return None if key == CUSTOM else catalog_pair(key, self.services.catalog)

    def _example(self, key: str, event: gr.EventData) -> str:
        prompts, index = _examples(self._spec(key)), event_data(event).get("index")
        return prompts[index] if isinstance(index, int) and 0 <= index < len(prompts) else prompts[0]

    def _own_note(self, target: str | None, draft: str | None, head: str | None) -> str:
        try:
            form = PairForm(CUSTOM, target or "", draft or "", head or "")
            spec = read_pair(form, self.services.catalog, own_models=self.services.own_models)
        except ValueError as error:
            return sentence_html(str(error))
        return note_html(self.services.pool, spec, public=self.services.public)


def _examples(spec: PairSpec | None) -> tuple[str, ...]:
    return tuple(spec.prompts if spec else GENERAL_PROMPTS)


def pair_choices(services: Services) -> list[tuple[str, str]]:
    """Titles and keys of the pairs, and what is none of the list, where it may be run."""
    own = [("Own folders or Hub ids", CUSTOM)] if services.own_models else []
    return [(spec.title, spec.key) for spec in services.catalog] + own


class FormFields:
    """Fields of Form by name, and those of the lanes' rules, as one row of inputs; ``count``: how many lanes there are, None: all."""

    def __init__(self, by_name: dict[str, Any], rules: tuple[RuleFields, ...], count: gr.State | None = None) -> None:
        self.by_name, self.rules, self._count = by_name, rules, count

    @property
    def inputs(self) -> list[Any]:
        count = [self._count] if self._count is not None else []
        return [*count, *self.by_name.values(), *(field for rule in self.rules for field in rule.inputs)]

    def form(self, values: tuple[Any, ...]) -> Form:
        """The fields' values, in the order of ``inputs``."""
        given = iter(values)
        count = int(next(given)) if self._count is not None else len(self.rules)
        fields: dict[str, Any] = {name: next(given) for name in self.by_name}
        fields |= {name: str(fields[name] or "") for name in TEXTS & fields.keys()}
        lanes = tuple(rule.read(given) for rule in self.rules)
        return Form(lanes=lanes[:count], **fields)
