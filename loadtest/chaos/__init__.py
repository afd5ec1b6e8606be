"""Faults under load: what becomes of requests when workers, wires, disks and gateways fail."""
