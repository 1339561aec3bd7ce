import datetime as dt
import decimal
import json

from ferrule import ToolResult, plain, restore, typed

value = {
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    "price": decimal.Decimal("1.10"),
    "tags": {"b", "a"},
    "ratio": float("nan"),
}
print(json.dumps(plain(value)))
print(json.dumps(typed(value)))

kept = {k: v for k, v in value.items() if k != "ratio"}
print(restore(typed(kept)) == kept)

print(plain(ToolResult.ok({"status": 200})), plain(ToolResult.failed("Webhook request failed")))
