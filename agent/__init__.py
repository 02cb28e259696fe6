"""The mind: model client, turn loop, prompt, tools, memory. Knows no platform and no database driver."""
