"""A turn is for whoever listens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from mars_core.types import Status
from storage import Search
from tests.serving import until
from tests.unit.ui.public.conftest import Served
from ui.public.visitors import HEADER, browser_owner


def test_what_nobody_listens_to_ends_where_others_wait(served: Served) -> None:
    """Elsewhere it runs to its end, as does what somebody listens to while others wait."""
    alone, unheard, first, second = (each * 43 for each in "cdef")

    def begin(owner: str, lanes: int = 1) -> str:
        body = {"prompt": "Once, slowly", "rules": ["none"] * lanes, "max_new_tokens": 8}
        answer = httpx.post(
            f"{served.url}/gradio_api/call/v2/compare", json=body, headers={HEADER: owner}
        )
        return str(answer.json()["event_id"])

    def heard(owner: str) -> str:
        address = f"{served.url}/gradio_api/call/compare/{begin(owner)}"
        return httpx.get(address, headers={HEADER: owner}, timeout=120).text

    def statuses(owner: str) -> list[Status]:
        store = served.store.of(browser_owner(owner))
        return [run.trace.status for id_ in ids(owner) for run in store.load(id_).runs]

    def ids(owner: str) -> list[str]:
        return served.store.of(browser_owner(owner)).matching_ids(Search())

    begin(alone)
    until(lambda: statuses(alone) == [Status.COMPLETED])
    begin(unheard, 3)
    until(lambda: ids(unheard))
    with ThreadPoolExecutor(2) as pool:
        for end in list(pool.map(heard, (first, second))):
            assert "event: complete" in end
    assert statuses(first) == statuses(second) == [Status.COMPLETED]
    assert statuses(unheard)[-1] is Status.CANCELLED
