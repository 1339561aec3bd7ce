from ferrule import ToolResult

refused = ToolResult.failed("There is no order A-1001.")
print(refused.status, refused.value, refused.error)

broken = ToolResult.failed(TimeoutError())
assert broken.failure is not None
print(broken.error, broken.failure.code, broken.failure.retryable)

quoted = ToolResult.failed(RuntimeError("GET https://api.example.invalid/v1?key=FAKE failed"))
print(quoted.error)
