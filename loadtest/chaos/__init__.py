"""Faults under load: how requests end when workers, connections, disks or gateways fail."""
