#!/usr/bin/env bash
# Prints the path of a Chromium that starts: an installed one, else playwright's own (downloaded if need be), else Debian's as root.
# Needs a python with playwright first in PATH. Everything but the path goes to stderr.
set -euo pipefail

# --version starts the loader and links every shared library, so a browser that lacks one fails here and not in a test.
starts() { [ -x "$1" ] && timeout 30 "$1" --version </dev/null >/dev/null 2>&1; }

installed() {
    local name path
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        path=$(command -v "$name") && starts "$path" && echo "$path" && return
    done
    return 1
}

playwright_own() {
    local path
    path=$(python -c 'from playwright.sync_api import sync_playwright
with sync_playwright() as p: print(p.chromium.executable_path)' 2>/dev/null) && starts "$path" && echo "$path"
}

if [ -n "${MARS_BROWSER:-}" ]; then
    starts "$MARS_BROWSER" || { echo "MARS_BROWSER=$MARS_BROWSER does not start." >&2; exit 1; }
    echo "$MARS_BROWSER"
    exit
fi
installed && exit
playwright_own && exit
echo "No Chromium here; asking playwright for its own ..." >&2
timeout 300 python -m playwright install chromium </dev/null >&2 || true
playwright_own && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's chromium ..." >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >&2
    installed && exit
fi
echo "The browser tests need Chromium, and none was found: install one (sudo apt-get install chromium)," \
    "or name one: MARS_BROWSER=/path/to/chrome make test" >&2
exit 1
