"""The page: Gradio blocks, Plotly figures and the token view over traces. Nothing here decodes or stores by itself."""
