// SPDX-License-Identifier: MIT
// The list of sessions as a tree.
"use strict";

// The sessions in the order of the tree, each with its depth.
function treeOrder(sessions) {
  const below = new Map();
  const names = new Set(sessions.map((s) => s.name));
  for (const s of sessions) {
    const parent = names.has(s.parent) && s.parent !== s.name ? s.parent : "";
    below.set(parent, [...(below.get(parent) || []), s]);
  }
  const out = [];
  const stack = (below.get("") || []).map((s) => [s, 0]).reverse();
  while (stack.length) {
    const [session, depth] = stack.pop();
    out.push({ session, depth });
    const children = (below.get(session.name) || []).map((child) => [child, depth + 1]);
    stack.push(...children.reverse());
  }
  return out;
}

function sessionFacts(session) {
  const id = shortName(session.name);
  const facts = [tokens(session.token_count || 0), bytes(session.state_size_bytes || 0)];
  if (session.tier === "DISK") facts.push("on disk");
  if (session.state && session.state !== "IDLE") facts.push(session.state.toLowerCase());
  if ($("all-models").checked) facts.push(shortName(session.model));
  if (forkCounts.has(id)) facts.push(`from token ${count(forkCounts.get(id))}`);
  return facts.join(" · ");
}

async function loadSessions() {
  if (!state.model) return;
  const query = new URLSearchParams({ page_size: LISTED, order_by: "create_time" });
  if (!$("all-models").checked) query.set("filter", `model = "models/${state.model.id}"`);
  const page = await get(`/v1/sessions?${query}`);
  state.sessions = page.sessions || [];
  showTree(Boolean(page.next_page_token));
  showFigures();
}

function showTree(more) {
  const focused = $("tree").contains(document.activeElement);
  const order = treeOrder(state.sessions);
  $("tree").replaceChildren(...order.map(({ session, depth }, at) => {
    const id = shortName(session.name);
    const facts = make("small", {}, sessionFacts(session));
    const item = make("li", { id: `session-${id}` }, make("b", {}, id), facts);
    item.dataset.id = id;
    item.dataset.parent = shortName(session.parent);
    item.style.setProperty("--depth", Math.min(depth, 8));
    item.style.setProperty("--up", at - order.findIndex((o) => o.session.name === session.parent));
    item.setAttribute("role", "treeitem");
    item.setAttribute("aria-level", depth + 1);
    return item;
  }));
  $("tree-note").hidden = order.length > 0 && !more;
  $("tree-note").textContent = more ? `Only ${count(LISTED)} sessions are listed.`
    : "No sessions yet. The first turn makes one.";
  markSession();
  if (focused) treeItem(state.session)?.focus();
}

const treeItem = (id) => [...$("tree").children].find((li) => li.dataset.id === id);
const listed = (id) => state.sessions.find((s) => shortName(s.name) === id);

function markSession() {
  const items = [...$("tree").children];
  const chosen = treeItem(state.session);
  for (const li of items) {
    li.setAttribute("aria-selected", li === chosen);
    li.tabIndex = li === (chosen || items[0]) ? 0 : -1;
  }
  chosen?.scrollIntoView({ block: "nearest" });
}

function showFigures() {
  const session = listed(state.session);
  $("text-title").textContent = state.session || "New session";
  const parent = shortName(session?.parent);
  $("text-origin").textContent = parent ? `fork of ${parent}` : "";
  $("stat-tokens").textContent = count(passage.total);
  $("stat-bytes").textContent = session ? bytes(session.state_size_bytes || 0) : "–";
  buttons();
}

function treeKey(event) {
  const items = [...$("tree").children];
  const at = items.indexOf(event.target.closest("li"));
  if (at < 0) return;
  const { id, parent } = items[at].dataset;
  const child = items[at + 1]?.dataset.parent === id ? items[at + 1] : null;
  const to = {
    ArrowDown: items[at + 1], ArrowUp: items[at - 1], Home: items[0], End: items[items.length - 1],
    ArrowLeft: treeItem(parent), ArrowRight: child,
  }[event.key];
  if (to) {
    items[at].tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  } else if (event.key === "Enter" || event.key === " ") {
    action(showSession)(id);
  } else if (event.key === "Delete") {
    action(async () => {
      if (id !== state.session) await showSession(id);
      await askToDelete();
    })();
  } else if (!event.key.startsWith("Arrow")) {
    return;
  }
  event.preventDefault();
}
