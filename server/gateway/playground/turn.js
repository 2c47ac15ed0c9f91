// SPDX-License-Identifier: MIT
// A turn: the request goes out, text streams in, and at the end the page shows what the
// server has.
"use strict";

const say = (text) => { $("status").textContent = text; };

function buttons() {
  const running = Boolean(state.turn);
  const able = Boolean(state.model?.generates);
  showComposer();
  $("generate").disabled = running || !able || !canSend();
  $("stop").disabled = !running;
  $("fork").disabled = $("delete").disabled = !state.session || running;
  $("new").disabled = $("model").disabled = running;
  $("fork-here").disabled = running;
  $("rewind-here").disabled = running || passage.chosen === passage.total - 1;
  $("views").disabled = running;
  for (const button of passage.body.querySelectorAll("button")) button.disabled = running;
  document.body.classList.toggle("busy", running);
}

async function generate() {
  if (canSend()) await takeTurn();
}

// With `given`, these messages are sent in place of what the composer holds.
async function takeTurn(given) {
  if (state.turn || !state.model?.generates) return;
  clearError();
  let body;
  try {
    body = given ? requestBody(promptOf(given)) : requestBody();
  } catch (error) {
    return showError(error);
  }
  const contentOf = (role) => given.find((m) => m.role === role)?.content || "";
  const turn = {
    controller: new AbortController(),
    messages: given || typedMessages(),
    typed: given ? contentOf("user") : $("prompt").value,
    system: given ? contentOf("system") : $("system").value,
    first: null,   // index of the first token of the prompt
    n: 0,          // tokens of the prompt
    received: 0,   // tokens
    together: 0,   // tokens that came at once with the first one
    sent: 0,       // times in ms
    began: 0,
    last: 0,
  };
  state.turn = turn;
  passage.choose(null);
  if (turn.messages.length) {
    if (!given) $("prompt").value = $("system").value = "";
    showPending(turn.messages);
  }
  buttons();
  say("Waiting for the first token…");
  try {
    if (!state.session) {
      state.session = await createSession();
      history.replaceState(null, "", `#${state.session}`);
      await loadSessions();
    }
    if (passage.end < passage.total) await showText(state.session);
    await stream(turn, body);
    say(ending(turn));
  } catch (error) {
    if (error.name === "AbortError") say(`Stopped after ${tokens(turn.received)}.`);
    else say("");
    refusePending();
    showError(error, () => takeTurn(given), chatting());
  }
  try {
    await settle(turn);
  } catch (error) {
    showError(error);
  }
  if ($("error").hidden) dropPending();
  state.turn = null;
  buttons();
}

async function stream(turn, body) {
  turn.sent = performance.now();
  let response;
  const path = `${sessionPath(state.session)}/generate`;
  const send = () => call("POST", path, body, turn.controller.signal);
  try {
    response = await send();
  } catch (error) {
    // The model goes on where nothing can be seen of its memory.
    const unseen = error.code === "NO_INTROSPECTION" || /introspection/.test(error.param || "");
    if (!body.output || !unseen) throw error;
    memory.refuse(`The server shows nothing of this memory: ${error.message}`);
    delete body.output;
    response = await send();
  }
  let breath = performance.now();
  for await (const event of serverEvents(response)) {
    // A fast model shall not keep the page from drawing, or the reader from stopping it.
    if (performance.now() > breath + 25) {
      await pause(0);
      breath = performance.now();
    }
    if (event.prompt) beginTurn(turn, event.prompt, body);
    if (event.progress) sayProgress(event.progress);
    const ids = event.tokens || [];
    if (ids.length) {
      if (!turn.received) {
        say("Generating…");
        dropPending();
      }
      turn.last = performance.now();
      turn.began ||= turn.last;
      turn.together ||= ids.length;
      turn.received += ids.length;
      const text = state.model.hasText ? event.text || "" : idText(ids);
      passage.append(text, ids.length, turn.kind);
      showSpeed(turn);
    } else if (event.text) {
      passage.append(event.text, 0, turn.kind);
    }
    if (event.introspection) memory.add(event.introspection);
    if (!event.finish) continue;
    turn.finish = event.finish;
    if (turn.received) showSpeed(turn);
  }
}

function sayProgress(progress) {
  const done = progress.computed_token_count || 0;
  say(`Reading the prompt: ${count(done)} of ${tokens(progress.token_count || 0)}`);
}

