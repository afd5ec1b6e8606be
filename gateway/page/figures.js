// The figures of one answer: what was counted, and how it is written.

/**
 * Collects figures while a stream runs. Times are milliseconds of `performance.now()`.
 * Tokens are counted from the trace; what was drafted comes with the last chunk.
 */
export class Figures {
  counts = {};
  tokens = 0;
  sources = null;
  usage = null;
  #sent = null;
  #first = null;
  #tokensAtFirst = 0;
  #last = null;

  /** The request is sent now. */
  begin() {
    this.#sent = performance.now();
  }

  /** Takes in a chunk of the stream that arrived now. */
  add(chunk) {
    const entries = chunk.speculation?.trace ?? [];
    for (const [source] of entries) this.counts[source] = (this.counts[source] ?? 0) + 1;
    this.tokens += entries.length;
    if (chunk.usage) this.usage = chunk.usage;
    const sources = chunk.metrics?.speculative_decoding?.sources;
    if (sources) this.sources = sources;
    if (!entries.length) return;
    this.#last = performance.now();
    if (this.#first === null) {
      this.#first = this.#last;
      this.#tokensAtFirst = this.tokens;
    }
  }

  /** Seconds from sending to the first token; null before. */
  get firstTokenSeconds() {
    return this.#first === null ? null : (this.#first - this.#sent) / 1000;
  }

  /** Seconds from sending to the last token; null before the first. */
  get seconds() {
    return this.#last === null ? null : (this.#last - this.#sent) / 1000;
  }

  /** Tokens per second after the first ones; null while there are too few to tell. */
  get tokensPerSecond() {
    const seconds = (this.#last - this.#first) / 1000;
    return seconds > 0.02 ? (this.tokens - this.#tokensAtFirst) / seconds : null;
  }

  /** Every step of the model makes one token of its own, after the drafted ones it accepted. */
  get tokensPerStep() {
    return this.counts.target ? this.tokens / this.counts.target : null;
  }

  get drafted() {
    return this.sources && sum(Object.values(this.sources).map((source) => source.drafted));
  }

  get accepted() {
    return this.sources && sum(Object.values(this.sources).map((source) => source.accepted));
  }

  get prediction() {
    return this.usage?.completion_tokens_details?.accepted_prediction_tokens == null
      ? null
      : this.usage.completion_tokens_details;
  }
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

const whole = new Intl.NumberFormat("en");
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** Writes numbers; nothing known is a dash. */
export const write = {
  count: (value) => (value == null ? "–" : whole.format(value)),
  number: (value) => (value == null ? "–" : value >= 100 ? whole.format(Math.round(value)) : tenths.format(value)),
  percent: (value) => (value == null ? "–" : `${Math.round(value * 100)} %`),
  share: (part, all) => (all ? write.percent(part / all) : "–"),
  time(seconds) {
    if (seconds == null) return "–";
    return seconds < 1 ? `${whole.format(Math.round(seconds * 1000))} ms` : `${tenths.format(seconds)} s`;
  },
};
