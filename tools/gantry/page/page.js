// What /status.json says, drawn. Names and texts come from other processes: they are put in as text
// nodes, never as markup.
'use strict';

const kPollMs = 500, kMostDrawn = 40, kMostListed = 200;

// ---- what is wrong -----------------------------------------------------------------------------

const isDown = (state) => state === 'stopped' || state === 'zombie' || state === 'gone';
const isStuck = (channel) => !channel.answered || isDown(channel.producer_state) ||
  channel.consumers.some((one) => one.stuck) || channel.senders.some((one) => isDown(one.state));

// Those in trouble come first, else nothing jumps.
const byTrouble = (one, other) => isStuck(other) - isStuck(one) || (one.name < other.name ? -1 : 1);

function stuckPids(channel) {
  const pids = new Set(channel.consumers.filter((one) => one.stuck).map((one) => one.pid));
  if (!channel.answered || isDown(channel.producer_state)) pids.add(channel.producer_pid);
  for (const one of channel.senders) if (isDown(one.state)) pids.add(one.pid);
  return pids;
}

function alarms(status) {
  const lines = [];
  if (status.error) lines.push({text: status.error, pids: []});
  for (const channel of status.channels) {
    if (!isStuck(channel) && !channel.notes.length) continue;
    const pids = [...stuckPids(channel)];
    const texts = channel.notes.length ? channel.notes :
      [`pid ${pids.join(', ')} is stuck or stopped`];
    for (const text of texts.slice(0, 5)) lines.push({text: `${channel.shown_name ?? channel.name}: ${text}`, pids});
  }
  const shown = lines.slice(0, 20);
  if (lines.length > 20) shown.push({text: `and ${lines.length - 20} more`, pids: []});
  const key = JSON.stringify(shown.map((one) => one.text.replace(/[\d.]+ (ns|us|ms|s|min|h)\b/g, '')));
  const list = $('alarms');
  if (list.dataset.key === key) {  // a screen reader hears of what is new, not of each second
    shown.forEach((one, i) => say(list.children[i], one.text));
    return;
  }
  list.dataset.key = key;
  list.replaceChildren(...shown.map((one) => el('li', {'data-pids': one.pids.join(' ')}, one.text)));
}

const mark = (node, name, on) => node.classList.toggle(name, on);

// ---- the channels ------------------------------------------------------------------------------

const rows = new Map();  // name -> what shows it

function makeRow(name) {
  const row = {name: el('span', {class: 'name'}), ends: el('span', {class: 'ends'}),
    rate: el('span', {class: 'rate'}), depth: el('span', {class: 'depth'}),
    facts: el('div'), charts: el('div', {class: 'charts'})};
  row.body = el('div', {class: 'body'}, row.facts, row.charts);
  row.top = el('details', {'data-channel': name, ontoggle: () => {
    if (row.top.open && !row.series) row.series = new Charts(name, row.charts);
    if (row.top.open && row.channel) showFacts(row, row.channel);
  }}, el('summary', {}, row.name, row.ends, row.rate, row.depth), row.body);
  rows.set(name, row);
  return row;
}

function open(name) {
  const row = rows.get(name) ?? null;
  if (!row) return;
  $('filter').value = '';
  row.top.hidden = false;
  row.top.open = true;
  row.top.querySelector('summary').focus();
  row.top.scrollIntoView({block: 'nearest'});
}

// "score.1 (4711)", "gantry get@gpu2 (4711)"; of a report the stage.
function endText({pid, who}) {
  if (kReport) return String(pid);
  const away = who?.host && last?.host && who.host !== last.host ? `@${who.host}` : '';
  const name = `${who?.text ?? ''}${away}`;
  return name ? `${name} (${pid})` : String(pid || 'elsewhere');
}
const pidText = (end, bad) => el('span', {class: bad ? 'bad' : null},
  `${endText(end)}${end.state === 'running' ? '' : ` ${end.state}`}`);

const registrationsText = ({registrations, refused_registrations: refused}) =>
  refused ? `${countText(registrations)}, ${countText(refused)} refused` : countText(registrations);

// Of a whole run: what it moved, and at what cost.
function showRun(row, one) {
  row.facts.replaceChildren(table(['from', 'to', 'published', 'received', 'payload', 'p50', 'p99',
    'sender waits', 'receiver waits', 'copies'], [[one.from, one.to, one.published_messages,
    one.messages, bytesText(one.bytes), timeText(one.handoff_p50_ns), timeText(one.handoff_p99_ns),
    timeText(one.sender_wait_s * 1e9), timeText(one.receiver_wait_s * 1e9),
    Object.entries(one.copies).filter(([, it]) => it.copies)
      .map(([name, it]) => `${countText(it.copies)} by ${name}`).join(', ') || 'none']]));
}

