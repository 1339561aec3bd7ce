import asyncio

from ferrule import Toolset, tool


@tool(effect="read")
async def search_files(query: str) -> list[str]:
    """Search the files."""
    return [f"{query}.txt"]


@tool(effect="once", name="user-profile/update")
async def update(name: str) -> str:
    """Change the user's name."""
    return f"now {name}"


tools = Toolset([search_files, update])
print(tools.wire_names)
print(asyncio.run(tools.call("user-profile_update_0c6c4839", {"name": "Ada"})).output)
print(asyncio.run(tools.call("serch_files", {"query": "a"})).output)
print(tools.filter(lambda t: t.effect == "read").prefix("local_").names)
