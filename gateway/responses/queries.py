"""The SQL of both stores; parameters are written `:name`."""

from typing import Any

from gateway.responses.store import StoredResponse

_FIELDS = "tenant, id, previous_id, created, items, response"

PUT = f"""
INSERT INTO specgate_responses ({_FIELDS}, bytes)
VALUES (:tenant, :id, :previous_id, :created, :items, :response, :bytes)
ON CONFLICT (tenant, id) DO NOTHING
"""  # noqa: S608  # constants only
GET = f"""
SELECT {_FIELDS} FROM specgate_responses
WHERE tenant = :tenant AND id = :id AND created >= :oldest
"""  # noqa: S608
CHAIN = f"""
WITH RECURSIVE chain (number, previous, place, total) AS (
  SELECT number, previous_id, 1, bytes FROM specgate_responses
  WHERE tenant = :tenant AND id = :id AND created >= :oldest
  UNION ALL
  SELECT r.number, r.previous_id, chain.place + 1, chain.total + r.bytes
  FROM chain JOIN specgate_responses r
    ON r.tenant = :tenant AND r.id = chain.previous AND r.created >= :oldest
  WHERE chain.place <= :most AND chain.total <= :most_bytes
)
SELECT {_FIELDS} FROM chain JOIN specgate_responses USING (number) ORDER BY place DESC
"""  # noqa: S608
DELETE = """
DELETE FROM specgate_responses WHERE tenant = :tenant AND id = :id AND created >= :oldest
"""
EXPIRE = "DELETE FROM specgate_responses WHERE created < :oldest"
USED = "SELECT tenant, SUM(bytes) FROM specgate_responses GROUP BY tenant"
EVICT_TENANT = """
DELETE FROM specgate_responses WHERE number IN (
  SELECT number FROM (
    SELECT number, SUM(bytes) OVER (ORDER BY created DESC, number DESC) AS kept
    FROM specgate_responses WHERE tenant = :tenant
  ) AS newest WHERE kept > :most
)
"""
EVICT = """
DELETE FROM specgate_responses WHERE number IN (
  SELECT number FROM (
    SELECT number, SUM(bytes) OVER (ORDER BY created DESC, number DESC) AS kept
    FROM specgate_responses
  ) AS newest WHERE kept > :most
)
"""
INDEXES = """
CREATE INDEX IF NOT EXISTS specgate_responses_created ON specgate_responses (created);
CREATE INDEX IF NOT EXISTS specgate_responses_used
  ON specgate_responses (tenant, created, number, bytes);
"""


def put_values(response: StoredResponse) -> dict[str, Any]:
    """The parameters of `PUT`."""
    return {
        "tenant": response.tenant,
        "id": response.id,
        "previous_id": response.previous_id,
        "created": response.created,
        "items": response.items,
        "response": response.response,
        "bytes": response.size,
    }
