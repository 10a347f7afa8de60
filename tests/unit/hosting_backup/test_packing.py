"""Files pack to the same bytes and back; whatever is not what was packed is refused. SQLite's count tells every change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hosting.backup.changes import Changes
from hosting.backup.manifest import Manifest, ManifestError, from_bytes, to_bytes
from hosting.backup.packing import PackingError, pack, unpack
from tests.unit.hosting_backup.conftest import Fill


def test_packing_is_repeatable_and_goes_back(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(bytes(range(256)) * 10_000)
    assert pack(plain, tmp_path / "one.gz") == pack(plain, tmp_path / "two.gz")
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    digest = hashlib.sha256(plain.read_bytes()).hexdigest()
    unpack(tmp_path / "one.gz", tmp_path / "back", plain.stat().st_size, digest)
    assert (tmp_path / "back").read_bytes() == plain.read_bytes()


@pytest.mark.parametrize(("size", "content"), [(4, b"abcX"), (3, b"abcd"), (5, b"abcd")])
def test_another_content_is_refused(tmp_path: Path, size: int, content: bytes) -> None:
    (tmp_path / "plain").write_bytes(content)
    pack(tmp_path / "plain", tmp_path / "packed.gz")
    with pytest.raises(PackingError):
        unpack(tmp_path / "packed.gz", tmp_path / "back", size, hashlib.sha256(b"abcd").hexdigest())


def test_a_manifest_reads_as_it_was_written() -> None:
    manifest = Manifest("0123456789abcdef", 7)
    assert from_bytes(to_bytes(manifest)) == manifest
    with pytest.raises(ManifestError, match="writer"):
        from_bytes(to_bytes(Manifest("../../etc", 7)))


def test_every_change_is_noticed_and_no_other(tmp_path: Path, fill: Fill) -> None:
    changes = Changes(tmp_path / "runs.db")
    assert changes.since()  # no file yet: not known
    database = fill(tmp_path / "runs.db", "first")
    count = changes.look()
    assert changes.since()
    changes.note(count)
    assert not changes.since()
    fill(database, "second")
    assert changes.since()
    fill(database, "third")
    assert changes.since()
    changes.close()
