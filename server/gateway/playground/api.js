// SPDX-License-Identifier: MIT
// The calls of the HTTP API, its errors, and its server-sent events.
"use strict";

class ApiError extends Error {
  constructor(error, requestId = "") {
    super(error.message || "The server gave no reason.");
    this.code = error.code || "";
    this.param = error.param || "";
    this.retryAfterMs = error.retry_after_ms;
    this.requestId = requestId;
  }
}

// Answers other than 2xx and a server out of reach throw ApiError.
async function call(method, path, body, signal) {
  const options = { method, signal };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const message = "The server does not answer.";
    throw new ApiError({ message, code: "NO_CONNECTION", retry_after_ms: 1000 });
  }
  if (response.ok) return response;
  const text = await response.text();
  let error = { message: text.slice(0, 500) || `HTTP ${response.status}` };
  try { error = JSON.parse(text).error || error; } catch { /* plain text */ }
  throw new ApiError(error, response.headers.get("X-Request-Id") || "");
}

const get = async (path) => (await call("GET", path)).json();
const post = async (path, body) => (await call("POST", path, body)).json();
const sessionPath = (id) => `/v1/sessions/${encodeURIComponent(id)}`;

// The JSON of server-sent events up to [DONE]. A stream that ends before it, or with an
// error, throws.
async function* serverEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new ApiError({ message: "The stream broke off.", code: "STREAM_LOST" });
      let from = Math.max(0, rest.length - 1);
      rest += value;
      for (let end; (end = rest.indexOf("\n\n", from)) >= 0; from = 0) {
        const lines = rest.slice(0, end).split("\n").filter((line) => line.startsWith("data:"));
        rest = rest.slice(end + 2);
        const data = lines.map((line) => line.slice(5).trimStart()).join("\n");
        if (data === "[DONE]") return;
        if (!data) continue;
        const event = JSON.parse(data);
        if (event.error) throw new ApiError(event.error);
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
