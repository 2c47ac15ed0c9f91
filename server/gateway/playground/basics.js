// SPDX-License-Identifier: MIT
// Small things that all scripts of the page use.
"use strict";

const $ = (id) => document.getElementById(id);

// An element with properties and children; strings become text, never markup.
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const shortName = (name) => (name || "").replace(/^\w+\//, "");
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const count = (n) => Number(n).toLocaleString("en");
const tokens = (n) => `${count(n)} ${n === 1 ? "token" : "tokens"}`;

function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; ++i) n /= 1000;
  return `${n.toFixed(i === 0 || n >= 100 ? 0 : 1)} ${units[i]}`;
}

function duration(ms) {
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

const visible = (text) => JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');

// Storage throws where the browser keeps nothing, or no more.
function remembered(key, storage = "localStorage") {
  try { return window[storage].getItem(key); } catch { return null; }
}
function remember(key, value, storage = "localStorage") {
  try { window[storage].setItem(key, value); } catch { /* it lasts as long as the page */ }
}

// The index of the last number that is at most `x`, in rising numbers.
function lastAtMost(numbers, x) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= x) low = middle + 1; else high = middle;
  }
  return low - 1;
}
