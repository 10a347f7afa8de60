# The page on port 7860. For a CPU: docker build -t mars-playground .      For CUDA: docker build --build-arg VARIANT=cuda -t mars-playground .
# docker run -p 7860:7860 -v mars-data:/home/user/data mars-playground     with --gpus all for CUDA
# Nothing here needs a GPU; files are installed only with the hashes in locks/. docs/hosting.md tells the rest.
FROM python:3.12-slim AS build

ARG VARIANT=cpu
# More locks to install, of locks/: postgres, mcp.
ARG EXTRAS=""
# Where torch without CUDA comes from. Only files whose hashes are locked are taken from anywhere.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

COPY locks/ /locks/
RUN python -m venv /opt/mars/venv \
    && for lock in "torch-${VARIANT}" run ${EXTRAS}; do echo "-r $lock.txt"; done > /locks/all.txt \
    && if [ "${VARIANT}" = cpu ]; then echo "--extra-index-url ${TORCH_INDEX}" >> /locks/all.txt; fi \
    && /opt/mars/venv/bin/pip install --no-cache-dir --no-compile --require-hashes -r /locks/all.txt

# The default model, where every user of a machine finds it.
WORKDIR /opt/mars/app
COPY mars_core/ mars_core/
RUN XDG_CACHE_HOME=/var/cache /opt/mars/venv/bin/python -c "from mars_core.models.gguf import fetch_default; fetch_default(print)"


FROM python:3.12-slim

RUN useradd --create-home --uid 1000 user \
    && install --directory --owner user --group user /home/user/data

# Code and libraries, and the folders above them, are root's: the program cannot change or replace them.
COPY --from=build /opt/mars/venv /opt/mars/venv
COPY --from=build /var/cache/mars-playground /var/cache/mars-playground

WORKDIR /opt/mars/app
COPY LICENSE app.py ./
COPY docs/ docs/
COPY hosting/ hosting/
COPY storage/ storage/
COPY mars_core/ mars_core/
COPY display/ display/
COPY evaluation/ evaluation/
COPY ui/ ui/
COPY mars_playground/ mars_playground/

USER 1000
ENV HOST=0.0.0.0 \
    PORT=7860 \
    PATH=/opt/mars/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/home/user/data/huggingface \
    XDG_CACHE_HOME=/home/user/data/cache \
    MARS_DATABASE_URL=sqlite:////home/user/data/runs.db

EXPOSE 7860
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=90s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/health', timeout=4)"]
CMD ["python", "app.py"]
