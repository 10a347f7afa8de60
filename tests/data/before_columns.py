"""before-columns.db and .json hold every kind of thing that a store can hold, of everybody and of OWNER, and what ``said`` says of it.

Made in a checkout of commit 7068326, the last that stored a row a token, by this file as it is in commit 75a9dac.
"""

from __future__ import annotations

from hashlib import sha256

from storage import RunStore

OWNER = "visitor-1"


def said(store: RunStore) -> dict[str, str]:
    """What the store gives back of everything, each as a hash of its Python spelling."""
    everything = {f"comparison {id_}": store.load(id_) for id_ in store.comparisons()["id"]}
    everything |= {f"study {head.id}": store.study(head.id) for head in store.studies()}
    everything |= {f"results {head.id}": store.results(head.id, unfinished=True) for head in store.studies()}
    everything |= {f"judgements {head.id}": store.judgements(head.id) for head in store.studies()}
    everything |= {
        "sweeps": tuple(store.sweep(sweep.id) for sweep in store.sweeps()),
        "votes": store.votes(),
        "shares": store.shares(),
        "counts": store.counts(),
    }
    spelled = {name: repr(value).replace(", repeats=())", ")") for name, value in everything.items()}  # a later field
    return {name: sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for name, text in spelled.items()}
