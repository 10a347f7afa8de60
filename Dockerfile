# The page on port 7860, on a CPU. Fits a Docker Space (user 1000) and any other host: docker run -p 7860:7860 mars-playground
FROM python:3.12-slim

RUN useradd --create-home --uid 1000 user
USER user
WORKDIR /home/user/app
ENV HOST=0.0.0.0 \
    PORT=7860 \
    PATH=/home/user/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

COPY --chown=user requirements.txt .
RUN python -m venv /home/user/venv \
    && pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -r requirements.txt

COPY --chown=user . .

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/', timeout=4)"]
CMD ["python", "app.py"]
