"""Figures of traces, each as a data half (plain values) and a drawing half (values to a Plotly
figure). No gradio, no store."""
