// Who sends to whom, drawn. page.js calls graph() with each look.
'use strict';

// A stage of a run is one box, however many replicas it has, and a channel between stages an arrow.
// Of other programs each process is a box, and each channel, since any number of readers may come.
function layout(channels, host) {
  const nodes = new Map(), edges = new Map();
  const node = (id, make) => nodes.get(id) ?? nodes.set(id, {id, column: 0, ...make()}).get(id);
  const elsewhere = (who) => Boolean(who?.host && host && who.host !== host);
  const box = (end, channel, role) => {
    const {pid, who} = end;
    const id = who?.stage ? `s${channel.pipeline}/${who.stage}` : !pid ? `${role} of ${channel.name}` :
      elsewhere(who) ? `p${pid} ${who.text}@${who.host}` : `p${pid}`;
    const one = node(id, () => ({ends: new Map(), label: ''}));
    one.ends.set(`${pid} ${who?.replica ?? ''}`, end);
    one.label ||= who?.stage || who?.text || (pid ? `pid ${pid}` : role);
    if (elsewhere(who)) one.host = who.host;
    one.isStage ||= Boolean(who?.stage);
    return one;
  };
  const arrow = (from, to, channel, more = {}) => {
    const key = [from.id, to.id, more.name ?? channel.name, more.consumer ?? ''].join(' ');
    const edge = edges.get(key) ?? edges.set(key, {key, from, to, channel: channel.name, channels: [],
      ...more}).get(key);
    edge.channels.push(channel.name);
  };
  for (const channel of channels) {
    const sources = (channel.inbox ? channel.senders : [{pid: channel.producer_pid,
      state: channel.producer_state, who: channel.producer_who}])
      .map((one) => box(one, channel, 'producer'));
    const readers = channel.consumers.map((one) => [one, box(one, channel, 'consumer')]);
    if (readers.length && sources.concat(readers.map(([, one]) => one)).every((one) => one.isStage)) {
      const name = (channel.shown_name ?? channel.name).replace(/^[^/]*\//, '').replace(/\.\d+\.\d+$/, '');
      for (const from of sources) for (const [, to] of readers) arrow(from, to, channel, {name});
      continue;
    }
    const middle = node(`c${channel.name}`, () => ({channel: channel.name}));
    for (const from of sources) arrow(from, middle, channel);
    for (const [one, to] of readers) arrow(middle, to, channel, {consumer: one.pid});
  }
  for (let pass = 0, moved = true; moved && pass < 24; pass += 1) {  // a ring ends, too
    moved = false;
    for (const {from, to} of edges.values())
      if (to.column <= from.column && from.column < 12) { to.column = from.column + 1; moved = true; }
  }
  const last = Math.max(0, ...[...nodes.values()].map((one) => one.column));
  const columns = Array.from({length: last + 1}, () => []);  // of a ring the first are empty
  for (const one of nodes.values()) columns[one.column].push(one);
  for (const column of columns) {  // beside what sends to it, so that arrows seldom cross
    const before = (one) => Math.min(...[...edges.values()].filter((edge) => edge.to === one)
      .map((edge) => edge.from.row ?? 0));
    column.map((one) => [before(one), one]).sort(([one], [other]) => one === other ? 0 : one - other)
      .forEach(([, one], row) => { one.row = row; });
  }
  return {nodes: [...nodes.values()], edges: [...edges.values()], columns: columns.length,
    rows: Math.max(1, ...columns.map((column) => column.length))};
}

const kWide = 170, kHigh = 46;
let drawn = {key: '', nodes: new Map(), edges: []};

// What opens a channel's row, by mouse or keyboard.
const opens = (channel) => ({tabindex: 0, role: 'button', onclick: () => open(channel),
  onkeydown: (event) => {
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); open(channel); }
  }});

