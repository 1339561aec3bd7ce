"""Write the tests that carry a mark into the manifests.

Run `python tests/contract/link.py` after marking a test with `@pytest.mark.case("C001")`
or `@pytest.mark.seed("TNX-01")`. Only the `tests` lists change, in a stable order.
"""

from __future__ import annotations

import re
from collections import defaultdict

from test_manifests import HERE, MANIFESTS, find_tests

LIST = re.compile(r'^(id = "(?P<id>[^"]+)"\n(?:(?!\[\[).*\n)*?)tests = \[[^\]]*\]', re.MULTILINE)


def relink(text: str, tests: dict[str, list[str]]) -> str:
    """Replace each `tests` list of a manifest.

    Args:
        text: The manifest.
        tests: Node ids by entry; an entry that is missing gets an empty list.

    Returns:
        The manifest, unchanged outside the lists.
    """

    def rewrite(match: re.Match[str]) -> str:
        node_ids = [f'"{node_id}"' for node_id in sorted(tests.get(match["id"], []))]
        if len(node_ids) > 1:
            node_ids = ["\n", *(f"    {node_id},\n" for node_id in node_ids)]
        return f"{match[1]}tests = [{''.join(node_ids)}]"

    return LIST.sub(rewrite, text)


def main() -> None:
    """Rewrite both manifests and say how many links each has."""
    marked = find_tests()
    unknown: list[str] = []
    for manifest in MANIFESTS:
        tests: defaultdict[str, list[str]] = defaultdict(list)
        for node_id, marks in marked.items():
            for mark, id_ in marks:
                if mark == manifest.mark:
                    tests[id_].append(node_id)
        path = HERE / manifest.file
        path.write_text(relink(path.read_text("utf-8"), tests), "utf-8")
        ids = {entry["id"] for entry in manifest.entries()}
        unknown += [f"{id_}: {', '.join(tests[id_])}" for id_ in sorted(tests.keys() - ids)]
        linked = sum(bool(tests.get(id_)) for id_ in ids)
        print(f"{manifest.file}: {linked} of {len(ids)} entries have tests")
    if unknown:
        raise SystemExit("These ids are in no manifest; mend the mark:\n" + "\n".join(unknown))


if __name__ == "__main__":
    main()
