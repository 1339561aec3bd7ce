"""The programs of toolnexus' page "ToolResult", as printed there; each test states what its program prints."""

# The programs are unannotated where the page is, and read optional fields without asking.
# pyright: reportOptionalMemberAccess=false, reportOptionalSubscript=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportArgumentType=false
from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.seed("TNX-10")
def test_the_first_example_returns_a_done_and_a_failed_result(capsys: pytest.CaptureFixture[str]) -> None:
    from toolnexus import ToolResult

    CONFIG = {"region": "eu-west-1"}

    def read_config(key: str) -> ToolResult:
        if key not in CONFIG:
            # Recoverable: the model can read this and try another key.
            return ToolResult(output=f"No such config key: {key}", is_error=True)
        return ToolResult(output=CONFIG[key], is_error=False)

    found = read_config("region")
    assert found.output == "eu-west-1"
    assert found.is_error is False

    missing = read_config("nope")
    assert missing.is_error is True

    print("ok:", found.output, "|", missing.output)

    assert capsys.readouterr().out == "ok: eu-west-1 | No such config key: nope\n"


@pytest.mark.seed("TNX-11")
def test_the_second_example_keeps_text_for_the_model_and_metadata_for_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from toolnexus import ToolResult

    def search(q: str) -> ToolResult:
        hits = [
            {"id": 1, "title": "Getting started"},
            {"id": 2, "title": "Advanced usage"},
        ]
        return ToolResult(
            # The model reads this. Make it legible, not just valid.
            output="\n".join(f"#{h['id']} {h['title']}" for h in hits),
            is_error=False,
            # Your code reads this. The model never sees it.
            metadata={"title": f"search: {q}", "count": len(hits), "ids": [h["id"] for h in hits]},
        )

    res = search("usage")
    assert res.metadata["count"] == 2
    assert res.metadata["ids"] == [1, 2]
    assert "Advanced usage" in res.output

    print("ok:", res.metadata["title"])

    assert res.output == "#1 Getting started\n#2 Advanced usage"
    assert capsys.readouterr().out == "ok: search: usage\n"


@pytest.mark.seed("TNX-13")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_third_example_returns_an_image_read_from_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    from toolnexus import ToolResult, image
    from toolnexus.content import to_dict

    GOLDEN = open("examples/media/fixture.png.base64").read().strip()  # noqa: SIM115 - as printed

    def screenshot() -> ToolResult:
        part = image("examples/media/fixture.png")
        return ToolResult(
            # What the transcript, compaction and a text-only provider see.
            output=f"screenshot ({part.mimeType}, 82 bytes)",
            is_error=False,
            # What a vision model sees this turn.
            parts=[to_dict(part)],
        )

    res = screenshot()
    assert res.output == "screenshot (image/png, 82 bytes)"
    assert res.is_error is False
    assert len(res.parts) == 1
    assert res.parts[0]["type"] == "image"
    assert res.parts[0]["mimeType"] == "image/png"
    assert res.parts[0]["data"] == GOLDEN
    assert "path" not in res.parts[0]  # a part never carries a path

    # parts is optional: absent means a plain, pre-0.17-identical result.
    assert ToolResult(output="done", is_error=False).parts is None

    print("ok:", res.output, "|", len(res.parts), "part")

    assert capsys.readouterr().out == "ok: screenshot (image/png, 82 bytes) | 1 part\n"


@pytest.mark.seed("TNX-18", "TNX-19", "TNX-20", "TNX-22", "TNX-23")
def test_the_fourth_example_suspends_and_reads_the_request_back(capsys: pytest.CaptureFixture[str]) -> None:
    from toolnexus import auth_required, pending, pending_of

    # pending() returns a ToolResult carrying metadata["pending"] = Request.
    res = pending(kind="input", prompt="Which environment?")

    assert res.is_error is True  # a parked call is not a success
    req = pending_of(res)
    assert req is not None, "pending_of reads the suspension back off the result"
    assert req.kind == "input"
    assert req.prompt == "Which environment?"
    assert req.id, "an id is generated as the correlation key"

    # auth_required is sugar for the login case.
    auth = auth_required("https://example.com/login")
    assert pending_of(auth).kind == "authorization"
    assert pending_of(auth).url == "https://example.com/login"

    # An ordinary result has no suspension.
    from toolnexus import ToolResult

    assert pending_of(ToolResult(output="done", is_error=False)) is None

    print("ok:", req.kind, "|", pending_of(auth).kind)

    assert capsys.readouterr().out == "ok: input | authorization\n"
