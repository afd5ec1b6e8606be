// The playground: a conversation, with speculation and, to compare, without.

import { byId, el, say } from "./dom.js";
import { Run, SPECULATION_OFF, TRACED } from "./run.js";

const SAMPLES = [
  ["Count", "Count from one to thirty in words, separated by commas."],
  ["Code", "Write a Python class Point with x, y, z, an __add__, a __sub__ and an __eq__ method."],
  ["Repeat", "Repeat this three times: The quick brown fox jumps over the lazy dog near the river bank."],
  ["Story", "Tell a short story about a lighthouse and a storm."],
];
const TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Returns the weather of a city",
      parameters: {
        type: "object",
        properties: { city: { type: "string" }, unit: { enum: ["celsius", "fahrenheit"] } },
        required: ["city"],
      },
    },
  },
];
const SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string" },
    age: { type: "integer" },
    hobbies: { type: "array", items: { type: "string" }, maxItems: 5 },
  },
  required: ["name", "age", "hobbies"],
  additionalProperties: false,
};
const TOP_LOGPROBS = 3;
const NEAR_PIXELS = 80;
const MARGIN_PIXELS = 16;

/** A mistake in what was typed, in words. */
class InputError extends Error {}

/** Connects the view. `shared` has the model, `announce` and `onError`. */
export function startPlayground(shared) {
  const turns = [];
  const prompt = byId("prompt");
  byId("tools").value = JSON.stringify(TOOLS, null, 2);
  byId("schema").value = JSON.stringify(SCHEMA, null, 2);
  byId("samples").append(
    ...SAMPLES.map(([name, text]) => el("button", { type: "button", title: text, click: () => ask(text) }, name)),
  );

  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (prompt.value.trim()) ask(prompt.value);
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("ask").requestSubmit();
  });
  byId("stop").addEventListener("click", stopAll);
  byId("clear").addEventListener("click", () => {
    stopAll();
    turns.length = 0;
    byId("turns").replaceChildren();
    byId("samples").hidden = false;
    prompt.focus();
  });
  keepInSight(byId("ask"), byId("turns"));
  byId("options").addEventListener("submit", (event) => event.preventDefault());
  byId("options").addEventListener("change", showOptions);
  showOptions();

  function ask(text) {
    if (isRunning()) return;
    let body;
    try {
      body = request(shared.model, [...history(turns), { role: "user", content: text }]);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      return showError(error.message);
    }
    showError("");
    const run = new Run({
      lanes: lanes(body),
      together: byId("together").checked,
      announce: shared.announce,
      onError: shared.onError,
      onChange: showRunning,
    });
    turns.push({ text, run });
    byId("turns").append(el("div", { class: "turn" }, el("p", { class: "question" }, text), run.element));
    byId("samples").hidden = true;
    if (text === prompt.value) prompt.value = "";
    run.element.scrollIntoView({ block: "nearest" });
    run.start();
  }

  function stopAll() {
    for (const { run } of turns) run.stop();
  }

  function isRunning() {
    return turns.some(({ run }) => run.isRunning);
  }

  function showRunning() {
    byId("stop").hidden = !isRunning();
    byId("send").disabled = isRunning();
  }
}

// Keeps what follows the element in sight while it grows, unless the reader has scrolled away.
function keepInSight(follower, element) {
  let height = element.offsetHeight;
  new ResizeObserver(() => {
    const growth = element.offsetHeight - height;
    height += growth;
    const below = follower.getBoundingClientRect().bottom - innerHeight;
    if (below > 0 && below - growth <= NEAR_PIXELS) scrollBy(0, below + MARGIN_PIXELS);
  }).observe(element);
}

function showError(message) {
  say(byId("ask-error"), message);
  byId("ask-error").hidden = !message;
}

function showOptions() {
  const isComparing = byId("compare").checked;
  byId("together").disabled = !isComparing;
  byId("temperature").disabled = isComparing;
  byId("greedy-note").hidden = !isComparing;
  byId("tools-options").hidden = byId("format").value !== "tools";
  byId("json-options").hidden = byId("format").value !== "json";
}

// Turns that failed or said nothing are left out: a model should not continue half an answer.
function history(turns) {
  return turns.flatMap(({ text, run }) => {
    const { answer } = run.lanes[0];
    const calls = answer.calls.map((call) => `${call.name} ${call.arguments}`);
    const content = [answer.text, ...calls].filter(Boolean).join("\n");
    if (answer.state === "failed" || !content) return [];
    return [{ role: "user", content: text }, { role: "assistant", content }];
  });
}

function request(model, messages) {
  if (!model) throw new InputError("There is no model yet.");
  const body = {
    model,
    messages,
    max_tokens: numberOf("max-tokens", "Most tokens"),
    temperature: byId("compare").checked ? 0 : numberOf("temperature", "Temperature"),
  };
  if (byId("logprobs").checked) Object.assign(body, { logprobs: true, top_logprobs: TOP_LOGPROBS });
  const format = byId("format").value;
  if (format === "tools") {
    Object.assign(body, { tools: parse("tools", "Tools"), tool_choice: byId("tool-choice").value });
  }
  if (format === "json") {
    const schema = parse("schema", "Schema");
    body.response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema } };
  }
  return body;
}

function numberOf(id, label) {
  const { valueAsNumber, validity } = byId(id);
  if (!validity.valid || Number.isNaN(valueAsNumber)) throw new InputError(`${label}: not a number in range.`);
  return valueAsNumber;
}

function parse(id, label) {
  try {
    return JSON.parse(byId(id).value);
  } catch (error) {
    throw new InputError(`${label}: not JSON. ${error.message}`);
  }
}

function lanes(body) {
  const streamed = { ...body, stream: true, stream_options: { include_usage: true } };
  const on = { title: "Speculation on", body: { ...streamed, ...TRACED } };
  const off = { title: "Speculation off", body: { ...streamed, ...SPECULATION_OFF } };
  return byId("compare").checked ? [on, off] : [on];
}
