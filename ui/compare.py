"""The Compare tab: prompt, settings, two lanes side by side, and what came of them. Wires components to the plain handlers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from mars_core.models.catalog import GENERAL_PROMPTS
from mars_core.rules import RULES, Parameter
from ui.chips import chips_component, chips_json
from ui.components import words
from ui.form import CUSTOM, Form, LaneForm, catalog_pair, read_pair
from ui.handlers import Frame, run_comparison
from ui.labels import PLAIN, parameter_title, rule_title
from ui.pair_note import note_json, pair_note, sentence_json
from ui.result_view import LANE_NAMES, ResultView, Updates, build_result
from ui.token_view import Counts, LaneView, stat_tiles
from ui.workplace import Workplace

PLAIN_SUMMARY = "No drafts: the target writes every token itself. The yardstick for speed."
DEFAULT_RULES = ("strict", "mars")
TEXTS = frozenset(("prompt", "system", "stop", "own_target", "own_draft"))
ACCELERATOR = "accelerator"  # the one slot that everything which computes shares
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a lane's card."""

    rule: gr.Dropdown
    parameters: dict[tuple[str, str], Any]  # (rule, parameter) → field


@dataclass(frozen=True, slots=True)
class Fields:
    """The input components by field of Form; lanes apart."""

    by_name: dict[str, Any]
    heads: tuple[Head, ...]

    @property
    def inputs(self) -> list[Any]:
        lanes = [component for head in self.heads for component in (head.rule, *head.parameters.values())]
        return [*self.by_name.values(), *lanes]

    def form(self, values: tuple[Any, ...]) -> Form:
        """The fields' values, in the order of ``inputs``."""
        given = iter(values)
        fields: dict[str, Any] = {name: _text(next(given)) if name in TEXTS else next(given) for name in self.by_name}
        lanes = tuple(_lane_form(head, given) for head in self.heads)
        return Form(lanes=lanes, **fields)


def _text(value: Any) -> str:
    """An empty text box gives None."""
    return "" if value is None else str(value)


def _lane_form(head: Head, given: Iterator[Any]) -> LaneForm:
    rule = next(given)
    values = {key: next(given) for key in head.parameters}
    return LaneForm(rule, {name: value for (owner, name), value in values.items() if owner == rule})


def build_compare_tab(workplace: Workplace) -> ResultView:
    """The tab and its events; returns its result view."""
    by_name: dict[str, Any] = {}
    with gr.Column(elem_classes=["mars-panel", "mars-ask"]):
        _prompt_fields(workplace, by_name)
        chips = chips_component(workplace.catalog[0].prompts)
        bar = _bar_fields(workplace, by_name)
        _advanced_fields(by_name)
    heads: list[Head] = []
    views = tuple(LaneView(_default_label(lane), tiles=stat_tiles(Counts())) for lane in range(len(LANE_NAMES)))
    hint = words("Press Compare: the prompt is decoded twice, and every token says how it came to be.")
    view = build_result("compare", hint, views, lambda lane: heads.append(_lane_head(lane)))
    fields = Fields(by_name, tuple(heads))
    _wire_pair(workplace, fields, bar, chips)
    _wire_run(workplace, fields, view, bar)
    return view


def _default_label(lane: int) -> str:
    rule = DEFAULT_RULES[lane]
    values = [f"{parameter_title(p.name)} = {p.default:g}" for p in RULES[rule].parameters]
    return " ".join([rule_title(rule), ", ".join(values)]).strip()


