"""SQLite on a mounted bucket is refused; on a disk, whatever it is called, it is not."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from hosting.backup import refuse_mounted
from tests.unit.storage.test_schema import disk


@pytest.mark.parametrize(
    ("kind", "source", "bucket"),
    [
        ("fuse.hf-mount", "owner/name", True),
        ("fuse", "hf-mount", True),
        ("fuse.s3fs", "s3fs", True),
        ("nfs", "127.0.0.1:/", True),
        ("nfs4", "localhost:/", True),
        ("nfs4", "[::1]:/", True),
        ("fuse.fuse-overlayfs", "overlay", False),
        ("fuseblk", "/dev/sda1", False),
        ("nfs4", "server:/home", False),
        ("overlay", "overlay", False),
    ],
)
def test_a_mounted_bucket_is_refused_and_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, source: str, bucket: bool
) -> None:
    mounts = [disk("/", "ext4"), disk(tmp_path, kind, source)]
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: mounts)
    with pytest.raises(ValueError, match="mounted bucket") if bucket else nullcontext():
        refuse_mounted(tmp_path / "deeper" / "runs.db")
    refuse_mounted(Path("/elsewhere/runs.db"))
    mounts.clear()
    refuse_mounted(tmp_path / "runs.db")
