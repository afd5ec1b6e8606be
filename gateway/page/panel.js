// The figures beside an answer: speed, steps, and where its tokens came from.

import { el, say } from "./dom.js";
import { write } from "./figures.js";
import { NAMES, SOURCES } from "./trace.js";

/** Makes the panel: its element, and `show`, which takes figures. */
export function figuresPanel() {
  const speed = el("b", {}, "–");
  const values = {};
  const row = (name, label, title) => {
    values[name] = el("dd", {}, "–");
    return el("div", { title }, el("dt", {}, label), values[name]);
  };
  const bar = el("div", { class: "bar", "aria-hidden": "true" });
  const rows = el("tbody");
  const element = el(
    "div",
    { class: "figures" },
    el("p", { class: "speed", title: "After the first token, as they arrived here" }, speed, " tokens/s"),
    el(
      "dl",
      {},
      row("first", "First token", "From sending the request"),
      row("tokens", "Tokens"),
      row("step", "Tokens per step", "1 without speculation"),
      row("vain", "Drafted in vain", "Draft tokens that were verified and not accepted"),
      row("prediction", "Prediction", "Its tokens: accepted, rejected"),
    ),
    bar,
    el(
      "table",
      {},
      el("caption", { class: "quiet" }, "Where the tokens came from"),
      el("thead", {}, el("tr", {}, ...["Source", "Tokens", "Accepted"].map((name) => el("th", { scope: "col" }, name)))),
      rows,
    ),
  );
  values.prediction.parentElement.hidden = true;

  function show(figures) {
    say(speed, write.number(figures.tokensPerSecond));
    say(values.first, write.time(figures.firstTokenSeconds));
    say(values.tokens, write.count(figures.usage?.completion_tokens ?? figures.tokens));
    say(values.step, write.number(figures.tokensPerStep));
    const { drafted, accepted } = figures;
    say(values.vain, drafted == null ? "–" : `${write.count(drafted - accepted)} of ${write.count(drafted)}`);
    const predicted = figures.prediction;
    values.prediction.parentElement.hidden = !predicted;
    if (predicted) {
      const { accepted_prediction_tokens: taken, rejected_prediction_tokens: left } = predicted;
      say(values.prediction, `${write.count(taken)} accepted, ${write.count(left)} rejected`);
    }
    const found = SOURCES.filter((source) => figures.counts[source] || figures.sources?.[source]);
    bar.replaceChildren(...found.map((source) => part(source, figures)));
    rows.replaceChildren(...found.map((source) => sourceRow(source, figures)));
  }

  return { element, show };
}

function part(source, figures) {
  const made = el("i", { class: `fill ${source}` });
  made.style.flexGrow = figures.counts[source] ?? 0;
  return made;
}

function sourceRow(source, figures) {
  const count = figures.sources?.[source];
  let accepted = count ? `${write.share(count.accepted, count.drafted)} of ${write.count(count.drafted)}` : "";
  if (source === "prediction") accepted = "counted above"; // the suffix index drafts from it
  return el(
    "tr",
    { "data-source": source },
    el("th", { scope: "row" }, el("span", { class: source }, NAMES[source])),
    el("td", {}, write.count(figures.counts[source] ?? 0)),
    el("td", {}, accepted),
  );
}
