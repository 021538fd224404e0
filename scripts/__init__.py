"""The commands that CONTRIBUTING.md lists, and the tools behind them."""