function showFacts(row, channel) {
  if (kReport) { showRun(row, channel.run); return; }
  const path = channel.path, parts = [];
  parts.push(table(['producer', 'mode', 'credits', 'memory', 'at most', 'registrations', 'copies'], [[
    pidText({pid: channel.producer_pid, who: channel.producer_who, state: channel.producer_state},
      isDown(channel.producer_state)),
    channel.server ? 'server' : channel.inbox ? 'inbox' : channel.mode, `${channel.credits_used} of ${channel.slots}`,
    `${bytesText(channel.memory_used_bytes)} of ${bytesText(channel.memory_bytes)}`,
    bytesText(channel.memory_peak_bytes), registrationsText(channel),
    Object.entries(channel.metrics.copies).filter(([, one]) => one.count)
      .map(([name, one]) => `${countText(one.count)} by ${name}`).join(', ') || 'none']]));
  if (path)
    parts.push(el('p', {class: 'why'},
      `Newest copy: ${bytesText(path.bytes)} ${path.mode} by ${path.engine}\n${path.why}`));
  if (channel.silence) parts.push(el('p', {class: 'bad'}, channel.silence));
  if (channel.consumers.length)
    parts.push(table(['consumer', 'policy', 'taken', 'unread', 'holds', 'oldest', 'idle', 'p50', 'p99', 'dropped'],
      channel.consumers.map((one) => [pidText(one, one.stuck), one.policy,
        one.metrics.messages, one.unread, `${one.held.length} (${bytesText(one.held_bytes)})`,
        one.held.length ? timeText(one.held[0].age_ns) : '-', timeText(one.idle_ns),
        timeText(one.metrics.handoff_p50_ns), timeText(one.metrics.handoff_p99_ns), one.dropped])));
  const held = channel.consumers.flatMap((one) => one.held.map((slot) => [slot.message,
    bytesText(slot.bytes), endText(one), slot.taken ? 'in hand' : 'unread', timeText(slot.age_ns)]));
  if (held.length)
    parts.push(table(['message', 'size', 'with', 'where', 'since'], held.slice(0, 64)));
  if (channel.departed.length)
    parts.push(table(['left', 'holds', 'oldest'], channel.departed.map((one) => [
      pidText(one, isDown(one.state)), `${one.messages} (${bytesText(one.bytes)})`,
      timeText(one.age_ns)])));
  if (channel.senders.length)
    parts.push(table(['sender', 'messages', 'payload', 'unread', 'held', 'credits', 'waits', 'idle'],
      channel.senders.map((one) => [pidText(one, isDown(one.state)), one.messages,
        bytesText(one.bytes), one.unread, one.held, one.credits, one.waits ? 'yes' : 'no',
        timeText(one.idle_ns)])));
  row.facts.replaceChildren(...parts);
}

function showRow(row, channel) {
  row.channel = channel;
  say(row.name, channel.shown_name ?? channel.name);
  const to = channel.consumers.length > 3 ? `${channel.consumers.length} consumers` :
    channel.consumers.map((one) => endText(one)).join(', ') || 'nobody';
  say(row.ends, `${channel.inbox ? `${channel.senders.length} senders` :
    endText({pid: channel.producer_pid, who: channel.producer_who})} → ${to}`);
  const rate = channel.bytes_per_second;
  say(row.rate, rate === null ? (channel.answered ? '–' : 'no answer') :
    `${messagesText(channel.messages_per_second)}  ${rateText(rate)}`);
  row.rate.dataset.bytes = rate ?? '';
  row.rate.dataset.messages = channel.messages_per_second ?? '';
  say(row.depth, channel.server ? 'server' : channel.inbox ? 'inbox' : kReport ? channel.mode : `depth ${countText(channel.depth)}`);
  mark(row.top, 'stuck', isStuck(channel));
  if (row.series) row.series.add([channel.messages_per_second ?? 0, rate ?? 0, channel.depth]);
  if (row.top.open) showFacts(row, channel);
}

