"""Agents: a model that calls tools until it has an answer."""
