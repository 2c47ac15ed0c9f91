// SPDX-License-Identifier: MIT
// Attention over memory, drawn. Above, each layer and head of one token; below, the kept
// tokens, the newest first, so that time runs down. Both share the axis of positions.
"use strict";

const LABEL_WIDTH = 44;

// [r, g, b] of a colour of CSS.
function rgb(colour) {
  const canvas = make("canvas", { width: 1, height: 1 });
  const probe = canvas.getContext("2d", { willReadFrequently: true });
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

// 256 colours as pixels: from the background over that of the model to the ink.
function colourRamp({ paper, arch, ink }) {
  const blend = (a, b, t) => a.map((x, i) => x + (b[i] - x) * t);
  const [low, middle] = [rgb(paper), rgb(arch)];
  const high = blend(middle, rgb(ink), 0.55);
  const bytes = new Uint8Array(4 * 256);
  for (let i = 0; i < 256; ++i) {
    const t = i / 255;
    const colour = t < 0.7 ? blend(low, middle, 0.05 + (0.95 * t) / 0.7)
      : blend(middle, high, (t - 0.7) / 0.3);
    bytes.set([...colour.map(Math.round), 255], 4 * i);
  }
  return new Uint32Array(bytes.buffer);
}

// Where positions lie from 0 (left) to 1 (right): by their distance back from the token
// that read them, or as they are.
class ReadAxis {
  constructor(records, byDistance) {
    const first = (r) => Math.min(r.index, ...r.reads.map((x) => x.first));
    this.byDistance = byDistance;
    this.low = byDistance ? 0 : Math.min(...records.map(first));
    this.span = Math.max(16, ...records.map((r) => r.index - (byDistance ? first(r) : this.low)));
  }

  at(record, position) {
    const from = this.byDistance ? record.index - this.span : this.low;
    return (position - from) / this.span;
  }

  labels() {
    if (this.byDistance) return [`${count(this.span)} tokens back`, "newest"];
    return [`token ${count(this.low + 1)}`, `token ${count(this.low + this.span)}`];
  }
}

// Lines `y` to `end` of the image: weights of positions from `first` on, `most` in the
// full colour.
function paintRow(image, ramp, axis, record, { first, weights, most }, y, end) {
  const { width } = image;
  const bins = new Float32Array(width);
  for (let k = 0; k < weights.length; ++k) {
    const from = Math.max(0, Math.floor(axis.at(record, first + k) * width));
    const to = Math.max(from + 1, Math.floor(axis.at(record, first + k + 1) * width));
    for (let x = from; x < to && x < width; ++x) bins[x] = Math.max(bins[x], weights[k]);
  }
  const shade = (w) => Math.round(255 * Math.sqrt(Math.min(w / (most || 1), 1)));
  const line = Uint32Array.from(bins, (w) => ramp[shade(w)]);
  const pixels = new Uint32Array(image.data.buffer);
  for (; y < Math.min(end, image.height); ++y) pixels.set(line, y * width);
}

// `record` is the one above; of `records`, below, each has `mix`: one row, or null.
function drawReads(context, { width, height, scale }, colours, record, records, byDistance) {
  const rowHeight = clamp(Math.floor((height * 0.4) / record.reads.length), 3, 15);
  const top = rowHeight * record.reads.length;
  const below = top + 30;
  const tokenHeight = clamp(Math.floor((height - below) / 160), 2, 6);
  const past = records.slice(-Math.max(1, Math.floor((height - below) / tokenHeight))).reverse();
  const axis = new ReadAxis([record, ...past], byDistance);
  const pixel = (x) => Math.round(x * scale);
  const image = context.createImageData(Math.max(1, pixel(width - LABEL_WIDTH)), pixel(height));
  const ramp = colourRamp(colours);
  record.reads.forEach((read, i) => {
    const lastOfLayer = record.reads[i + 1]?.layer !== read.layer;
    const gap = rowHeight > 5 ? (lastOfLayer ? 3 : 1) : 0;
    const most = read.weights.reduce((a, b) => Math.max(a, b), 0);
    const end = (i + 1) * rowHeight - gap;
    paintRow(image, ramp, axis, record, { ...read, most }, pixel(i * rowHeight), pixel(end));
  });
  past.forEach((one, i) => {
    const y = below + i * tokenHeight;
    const row = { ...one.mix, most: 1 };
    if (one.mix) paintRow(image, ramp, axis, one, row, pixel(y), pixel(y + tokenHeight));
  });
  context.putImageData(image, pixel(LABEL_WIDTH), 0);

  context.fillStyle = colours.dim;
  context.textBaseline = "middle";
  record.reads.forEach(({ layer, head }, i) => {
    if (rowHeight >= 11) context.fillText(`L${layer + 1} H${head + 1}`, 0, (i + 0.5) * rowHeight);
    else if (head === 0) context.fillText(`L${layer + 1}`, 0, i * rowHeight + 6);
  });
  const [left, right] = axis.labels();
  context.fillText(left, LABEL_WIDTH, top + 14);
  context.textAlign = "right";
  context.fillText(right, width, top + 14);
  context.textAlign = "left";
  ["newest", "↓", "older"].forEach((text, i) => context.fillText(text, 0, below + 6 + 14 * i));
}