function beginTurn(turn, facts, body) {
  turn.first = facts.first_index || 0;
  const n = turn.n = facts.token_count || 0;
  const goesOn = n === 0 && lastTurn(state.session, turn.first);
  turn.kind = chatting() && (turn.messages.length || goesOn) ? "assistant" : "written";
  // Where another client has changed the session, all is read again at the end.
  turn.strange = turn.first !== passage.total;
  if (n) {
    const before = cut(ranges(state.session), turn.first);
    keepRanges(state.session, [...before, [turn.first, turn.first + n]]);
    takePending();
    if (turn.messages.length) {
      turn.messages.forEach(({ role, content }, i) =>
        passage.append(content, i === turn.messages.length - 1 ? n : 0, role));
    } else {
      const text = state.model.hasText ? body.prompt : idText(body.prompt.tokens.ids);
      passage.append(text, n, "prompt");
    }
    passage.showComing();
    passage.toBottom();
  }
  if ($("prompt").value === turn.typed) $("prompt").value = "";
  $("stat-seed").textContent = facts.seed === undefined ? "–" : String(facts.seed);
}

// The clock of the page while the turn runs, that of the server at its end: tokens that
// came at once say nothing of the time between them.
function showSpeed(turn) {
  $("stat-first").textContent = duration(turn.began - turn.sent);
  $("stat-tokens").textContent = count(passage.total);
  const taken = parseFloat(turn.finish?.generation_duration);
  const seconds = taken || (turn.last - turn.began) / 1000;
  const speed = (turn.received - (taken ? 0 : turn.together)) / seconds;
  if (!(speed > 0) || !Number.isFinite(speed)) return;
  $("stat-speed").textContent = `${count(speed.toFixed(speed < 10 ? 1 : 0))} tokens/s`;
}

const ENDINGS = {
  MAX_TOKENS: "Stopped at max tokens",
  STOP: "Ended by the model",
  CONTEXT_LIMIT: "Stopped at the context limit",
  TIME_LIMIT: "Stopped at the time limit",
};

function ending({ received, finish }) {
  const stop = finish?.stop_string;
  const reason = finish?.finish_reason;
  const why = stop === undefined ? ENDINGS[reason] : `Stopped by “${visible(stop)}”`;
  const size = reason === "MAX_TOKENS" ? count(received) : tokens(received);
  return why ? `${why} (${size}).` : `${size}.`;
}

// Nothing was delivered: what was typed is still to send.
function giveBack(turn) {
  if (!$("prompt").value) $("prompt").value = turn.typed;
  if (!$("system").value) $("system").value = turn.system;
}

// After a turn, however it ended: what the server has, is what is shown.
async function settle(turn) {
  const id = state.session;
  if (!id) return giveBack(turn);
  let session = await get(sessionPath(id));
  for (let tries = 0; tries < 30 && ["RUNNING", "QUEUED"].includes(session.state); ++tries) {
    await pause(50);
    session = await get(sessionPath(id));
  }
  await loadSessions();
  const end = session.token_count || 0;
  if (turn.first === null || end <= turn.first) {
    // The session is as it was before.
    giveBack(turn);
    if (turn.first !== null) keepRanges(id, cut(ranges(id), turn.first));
    if (passage.total !== end) await showText(id);
  } else {
    const page = await historyOf(id, turn.first);
    keepTurn(id, turn, page);
    if (turn.strange || turn.first < passage.first || end - turn.first > PAGE_TOKENS) {
      await showText(id);
    } else {
      const stick = passage.atBottom();
      passage.cutAt(turn.first);
      passage.add(page);
      passage.render();
      if (stick) passage.toBottom();
    }
  }
  memory.cutAt(end);
  passage.choose(null);
  showFigures();
}

// The newest text of a session, in place of what is shown.
async function showText(id) {
  const page = await historyOf(id);
  passage.clear();
  passage.add(page);
  passage.render();
  passage.choose(null);
  passage.toBottom();
}

async function loadEarlier() {
  const first = Math.max(0, passage.first - PAGE_TOKENS);
  const page = await historyOf(state.session, first);
  const n = passage.first - first;
  const ids = (page.tokens || []).slice(0, n);
  // Without what is in the window already.
  const offsets = page.byte_offsets || [];
  const end = offsets.length > n ? stringOffsets(page.text, [offsets[n]])[0] : undefined;
  const height = passage.box.scrollHeight;
  const text = page.text?.slice(0, end);
  passage.add({ ...page, tokens: ids, text, byte_offsets: offsets.slice(0, n) }, true);
  passage.render();
  passage.choose(null);
  passage.box.scrollTop += passage.box.scrollHeight - height;
}
