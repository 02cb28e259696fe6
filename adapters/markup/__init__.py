"""Markdown to each platform's text, in parts that fit."""
