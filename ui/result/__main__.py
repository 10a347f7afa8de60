"""``python -m ui.result``: the stored example on a stock Gradio page."""

import gradio as gr

from ui.result.example import stored
from ui.token_view.standalone import token_view


def build() -> gr.Blocks:
    blocks: gr.Blocks
    with gr.Blocks(title="Token view", analytics_enabled=False) as blocks, gr.Row():
        for number, trace in enumerate(stored()):
            with gr.Column():
                token_view(trace, number=number)
    return blocks


if __name__ == "__main__":
    build().launch()
