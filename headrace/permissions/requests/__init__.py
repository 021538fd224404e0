"""The actions and resources that requests need, service by service; `policies.accesses` uses them."""
