// SPDX-License-Identifier: MIT
// The memory of the model: what introspection said of the newest tokens, and its panel.
"use strict";

// The fields of Introspection that are shown: the first ones that a model has.
const SHOWN = [
  { fields: "memoryReads", what: "which earlier tokens each layer and head reads" },
  {
    fields: "updateNorms,stateNorms",
    what: "how large the weight matrix of each head is, and how much each token changes it",
  },
];
const shownOf = (model) =>
  SHOWN.find(({ fields }) => fields.split(",").every((f) => model.introspection.includes(f)));

const KEPT_READS = 256;      // tokens
const KEPT_NORMS = 512;      // tokens
const KEPT_WEIGHTS = 4e6;    // numbers, of all tokens together

const rowName = ({ layer, head }) => `layer ${layer + 1} head ${head + 1}`;

// {index, reads: [{layer, head, first, weights}]}, {index, norms, updates}, or null.
function takeIntrospection(one) {
  if (one.memory_reads) {
    return {
      index: one.index,
      reads: one.memory_reads.map((r) => ({
        layer: r.layer || 0,
        head: r.head || 0,
        first: r.first_index || 0,
        weights: Float32Array.from(r.weights || []),
      })),
    };
  }
  if (!one.state_norms && !one.update_norms) return null;
  return { index: one.index, norms: one.state_norms || [], updates: one.update_norms || [] };
}

// {layer, head} of `n` norms, which are in the order [L, H].
function normRows(n) {
  const { heads } = state.model;
  return Array.from({ length: n }, (_, i) => ({ layer: Math.floor(i / heads), head: i % heads }));
}

const weightsOf = (record) => (record.reads || []).reduce((n, r) => n + r.weights.length, 0);

function mixOf(reads) {
  if (!reads.length) return null;
  const first = Math.min(...reads.map((r) => r.first));
  const end = Math.max(...reads.map((r) => r.first + r.weights.length));
  const weights = new Float32Array(end - first);
  for (const read of reads) {
    const at = read.first - first;
    for (let k = 0; k < read.weights.length; ++k) weights[at + k] += read.weights[k];
  }
  const most = weights.reduce((a, b) => Math.max(a, b), 0) || 1;
  return { first, weights: weights.map((w) => w / most) };
}

class Memory {
  constructor() {
    this.canvas = $("plot");
    this.refused = new Map();   // id of a model: why the server tells nothing
    this.due = false;
    this.drawn = 0;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.clear();
    for (const id of ["memory-head", "memory-axis", "memory-shade"]) {
      $(id).onchange = () => this.redraw();
    }
    $("memory-on").onchange = () => {
      this.refused.clear();
      this.redraw();
    };
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").onchange = () => this.redraw();
  }

  clear() {
    this.records = [];   // oldest first
    this.weights = 0;    // in all records
    this.rows = [];      // {layer, head}, in the order of the records' numbers
  }

  // The value of output.introspection, or null.
  wanted() {
    const model = state.model;
    if (!model || !$("memory-on").checked || this.refused.has(model.id)) return null;
    return shownOf(model)?.fields || null;
  }

  refuse(reason) {
    this.refused.set(state.model.id, reason);
    this.clear();
    this.redraw();
  }

  // A list of messages Introspection.
  add(list) {
    for (const record of list.map(takeIntrospection)) {
      if (!record) continue;
      this.records.push(record);
      this.weights += weightsOf(record);
      this.setRows(record.reads || normRows(record.norms.length || record.updates.length));
    }
    const most = this.records[0]?.reads ? KEPT_READS : KEPT_NORMS;
    while (this.records.length > most || (this.weights > KEPT_WEIGHTS && this.records.length > 1)) {
      this.weights -= weightsOf(this.records.shift());
    }
    this.redraw();
  }

  setRows(rows) {
    if (rows.length === this.rows.length) return;
    this.rows = rows.map(({ layer, head }) => ({ layer, head }));
    const options = this.rows.map((row, i) => make("option", { value: String(i) }, rowName(row)));
    $("memory-head").replaceChildren(make("option", { value: "mean" }, "mean of all"), ...options);
  }

