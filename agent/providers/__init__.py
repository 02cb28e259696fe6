"""External memory providers: stores beside the built-in memory that recall more before each turn.

Adding one: a module here with a class that satisfies `base.MemoryProvider` and a `KIND`, an optional extra in
pyproject.toml, a line in `table.MODULES`, a bench in tests/agent/providers/conformance.py, and a section in
docs/memory-providers.md. The vendor's SDK is imported where the provider is made, never at the top of the
module: naming a provider must cost nothing to those who do not use it.

Every provider keeps what it knows of a scope under `base.bank_of(scope, options.namespace)` and asks for
nothing else; ids of its own making come from `base.document_id`. What the vendor's client raises becomes a
ProviderError at the call. `http.JsonHttp` does that for plain JSON over HTTP.
"""
