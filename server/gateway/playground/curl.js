// SPDX-License-Identifier: MIT
// The request of the form as a command line.
"use strict";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curlText() {
  const body = requestBody();
  delete body.output;
  const url = (path) => `${location.origin}${path}`;
  const id = state.session || freeName();
  const lines = [];
  if (!state.session) {
    const made = { session_id: id, session: { model: `models/${state.model.id}` } };
    lines.push(`curl ${url("/v1/sessions")} -d ${quoted(JSON.stringify(made))}`);
  }
  lines.push(`curl -N ${url(sessionPath(id) + "/generate")} -d ${quoted(JSON.stringify(body))}`);
  return lines.join("\n");
}

function showCurl() {
  clearError();
  try {
    $("curl-text").textContent = curlText();
    $("curl-copy").textContent = "Copy";
    $("curl-dialog").showModal();
  } catch (error) {
    showError(error);
  }
}

async function copyCurl() {
  try {
    await navigator.clipboard.writeText($("curl-text").textContent);
    $("curl-copy").textContent = "Copied";
  } catch {
    // No clipboard without TLS on another host: the text is selected, to be copied by key.
    getSelection().selectAllChildren($("curl-text"));
  }
}
