// Asks one prompt in one or two lanes: with speculation, and without to compare.

import { Answer } from "./answer.js";
import { el, say } from "./dom.js";
import { GatewayError, streamJson } from "./gateway.js";
import { write } from "./figures.js";

const CHAT = "v1/chat/completions";
const CONTEXT_CHARACTERS = 20;
const asked = new Set();

/** What a request adds to be traced. */
export const TRACED = { speculation: { trace: true } };
/** The same without speculation. With a cache of its own: it must not find there what the first one has read. */
export const SPECULATION_OFF = { speculation: { trace: true, mode: "off" }, cache_salt: "off" };

/**
 * A prompt and its answers.
 *
 * lanes: [{title, body}], the first with speculation; a second is compared with it.
 * together: Whether they run at the same time; else one after the other.
 * announce: Called with a sentence when something worth reading out happens.
 * onChange: Called when the run starts, and when all lanes have ended.
 * onError: Called with the error of a lane that failed.
 */
export class Run {
  #controller = null;

  constructor({ lanes, together, announce, onChange, onError }) {
    this.lanes = lanes.map(({ title, body }) => ({
      body,
      answer: new Answer({ title, retry: () => this.start() }),
    }));
    this.together = together;
    this.announce = announce;
    this.onChange = onChange;
    this.onError = onError;
    this.verdict = el("p", { class: "verdict", hidden: lanes.length < 2 });
    this.again = el("p", { class: "quiet", hidden: true });
    const answers = this.lanes.map((lane) => lane.answer.element);
    this.element = el(
      "div",
      { class: "run" },
      this.verdict,
      el("div", { class: lanes.length > 1 ? "lanes two" : "lanes" }, ...answers),
      this.again,
    );
  }

  get isRunning() {
    return this.#controller !== null;
  }

  /** Whether every lane has ended as the model ended it. */
  get isDone() {
    return this.lanes.every(({ answer }) => answer.state === "done");
  }

  /** Runs all lanes, from nothing. */
  async start() {
    if (this.isRunning) return;
    this.#controller = new AbortController();
    this.#judge("running", this.together ? "Comparing." : "Comparing: first with speculation, then without.");
    this.#noteRepetition();
    for (const { answer } of this.lanes) answer.reset();
    this.announce("Asked.");
    this.onChange();
    if (this.together) await Promise.all(this.lanes.map((lane) => this.#runLane(lane)));
    else for (const lane of this.lanes) await this.#runLane(lane);
    this.#controller = null;
    this.#conclude();
    this.onChange();
  }

  /** Ends what runs; what has arrived stays. */
  stop() {
    this.#controller?.abort();
  }

  async #runLane({ body, answer }) {
    const { signal } = this.#controller;
    if (signal.aborted) return answer.end("stopped");
    answer.figures.begin();
    try {
      for await (const chunk of streamJson(CHAT, body, signal)) answer.feed(chunk);
      answer.end("done");
    } catch (error) {
      if (error.name === "AbortError") return answer.end("stopped");
      answer.fail(error.message);
      if (error instanceof GatewayError) this.onError(error);
      else reportError(error); // a mistake of this page: the console shows where
    }
  }

  // The index has seen the first answer, so a second one says little about the first time.
  #noteRepetition() {
    const prompt = JSON.stringify(this.lanes[0].body.messages);
    this.again.hidden = !asked.has(prompt);
    say(this.again, "Asked before on this page: the suffix index knows the earlier answer, so this is faster than the first time.");
    asked.add(prompt);
  }

  #conclude() {
    const [first, second] = this.lanes.map((lane) => lane.answer);
    if (!this.isDone) this.#judge("failed", "Not compared.");
    if (this.lanes.some(({ answer }) => answer.state === "failed")) return this.announce("The answer failed.");
    if (this.isDone && second) {
      const sentence = compare(first, second);
      this.#judge("done", sentence);
      return this.announce(sentence);
    }
    const speed = write.number(first.figures.tokensPerSecond);
    this.announce(`Answer ${first.state}: ${write.count(first.figures.tokens)} tokens, ${speed} per second.`);
  }

  #judge(outcome, sentence) {
    this.verdict.dataset.outcome = outcome;
    say(this.verdict, sentence);
  }
}

/** The gain of the first answer over the second in words, and whether they say the same. */
function compare(first, second) {
  const [fast, slow] = [first, second].map((answer) => answer.figures.tokensPerSecond);
  const speeds = `${write.number(fast)} against ${write.number(slow)} tokens per second`;
  const gain = fast && slow ? `${write.number(fast / slow)} times as fast: ${speeds}` : "Too short to compare the speed";
  const [soon, late] = [first, second].map((answer) => write.time(answer.figures.seconds));
  return `${gain}, ${soon} against ${late} in all. ${sameness(outcome(first), outcome(second))}`;
}

function outcome(answer) {
  const calls = answer.calls.map((call) => `${call.name}(${call.arguments})`);
  return [answer.text, ...calls].join("\n");
}

function sameness(first, second) {
  if (first === second) return "The text is the same.";
  const [left, right] = [[...first], [...second]];
  let at = 0;
  while (left[at] === right[at]) at += 1;
  const from = Math.max(0, at - CONTEXT_CHARACTERS);
  const [one, other] = [left, right].map((text) => JSON.stringify(text.slice(from, at + CONTEXT_CHARACTERS).join("")));
  return `The texts differ from character ${write.count(at + 1)} on: ${one} with speculation, ${other} without.`;
}
