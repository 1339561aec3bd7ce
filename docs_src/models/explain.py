import json

from ferrule import Settings
from ferrule.message import user
from ferrule.provider.base import ModelRequest
from ferrule.provider.presets import model

qwen = model("openai-chat:qwen3", base_url="http://localhost:8000/v1", key="none")
settings = Settings(temperature=0.2, max_tokens=50, extra={"min_p": 0.1})
print(json.dumps(qwen.explain(ModelRequest([user("Hello")], "Be short.", settings=settings)), indent=1))
