"""The engine on torch: a population of adapters on one base, on a CPU or a GPU."""
