// SPDX-License-Identifier: MIT
// What went wrong, shown: message, code, the field at fault, and when to try again.
"use strict";

function showError(error, again) {
  if (error.name === "AbortError") return;
  if (!(error instanceof ApiError)) console.error(error);
  $("error-message").textContent = error.message;
  $("error-facts").textContent = [
    error.code,
    error.param && `field ${error.param}`,
    error.requestId && `request ${error.requestId}`,
    error.retryAfterMs !== undefined && `the server asks to wait ${duration(error.retryAfterMs)}`,
  ].filter(Boolean).join(" · ");
  const [field] = document.getElementsByName(error.param?.replace(/^prompt\..*/, "prompt") || "-");
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
  $("error").hidden = false;
}

function clearError() {
  $("error").hidden = true;
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
