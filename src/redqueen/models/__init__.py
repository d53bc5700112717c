"""Base models: loading them, telling them apart, adapters as PEFT folders."""
