// Live: what the gateway and its workers have done in the last 15 minutes, from GET /live.

import { Chart } from "./chart.js";
import { byId, el, say } from "./dom.js";
import { write } from "./figures.js";
import { GatewayError, getJson } from "./gateway.js";
import { NAMES } from "./trace.js";

const EVERY_MS = 5000;
const OLD_REPORT_SAMPLES = 3;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const writeTime = (seconds) => clock.format(seconds * 1000);
const price = (value) => (value == null ? "–" : value.toFixed(2));
const milliseconds = (value) => (value == null ? "–" : `${write.number(value)} ms`);

const CHARTS = [
  { title: "Tokens per second", write: write.number, lines: { served: "tokens_per_second" } },
  { title: "Requests", write: write.count, lines: { running: "active", queued: "queue" } },
  { title: "Acceptance", write: write.percent, most: 1, bySource: "acceptance" },
  { title: "Draft tokens per second", write: write.number, bySource: "drafted_per_second" },
  {
    title: "Price of a draft token",
    write: price,
    lines: { price: "price" },
    about: "A draft token is verified if it is expected to be accepted more often than this",
  },
  { title: "First token", write: write.time, lines: { median: "ttft_p50", "99 %": "ttft_p99" } },
  {
    title: "Gaps from the worker",
    write: write.time,
    lines: { median: "gap_raw_p50", "99 %": "gap_raw_p99" },
    about: "Time between two tokens as they came",
  },
  {
    title: "Gaps after pacing",
    write: write.time,
    lines: { median: "gap_paced_p50", "99 %": "gap_paced_p99" },
    about: "Time between two tokens as they were sent to the client",
  },
];

/** The view. It asks for news while it can be seen. */
export class Live {
  #isVisible = false;
  #timer = null;
  #charts = CHARTS.map((options) => ({ options, chart: new Chart({ ...options, writeX: writeTime }) }));

  constructor() {
    byId("live-charts").append(...this.#charts.map(({ chart }) => chart.element));
    document.addEventListener("visibilitychange", () => this.refresh());
  }

  setVisible(isVisible) {
    this.#isVisible = isVisible;
    this.refresh();
  }

  /** Asks now, and then every five seconds. */
  async refresh() {
    clearTimeout(this.#timer);
    if (!this.#isVisible || document.hidden) return;
    const timer = setTimeout(() => this.refresh(), EVERY_MS);
    this.#timer = timer;
    try {
      const news = await getJson("live");
      this.#show(news);
      this.#say(`The last 15 minutes of this gateway, version ${news.version}.`, false);
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      this.#say(`${error.message} What was seen last is below; asking again.`, true);
    }
  }

  #say(text, isError) {
    say(byId("live-note"), text);
    byId("live-note").className = isError ? "error" : "";
  }

  #show(news) {
    for (const { options, chart } of this.#charts) chart.show(news.times, seriesOf(options, news.series));
    byId("live-workers").replaceChildren(...news.workers.map((worker) => workerCard(worker, news)));
    const { dashboards, runbook } = news.links;
    byId("live-links").replaceChildren(...[link(dashboards, "Dashboards"), link(runbook, "Runbook")].filter(Boolean));
  }
}

function seriesOf({ lines, bySource }, series) {
  if (lines) return Object.entries(lines).map(([name, key]) => ({ name, values: series[key] }));
  return Object.entries(series[bySource]).map(([source, values]) => ({ name: NAMES[source] ?? source, values }));
}

// Only http and https: an address from the settings must not run as a script.
function link(address, name) {
  return address && /^https?:\/\//.test(address) ? el("a", { href: address, rel: "noreferrer" }, name) : null;
}

function workerCard(worker, { now, every_seconds: every }) {
  const isOld = worker.reported != null && now - worker.reported > OLD_REPORT_SAMPLES * every;
  return el(
    "article",
    { class: isOld ? "worker old" : "worker" },
    el("header", {}, el("h3", {}, worker.worker), el("span", { class: "pill", "data-kind": isGood(worker) ? "good" : "warning" }, stateOf(worker))),
    el("p", { class: "quiet" }, `${write.count(worker.in_flight)} in flight · ${worker.models.join(", ") || "no model"}${supervision(worker)}`),
    worker.error && el("p", { class: "error" }, worker.error),
    isOld && el("p", { class: "quiet" }, `Reported last at ${writeTime(worker.reported)}.`),
    ...worker.engines.map(engineCard),
  );
}

function isGood(worker) {
  return worker.up && !worker.ejected;
}

function stateOf(worker) {
  if (!worker.up) return worker.supervisor?.state ?? "down";
  return worker.ejected ? "ejected" : "up";
}

function supervision({ supervisor, ejections }) {
  const parts = [];
  if (ejections) parts.push(`ejected ${write.count(ejections)} times`);
  if (supervisor?.restarts) {
    parts.push(`restarted ${write.count(supervisor.restarts)} times, last: ${supervisor.last_reason ?? "unknown"}`);
  }
  return parts.map((part) => ` · ${part}`).join("");
}

function engineCard(engine) {
  const facts = [
    ["Price", price(engine.price)],
    ["Head", engine.head && `${engine.head.name ?? ""} ${engine.head.version}`.trim()],
    ["On trial", engine.trial && `${engine.trial.name ?? engine.trial.version} (${engine.trial.role})`],
    ["Steps", engine.launch && `${write.count(engine.launch.waited)} after their tokens, ${write.count(engine.launch.ahead)} ahead`],
  ];
  return el(
    "div",
    { class: "engine" },
    el("div", {},
      el("dl", {}, ...facts.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
      el("ul", { class: "sources" }, ...engine.sources.map(sourceLine)),
    ),
    engine.step_ms?.length > 1 && costChart(engine.step_ms),
  );
}

function sourceLine({ name, verdict, state }) {
  return el("li", { "data-state": state }, el("b", {}, NAMES[name] ?? name), " ", verdict);
}

// Sizes double, so the axis does as well.
function costChart(steps) {
  const chart = new Chart({
    title: "Cost of a step",
    write: milliseconds,
    writeX: (x) => (x === 0 ? "1 token" : `${write.count(Math.round(2 ** x))} tokens`),
    about: "As the gate has learnt it; the axis doubles",
  });
  chart.show(steps.map(([tokens]) => Math.log2(tokens)), [{ name: "a step", values: steps.map(([, ms]) => ms) }]);
  return chart.element;
}
