"""The bindai_core names that bindai_tool needs, handed on to ferrule."""
