// SPDX-License-Identifier: MIT
// What can be done with sessions: show, create, fork, rewind, delete.
"use strict";

// Its newest tokens, or those from `first` on.
function historyOf(id, first) {
  const from = first === undefined ? "" : `&first_index=${first}`;
  return get(`${sessionPath(id)}/history?token_count=${PAGE_TOKENS}${from}`);
}

let showing = 0;   // counts calls of showSession: only the newest one may write

// Shows a session, or with null the place for a new one.
async function showSession(id) {
  const mine = ++showing;
  const session = id && (listed(id) || await get(sessionPath(id)));
  const model = session && state.models.find((m) => m.id === shortName(session.model));
  const page = id && await historyOf(id);
  if (mine !== showing) return;
  state.session = id;
  if (model && model !== state.model) useModel(model);
  history.replaceState(null, "", id ? `#${id}` : location.pathname);
  for (const stat of ["speed", "first", "seed"]) $(`stat-${stat}`).textContent = "–";
  memory.clear();
  passage.clear();
  if (page) passage.add(page);
  passage.render();
  passage.choose(null);
  passage.toBottom();
  markSession();
  showFigures();
}

// A name that is free: "draft-3" behind "draft-2".
function freeName(like) {
  const base = (like || "draft").replace(/-\d+$/, "").slice(0, 50);
  const taken = new Set(state.sessions.map((s) => shortName(s.name)));
  let i = 1;
  while (taken.has(`${base}-${i}`)) ++i;
  return `${base}-${i}`;
}

// Makes a session by `create(id)`. A session of another model, or one that another client
// just made, may have the id: then the next ones are tried.
async function createNamed(like, create) {
  const [, base, number] = freeName(like).match(/^(.*)-(\d+)$/);
  for (let tries = 0; ; ++tries) {
    const id = `${base}-${Number(number) + tries}`;
    try {
      await create(id);
      return id;
    } catch (error) {
      if (error.code !== "SESSION_EXISTS" || tries === 50) throw error;
    }
  }
}

const createSession = () => createNamed("", (id) =>
  post("/v1/sessions", { session_id: id, session: { model: `models/${state.model.id}` } }));

// With `end`, the fork has that many tokens; else all.
async function fork(end) {
  const from = state.session;
  const id = await createNamed(from, (name) =>
    post(`${sessionPath(from)}/fork`, { session_id: name, token_count: end }));
  keepRanges(id, cut(ranges(from), end ?? Infinity));
  keepConversation(id, cutTurns(conversation(from), end ?? Infinity));
  forkCounts.set(id, end ?? passage.total);
  await loadSessions();
  await showSession(id);
  say(`Forked ${from} to ${id}.`);
}

async function rewind(end) {
  const id = state.session;
  await post(`${sessionPath(id)}/rewind`, { token_count: end });
  keepRanges(id, cut(ranges(id), end));
  keepConversation(id, cutTurns(conversation(id), end));
  memory.cutAt(end);
  passage.cutAt(end);
  passage.total = end;
  passage.render();
  passage.choose(null);
  memory.redraw();
  await loadSessions();
  say(`Rewound ${id} to ${tokens(end)}.`);
}

async function remove(id) {
  const items = [...$("tree").children];
  const at = items.findIndex((li) => li.dataset.id === id);
  const next = (items[at + 1] || items[at - 1])?.dataset.id || null;
  await call("DELETE", sessionPath(id));
  promptRanges.delete(id);
  forkCounts.delete(id);
  keepConversation(id, []);
  if (id === state.session) await showSession(next);
  await loadSessions();
  say(`Deleted ${id}.`);
}

let armed = 0;   // the timer of disarm

// The first press asks, the second one within 4 s deletes.
function askToDelete() {
  const button = $("delete");
  if (button.dataset.id === state.session) {
    disarm();
    return remove(state.session);
  }
  disarm();
  button.dataset.id = state.session;
  button.textContent = "Really delete?";
  button.classList.add("danger");
  armed = setTimeout(disarm, 4000);
}

function disarm() {
  clearTimeout(armed);
  const button = $("delete");
  delete button.dataset.id;
  button.textContent = "Delete";
  button.classList.remove("danger");
}
