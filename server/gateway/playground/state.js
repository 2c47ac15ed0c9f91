// SPDX-License-Identifier: MIT
// What the page knows.
"use strict";

const PAGE_TOKENS = 4096;     // of one call for history
const VIEW_CHARS = 65536;     // of text on the page
const LISTED = 500;           // sessions in the tree

const state = {
  models: [],
  model: null,      // one of models
  sessions: [],     // as the server listed them
  session: null,    // the id of the one that is shown; null: a new one
  turn: null,       // the generation that runs
  view: remembered("mnemon-view") === "text" ? "text" : "chat",   // of models that chat
};

// Ranges of tokens, [first, end), that this page sent as prompts, by session; and at how
// many tokens its forks began.
const promptRanges = new Map();
const forkCounts = new Map();

const ranges = (id) => promptRanges.get(id) || [];

function keepRanges(id, list) {
  promptRanges.set(id, list);
  if (promptRanges.size > LISTED) promptRanges.delete(promptRanges.keys().next().value);
}

const cut = (list, end) => list.filter(([a]) => a < end).map(([a, b]) => [a, Math.min(b, end)]);