function draw({nodes, edges, columns, rows}) {
  // Left to right; on a phone downwards.
  const down = window.innerWidth < 640, step = down ? [185, 110] : [310, 76];
  const x = (one) => 10 + (down ? one.row : one.column) * step[0];
  const y = (one) => 10 + (down ? one.column : one.row) * step[1];
  const view = svg('svg', {width: (down ? rows : columns) * step[0], role: 'group',
    height: (down ? columns : rows) * step[1]}, svg('defs', {}, svg('marker', {id: 'tip',
    viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'},
  svg('path', {d: 'M0 0L8 4L0 8z'}))));
  drawn.edges = edges.map((edge) => {
    const x1 = x(edge.from) + (down ? kWide / 2 : kWide), y1 = y(edge.from) + (down ? kHigh : kHigh / 2);
    const x2 = x(edge.to) + (down ? kWide / 2 : 0), y2 = y(edge.to) + (down ? 0 : kHigh / 2);
    const bend = down ? [0, 40] : [Math.max(40, Math.abs(x2 - x1) / 2), 0];
    const middle = {'text-anchor': 'middle', x: (x1 + x2) / 2};
    const label = svg('text', {class: 'small', ...middle,
      y: (y1 + y2) / 2 + (edge.name ? 16 : down ? 4 : -5)});
    const name = svg('text', {...middle, y: (y1 + y2) / 2 - 5});
    const group = svg('g', {class: 'edge', ...(edge.name ? opens(edge.channel) : {})},
      svg('path', {'marker-end': 'url(#tip)', d: `M${x1} ${y1
      }C${x1 + bend[0]} ${y1 + bend[1]} ${x2 - bend[0]} ${y2 - bend[1]} ${x2} ${y2}`}), label, name);
    view.append(group);
    return {...edge, label, title: name, group};
  });
  drawn.nodes = new Map(nodes.map((one) => {
    const title = svg('text', {x: x(one) + 10, y: y(one) + 19});
    const below = svg('text', {class: 'small', x: x(one) + 10, y: y(one) + 36});
    const group = svg('g', one.channel === undefined ? {class: one.isStage ? 'stage' : 'process'} :
      {class: 'channel', ...opens(one.channel)},
    svg('rect', {x: x(one), y: y(one), width: kWide, height: kHigh, rx: 6}), title, below);
    view.append(group);
    return [one.id, {...one, title, below, group}];
  }));
  $('graph').replaceChildren(view);
}

// The text as far as it has room; its middle gives way, since names differ at their ends.
function fit(node, text, width) {
  if (node.dataset.whole === text) return;
  node.dataset.whole = text;
  say(node, text);
  for (let kept = text.length - 1; kept > 2 && node.getComputedTextLength() > width; kept -= 1)
    say(node, `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(-Math.floor(kept / 2))}`);
}

// "pid 4711, stopped", "2 replicas", "on gpu2".
function belowText(one, ends) {
  const states = new Set(ends.map((end) => end.state).filter((state) => state && state !== 'running'));
  const parts = !one.isStage ? ends.filter((end) => end.pid).map((end) => `pid ${end.pid}`).slice(0, 1) :
    kReport ? [] : [ends.length === 1 ? '1 process' : `${ends.length} processes`];
  if (one.host) parts.push(`on ${one.host}`);
  return parts.concat([...states]).join(', ');
}

function graph(status) {
  const urgent = status.channels.filter(isStuck);
  const chosen = [...new Set([...urgent, ...status.channels])].slice(0, kMostDrawn);
  chosen.sort(byTrouble);
  const plan = layout(chosen, status.host);
  const key = JSON.stringify([window.innerWidth < 640, plan.nodes.map((one) => one.id),
    plan.edges.map((edge) => edge.key)]);
  if (key !== drawn.key) { drawn.key = key; draw(plan); }
  const byName = new Map(chosen.map((one) => [one.name, one]));
  const bad = new Set(chosen.flatMap((one) => [...stuckPids(one)]));
  const planned = new Map(plan.nodes.map((one) => [one.id, one]));
  for (const one of drawn.nodes.values()) {
    const channel = byName.get(one.channel), now = planned.get(one.id);
    const ends = channel ? [] : [...now.ends.values()];
    fit(one.title, channel ? channel.shown_name ?? channel.name : now.label, kWide - 20);
    fit(one.below, !channel ? belowText(now, ends) : !channel.answered ? 'no answer' :
      channel.server ? 'server' : channel.inbox ? 'inbox' : kReport ? channel.mode : `${channel.mode}, depth ${countText(channel.depth)}`,
    kWide - 20);
    one.group.dataset.pids = ends.map((end) => end.pid).join(' ');
    mark(one.group, 'bad', channel ? !channel.answered : ends.some((end) => bad.has(end.pid)));
  }
  const links = new Map(plan.edges.map((edge) => [edge.key, edge.channels]));
  for (const edge of drawn.edges) {
    const channel = byName.get(edge.channel);
    const consumer = channel.consumers.find((one) => one.pid === edge.consumer);
    const rates = links.get(edge.key).map((name) => byName.get(name).bytes_per_second);
    if (edge.name) fit(edge.title, edge.name, 130);
    say(edge.label, !edge.consumer ? (rates.every((rate) => rate === null) ? '' :
      rateText(rates.reduce((sum, rate) => sum + (rate ?? 0), 0))) : !consumer ? '' :
      consumer.held.length ? `holds ${consumer.held.length}` : consumer.unread ? `${consumer.unread} unread` : '');
  }
  say($('graph-note'), !status.channels.length ? `No channels${kReport ? '' : ' yet'}.` :
    chosen.length < status.channels.length ?
      `Drawn are ${chosen.length} of ${status.channels.length}: those in trouble, and the quickest.` : '');
}
