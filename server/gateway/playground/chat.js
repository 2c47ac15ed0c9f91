// SPDX-License-Identifier: MIT
// The chat view, of models with a chat template: blocks by role in place of the plain
// text, and a composer that sends messages.
"use strict";

const ROLES = { system: "System", user: "User", assistant: "Assistant", raw: "Text" };

const chatting = () => state.view === "chat" && Boolean(state.model?.chats);

// What the composer holds, as messages; none: the model goes on.
function typedMessages() {
  const content = $("prompt").value;
  if (!chatting() || !content.trim()) return [];
  const system = passage.total === 0 ? $("system").value : "";
  const first = system.trim() ? [{ role: "system", content: system }] : [];
  return [...first, { role: "user", content }];
}

const promptOf = (messages) => ({ conversation: JSON.stringify({ messages }) });

// An answer that the model ended is not gone on with.
function canSend() {
  if (!chatting() || typedMessages().length) return true;
  return passage.total > 0 && !lastTurn(state.session, passage.total)?.ending;
}

function promptHint() {
  if (state.model?.generates === false) return "This model does not generate";
  if (chatting()) return "Message to the model";
  if (state.model?.hasText === false) return "Prompt: token ids, such as 5 8 0";
  return "Prompt: text that the model continues";
}

function showComposer() {
  const chat = chatting();
  $("views").hidden = !state.model?.chats;
  for (const view of document.getElementsByName("view")) view.checked = view.value === state.view;
  $("prompt").placeholder = promptHint();
  $("prompt-label").textContent = chat ? "Message" : "Prompt";
  $("system-details").hidden = !chat || passage.total > 0 || state.turn !== null;
  const empty = !(chat ? $("prompt").value.trim() : $("prompt").value);
  const goesOn = passage.total > 0 && empty && canSend();
  $("generate").textContent = goesOn ? "Continue" : chat ? "Send" : "Generate";
}

function useView(view) {
  if (state.turn) return;
  state.view = view;
  remember("mnemon-view", view);
  clearError();
  passage.render();
  passage.choose(passage.chosen);
  passage.toBottom();
  buttons();
}

// A block of the conversation around `body`. `does` are [text, label, work] of buttons.
function makeBlock(role, title, body, does = []) {
  const head = make("div", { className: "role" }, make("b", {}, title));
  for (const [text, title, work] of does) {
    const rest = { type: "button", className: "plain", onclick: action(work) };
    const button = make("button", { title, ...rest }, text);
    button.setAttribute("aria-label", title);
    head.append(button);
  }
  const block = make("article", { className: `block ${role}` }, head, body);
  block.setAttribute("aria-label", title);
  return block;
}

// What can be done at a message of a turn with `messages`.
function messageButtons(turn, messages) {
  const edit = async () => {
    await rewind(turn.first);
    for (const { role, content } of messages) $(role === "user" ? "prompt" : role).value = content;
    $("system-details").open ||= messages.length > 1;
    $("prompt").focus();
    buttons();
  };
  return [["Edit", "Edit: rewinds the session to before this message", edit]];
}

// What can be done at an answer to `messages`; []: they are not known.
function answerButtons(turn, messages) {
  const forkHere = async () => {
    await fork(turn.end);
    passage.box.focus();
  };
  const rewindHere = async () => {
    await rewind(turn.end);
    passage.box.focus();
  };
  const again = async () => {
    await rewind(turn.first);
    passage.box.focus();
    await takeTurn(messages);
  };
  const does = [["Fork", "Fork: a new session with all up to this answer", forkHere]];
  if (turn.end < passage.total) {
    does.push(["Rewind", "Rewind: forgets what is behind this answer", rewindHere]);
  } else if (messages.length) {
    does.push(["Retry", "Retry: another answer in place of this one", again]);
  }
  return does;
}

// Messages that the server has not taken yet.
function showPending(messages) {
  for (const { role, content } of messages) {
    $("pending").append(makeBlock(role, ROLES[role], make("div", {}, content)));
  }
  const waiting = make("div", { className: "dim" }, "…");
  $("pending").append(makeBlock("assistant", ROLES.assistant, waiting));
  passage.toBottom();
}

const pendingSystem = () => $("pending").querySelector(".system") !== null;
const dropPending = () => $("pending").replaceChildren();

// They were taken: the answer is still to come.
const takePending = () => $("pending").replaceChildren(...[...$("pending").children].slice(-1));

// They were not taken: the error stands in place of the answer.
const refusePending = () => $("pending").lastChild?.remove();

function promptKey(event) {
  const plain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (event.key !== "Enter" || !plain || event.isComposing || !chatting()) return;
  event.preventDefault();
  generate();
}