def _prompt_fields(workplace: Workplace, by_name: dict[str, Any]) -> None:
    first = workplace.catalog[0]
    by_name["prompt"] = gr.Textbox(
        first.prompts[0],
        label="Prompt",
        lines=2,
        max_lines=12,
        elem_id="prompt",
        placeholder="What should the models write?",
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """What of the bar under the prompt is no field of the form."""

    run: gr.Button
    stop: gr.Button
    own: gr.Row
    note: gr.HTML


def _bar_fields(workplace: Workplace, by_name: dict[str, Any]) -> Bar:
    with gr.Row(elem_classes=["mars-bar"]):
        choices = [(spec.title, spec.key) for spec in workplace.catalog] + [("Own folders or Hub ids", CUSTOM)]
        by_name["pair"] = gr.Dropdown(
            choices, value=workplace.catalog[0].key, label="Model pair", elem_classes=["mars-bar-pair"], min_width=200
        )
        by_name["temperature"] = _number("Temperature", 1.0, 0.1)
        by_name["k"] = _number("K, drafted tokens", 5, 1)
        by_name["max_new_tokens"] = _number("Max new tokens", 128, 16)
        by_name["seed"] = _number("Seed", 0, 1)
        with gr.Column(elem_classes=["mars-action"], min_width=150):
            run = gr.Button("Compare", variant="primary", elem_id="compare")
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop")
    with gr.Row(visible=False, elem_classes=["mars-own"]) as own:
        by_name["own_target"] = gr.Textbox(
            label="Target", placeholder="owner/name, owner/name@revision, or a folder", elem_id="own-target"
        )
        by_name["own_draft"] = gr.Textbox(
            label="Draft model (may be empty)", placeholder="shares the target's vocabulary", elem_id="own-draft"
        )
    return Bar(run, stop, own, pair_note(workplace.pool, workplace.catalog[0]))


def _number(label: str, value: float, step: float) -> gr.Number:
    return gr.Number(value, label=label, step=step, min_width=96, elem_classes=["mars-number"])


def _advanced_fields(by_name: dict[str, Any]) -> None:
    with gr.Accordion("Advanced", open=False, elem_classes=["mars-advanced"]):
        with gr.Row():
            by_name["drafter"] = gr.Radio(
                [("Draft model", "model"), ("N-gram lookup", "ngram"), ("None", "none")], value="model", label="Drafts come from",
                info="N-gram lookup copies what followed the same words earlier in the text.",
            )  # fmt: skip
            by_name["mode"] = gr.Radio(
                [("Greedy", "greedy"), ("Sampled", "sampled")], value="greedy", label="Draft mode",
                info="Greedy is the paper's setting. With sampled drafts strict keeps more, and MARS may lose.",
            )  # fmt: skip
        with gr.Row():
            by_name["top_k"] = _number("Top-k (0: off)", 0, 1)
            by_name["top_p"] = _number("Top-p (1: off)", 1.0, 0.05)
            by_name["stop"] = gr.Textbox(label="Stop strings, one a line", lines=1, max_lines=4, min_width=200)
        with gr.Row():
            by_name["system"] = gr.Textbox(label="System prompt", lines=1, max_lines=6, scale=3)
            by_name["chat"] = gr.Checkbox(
                True, label="Use the chat template", info="Where the tokenizer has one.", scale=1
            )


def _lane_head(lane: int) -> Head:
    default = DEFAULT_RULES[lane]
    choices = [(rule_title(name), name) for name in (*RULES, PLAIN)]
    parameters: dict[tuple[str, str], Any] = {}
    with gr.Row(elem_classes=["mars-head"]):
        rule = gr.Dropdown(
            choices,
            value=default,
            label=f"{LANE_NAMES[lane]} rule",
            info=_summary(default),
            elem_id=f"rule-{lane}",
            min_width=160,
        )
        with gr.Column(elem_classes=["mars-head-parameters"], min_width=140):
            for owner, entry in RULES.items():
                for parameter in entry.parameters:
                    parameters[owner, parameter.name] = _parameter_field(parameter, visible=owner == default)
    shown = list(parameters)
    rule.change(
        lambda name: [gr.update(info=_summary(name)), *(gr.update(visible=owner == name) for owner, _ in shown)],
        rule, [rule, *parameters.values()], queue=False, **PRIVATE,
    )  # fmt: skip
    return Head(rule, parameters)


def _summary(rule: str) -> str:
    return RULES[rule].summary if rule in RULES else PLAIN_SUMMARY


def _parameter_field(parameter: Parameter, *, visible: bool) -> Any:
    label = parameter_title(parameter.name)
    common: dict[str, Any] = {"visible": visible, "min_width": 120, "elem_classes": ["mars-parameter"]}
    if parameter.high <= 1:
        return gr.Slider(
            parameter.low, parameter.high, parameter.default, step=0.01, label=label, info=parameter.help, **common
        )
    return gr.Number(parameter.default, label=label, info=parameter.help, step=0.1, **common)


def _wire_pair(workplace: Workplace, fields: Fields, bar: Bar, chips: gr.HTML) -> None:
    pair, target, draft, prompt = (fields.by_name[name] for name in ("pair", "own_target", "own_draft", "prompt"))

    def choose(key: str) -> tuple[Any, Any, Any]:
        spec = catalog_pair(key, workplace.catalog) if key != CUSTOM else None
        prompts = spec.prompts if spec else GENERAL_PROMPTS
        return gr.update(visible=key == CUSTOM), chips_json(prompts), note_json(workplace.pool, spec)

    def own_note(first: str, second: str) -> str:
        return _own_note(workplace, first, second)

    def take(key: str, event: gr.EventData) -> str:
        prompts = catalog_pair(key, workplace.catalog).prompts if key != CUSTOM else GENERAL_PROMPTS
        index = event._data.get("index")
        return prompts[index] if isinstance(index, int) and 0 <= index < len(prompts) else prompts[0]

    pair.change(choose, pair, [bar.own, chips, bar.note], queue=False, **PRIVATE)
    gr.on([target.blur, draft.blur], own_note, [target, draft], bar.note, queue=False, **PRIVATE)
    chips.select(take, pair, prompt, queue=False, **PRIVATE)


def _own_note(workplace: Workplace, target: str, draft: str) -> str:
    try:
        form = Form("", CUSTOM, 0, 0, 0, 0, (), own_target=target, own_draft=draft)
        return note_json(workplace.pool, read_pair(form, workplace.catalog))
    except ValueError as error:
        return sentence_json(str(error))


def _wire_run(workplace: Workplace, fields: Fields, view: ResultView, bar: Bar) -> None:
    run, stop = bar.run, bar.stop
    buttons = [run, stop]

    def begin(request: gr.Request) -> Updates:
        workplace.stops.begin(str(request.session_hash))
        starting = words("Starting; if another comparison is running, this one waits for it …", "running")
        return {
            run: gr.update(visible=False),
            stop: gr.update(visible=True, interactive=True, value="Stop"),
        } | view.update(starting, ())

    def compare(request: gr.Request, *values: Any) -> Iterator[Updates]:
        for frame in run_comparison(workplace, fields.form(values), str(request.session_hash)):
            yield _updates(view, frame)

    def ask_stop(request: gr.Request) -> Any:
        workplace.stops.request(str(request.session_hash))
        return gr.update(value="Stopping …", interactive=False)

    def broke() -> Updates:
        return view.update(
            words("The comparison broke off by an error of this program; its log says more.", "failed"), ()
        )

    def end() -> list[Any]:
        return [gr.update(visible=True), gr.update(visible=False)]

    pressed = gr.on(
        [run.click, fields.by_name["prompt"].submit],
        begin,
        None,
        [*buttons, view.strip],
        queue=False,
        trigger_mode="once",
        **PRIVATE,
    )
    running = pressed.then(
        compare, fields.inputs, view.outputs, concurrency_id=ACCELERATOR, concurrency_limit=1, **PRIVATE
    )
    running.failure(broke, None, [view.strip], queue=False, **PRIVATE)
    running.then(end, None, buttons, queue=False, **PRIVATE)
    stop.click(ask_stop, None, stop, queue=False, **PRIVATE)


def _updates(view: ResultView, frame: Frame) -> Updates:
    """A frame as updates; details are shown with the frame that ends a comparison, and hidden with the one that opens it."""
    changed = view.update(frame.strip, frame.lanes)
    opening = frame.strip is not None and frame.strip.state == "running" and all(frame.lanes or (None,))
    return changed | view.show(frame.details) if frame.details or opening else changed
