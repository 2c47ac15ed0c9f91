// SPDX-License-Identifier: MIT
// The text of the session: a window of its tokens, and where each begins.
"use strict";

// Where each of n tokens begins in a text when the server did not say: one per character
// where that fits.
function spread(text, n) {
  const at = [];
  for (let i = 0; i < text.length; i += text.codePointAt(i) > 0xffff ? 2 : 1) at.push(i);
  return Array.from({ length: n }, (_, k) => at[Math.floor((k * at.length) / n)] ?? 0);
}

// What is shown of the tokens of a model without a tokenizer.
const idText = (ids) => ids.map((id) => `${id} `).join("");

// Offsets in UTF-8 as offsets in the string.
function stringOffsets(text, byteOffsets) {
  const out = [];
  let at = 0;
  let byte = 0;
  for (const wanted of byteOffsets) {
    while (byte < wanted && at < text.length) {
      const code = text.codePointAt(at);
      byte += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      at += code > 0xffff ? 2 : 1;
    }
    out.push(at);
  }
  return out;
}

class Passage {
  constructor() {
    this.box = $("passage");
    this.body = $("passage-text");
    this.chosen = null;   // index of the chosen token
    this.clear();
  }

  clear() {
    this.first = 0;       // index of the first token in the window
    this.total = 0;       // tokens of the session
    this.starts = [];     // of each token of the window, in `text`
    this.ids = [];        // of these tokens, as far as the history told them
    this.text = "";
    this.render();
  }

  get end() { return this.first + this.starts.length; }

  // A page of history behind the window, or in front of it.
  add(page, before = false) {
    const ids = page.tokens || [];
    const text = state.model.hasText ? page.text || "" : idText(ids);
    const starts = state.model.hasText && page.byte_offsets
      ? stringOffsets(text, page.byte_offsets) : spread(text, ids.length);
    this.total = page.token_count;
    if (before) {
      this.starts = starts.concat(this.starts.map((s) => s + text.length));
      this.ids = ids.concat(this.ids);
      this.text = text + this.text;
      this.first = page.first_index;
      const most = lastAtMost(this.starts, 2 * VIEW_CHARS);
      if (this.text.length > 2 * VIEW_CHARS) this.cutAt(this.first + most);
    } else {
      if (this.starts.length === 0) this.first = page.first_index;
      this.starts = this.starts.concat(starts.map((s) => s + this.text.length));
      this.ids = this.ids.concat(ids);
      this.text += text;
      this.dropFront();
    }
  }

  // Keeps tokens before index `end`.
  cutAt(end) {
    const n = clamp(end - this.first, 0, this.starts.length);
    if (n < this.starts.length) this.text = this.text.slice(0, this.starts[n]);
    this.starts.length = this.ids.length = n;
  }

  dropFront() {
    if (this.text.length <= 2 * VIEW_CHARS) return;
    const drop = lastAtMost(this.starts, this.text.length - VIEW_CHARS);
    const chars = this.starts[drop];
    this.text = this.text.slice(chars);
    this.starts = this.starts.slice(drop).map((s) => s - chars);
    this.ids = this.ids.slice(drop);
    this.first += drop;
  }

  // Tokens that come in now. `kind`: "prompt", "written" or a role. Shown with the next
  // frame.
  append(text, n, kind) {
    const begin = this.text.length;
    for (const s of spread(text, n)) this.starts.push(begin + s);
    this.ids.length = this.starts.length;
    this.text += text;
    this.total = this.end;
    if (this.coming.length === 0) requestAnimationFrame(() => this.showComing());
    this.coming.push({ kind, begin, text });
    // A page in the background has no frames.
    if (this.text.length > 4 * VIEW_CHARS) this.showComing();
  }

