// SPDX-License-Identifier: MIT
// Light and dark, keys and clicks, and the beginning.
"use strict";

const THEMES = ["auto", "light", "dark"];

const themeAfter = (theme) => THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];

function useTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = `◐ ${theme}`;
  $("theme").setAttribute("aria-label", `Colours: ${theme}. Press for ${themeAfter(theme)}`);
  memory.redraw();
}

function nextTheme() {
  const theme = themeAfter(document.documentElement.dataset.theme || "auto");
  remember("mnemon-theme", theme);
  useTheme(theme);
}

function pageKey(event) {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    generate();
  } else if (event.key === "Escape") {
    if (state.turn) state.turn.controller.abort();
    else passage.choose(null);
  }
}

function passageKey(event) {
  if (event.target !== passage.box || state.turn) return;
  const at = passage.chosen;
  const to = {
    ArrowLeft: at === null ? passage.end - 1 : at - 1,
    ArrowRight: at === null ? passage.first : at + 1,
    Home: passage.first,
    End: passage.end - 1,
  }[event.key];
  if (to !== undefined) passage.choose(to);
  else if (event.key === "Enter" && at !== null) $("fork-here").focus();
  else return;
  event.preventDefault();
}

function listen() {
  $("composer").onsubmit = (event) => { event.preventDefault(); generate(); };
  $("stop").onclick = () => state.turn?.controller.abort();
  $("prompt").oninput = buttons;
  $("prompt").onkeydown = promptKey;
  $("views").onchange = (event) => useView(event.target.value);
  $("new").onclick = action(async () => { await showSession(null); $("prompt").focus(); });
  $("fork").onclick = action(() => fork());
  $("delete").onclick = action(askToDelete);
  $("fork-here").onclick = action(() => fork(passage.chosen + 1));
  $("rewind-here").onclick = action(() => rewind(passage.chosen + 1));
  $("refresh").onclick = action(loadSessions);
  $("all-models").onchange = action(loadSessions);
  $("earlier").onclick = action(loadEarlier);
  $("newest").onclick = action(() => showText(state.session));
  $("tree").onclick = (event) => {
    const item = event.target.closest("li");
    if (item) action(showSession)(item.dataset.id);
  };
  $("tree").onkeydown = treeKey;
  $("passage-text").onclick = (event) => {
    if (state.turn || !getSelection().isCollapsed || event.target.closest("button")) return;
    passage.choose(passage.tokenAt(event.clientX, event.clientY));
  };
  passage.box.onkeydown = passageKey;
  $("model").onchange = action(async () => {
    useModel(state.models.find((m) => m.id === $("model").value));
    await showSession(null);
    await loadSessions();
  });
  $("error-close").onclick = clearError;
  $("curl").onclick = showCurl;
  $("curl-copy").onclick = copyCurl;
  $("help-open").onclick = () => $("help").showModal();
  $("theme").onclick = nextTheme;
  document.onkeydown = pageKey;
}

async function begin() {
  await loadModels();
  await loadSessions();
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (wanted) await showSession(wanted);
  else await showSession(null);
}

const memory = new Memory();
const passage = new Passage();
makeFields();
listen();
useTheme(THEMES.includes(remembered("mnemon-theme")) ? remembered("mnemon-theme") : "auto");
$("sampling-details").open = !matchMedia("(max-width: 719px)").matches;
buttons();
action(begin)();