  // Forgets tokens from index `end` on.
  cutAt(end) {
    this.records = this.records.filter((r) => r.index < end);
    this.weights = this.records.reduce((n, r) => n + weightsOf(r), 0);
  }

  // Soon; where motion is not wanted, twice a second at most.
  redraw() {
    if (this.due) return;
    this.due = true;
    const wait = this.still.matches ? Math.max(0, this.drawn + 500 - performance.now()) : 0;
    setTimeout(() => requestAnimationFrame(() => {
      this.due = false;
      this.drawn = performance.now();
      this.draw();
    }), wait);
  }

  // What is known of the chosen token, else of the newest one.
  shown() {
    const chosen = this.records.find((r) => r.index === passage.chosen);
    return chosen || this.records[this.records.length - 1];
  }

  draw() {
    const record = this.shown();
    this.canvas.parentElement.hidden = !record;
    $("memory-controls").hidden = !record?.reads;
    const { width, height } = this.canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.max(1, Math.round(height * scale));
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    if (!record) {
      $("memory-caption").textContent = this.emptyCaption();
    } else if (record.reads) {
      const mixed = this.records.map((r) => ({ ...r, mix: this.mix(r) }));
      const byDistance = $("memory-axis").value === "distance";
      drawReads(context, { width, height, scale }, this.colours(), record, mixed, byDistance);
      $("memory-caption").textContent = this.readsCaption(record);
    } else {
      drawNorms(context, { width, height }, this.colours(), this.rows, record, this.records);
      $("memory-caption").textContent = this.normsCaption(record);
    }
    const mix = record?.reads && $("memory-shade").checked ? this.mix(record) : null;
    passage.shade(mix ? mix.first : 0, mix ? mix.weights : []);
  }

  colours() {
    const colour = (id) => getComputedStyle($(id)).color;
    return {
      arch: colour("plot"), ink: colour("text-title"), dim: colour("memory-caption"),
      paper: getComputedStyle($("memory")).backgroundColor,
    };
  }

  // The weights of the chosen rows, added up by position, the largest 1; or null.
  mix(record) {
    const choice = $("memory-head").value;
    if (record.mixed?.choice !== choice) {
      const rows = choice === "mean" ? record.reads : [record.reads[Number(choice)]];
      record.mixed = { choice, value: mixOf(rows.filter((r) => r?.weights.length)) };
    }
    return record.mixed.value;
  }

  emptyCaption() {
    const model = state.model;
    if (!model) return "";
    if (this.refused.has(model.id)) return this.refused.get(model.id);
    const shown = shownOf(model);
    if (!shown) return `Of the model ${model.id}, no memory is shown.`;
    if (!$("memory-on").checked) return "Off: the server is not asked.";
    return `While the model generates, this shows ${shown.what}. Looking costs some speed.`;
  }

  readsCaption(record) {
    const which = record.index === passage.chosen ? "chosen" : "newest";
    const token = `the ${which} token, ${count(record.index + 1)}`;
    let best = { weight: 0 };
    for (const r of record.reads) {
      const weight = r.weights.reduce((a, b) => Math.max(a, b), 0);
      const position = r.first + r.weights.indexOf(weight);
      if (weight > best.weight) best = { ...r, weight, position };
    }
    if (!best.weight) return `Before ${token}, there was nothing to read.`;
    const at = best.position;
    const text = passage.has(at) ? ` “${visible(passage.textOf(at))}”` : "";
    return `For ${token}, ${rowName(best)} read most from one place: ` +
      `${Math.round(best.weight * 100)} % from token ${count(at + 1)}${text}, ` +
      `${count(record.index - at)} back. Above: each head for this token. ` +
      `Below: the last ${tokens(this.records.length)}.`;
  }

  normsCaption(record) {
    const largest = (norms) => norms.indexOf(Math.max(...norms));
    const [norm, update] = [largest(record.norms), largest(record.updates)];
    return `At token ${count(record.index + 1)}, the matrix of ${rowName(this.rows[norm])} ` +
      `is the largest, with norm ${record.norms[norm].toPrecision(3)}; that of ` +
      `${rowName(this.rows[update])} changed most, by ${record.updates[update].toPrecision(3)}. ` +
      "Lines: norms of the matrices. Bars: norms of each token's change. Each layer has its scale.";
  }
}
