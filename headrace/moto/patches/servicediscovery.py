"""Cloud Map: an instance that is registered again replaces itself."""

from __future__ import annotations

import functools
from typing import Any


def replace_instances(module: Any) -> None:
    """Let a service have one instance of an id (documented: API_RegisterInstance); moto keeps the old one beside it."""
    backend: Any = module.ServiceDiscoveryBackend
    register = backend.register_instance

    @functools.wraps(register)
    def register_instance(
        self: Any, service_id: str, instance_id: str, *args: Any, **named: Any
    ) -> Any:
        instances = self.get_service(service_id).instances
        for instance in [one for one in instances if one.instance_id == instance_id]:
            instances.remove(instance)
        return register(self, service_id, instance_id, *args, **named)

    backend.register_instance = register_instance