function channels(status) {
  const filter = $('filter').value.trim();
  const shows = (end) => String(end.pid) === filter || (end.who?.text ?? '').includes(filter);
  const matches = (one) => !filter || one.name.includes(filter) ||
    (one.shown_name ?? '').includes(filter) ||
    [{pid: one.producer_pid, who: one.producer_who}, ...one.consumers, ...one.senders].some(shows);
  const wanted = status.channels.filter(matches);
  const isOpen = (one) => rows.get(one.name)?.top.open;
  const first = wanted.filter((one) => isStuck(one) || isOpen(one));
  const shown = [...new Set([...first, ...wanted])].slice(0, kMostListed)
    .sort(byTrouble);
  const names = new Set(shown.map((one) => one.name));
  for (const [name, row] of rows) if (!names.has(name)) { row.top.remove(); rows.delete(name); }
  shown.forEach((channel, i) => {
    const row = rows.get(channel.name) ?? makeRow(channel.name);
    showRow(row, channel);
    if ($('channels').children[i] !== row.top) $('channels').insertBefore(row.top, $('channels').children[i] ?? null);
  });
  say($('count'), String(status.channels.length));
  say($('channels-note'), shown.length < wanted.length ?
    `${wanted.length - shown.length} more: filter by a name or a pid.` : '');
}

// ---- the rest ----------------------------------------------------------------------------------

function ranks(status) {
  $('ranks-section').hidden = !status.ranks.length;
  $('ranks').replaceChildren(table(['group', 'rank', 'pid', 'state', 'for', 'at', 'plan'],
    status.ranks.map((one) => [one.group, `${one.rank} of ${one.ranks}`,
      pidText({pid: one.pid, state: one.process}, isDown(one.process)), one.state, timeText(one.in_state_ns),
      one.operations.map((step) => step.text).join('; ') || `${one.ended} of ${one.steps} steps`,
      one.plan])));
}

function stages() {
  $('stages-section').hidden = false;
  $('gone-section').hidden = true;
  $('stages').replaceChildren(table(['stage', 'replicas', 'time', 'CPU', 'waiting', 'memory'],
    kReport.run.stages.map((one) => [one.name, one.replicas, timeText(one.wall_s * 1e9),
      timeText((one.user_s + one.system_s) * 1e9), one.waiting === null ? '–' : `${Math.round(one.waiting * 100)} %`,
      bytesText(one.max_rss_bytes)])));
  const ended = !kReport.status.error, words = kReport.last_words;
  if (ended && kReport.run.channels.length)
    say($('slowest'), `The slowest stage is ${kReport.run.slowest_stage}: it waited least.`);
  $('last-words').hidden = !words.length;
  say($('last-words'), `Its last words on standard error:\n${words.join('\n')}`);
}

function gone(status) {
  const lines = status.gone.map((one) =>
    `${one.name && `${one.name}, `}pid ${one.pid}, ${one.role} of ${one.where}: ${one.last}; ${timeText(one.ago_ms * 1e6)} ago`);
  if (!lines.length) lines.push('Nobody since this server began.');
  const list = $('gone');
  if (list.children.length !== lines.length) list.replaceChildren(...lines.map(() => el('li')));
  lines.forEach((line, i) => say(list.children[i], line));
}

let total = null, paused = false, last = null, seen = 0;

function show(status) {
  last = status;
  say($('where'), `${kReport ? kReport.run.pipeline : status.directory} · gantry ${status.version}`);
  alarms(status);
  graph(status);
  total ??= new Charts(undefined, $('total'));
  const sum = (of) => status.channels.reduce((all, one) => all + (one[of] ?? 0), 0);
  if (!kReport) total.add([sum('messages_per_second'), sum('bytes_per_second'), sum('depth')]);
  channels(status);
  ranks(status);
  gone(status);
}

function state(text, bad) {
  say($('state'), text);
  mark($('state'), 'bad', bad);
}

async function poll() {
  for (;;) {
    if (!paused && !document.hidden) {
      try {
        const status = await ask('status.json');
        if (!last || status.look !== last.look) { show(status); seen = performance.now(); }
        const age = performance.now() - seen;
        state(age > 5000 ? `last look ${timeText(age * 1e6)} ago` : 'live', age > 5000);
      } catch (error) {
        state(`no answer from gantry serve (${error.message})`, true);
      }
    }
    await new Promise((done) => setTimeout(done, kPollMs));
  }
}

function pause() {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  if (paused) state('paused', false);
}

$('pause').addEventListener('click', pause);
$('filter').addEventListener('input', () => last && channels(last));
document.addEventListener('keydown', (event) => {
  if (event.target.tagName === 'INPUT' || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'p' && !kReport) pause();
  if (event.key === '/') { event.preventDefault(); $('filter').focus(); }
});
if (kReport) {
  $('pause').hidden = true;
  const failed = kReport.status.error, short = !kReport.run.accounted;
  state(`${kReport.run.transport}, ${timeText(kReport.run.wall_s * 1e9)}, ${
    bytesText(kReport.run.bytes)}${failed ? ', failed' : short ? ', not all received' : ''}`, failed || short);
  show(kReport.status);
  stages();
} else {
  poll();
}
