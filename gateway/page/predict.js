// Predict: an edit of a file, with the file as the prediction, and what changed.

import { changes, withoutFence } from "./diff.js";
import { byId, el, say } from "./dom.js";
import { write } from "./figures.js";
import { Run, SPECULATION_OFF, TRACED } from "./run.js";

const CONTEXT_LINES = 3;
const CHARACTERS_PER_TOKEN = 2; // few, so that a file of short words is not cut
const MORE_TOKENS = 300;
const SIGNS = { same: " ", added: "+", removed: "−" };
const SAMPLE_INSTRUCTION = "Rename the variable total to amount.";
const SAMPLE = `def price_of(items, discount):
    total = 0
    for item in items:
        total = total + item.price * item.count
    if discount is not None:
        total = total * (1 - discount)
    return round(total, 2)


def report(orders):
    lines = []
    for order in orders:
        total = price_of(order.items, order.discount)
        lines.append(f"{order.name}: {total}")
    return "\\n".join(lines)
`;

/** Connects the view. `shared` has the model, `announce` and `onError`. */
export function startPredict(shared) {
  let run = null;
  byId("sample").addEventListener("click", () => {
    byId("instruction").value = SAMPLE_INSTRUCTION;
    byId("file").value = SAMPLE;
  });
  byId("edit-compare").addEventListener("change", showOptions);
  showOptions();
  byId("edit-stop").addEventListener("click", () => run?.stop());
  byId("edit").addEventListener("submit", (event) => {
    event.preventDefault();
    if (run?.isRunning) return;
    showError(shared.model ? "" : "There is no model yet.");
    if (!shared.model) return;
    const file = byId("file").value;
    run = new Run({
      lanes: lanes(shared.model, byId("instruction").value, file),
      together: byId("edit-together").checked,
      announce: shared.announce,
      onError: shared.onError,
      onChange: () => {
        showRunning(run.isRunning);
        byId("difference").hidden = run.isRunning;
        if (!run.isRunning) showDifference(file, withoutFence(run.lanes[0].answer.text));
      },
    });
    byId("edit-run").replaceChildren(run.element);
    run.start();
  });
}

function showRunning(isRunning) {
  byId("edit-stop").hidden = !isRunning;
  byId("edit-send").disabled = isRunning;
}

function showOptions() {
  byId("edit-together").disabled = !byId("edit-compare").checked;
}

function showError(message) {
  say(byId("edit-error"), message);
  byId("edit-error").hidden = !message;
}

function lanes(model, instruction, file) {
  const asked = `${instruction}\n\nAnswer with the whole new file and nothing else.\n\n\`\`\`\n${file}\n\`\`\``;
  const body = {
    model,
    messages: [{ role: "user", content: asked }],
    temperature: 0,
    max_tokens: Math.ceil(file.length / CHARACTERS_PER_TOKEN) + MORE_TOKENS,
    stream: true,
    stream_options: { include_usage: true },
  };
  const prediction = { type: "content", content: file };
  const on = { title: "With the prediction", body: { ...body, prediction, ...TRACED } };
  const off = { title: "Speculation off", body: { ...body, ...SPECULATION_OFF } };
  return byId("edit-compare").checked ? [on, off] : [on];
}

function showDifference(before, after) {
  const found = changes(before, after);
  const count = (kind) => found.filter((line) => line.kind === kind).length;
  say(byId("difference-count"), `${linesOf(count("added"))} added, ${linesOf(count("removed"))} removed.`);
  byId("difference-lines").replaceChildren(...rows(found));
}

function linesOf(count) {
  return count === 1 ? "1 line" : `${write.count(count)} lines`;
}

// Changed lines with a few others around them.
function rows(lines) {
  const isNear = lines.map((_, index) =>
    lines.slice(Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1).some((line) => line.kind !== "same"),
  );
  const made = [];
  let skipped = 0;
  const flush = () => {
    if (skipped) made.push(el("div", { class: "skipped" }, `${linesOf(skipped)} unchanged`));
    skipped = 0;
  };
  lines.forEach(({ kind, text }, index) => {
    if (!isNear[index]) {
      skipped += 1;
      return;
    }
    flush();
    const tag = { same: "div", added: "ins", removed: "del" }[kind];
    made.push(el(tag, { class: kind }, `${SIGNS[kind]} ${text}`));
  });
  flush();
  return made;
}
