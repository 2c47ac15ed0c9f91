// SPDX-License-Identifier: MIT
// Turns that this page sent as messages: which tokens they are, and where the messages
// stand in the text of the prompt. Kept as long as the tab is open.
"use strict";

// By session, lists of turns in their order:
//   first, begin, end   the prompt is tokens [first, begin), the answer [begin, end)
//   ids                 the first of these tokens, at most PAGE_TOKENS
//   messages            [{role, back, length}]: `back` characters before the end of the
//                       prompt's text a message begins; empty: the template changed one
//   ending              how the model ended the answer: {tokens} or {text} at its end
//                       are no part of it; null: it could go on
const conversations = new Map(keptConversations());

function keptConversations() {
  try { return JSON.parse(remembered("mnemon-conversations", "sessionStorage")) || []; }
  catch { return []; }
}

const conversation = (id) => conversations.get(id) || [];

function keepConversation(id, turns) {
  conversations.delete(id);
  if (turns.length) conversations.set(id, turns);
  if (conversations.size > LISTED) conversations.delete(conversations.keys().next().value);
  remember("mnemon-conversations", JSON.stringify([...conversations]), "sessionStorage");
}

// What is left of turns in a session of `end` tokens.
function cutTurns(turns, end) {
  return turns.filter((t) => t.begin <= end).map((t) => (t.end <= end ? t
    : { ...t, end, ids: t.ids.slice(0, end - t.first), ending: null }));
}

// The turns up to the first that is not what the session has: another client may have
// changed it. `ids` are tokens from `first` on.
function turnsThatAgree(turns, first, ids) {
  const differs = (turn) => turn.ids.some((id, k) => {
    const there = ids[turn.first + k - first];
    return there !== undefined && there !== id;
  });
  const wrong = turns.findIndex(differs);
  return wrong < 0 ? turns : turns.slice(0, wrong);
}

// Where `messages`, [{role, content}], stand in the prompt that a template made of them:
// the last one where it occurs last, each other one before the next.
function placesOf(messages, prompt) {
  const places = [];
  let rest = prompt;
  for (const { role, content } of [...messages].reverse()) {
    // Templates leave out blanks around a message.
    const text = [content, content.trim()].find((t) => rest.includes(t));
    if (!text) return [];
    const from = rest.lastIndexOf(text);
    places.unshift({ role, back: prompt.length - from, length: text.length });
    rest = rest.slice(0, from);
  }
  return places;
}

// The last turn of a session, if the session ends with it.
function lastTurn(id, end) {
  const last = conversation(id).at(-1);
  return last?.end === end ? last : undefined;
}

function endingOf(finish) {
  if (finish?.finish_reason !== "STOP") return null;
  return finish.stop_string === undefined ? { tokens: 1 } : { text: finish.stop_string };
}

// A turn has ended: of `messages`, [] where the model just went on, with `n` tokens of a
// prompt from `first` on. `page` is the history from there.
function keepTurn(id, { messages, first, n, finish }, page) {
  const turns = cutTurns(conversation(id), first);
  const end = page.token_count;
  const ids = (page.tokens || []).slice(0, end - first);
  const ending = endingOf(finish);
  const last = turns.at(-1);
  if (messages.length) {
    const text = page.text || "";
    const [begin] = stringOffsets(text, [page.byte_offsets?.[n] ?? Infinity]);
    const places = n <= ids.length ? placesOf(messages, text.slice(0, begin)) : [];
    turns.push({ first, begin: first + n, end, ids, messages: places, ending });
  } else if (n === 0 && last?.end === first && !last.ending) {
    const whole = last.ids.length === last.end - last.first;
    const all = whole ? last.ids.concat(ids).slice(0, PAGE_TOKENS) : last.ids;
    turns[turns.length - 1] = { ...last, end, ids: all, ending };
  }
  keepConversation(id, turns);
}