  showComing() {
    if (this.coming.length === 0) return;  // render() was faster
    const stick = this.atBottom();
    if (this.text.length > 2 * VIEW_CHARS) {
      this.dropFront();
      this.render();
    }
    for (const { kind, begin, text } of this.coming) {
      const last = this.runs[this.runs.length - 1];
      if (last?.kind === kind) last.node.appendData(text);
      else if (text) {
        const role = kind in ROLES ? kind : "raw";
        if (chatting() && role !== this.role) this.open(role);
        this.addRun(kind, begin, text);
      }
    }
    this.coming = [];
    this.marks();
    if (stick) this.toBottom();
  }

  atBottom() { return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 40; }
  toBottom() { this.box.scrollTop = this.box.scrollHeight; }

  addRun(kind, begin, text) {
    const node = document.createTextNode(text);
    this.into.append(make("span", { className: kind }, node));
    this.runs.push({ kind, begin, node });
  }

  // What follows goes into a new block.
  open(role, title = ROLES[role], does = []) {
    this.role = role;
    this.into = make("div");
    this.body.append(makeBlock(role, title, this.into, does));
  }

  render() {
    this.body.replaceChildren();
    this.into = this.body;
    this.role = null;   // of the last block
    this.runs = [];     // {kind, begin, node}: a text node of the page, from `begin` on
    this.coming = [];   // pieces that the page does not show yet
    if (chatting()) this.renderBlocks();
    else this.renderText(this.first, this.end);
    this.marks();
  }

  renderBlocks() {
    const turns = cutTurns(conversation(state.session), this.total);
    let at = this.first;
    const raw = (end) => {
      if (end <= at) return;
      const own = ranges(state.session).some(([a, b]) => a < end && b > at);
      this.open("raw", own || at > this.first ? ROLES.raw : "Text before this page");
      this.renderText(at, end);
    };
    for (const turn of turnsThatAgree(turns, this.first, this.ids)) {
      if (turn.end <= this.first || turn.first >= this.end) continue;
      raw(turn.first);
      this.renderTurn(turn);
      at = Math.min(turn.end, this.end);
    }
    raw(this.end);
  }

  // What the template puts around the messages is not shown.
  renderTurn(turn) {
    const begin = this.charOf(turn.begin);
    const whole = turn.first >= this.first && turn.begin <= this.end;
    const messages = (whole ? turn.messages : []).map(({ role, back, length }) => (
      { role, content: this.text.slice(begin - back, begin - back + length) }));
    if (!messages.length && turn.begin > this.first) {
      this.open("user");
      this.renderText(Math.max(turn.first, this.first), Math.min(turn.begin, this.end));
    }
    messages.forEach(({ role, content }, i) => {
      this.open(role, ROLES[role], role === "user" ? messageButtons(turn, messages) : []);
      this.addRun(role, begin - turn.messages[i].back, content);
    });
    if (turn.begin >= Math.min(turn.end, this.end)) return;
    this.open("assistant", ROLES.assistant, answerButtons(turn, messages));
    const answer = this.text.slice(begin, this.charOf(turn.end - (turn.ending?.tokens || 0)));
    const stop = turn.end <= this.end && turn.ending?.text;
    const shown = stop && answer.endsWith(stop) ? answer.slice(0, -stop.length) : answer;
    if (shown) this.addRun("assistant", begin, shown);
    else this.into.append(make("span", { className: "dim" }, "(no text)"));
  }

  // Tokens [first, end), of which prompts are tinted.
  renderText(first, last) {
    let at = first;
    const put = (end, kind) => {
      if (end <= at) return;
      const from = this.charOf(at);
      const text = this.text.slice(from, this.charOf(end));
      if (text) this.addRun(kind, from, text);
      at = end;
    };
    for (const [a, b] of ranges(state.session)) {
      put(clamp(a, first, last), "written");
      put(clamp(b, first, last), "prompt");
    }
    put(last, "written");
  }

  marks() {
    $("earlier").hidden = this.first === 0;
    $("newest").hidden = this.end >= this.total;
    const generates = state.model?.generates !== false;
    $("welcome").hidden = this.total > 0 || !generates || chatting();
    $("chat-welcome").hidden = this.total > 0 || !chatting();
    $("encoder-note").hidden = this.total > 0 || generates;
  }

