// One answer on the screen: its coloured text, its state, and its figures beside it.

import { el, say } from "./dom.js";
import { Figures, write } from "./figures.js";
import { paintSoon } from "./paint.js";
import { figuresPanel } from "./panel.js";
import { NAMES, TraceLayout } from "./trace.js";

const TOKENS_PER_FRAME = 300; // more take longer than a frame on a slow machine
const FIGURES_EVERY_MS = 250;

/**
 * An answer. `feed` takes the chunks of its stream, `end` and `fail` what becomes of it.
 * What is drawn follows one frame later; `text` and `figures` are up to date at once.
 */
export class Answer {
  #layout; // of text and tokens that are not drawn yet
  #ready; // tokens to draw
  #logprobs; // of all tokens, in order
  #shown; // number of tokens drawn
  #line; // to which the next token is added
  #detailed; // token whose detail is shown
  #figuresAt = 0;

  constructor({ title, retry }) {
    this.retry = retry;
    this.stateLine = el("span", { class: "state" }, "waiting");
    this.body = el("div", { class: "text", role: "group", tabindex: "0", "aria-label": `Answer, ${title}` });
    this.callList = el("div", { class: "calls" });
    this.strip = el("div", { class: "strip", hidden: true });
    this.detail = el("p", { class: "detail", role: "status" });
    this.note = el("div", { class: "note", hidden: true });
    this.panel = figuresPanel();
    this.element = el(
      "article",
      { class: "answer", "aria-busy": "true", "aria-label": title },
      el("header", {}, el("h3", {}, title), this.stateLine),
      el("div", { class: "content" }, this.body, this.strip, this.callList, this.detail, this.note),
      this.panel.element,
    );
    this.body.addEventListener("mouseover", (event) => this.#show(event.target));
    this.body.addEventListener("focusin", (event) => this.#show(event.target));
    this.body.addEventListener("keydown", (event) => this.#move(event));
    this.reset();
  }

  /** Begins again, with nothing. */
  reset() {
    this.text = "";
    this.calls = [];
    this.state = "waiting";
    this.figures = new Figures();
    this.#layout = new TraceLayout();
    this.#ready = [];
    this.#logprobs = [];
    this.#shown = 0;
    this.#line = null;
    this.#detailed = null;
    this.body.replaceChildren();
    this.callList.replaceChildren();
    this.strip.replaceChildren();
    this.strip.hidden = true;
    this.note.hidden = true;
    this.body.hidden = false;
    say(this.detail, "");
    this.element.setAttribute("aria-busy", "true");
    paintSoon(this);
  }

  /** Takes in a chunk of the stream. */
  feed(chunk) {
    this.state = "streaming";
    this.figures.add(chunk);
    const choice = chunk.choices?.[0];
    const delta = choice?.delta ?? {};
    const reasoning = delta.reasoning ?? delta.reasoning_content;
    if (delta.tool_calls?.length || reasoning) this.#layout.separate();
    for (const text of [reasoning, delta.content]) if (text) this.#addText(text);
    for (const call of delta.tool_calls ?? []) this.#addCall(call);
    this.#layout.addEntries(chunk.speculation?.trace ?? []);
    this.#logprobs.push(...(choice?.logprobs?.content ?? []));
    this.#ready.push(...this.#layout.take());
    paintSoon(this);
  }

  /** The stream has ended; `state` says how: "done" or "stopped". */
  end(state) {
    this.state = state;
    this.#ready.push(...this.#layout.rest());
    this.element.setAttribute("aria-busy", "false");
    paintSoon(this);
  }

  /** The stream failed; what has arrived stays, and can be asked for again. */
  fail(message) {
    this.end("failed");
    const kept = this.figures.tokens ? ` ${write.count(this.figures.tokens)} tokens had arrived; they stay.` : "";
    this.note.replaceChildren(
      el("p", {}, message + kept),
      el("button", { type: "button", click: this.retry }, "Try again"),
    );
    this.note.hidden = false;
  }

  /** Draws what has arrived; called once per frame. */
  paint() {
    const now = this.#ready.splice(0, TOKENS_PER_FRAME);
    for (const token of now) this.#append(token);
    const isOver = this.state !== "streaming" && this.state !== "waiting";
    say(this.stateLine, this.state);
    this.element.dataset.state = this.state;
    if (isOver && !this.text && this.calls.length) this.body.hidden = true;
    const time = performance.now();
    if (isOver || time - this.#figuresAt > FIGURES_EVERY_MS) {
      this.#figuresAt = time;
      this.panel.show(this.figures);
    }
    return this.#ready.length > 0;
  }

  #addText(text) {
    this.text += text;
    this.#layout.addText(text);
  }

  #addCall({ index = 0, function: called = {} }) {
    if (!this.calls[index]) {
      const name = el("strong");
      const given = el("code");
      this.calls[index] = { name: "", arguments: "", element: { name, given } };
      this.callList.append(el("p", { class: "call" }, "calls ", name, given));
    }
    const call = this.calls[index];
    call.name += called.name ?? "";
    call.arguments += called.arguments ?? "";
    say(call.element.name, call.name);
    say(call.element.given, call.arguments);
  }

  #append({ source, text }) {
    const index = source === null ? null : this.#shown++;
    if (text === null) {
      this.strip.hidden = false;
      this.strip.append(el("i", { class: `cell ${source}`, title: NAMES[source] }));
      return;
    }
    if (!text) return;
    // Lines are blocks of their own, so that the browser need not lay out the whole text again.
    if (this.#line === null) {
      this.#line = el("div");
      this.body.append(this.#line);
    }
    const token = el("span", { class: source ?? "unknown" }, text);
    if (index !== null) token.dataset.index = index;
    this.#line.append(token);
    if (text.endsWith("\n")) this.#line = null;
  }

  #show(target) {
    const index = target.dataset?.index;
    if (index === undefined || target === this.#detailed) return;
    this.#detailed = target;
    const parts = [`${JSON.stringify(target.textContent)}: ${NAMES[target.className]}`];
    const found = this.#logprobs[index];
    if (found) {
      parts.push(percent(found.logprob));
      const others = (found.top_logprobs ?? []).filter((other) => other.token !== found.token);
      if (others.length) {
        const listed = others.map((other) => `${JSON.stringify(other.token)} ${percent(other.logprob)}`);
        parts.push(`instead of ${listed.join(", ")}`);
      }
    }
    say(this.detail, parts.join(" · "));
  }

  // Arrow keys go from token to token; Tab leaves the answer.
  #move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const tokens = [...this.body.querySelectorAll("span[data-index]")];
    const at = tokens.indexOf(document.activeElement);
    const next = tokens[at < 0 ? 0 : at + step];
    if (!next) return;
    event.preventDefault();
    next.tabIndex = -1;
    next.focus();
  }
}

function percent(logprob) {
  return `${(Math.exp(logprob) * 100).toFixed(1)} %`;
}
