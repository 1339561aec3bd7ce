from ferrule import pending

parked = pending(kind="input", prompt="Which environment?")
print(parked.status, parked.success, parked.error)
assert parked.pending is not None
print(parked.pending.kind, parked.pending.prompt)
