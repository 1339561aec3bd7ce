"""A small API of our own, to test what is the same for all: `{"say": …}` in, `{"text": …}` out, pieces with `more`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ferrule.errors import ModelError
from ferrule.message import ModelMessage
from ferrule.provider.base import Body, Capabilities, Decoder, Delta, ModelRequest, ModelResponse, Wire
from ferrule.strict_json import dumps


class FakeDecoder(Decoder):
    def __init__(self) -> None:
        self.text = ""
        self.ended = False

    def feed(self, event: str, data: Any) -> Iterable[Delta]:
        if data is None:
            self.ended = True
        elif "error" in data:
            raise ModelError(data["error"], provider="fake", code=event)
        else:
            self.text += data["more"]
            yield Delta("text", data["more"])

    def finish(self) -> ModelResponse:
        if self.ended:
            return ModelResponse(ModelMessage(self.text))
        return ModelResponse(ModelMessage(self.text), "unknown", error=ModelError("cut", provider="fake"))


class FakeWire(Wire):
    api = "gemini"  # its row of the capability table has URLs that must be downloaded

    def path(self, model: str, *, stream: bool) -> str:
        return f"/say/{model}?alt=sse" if stream else f"/say/{model}"

    def headers(self, key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, model: str, capabilities: Capabilities, *, stream: bool) -> Body:
        messages = cast("list[Any]", request.messages)
        parts = [[part.text or part.data or part.url for part in message.parts] for message in messages]
        return Body(dumps({"say": parts, "stream": stream}))

    def response(self, data: Any, model: str) -> ModelResponse:
        said = cast("dict[str, Any]", data if isinstance(data, dict) else {})
        if "text" not in said:
            raise ModelError("no answer in it", provider="fake")
        return ModelResponse(ModelMessage(said["text"]), model=model)

    def decoder(self, model: str) -> Decoder:
        return FakeDecoder()

    def error(self, status: int, headers: Mapping[str, str], data: Any) -> ModelError | ModelResponse:
        if status == 418:
            return ModelResponse(ModelMessage("mended"))
        after = headers.get("retry-after")
        said = cast("dict[str, str]", data if isinstance(data, dict) else {"error": data or "nothing"})
        return ModelError(
            said["error"],
            provider="fake",
            status=status,
            retryable=status in (429, 500),
            retry_after=float(after) if after else None,
        )
