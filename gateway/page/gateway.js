// Talks to the gateway: relative URLs, the key, errors in words, and streams of events.

const KEY = "specgate.key";

/** What went wrong, in words that can be shown. `status` is 0 if there was no answer. */
export class GatewayError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** Asks for JSON; `path` is relative to the page. */
export async function getJson(path) {
  const answer = await send(path, { headers: headers() });
  return parse(await answer.text());
}

/**
 * Posts a request and yields the JSON of each event of its stream, until `[DONE]`.
 * Throws a GatewayError if it is refused, breaks off, or has an event with an error.
 */
export async function* streamJson(path, body, signal) {
  const answer = await send(path, {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify(body),
    signal,
  });
  for await (const data of events(answer.body, signal)) {
    if (data === "[DONE]") return;
    const event = parse(data);
    if (event.error) throw new GatewayError(event.error.message ?? "The stream failed.", 200);
    yield event;
  }
  throw new GatewayError("The stream broke off before its end.", 0);
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new GatewayError("The gateway’s answer is not JSON.", 200);
  }
}

function headers(more = {}) {
  return key.get() ? { ...more, authorization: `Bearer ${key.get()}` } : more;
}

async function send(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new GatewayError("The gateway does not answer.", 0);
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  let message = "";
  try {
    message = (await answer.json()).error?.message ?? "";
  } catch {
    message = `The gateway answered with status ${answer.status}.`; // not our JSON: a proxy's page
  }
  const seconds = answer.headers.get("retry-after");
  const later = seconds ? ` Try again in ${seconds} s.` : "";
  return new GatewayError((message || `Status ${answer.status}.`) + later, answer.status);
}

async function* events(stream, signal) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await read(reader, signal);
      if (done) return;
      const parts = (held + value).split(/\r?\n\r?\n/);
      held = parts.pop();
      for (const part of parts) {
        const lines = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (lines.length) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // it has ended already, or failed with the error above
  }
}

async function read(reader, signal) {
  try {
    return await reader.read();
  } catch (error) {
    if (signal?.aborted) throw new DOMException("Stopped", "AbortError");
    throw new GatewayError("The connection to the gateway was lost.", 0);
  }
}
