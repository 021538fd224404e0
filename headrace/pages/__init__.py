"""The cloud's own pages, `/_headrace/`: what each shows, who may see it, and which path leads to it.

Services give the data and this package renders it; no service imports it. `site` lists all pages.
"""
