"""The Compare tab: prompt, settings, lanes side by side, and what came of them. Wires components to the plain handlers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.models.catalog import GENERAL_PROMPTS
from ui.chips import chips_component, chips_json
from ui.components import words
from ui.drafter_fields import drafter_chooser, for_pair, mode_field, number_field, tree_fields, wire_drafter
from ui.fields import Fields
from ui.form import CUSTOM, MOST_LANES, Form, catalog_pair, read_pair
from ui.handlers import Frame, run_comparison
from ui.lanes import LEAST_LANES, Head, LaneCount, empty_lane, lane_count, lane_head
from ui.pair_note import note_json, pair_note, sentence_json
from ui.result_view import ResultView, Updates, build_result
from ui.workplace import Workplace

ACCELERATOR = "accelerator"  # the one slot that everything which computes shares
HINT = "Press Compare: the prompt is decoded once with each rule, and every token says how it came to be."
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def build_compare_tab(workplace: Workplace) -> ResultView:
    """The tab and its events; returns its result view."""
    by_name: dict[str, Any] = {}
    with gr.Column(elem_classes=["mars-panel", "mars-ask"]):
        _prompt_fields(workplace, by_name)
        chips = chips_component(workplace.catalog[0].prompts)
        bar = _bar_fields(workplace, by_name)
        _advanced_fields(by_name)
    heads: list[Head] = []
    counts: list[LaneCount] = []
    views = tuple(map(empty_lane, range(MOST_LANES)))
    view = build_result(
        "compare",
        words(HINT),
        views,
        head=lambda lane: heads.append(lane_head(lane)),
        tools=lambda: counts.append(lane_count()),
    )
    (lanes,) = counts
    fields = Fields(by_name, tuple(heads), lanes.count)
    wire_drafter(by_name)
    _wire_pair(workplace, fields, bar, chips)
    _wire_lanes(lanes, view)
    _wire_run(workplace, fields, view, bar, lanes)
    return view


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
    first = workplace.catalog[0]
    with gr.Row(elem_classes=["mars-bar"]):
        choices = [(spec.title, spec.key) for spec in workplace.catalog] + [("Own folders or Hub ids", CUSTOM)]
        by_name["pair"] = gr.Dropdown(
            choices, value=first.key, label="Model pair", elem_classes=["mars-bar-pair"], min_width=200
        )
        by_name["drafter"] = drafter_chooser(first)
        by_name["k"] = number_field("K, drafted tokens", 5, 1)
        by_name["temperature"] = number_field("Temperature", 1.0, 0.1)
        by_name["max_new_tokens"] = number_field("Max new tokens", 128, 16)
        by_name["seed"] = number_field("Seed", 0, 1)
        with gr.Column(elem_classes=["mars-action"], min_width=150):
            run = gr.Button("Compare", variant="primary", elem_id="compare")
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop")
    by_name.update(tree_fields(first))
    with gr.Row(visible=False, elem_classes=["mars-own"]) as own:
        by_name["own_target"] = gr.Textbox(
            label="Target", placeholder="owner/name, owner/name@revision, or a folder", elem_id="own-target"
        )
        by_name["own_draft"] = gr.Textbox(
            label="Draft model (may be empty)", placeholder="shares the target's vocabulary", elem_id="own-draft"
        )
        by_name["own_head"] = gr.Textbox(
            label="EAGLE-3 head (may be empty)", placeholder="trained for the target: Hub id or folder", elem_id="own-head"
        )  # fmt: skip
    return Bar(run, stop, own, pair_note(workplace.pool, first))


def _advanced_fields(by_name: dict[str, Any]) -> None:
    with gr.Accordion("Advanced", open=False, elem_classes=["mars-advanced"]):
        with gr.Row():
            by_name["top_k"] = number_field("Top-k (0: off)", 0, 1)
            by_name["top_p"] = number_field("Top-p (1: off)", 1.0, 0.05)
            by_name["stop"] = gr.Textbox(label="Stop strings, one a line", lines=1, max_lines=4, min_width=200)
        with gr.Row():
            by_name["system"] = gr.Textbox(label="System prompt", lines=1, max_lines=6, scale=3)
            by_name["chat"] = gr.Checkbox(
                True, label="Use the chat template", info="Where the tokenizer has one.", scale=1
            )
        by_name["mode"] = mode_field()


def _wire_pair(workplace: Workplace, fields: Fields, bar: Bar, chips: gr.HTML) -> None:
    pair, drafter, prompt = (fields.by_name[name] for name in ("pair", "drafter", "prompt"))
    own = [fields.by_name[name] for name in ("own_target", "own_draft", "own_head")]

    def chosen(key: str) -> PairSpec | None:
        return catalog_pair(key, workplace.catalog) if key != CUSTOM else None

    def choose(key: str, kind: str) -> tuple[Any, ...]:
        spec = chosen(key)
        prompts = spec.prompts if spec else GENERAL_PROMPTS
        note = note_json(workplace.pool, spec)
        return gr.update(visible=key == CUSTOM), chips_json(prompts), note, *for_pair(spec, kind)

    def own_note(target: str, draft: str, head: str) -> str:
        return _own_note(workplace, target, draft, head)

    def take(key: str, event: gr.EventData) -> str:
        spec = chosen(key)
        prompts = spec.prompts if spec else GENERAL_PROMPTS
        index = event._data.get("index")
        return prompts[index] if isinstance(index, int) and 0 <= index < len(prompts) else prompts[0]

    tree = [fields.by_name[name] for name in ("tree_tokens", "tree_depth", "tree_top_k")]
    changed = [bar.own, chips, bar.note, drafter, *tree]
    pair.change(choose, [pair, drafter], changed, queue=False, **PRIVATE)
    gr.on([field.blur for field in own], own_note, own, bar.note, queue=False, **PRIVATE)
    chips.select(take, pair, prompt, queue=False, **PRIVATE)


def _own_note(workplace: Workplace, target: str, draft: str, head: str) -> str:
    try:
        form = Form("", CUSTOM, 0, 0, 0, 0, (), own_target=target, own_draft=draft, own_head=head)
        return note_json(workplace.pool, read_pair(form, workplace.catalog))
    except ValueError as error:
        return sentence_json(str(error))


def _wire_lanes(lanes: LaneCount, view: ResultView) -> None:
    def change(count: int, by: int) -> Updates:
        count = min(MOST_LANES, max(LEAST_LANES, count + by))
        fresh = {view.lanes[count - 1]: empty_lane(count - 1).json()} if by > 0 else {}
        return {lanes.count: count} | lanes.update(count) | view.show_lanes(count) | fresh

    outputs = [lanes.count, lanes.add, lanes.remove, *view.cards, *view.lanes]
    lanes.add.click(lambda count: change(count, 1), lanes.count, outputs, queue=False, **PRIVATE)
    lanes.remove.click(lambda count: change(count, -1), lanes.count, outputs, queue=False, **PRIVATE)


def _wire_run(workplace: Workplace, fields: Fields, view: ResultView, bar: Bar, lanes: LaneCount) -> None:
    run, stop = bar.run, bar.stop
    buttons = [run, stop, lanes.add, lanes.remove]

    def begin(request: gr.Request) -> Updates:
        workplace.stops.begin(str(request.session_hash))
        starting = words("Starting; if another comparison is running, this one waits for it …", "running")
        return {
            run: gr.update(visible=False),
            stop: gr.update(visible=True, interactive=True, value="Stop"),
            lanes.add: gr.update(interactive=False),
            lanes.remove: gr.update(interactive=False),
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

    def end(count: int) -> Updates:
        return {run: gr.update(visible=True), stop: gr.update(visible=False)} | lanes.update(count)

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
    running.then(end, lanes.count, buttons, queue=False, **PRIVATE)
    stop.click(ask_stop, None, stop, queue=False, **PRIVATE)


def _updates(view: ResultView, frame: Frame) -> Updates:
    """A frame as updates; details are shown with the frame that ends a comparison, and hidden with the one that opens it."""
    changed = view.update(frame.strip, frame.lanes)
    opening = frame.strip is not None and frame.strip.state == "running" and all(frame.lanes or (None,))
    return changed | view.show(frame.details) if frame.details or opening else changed
