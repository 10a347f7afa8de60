"""What the environment may say: defaults of a laptop and of a Space, and one sentence for what is
no value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosting.settings import ServerSettings, read_settings

SPACE = {"SPACE_ID": "someone/mars"}
OAUTH = {
    "OAUTH_CLIENT_ID": "x",
    "OAUTH_CLIENT_SECRET": "y",
}  # without the secret anybody could sign a session
IN_A_SPACE = ServerSettings(
    public=True, json_log=True, host="0.0.0.0", proxy=True
)  # the container's only address


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ServerSettings()),
        ({}, ServerSettings(public=False, host="127.0.0.1", port=7860)),
        (SPACE, IN_A_SPACE),
        (SPACE | {"SPACES_ZERO_GPU": "true"}, replace(IN_A_SPACE, zero_gpu=True, graphs=False)),
        (SPACE | {"MARS_PUBLIC": "0"}, replace(IN_A_SPACE, public=False, json_log=False)),
        ({"MARS_PUBLIC": "1"}, ServerSettings(public=True, json_log=True)),
        ({"MARS_PROXY": "on"}, ServerSettings(proxy=True)),
        ({"MARS_ROOT_PATH": "/mars"}, ServerSettings(root_path="/mars", proxy=True)),
        ({"MARS_ROOT_PATH": "/mars", "MARS_PROXY": "off"}, ServerSettings(root_path="/mars")),
        (OAUTH, ServerSettings()),
        (SPACE | OAUTH, replace(IN_A_SPACE, sign_in=True)),
        (SPACE | OAUTH | {"OAUTH_CLIENT_SECRET": ""}, IN_A_SPACE),
        ({"HF_TOKEN": "hf_a", "MARS_BACKUP_TOKEN": "hf_b"}, ServerSettings(backup_token="hf_b")),
        (
            {
                "HOST": "::1",
                "PORT": "80",
                "MARS_ROOT_PATH": "/lab/mars/",
                "MARS_PAIRS": "bundled, smollm2-135m-1.7b,",
                "MARS_RETENTION_DAYS": "30",
                "MARS_BACKUP_REPO": "someone/runs",
                "MARS_BACKUP_MINUTES": "5",
                "MARS_HOSTS": "lab.example, *.lab.example",
                "SPACE_HOST": "a-b.hf.space",
                "HF_TOKEN": "hf_a",
                "MARS_METRICS": "on",
                "MARS_SERVERS": "https://llm.example/v1/, http://10.0.0.2:8000",
                "MARS_DATABASE_URL": "",
                "MARS_LIMITS": "k=4",
            },
            ServerSettings(
                host="::1",
                port=80,
                root_path="/lab/mars",
                proxy=True,
                pairs=("bundled", "smollm2-135m-1.7b"),
                retention_days=30,
                backup_repo="someone/runs",
                backup_minutes=5,
                backup_token="hf_a",
                metrics=True,
                servers=("https://llm.example/v1", "http://10.0.0.2:8000/v1"),
                database=None,
                limits="k=4",
                hosts=("lab.example", "*.lab.example", "a-b.hf.space"),
            ),
        ),
    ],
)
def test_settings_are_those_of_the_environment(
    environment: dict[str, str], expected: ServerSettings
) -> None:
    assert read_settings(environment) == expected


def test_no_secret_is_displayed() -> None:
    settings = read_settings(
        {"HF_TOKEN": "hf_secret", "MARS_DATABASE_URL": "postgresql://me:secret@host/db"}
    )
    assert "secret" not in repr(settings) and "secret" not in str(settings)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PORT", "0", "whole number from 1 to 65535"),
        ("PORT", "٣", "whole number from 1 to 65535"),
        ("MARS_PUBLIC", "perhaps", "on, off or auto"),
        ("MARS_RETENTION_DAYS", "-1", "whole number from 0 to 36500"),
        ("MARS_BACKUP_MINUTES", "0", "whole number from 1 to 10080"),
        ("MARS_ROOT_PATH", "lab", "a path such as /mars"),
        ("MARS_ROOT_PATH", "/a b", "a path such as /mars"),
        ("MARS_METRICS", "yes", "on, off or auto"),
        ("MARS_HOSTS", "lab.example:80", "names such as lab.example"),
        ("MARS_SERVERS", "llm.example/v1", "base URLs such as https://llm.example/v1"),
    ],
)
def test_what_is_no_value_gets_a_sentence(name: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        read_settings({name: value})
    assert str(raised.value).startswith(f"{name} is {value!r}; it must be")
