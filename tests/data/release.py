"""Databases of release 0.1.0 (schema 0007): release-0.1.0.db holds every kind of thing that a store
can hold, of everybody and of OWNER; release-0.1.0.sql a few of them, for PostgreSQL (pg_dump
--inserts). In both one run has ``pass_rows`` 6 and ``pass_width`` 192.

Made in a checkout of commit 9cee48e.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from storage import RunStore, Search

SQLITE, POSTGRES = (Path(__file__).with_name(f"release-0.1.0.{ending}") for ending in ("db", "sql"))
OWNER = "visitor-1"


def contents(store: RunStore) -> dict[str, Any]:
    """What the store gives back of everything, as Python spells it."""
    everything = {
        f"comparison {id_}": store.load(id_) for id_ in store.matching_ids(Search(limit=1000))
    }
    everything |= {f"study {head.id}": store.study(head.id) for head in store.studies()}
    everything |= {f"results {head.id}": store.results(head.id) for head in store.studies()}
    everything |= {f"judgements {head.id}": store.judgements(head.id) for head in store.studies()}
    everything |= {"votes": store.votes(), "shares": store.shares(), "counts": store.counts()}
    return {name: repr(value) for name, value in everything.items()}
