// Starts the page: views, the key, the models, and whether the gateway answers.

import { byId, el, say } from "./dom.js";
import { GatewayError, getJson, key } from "./gateway.js";
import { Live } from "./live.js";
import { startPlayground } from "./playground.js";
import { startPredict } from "./predict.js";

const VIEWS = ["playground", "predict", "live"];
const RETRY_MS = 3000;

const state = byId("state");
const models = byId("model");
const dialog = byId("key-dialog");
const live = new Live();
let isAsking = false;
let timer = null;

/** What the views share. */
const shared = {
  get model() {
    return models.value;
  },
  announce: (sentence) => say(byId("announcement"), sentence),
  onError(error) {
    if (error.status === 401) askForKey(error.message);
    else if (error.status === 0 || error.status === 503) findModels();
  },
};

function showView() {
  const asked = location.hash.slice(1);
  const name = VIEWS.includes(asked) ? asked : VIEWS[0];
  for (const view of VIEWS) byId(view).hidden = view !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  live.setVisible(name === "live");
}

// Asks until the gateway answers with models.
async function findModels() {
  if (isAsking) return;
  isAsking = true;
  clearTimeout(timer);
  try {
    const { data } = await getJson("v1/models");
    showModels(data.map((model) => model.id));
    setState("ready", "good");
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    if (error.status === 401) {
      setState("needs a key", "warning");
      askForKey(key.get() ? error.message : "");
    } else {
      setState(error.status ? error.message : "The gateway does not answer; trying again.", "warning");
      timer = setTimeout(findModels, RETRY_MS);
    }
  } finally {
    isAsking = false;
  }
}

function setState(text, kind) {
  say(state, text);
  state.dataset.kind = kind;
}

function showModels(ids) {
  const chosen = models.value;
  models.replaceChildren(...ids.map((id) => el("option", { value: id }, id)));
  if (ids.includes(chosen)) models.value = chosen;
}

function askForKey(reason) {
  byId("key-button").hidden = false;
  say(byId("key-reason"), reason);
  byId("key-reason").hidden = !reason;
  if (!dialog.open) dialog.showModal();
}

function useKey(value) {
  key.set(value);
  byId("key").value = "";
  dialog.close();
  findModels();
  live.refresh();
}

byId("key-button").hidden = !key.get();
byId("key-button").addEventListener("click", () => askForKey(""));
byId("key-forget").addEventListener("click", () => useKey(""));
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(byId("key").value.trim());
});
addEventListener("hashchange", () => {
  showView();
  scrollTo(0, 0);
});
startPlayground(shared);
startPredict(shared);
showView();
findModels();
