"""Docstrings: every usual layout gives the same descriptions, and the block never reaches the model."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import tool
from ferrule.tool.schema.docstring import About, parse_docstring

NAMES = {"order_id", "limit"}
EXPECTED = {"order_id": "The order's number.", "limit": "Most hits to show."}

LAYOUTS = {
    "Google": """Find an order.

        Args:
            order_id: The order's number.
            limit: Most hits
                to show.
        """,
    "Google, types and a default": """Find an order.

        Args:
            order_id (str): The order's number.
            limit (int, optional): Most hits to show.
        """,
    "lines that go on as deep as their entry": """Find an order.

        Args:
            order_id: The order's
            number.
            limit: Most hits

            to show.
        """,
    "no blank line above": """Find an order.
        Args:
            order_id: The order's number.
            limit: Most hits to show.
        """,
    "a blank line below": """Find an order.

        Args:

            order_id: The order's number.

            limit: Most hits to show.
        """,
    "text on the next line": """Find an order.

        Args:
            order_id:
                The order's number.
            limit:
                Most hits to show.
        """,
    "entries as deep as the head": """Find an order.

        Args:
        order_id: The order's number.
        limit: Most hits to show.
        """,
    "another word for Args": """Find an order.

        Parameters:
            order_id: The order's number.
            limit: Most hits to show.
        """,
    "two blocks": """Find an order.

        Args:
            order_id: The order's number.

        Keyword Args:
            limit: Most hits to show.
        """,
    "names that are no parameters": """Find an order.

        Args:
            order_id: The order's number.
            cursor: Not in the signature.
            limit: Most hits to show.
        """,
    "stars": """Find an order.

        Args:
            *order_id: The order's number.
            **limit: Most hits to show.
        """,
    "carriage returns": "Find an order.\r\n\r\n    Args:\r\n        order_id: The order's number.\r\n"
    "        limit: Most hits to show.\r\n",
    "NumPy": """Find an order.

        Parameters
        ----------
        order_id : str
            The order's number.
        limit : int, optional
            Most hits to show.
        """,
    "NumPy, no blank line above": """Find an order.
        Parameters
        ----------
        order_id
            The order's number.
        limit
            Most hits to show.
        """,
    "Sphinx": """Find an order.

        :param order_id: The order's number.
        :param int limit: Most hits
            to show.
        """,
    "Sphinx, no blank line above, types apart": """Find an order.
        :param order_id: The order's number.
        :type order_id: str
        :param limit: Most hits to show.
        :type limit: int
        """,
}


@pytest.mark.case("C007")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_descriptions(layout: str) -> None:
    assert parse_docstring(LAYOUTS[layout], NAMES, "find") == About("Find an order.", EXPECTED)


@pytest.mark.case("C007")
@pytest.mark.parametrize(
    "doc",
    [
        "Args:\n        order_id: The order's number.\n        limit: Most hits to show.\n    ",
        "Args:\n\n        order_id: The order's number.\n        limit:\n            Most hits to show.\n    ",
        "Parameters\n    ----------\n    order_id\n        The order's number.\n    limit\n        Most hits to show.",
        ":param order_id: The order's number.\n    :param limit: Most hits to show.\n    ",
    ],
)
def test_a_block_on_the_first_line_leaves_no_description(doc: str) -> None:
    assert parse_docstring(doc, NAMES, "find") == About("", EXPECTED)


@pytest.mark.parametrize(
    ("doc", "description"),
    [
        (
            "Find.\n\nArgs:\n    limit: Most.\n\nReturns:\n    The order.\n\nRaises:\n    KeyError: None there.",
            "Find.\n\nReturns:\n    The order.\n\nRaises:\n    KeyError: None there.",
        ),
        ("Find.\n\nArgs:\n    limit: Most.\n\nNever use it for refunds.", "Find.\n\nNever use it for refunds."),
        ("Find.\n\nArgs:\nlimit: Most.\nReturns:\n    The order.", "Find.\n\nReturns:\n    The order."),
        (
            "Find.\n\nParameters\n----------\nlimit : int\n    Most.\n\nNotes\n-----\nSlow.",
            "Find.\n\nNotes\n-----\nSlow.",
        ),
        ("Find.\n\n:param limit: Most.\n:returns: The order.", "Find.\n\n:returns: The order."),
    ],
)
def test_only_the_parameter_block_leaves_the_description(doc: str, description: str) -> None:
    assert parse_docstring(doc, {"limit"}, "find") == About(description, {"limit": "Most."})


def test_one_entry_may_describe_two_parameters() -> None:
    doc = "Draw.\n\nArgs:\n    x, y: Where."
    assert parse_docstring(doc, {"x", "y"}, "draw").parameters == {"x": "Where.", "y": "Where."}


def test_a_colon_or_a_list_inside_a_description_stays_in_it() -> None:
    doc = 'Find.\n\nArgs:\n    x: One of: "a", "b".\n        - b: rarely\n    y: Plain.'
    expected = {"x": 'One of: "a", "b". - b: rarely', "y": "Plain."}
    assert parse_docstring(doc, {"x", "y"}, "find").parameters == expected


@pytest.mark.case("C007")
@pytest.mark.parametrize(
    "doc",
    [
        "Find.\n\nArgs:\n    the number and the limit",
        "Find.\n\nArgs:",
        "Find.\n\nArgs:\n    cursor: Not in the signature.",
        "Find.\n\n:param : nameless",
        "Find.\n\nParameters\n----------\nnothing of use here",
    ],
)
def test_a_block_that_describes_nothing_warns_and_leaves_the_description(doc: str) -> None:
    text = "the docstring of tool 'find' has a parameter block that describes none of its parameters"
    with pytest.warns(UserWarning, match=f"^{text}$"):
        assert parse_docstring(doc, NAMES, "find") == About("Find.", {})


@pytest.mark.parametrize(
    "doc", ["", "Find.", "Change the\nparameters\nof a job.", "Find: all. Args: none.", "Find.\n\nNote:\n    Slow."]
)
def test_text_without_a_block_is_all_description(doc: str) -> None:
    assert parse_docstring(doc, NAMES, "find") == About(doc, {})


def test_a_block_of_a_tool_without_parameters_does_not_warn() -> None:
    assert parse_docstring("Now.\n\nArgs:\n    None", set(), "now") == About("Now.", {})


LINES = st.sampled_from(
    [
        "Args:",
        "Parameters",
        "----------",
        ":param a: x",
        ":param a",
        ":param : y",
        ":type a: int",
        "    a: The a",
        "a:",
        " a (int): b",
        "    ",
        "",
        "Returns:",
        "Returns",
        "text. more",
        "\t",
        ":",
        "a : int",
        "    a, b : int",
        "(",
        ")",
    ]
)


@given(st.lists(LINES, max_size=10).map("\n".join) | st.text())
def test_no_docstring_raises(doc: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert parse_docstring(doc, {"a", "b"}, "t").parameters.keys() <= {"a", "b"}


def test_a_tool_shows_what_its_docstring_says() -> None:
    @tool
    def find(order_id: str, limit: int = 10) -> None:
        """Find an order.

        Args:
            order_id: The order's number.
            limit: Most hits to show.
        """

    properties = find.parameters.schema["properties"]
    assert find.description == "Find an order."
    assert {name: properties[name]["description"] for name in properties} == EXPECTED
