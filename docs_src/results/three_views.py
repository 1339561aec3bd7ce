from ferrule import ToolResult

found = ToolResult.ok({"city": "Oslo", "degrees": 4.5})
print(found.value["city"])  # for code: any Python object
print(found.output)  # for the model: always text
print(found.parts)  # for eyes and ears: none here

nothing = ToolResult.ok(None)
print(nothing.success, repr(nothing.value), repr(nothing.output))
