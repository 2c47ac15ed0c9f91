// SPDX-License-Identifier: MIT
// The form: sampling and stopping, the prompt, and the request that they make.
"use strict";

// By name, which is the path in the request. `unset` is what an empty field means.
const FIELDS = [
  {
    name: "sampling.temperature", label: "temperature", value: "0.8", unset: "1",
    hint: "0: the most likely token",
  }, {
    name: "stopping.max_tokens", label: "max tokens", value: "200", unset: "no limit",
    integer: true,
    hint: "Tokens to generate",
  }, {
    name: "sampling.top_k", label: "top k", unset: "off", integer: true,
    hint: "Keep the k most likely; 0: all",
  }, {
    name: "sampling.top_p", label: "top p", unset: "1",
    hint: "Keep the smallest set with this probability",
  }, {
    name: "sampling.min_p", label: "min p", unset: "0",
    hint: "Keep what is at least this share as likely as the most likely one",
  }, {
    name: "sampling.repetition_penalty", label: "repetition penalty", unset: "1",
    hint: "Above 1: what was there becomes less likely",
  }, {
    name: "sampling.seed", label: "seed", unset: "drawn", integer: true, whole: true,
    hint: "The same seed from the same place gives the same text",
  },
];
const STOP_STRINGS = "stopping.stop_strings";

const fieldText = (name) => document.getElementsByName(name)[0].value;

function makeFields() {
  const put = (label, input, whole) =>
    $("fields").append(make("label", { className: whole ? "whole" : "" }, label, input));
  for (const { name, label, value, unset, integer, whole, hint } of FIELDS) {
    const inputMode = integer ? "numeric" : "decimal";
    const rest = { value: value || "", placeholder: unset, title: hint, autocomplete: "off" };
    put(label, make("input", { name, inputMode, ...rest }), whole);
  }
  const stops = make("textarea", { name: STOP_STRINGS, rows: 2, spellcheck: false });
  put("stop strings, one a line; \\n is a new line", stops, true);
}

const invalid = (param, message) => new ApiError({ message, code: "INVALID_VALUE", param });

function fieldValue(field) {
  const text = fieldText(field.name).trim();
  if (!text) return undefined;
  const good = field.integer ? /^-?\d+$/.test(text) : Number.isFinite(Number(text));
  if (!good) {
    const what = field.integer ? "an integer" : "a number";
    throw invalid(field.name, `${field.label} must be ${what}`);
  }
  // The API takes integers as text too: a seed has 64 bits.
  return Number.isSafeInteger(Number(text)) || !field.integer ? Number(text) : text;
}

function promptValue() {
  if (chatting()) {
    const messages = typedMessages();
    return messages.length ? promptOf(messages) : undefined;
  }
  const text = $("prompt").value;
  if (!text) return undefined;
  if (state.model.hasText) return text;
  const ids = text.split(/[\s,]+/).filter(Boolean).map(Number);
  if (!ids.every(Number.isInteger)) {
    throw invalid("prompt", "This model takes token ids: integers.");
  }
  return { tokens: { ids } };
}

// The body of the request that Generate sends.
function requestBody(prompt = promptValue()) {
  const body = { prompt, sampling: {}, stopping: {}, stream: true };
  for (const field of FIELDS) {
    const [group, name] = field.name.split(".");
    body[group][name] = fieldValue(field);
  }
  const stops = fieldText(STOP_STRINGS).split("\n").filter(Boolean);
  if (stops.length) body.stopping.stop_strings = stops.map((s) => s.replaceAll("\\n", "\n"));
  const introspection = memory.wanted();
  if (introspection) body.output = { introspection };
  return body;
}
