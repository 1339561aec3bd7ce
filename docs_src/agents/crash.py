import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ferrule import Agent, App, Context, tool
from ferrule.journal.sqlite import SqliteStore
from ferrule.journal.store import Store
from ferrule.provider.base import ModelRequest
from ferrule.testing import CrashingStore, CrashPoint, call

point = CrashPoint("tool.settled", when="before")  # paid, and not yet recorded


def desk(store: Store, ledger: Path) -> App:
    def paid(ctx: Context, arguments: dict[str, Any]) -> str | None:
        return "paid before" if ledger.exists() and ctx.effect_key in ledger.read_text() else None

    @tool(effect="once", check=paid)
    def pay(ctx: Context, amount: int) -> str:
        """Pay."""
        with ledger.open("a") as file:
            file.write(f"{ctx.effect_key} {amount}\n")
        return "paid"

    def model(request: ModelRequest) -> Any:
        return "Paid." if len(request.messages) > 1 else call("pay", {"amount": 3})

    return App(agents=[Agent("desk", model, tools=[pay])], store=store)


async def end(app: App) -> None:
    async with app.working() as worker:
        for other in await app.store.workers():
            if other != worker.id:
                await app.store.retire(other)  # it is dead: no need to wait until its lease is over
        (run,) = await app.store.entries()
        result = await worker.result(run.run_id)
        print(result.status, result.output)


if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    store: Any = CrashingStore(SqliteStore(folder / "runs.db"), point)
    asyncio.run(desk(store, folder / "ledger").run("desk", "Pay 3."))
else:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("exit status", subprocess.run([sys.executable, __file__, name]).returncode)
        asyncio.run(end(desk(SqliteStore(folder / "runs.db"), folder / "ledger")))
        print("payments:", len((folder / "ledger").read_text().splitlines()))
