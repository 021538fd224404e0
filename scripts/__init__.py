"""The commands of CONTRIBUTING, and the tools behind them."""
