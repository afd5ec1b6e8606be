"""HTTP to the workers: connections, pool, health checks, failover and error mapping."""

from gateway.upstream.client import WorkerAnswer, WorkerClient
from gateway.upstream.coalesced import Coalesced
from gateway.upstream.connection_pool import ConnectionTimeouts, WorkerAddress
from gateway.upstream.discovery import Discovery, DiscoveryPolicy
from gateway.upstream.failover import EjectionPolicy, Failover, Outlier, RetryBudget
from gateway.upstream.lease import Lease
from gateway.upstream.pool import Pool, PoolObserver
from gateway.upstream.prediction_tokenizer import PredictionTokenizer
from gateway.upstream.probe import ProbePolicy, Prober
from gateway.upstream.worker import Worker

__all__ = [
    "Coalesced",
    "ConnectionTimeouts",
    "Discovery",
    "DiscoveryPolicy",
    "EjectionPolicy",
    "Failover",
    "Lease",
    "Outlier",
    "Pool",
    "PoolObserver",
    "PredictionTokenizer",
    "ProbePolicy",
    "Prober",
    "RetryBudget",
    "Worker",
    "WorkerAddress",
    "WorkerAnswer",
    "WorkerClient",
]
