// SPDX-License-Identifier: MIT
// Fast weights, drawn: for each layer and head a field with the norm of its matrix at
// each token as a line, and the norm of each token's change as a bar. Each layer has a
// scale of its own.
"use strict";

const FIELD_GAP = 10;
const FIELD_HEAD = 22;   // for the name and the number

// `rows` are {layer, head} of the numbers in `norms` and `updates` of each record. The
// numbers that are written are those of `record`.
function drawNorms(context, { width, height }, colours, rows, record, records) {
  const heads = Math.max(...rows.map((r) => r.head)) + 1;
  const layers = Math.max(...rows.map((r) => r.layer)) + 1;
  const fieldWidth = (width - FIELD_GAP * (heads - 1)) / heads;
  const fieldHeight = Math.min(190, (height - FIELD_GAP * (layers - 1)) / layers);
  const past = records.slice(-clamp(Math.floor(fieldWidth / 2), 32, records.length));
  const most = mostNorms(past, rows, layers);
  rows.forEach((row, i) => {
    const box = {
      left: row.head * (fieldWidth + FIELD_GAP),
      bottom: row.layer * (fieldHeight + FIELD_GAP) + fieldHeight,
      width: fieldWidth,
      height: fieldHeight - FIELD_HEAD,
    };
    const line = past.map((r) => (r.norms[i] || 0) / most[row.layer].norm);
    const bars = past.map((r) => (r.updates[i] || 0) / most[row.layer].update);
    drawField(context, colours, box, line, bars);
    const top = box.bottom - fieldHeight + 2;
    context.textBaseline = "top";
    context.fillStyle = colours.dim;
    context.fillText(`L${row.layer + 1} H${row.head + 1}`, box.left + 2, top);
    context.fillStyle = colours.ink;
    context.textAlign = "right";
    context.fillText((record.norms[i] || 0).toPrecision(3), box.left + fieldWidth - 2, top);
    context.textAlign = "left";
  });
}

// The largest numbers of each layer.
function mostNorms(records, rows, layers) {
  const most = Array.from({ length: layers }, () => ({ norm: 1e-9, update: 1e-9 }));
  for (const { norms, updates } of records) {
    rows.forEach(({ layer }, i) => {
      most[layer].norm = Math.max(most[layer].norm, norms[i] || 0);
      most[layer].update = Math.max(most[layer].update, updates[i] || 0);
    });
  }
  return most;
}

// `line` and `bars` from 0 to 1, one per token, the newest at the right edge.
function drawField(context, colours, box, line, bars) {
  const step = box.width / Math.max(line.length, 32);
  const x = (k) => box.left + box.width - (line.length - k - 0.5) * step;
  const y = (value) => box.bottom - value * box.height;
  context.fillStyle = context.strokeStyle = colours.arch;
  context.lineWidth = 1.8;
  context.beginPath();
  line.forEach((value, k) => context.lineTo(x(k), y(value)));
  context.stroke();
  context.lineTo(x(line.length - 1), box.bottom);
  context.lineTo(x(0), box.bottom);
  context.globalAlpha = 0.16;
  context.fill();
  context.globalAlpha = 0.5;
  context.fillStyle = colours.ink;
  bars.forEach((value, k) => {
    const high = value * box.height * 0.45;
    context.fillRect(x(k) - step / 2, box.bottom - high, Math.max(1, step - 0.6), high);
  });
  context.globalAlpha = 1;
  context.fillStyle = colours.dim;
  context.fillRect(box.left, box.bottom - 1, box.width, 1);
}
