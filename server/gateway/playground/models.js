// SPDX-License-Identifier: MIT
// The loaded models, and which one is in use.
"use strict";

// As in train/report/palette.h; models take turns.
const MODEL_COLOURS = ["#2f7fd6", "#b65cc4", "#d9700f", "#1c9a70", "#8a8f98", "#c9485b",
                       "#178fa9"];

function takeModel(listed, place) {
  const facts = listed.mnemon || {};
  let config = {};
  try { config = JSON.parse(facts.config_json); } catch { /* the heads are not known */ }
  const summary = [
    facts.architecture,
    `${count(facts.parameter_count || 0)} parameters`,
    facts.precision,
    facts.context_limit ? `context ${count(facts.context_limit)}` : "context unlimited",
  ];
  return {
    id: listed.id,
    colour: MODEL_COLOURS[place % MODEL_COLOURS.length],
    heads: config.heads || config.num_attention_heads || config.n_head || 1,
    hasText: facts.has_tokenizer !== false,
    generates: facts.generates === true,
    chats: facts.has_chat_template === true && facts.generates === true,
    // Names as in output.introspection.
    introspection: (facts.introspection || "").split(","),
    summary: summary.filter(Boolean).join(" · "),
  };
}

async function loadModels() {
  state.models = (await get("/v1/models")).data.map(takeModel);
  $("model").replaceChildren(...state.models.map((m) => make("option", { value: m.id }, m.id)));
  if (state.models.length) useModel(state.models[0]);
}

function useModel(model) {
  state.model = model;
  $("model").value = model.id;
  $("model-facts").textContent = model.summary;
  document.documentElement.style.setProperty("--arch", model.colour);
  $("prompt").disabled = !model.generates;
  memory.clear();
  memory.redraw();
  passage.marks();
  buttons();
}
