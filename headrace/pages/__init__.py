"""headrace's own pages below `/_headrace/`: what each shows, who may see it, and its path.

Services provide the data and this package renders it; no service imports it. `site` lists all pages.
"""
