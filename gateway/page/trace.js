// Lays the trace of an answer over its text: which token made which part, and where it came from.

/** The sources of tokens, in the order in which they are shown. */
export const SOURCES = ["target", "suffix", "head", "native", "prediction"];

/** Their names in words. */
export const NAMES = {
  target: "model",
  suffix: "suffix index",
  head: "draft head",
  native: "vLLM’s drafter",
  prediction: "prediction",
};

/**
 * Joins text and trace, which may arrive apart. An entry is [source, length], the length in code
 * points. `take` returns the tokens that are complete, in order: {source, text}.
 */
export class TraceLayout {
  #text = "";
  #entries = [];
  #isApart = false;

  /** Adds text of the answer. */
  addText(text) {
    this.#text += text;
  }

  /** Adds entries of the trace. */
  addEntries(entries) {
    for (const [source, length] of entries) {
      this.#entries.push([SOURCES.includes(source) ? source : "target", length]);
    }
  }

  /** From now on text and tokens are returned apart: a parser changed the text. */
  separate() {
    this.#isApart = true;
  }

  /** Returns complete tokens; a text of null: the token has none of the shown text. */
  take() {
    const taken = [];
    let from = 0;
    let used = 0;
    if (this.#isApart) {
      for (const [source] of this.#entries) taken.push({ source, text: null });
      if (this.#text) taken.push({ source: null, text: this.#text });
      this.#entries = [];
      this.#text = "";
      return taken;
    }
    for (const [source, length] of this.#entries) {
      const to = endOf(this.#text, from, length);
      if (to < 0) break;
      taken.push({ source, text: this.#text.slice(from, to) });
      from = to;
      used += 1;
    }
    this.#entries.splice(0, used);
    this.#text = this.#text.slice(from);
    return taken;
  }

  /** Returns what is left at the end: tokens without text, then text without a token. */
  rest() {
    const taken = this.take();
    this.separate();
    return [...taken, ...this.take()];
  }
}

/** The index after `count` code points from `from`; -1 if the text is too short. */
function endOf(text, from, count) {
  let at = from;
  for (let left = count; left > 0; left -= 1) {
    if (at >= text.length) return -1;
    at += text.codePointAt(at) > 0xffff ? 2 : 1;
  }
  return at;
}
