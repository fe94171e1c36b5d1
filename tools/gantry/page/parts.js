// What the page is made of: elements, numbers as text, tables, time series.
'use strict';

const kKeptMs = 300e3, kSvg = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);
// In a file of `gantry run --report`: all there is to know. Else null, and the server is asked.
const kReport = JSON.parse(document.getElementById('report')?.textContent ?? 'null');

// ---- small things ------------------------------------------------------------------------------

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children);  // strings become text nodes
  return node;
}
const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(kSvg, tag), attributes, children);
// Only what changed is touched, so that a selection and a screen reader stay where they are.
function say(node, text) { if (node.textContent !== text) node.textContent = text; }

function scaled(value, units, step) {
  let i = 0;
  while (value >= step && i + 1 < units.length) { value /= step; i += 1; }
  return `${value < 10 && i > 0 ? value.toFixed(2) : value < 100 && i > 0 ? value.toFixed(1) :
    Math.round(value)} ${units[i]}`;
}
const bytesText = (value) => scaled(value, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const rateText = (value) => `${scaled(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000)}/s`;
const countText = (value) => value.toLocaleString('en');
const messagesText = (value) => `${value < 100 ? value.toFixed(1) : countText(Math.round(value))} msg/s`;
function timeText(ns) {
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  if (ns < 120e9) return `${(ns / 1e9).toFixed(1)} s`;
  const minutes = Math.floor(ns / 60e9);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}

function table(head, rows) {
  return el('div', {class: 'scroll'}, el('table', {},
    el('thead', {}, el('tr', {}, ...head.map((one) => el('th', {scope: 'col'}, one)))),
    el('tbody', {}, ...rows.map((cells) => el('tr', {}, ...cells.map((cell) =>
      typeof cell === 'number' ? el('td', {class: 'number'}, countText(cell)) : el('td', {}, cell)))))));
}

async function ask(what) {
  const response = await fetch(what, {cache: 'no-store', signal: AbortSignal.timeout(10000)});
  if (!response.ok) throw new Error(`${response.status} ${(await response.text()).trim()}`);
  return response.json();
}

// ---- time series -------------------------------------------------------------------------------

const kSeries = [['messages', messagesText], ['payload', rateText], ['depth', countText]];

class Charts {
  constructor(channel, into) {
    this.points = [];  // [time, messages/s, bytes/s, depth]
    this.views = kSeries.map(([name]) => {
      const line = svg('polyline'), caption = el('figcaption');
      into.append(el('figure', {}, caption, svg('svg', {class: 'chart', viewBox: '0 0 300 90',
        preserveAspectRatio: 'none', 'aria-hidden': 'true'}, line)));
      return {name, line, caption};
    });
    this.load(channel);
  }
  async load(channel) {
    const query = channel === undefined ? '' :  // the server takes a name as it is
      `?channel=${encodeURIComponent(channel).replaceAll('%2F', '/')}`;
    const old = kReport ? (kReport.history[channel ?? ''] ?? []) :
      await ask(`history.json${query}`).catch(() => []);
    const now = performance.now(), first = this.points.length ? this.points[0][0] : Infinity;
    this.points = old.map(([ago, ...values]) => [now - ago, ...values])
      .filter((one) => one[0] < first).concat(this.points);
    this.show();
  }
  add(values) {
    this.points.push([performance.now(), ...values]);
    this.points = this.points.filter((one) => one[0] > performance.now() - kKeptMs);
    this.show();
  }
  show() {
    const end = this.points.at(-1)?.[0] ?? 0, span = Math.max(kReport ? 1 : 60e3, end - (this.points[0]?.[0] ?? end));
    this.views.forEach(({name, line, caption}, i) => {
      const text = kSeries[i][1], values = this.points.map((one) => one[i + 1]);
      const most = Math.max(...values, 0), scale = most || 1;
      line.setAttribute('points', this.points.map((one) => `${
        (300 - (end - one[0]) / span * 300).toFixed(1)},${(86 - one[i + 1] / scale * 80).toFixed(1)}`).join(' '));
      const newest = kReport ? ':' : ` ${text(values.at(-1) ?? 0)},`;  // a run is over
      say(caption, values.length ?
        `${name}${newest} at most ${text(most)} in ${timeText(span * 1e6)}` : name);
    });
  }
}
