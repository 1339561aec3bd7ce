"""The adapters to model APIs: what each accepts and returns, in our terms."""