  // Where token `index` begins; the end of the text behind the last one.
  charOf(index) {
    return this.starts[index - this.first] ?? (index < this.first ? 0 : this.text.length);
  }

  has(index) { return index >= this.first && index < this.end; }

  textOf(index) { return this.text.slice(this.charOf(index), this.charOf(index + 1)); }

  // The index of the run that a place in the text is in, or behind.
  runAt(char) { return Math.max(0, lastAtMost(this.runs.map((r) => r.begin), char)); }

  // The place in the document of a place in the text, in that run.
  place(char, index) {
    const run = this.runs[index];
    return run ? [run.node, clamp(char - run.begin, 0, run.node.length)] : [this.body, 0];
  }

  // Begins and ends within runs: between two of them stand heads of blocks.
  range(from, to) {
    const range = document.createRange();
    let first = this.runAt(from);
    const run = this.runs[first];
    const behind = run && from >= run.begin + run.node.length;
    if (behind && this.runs[first + 1]?.begin < to) ++first;
    range.setStart(...this.place(from, first));
    range.setEnd(...this.place(Math.max(from, to), this.runAt(Math.max(from, to - 1))));
    return range;
  }

  // The token at a point of the screen, or null.
  tokenAt(x, y) {
    let node;
    let offset;
    if (document.caretPositionFromPoint) {
      ({ offsetNode: node, offset } = document.caretPositionFromPoint(x, y) || {});
    } else {
      ({ startContainer: node, startOffset: offset } = document.caretRangeFromPoint(x, y) || {});
    }
    const run = this.runs.find((r) => r.node === node);
    if (!run) return null;
    // The caret stands at the nearer edge of the character.
    let char = run.begin + offset;
    if (char > run.begin) {
      const rect = this.range(char - 1, char).getBoundingClientRect();
      if (x >= rect.left && x < rect.right && y >= rect.top && y < rect.bottom) --char;
    }
    const k = lastAtMost(this.starts, char);
    return k < 0 ? null : this.first + k;
  }

  // Marks a token, and offers what can be done there; null: none.
  choose(index) {
    const there = index !== null && this.starts.length > 0;
    this.chosen = there ? clamp(index, this.first, this.end - 1) : null;
    $("token").hidden = this.total === 0;
    $("fork-here").hidden = $("rewind-here").hidden = !there;
    $("rewind-here").disabled = this.chosen === this.total - 1;
    $("token-text").className = there ? "" : "dim";
    $("token-text").textContent = there ? this.describe(this.chosen)
      : "Click a token in the text to fork or rewind there.";
    this.mark();
    memory.redraw();
  }

  describe(index) {
    return `Token ${count(index + 1)} of ${count(this.total)}: “${visible(this.textOf(index))}”`;
  }

  mark() {
    if (!window.Highlight) return;
    CSS.highlights.delete("token");
    if (this.chosen === null) return;
    const range = this.range(this.charOf(this.chosen), this.charOf(this.chosen + 1));
    CSS.highlights.set("token", new Highlight(range));
    const rect = range.getBoundingClientRect();
    const box = this.box.getBoundingClientRect();
    if (rect.top >= box.top && rect.bottom <= box.bottom) return;
    this.box.scrollTop += rect.top - box.top - box.height / 2;
  }

  // Tints tokens by weights from 0 to 1, weights[0] of token `first`.
  shade(first, weights) {
    if (!window.Highlight) return;
    const levels = [[], [], [], []];
    weights.forEach((weight, k) => {
      const level = Math.min(Math.ceil(Math.sqrt(weight) * 5 - 1.4), levels.length);
      if (level < 1 || !this.has(first + k)) return;
      levels[level - 1].push(this.range(this.charOf(first + k), this.charOf(first + k + 1)));
    });
    levels.forEach((list, i) => {
      if (list.length) CSS.highlights.set(`read${i + 1}`, new Highlight(...list));
      else CSS.highlights.delete(`read${i + 1}`);
    });
  }
}
