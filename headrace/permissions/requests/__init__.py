"""The actions and resources that requests need, service by service; `headrace.permissions.accesses` uses them."""
