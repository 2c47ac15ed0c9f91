// SPDX-License-Identifier: MIT
// What went wrong, shown: message, code, the field at fault, and when to try again.
"use strict";

// The name of the field of the form that holds a field of the request.
function fieldOf(param) {
  const ofSystem = param?.startsWith("prompt.conversation.messages[0]") && pendingSystem();
  return ofSystem ? "system" : param?.replace(/^prompt\..*/, "prompt") || "-";
}

// With `atTurn` behind the text, else above the composer.
function showError(error, again, atTurn = false) {
  if (error.name === "AbortError") return;
  if (!(error instanceof ApiError)) console.error(error);
  $("error-message").textContent = error.message;
  $("error-facts").textContent = [
    error.code,
    error.param && `field ${error.param}`,
    error.requestId && `request ${error.requestId}`,
    error.retryAfterMs !== undefined && `the server asks to wait ${duration(error.retryAfterMs)}`,
  ].filter(Boolean).join(" · ");
  const [field] = document.getElementsByName(fieldOf(error.param));
  if (field) {
    field.setAttribute("aria-invalid", "true");
    if (field.closest("details")) field.closest("details").open = true;
  }
  const retry = again && error.retryAfterMs !== undefined;
  $("again").hidden = !retry;
  if (retry) {
    $("again").disabled = true;
    $("again").onclick = again;
    setTimeout(() => { $("again").disabled = false; }, error.retryAfterMs);
  }
  if (atTurn) passage.box.append($("error"));
  else $("composer").before($("error"));
  $("error").hidden = false;
  if (atTurn) passage.toBottom();
}

function clearError() {
  $("error").hidden = true;
  dropPending();
  for (const field of document.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
  }
}

// Runs what a button does; errors are shown. Nothing but a stop while a turn runs.
function action(work) {
  return async (...values) => {
    if (state.turn) return;
    clearError();
    try {
      await work(...values);
    } catch (error) {
      showError(error);
    }
  };
}
