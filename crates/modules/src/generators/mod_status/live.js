// The live status page. The server sends a snapshot a second (see live.rs); all that is drawn here are differences between
// snapshots. What clients and scripts are called comes from strangers: it enters the page as text alone.
"use strict";
(() => {
  const HISTORY = 90; // Snapshots that are kept: a minute and a half.
  const WINDOW = 10; // Seconds over which latencies are told.
  const CELLS = 2048; // Workers that are drawn.
  const SILENCE = 4000; // Milliseconds without a snapshot after which the connection counts as lost.
  const AGAIN = 2000; // Milliseconds until one that was refused is tried again.
  const TOLD = 15000; // Milliseconds between two summaries for those who listen.

  const STATES = [
    ["_", "waiting"], ["W", "sending reply"], ["R", "reading"], ["K", "keep-alive"], ["C", "closing"], ["G", "finishing"],
    ["S", "starting"], ["D", "name look-up"], ["L", "logging"], ["I", "idle clean-up"], [".", "open slot"],
  ];
  const USUAL = "_WRKCG";

  // An element with attributes and children; texts become text nodes.
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const svg = (tag, attributes = {}) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const show = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  const integer = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const count = (n) => integer.format(n);
  const rate = (n) => n === null ? "–" : n > 0 && n < 10 ? n.toFixed(1) : count(n);
  const scaled = (n, step, units) => {
    let unit = 0;
    while (n >= step * 0.9995 && unit < units.length - 1) { n /= step; unit += 1; }
    return `${unit === 0 || n >= 99.95 ? count(n) : n.toFixed(1)} ${units[unit]}`;
  };
  const bytes = (n) => n === null ? "–" : scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
  const micros = (n) => n === null ? "–" : n < 1e3 ? `${count(n)} µs` : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)} ms`
    : `${(n / 1e6).toFixed(n < 1e7 ? 2 : 1)} s`;
  const span = (seconds) => {
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = Math.max(0, parts.findIndex(([unit]) => seconds >= unit));
    if (seconds < 1) return "0 s";
    return parts.slice(first, first + 2).map(([unit, name], i) => {
      const whole = Math.floor(i === 0 ? seconds / unit : (seconds % parts[first][0]) / unit);
      return i === 0 || whole > 0 ? `${whole} ${name}` : "";
    }).join(" ").trim();
  };

  // The lines: what the top of a scale stands for at least, lest next to nothing look like all there is, and how a value is told.
  // Latencies are drawn from 10 µs on, each power of ten as high as the next: two lines can be read.
  const decades = (value) => value === null ? null : Math.log10(Math.max(1, value / 10));
  const LINES = {
    requestLine: { least: 10, tell: (n) => `${rate(n)}/s` },
    latencyLine: { least: decades(1e5), tell: (n) => micros(10 * 10 ** n), bottom: "10 µs", kind: ", logarithmic" },
    trafficLine: { least: 65536, tell: (n) => `${bytes(n)}/s` },
    cpuLine: { least: 1e6, tell: (n) => `${rate(n / 1e4)} %` },
  };

  // The frame of the page. `at` holds what changes.
  const at = {};
  const held = (name, node) => (at[name] = node);
  const pairs = (...list) => make("dl", { class: "pairs" },
    ...list.map(([name, label]) => make("div", {}, make("dt", {}, label), held(name, make("dd", {}, "–")))));
  const spark = (name, second) => {
    const image = svg("svg", { class: "spark", viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" });
    image.append(svg("line", { class: "base", x1: 0, y1: 40, x2: 100, y2: 40 }));
    at[name] = { area: svg("path", { class: "area" }), line: svg("path"), second: second && svg("path", { class: "second" }),
      scale: make("p", { class: "scale" }), ...LINES[name] };
    image.append(at[name].area, at[name].line);
    if (second) image.append(at[name].second);
    return make("div", { class: "plot" }, image, at[name].scale);
  };
  const panel = (name, title, kind, ...children) => {
    const id = `title-${name}`;
    const heading = make("h2", { id }, title);
    return make("section", { "aria-labelledby": id, class: kind, id: name }, heading, ...children);
  };
  const bar = (name, label) => held(name, make("meter", { min: 0, max: 1, value: 0, "aria-label": label }));
  const table = (name, caption, columns, kind = "") => {
    const head = columns.map(([label, kind]) => make("th", { scope: "col", class: kind || "" }, label));
    at[name] = { body: make("tbody"), note: make("small"), columns, rows: [] };
    return make("div", { class: `scroll ${kind}`, tabindex: 0, role: "region", "aria-label": caption },
      make("table", {}, make("caption", {}, make("h2", {}, caption), at[name].note), make("thead", {}, make("tr", {}, ...head)), at[name].body));
  };

  const build = () => {
    const number = (name, unit) => make("p", { class: "number" }, held(name, make("span", {}, "–")), make("small", {}, unit));
    const drawn = [["p50", "drawn"], ["p90", ""], ["p99", "drawn second"]];
    const triple = make("dl", { class: "triple" }, ...drawn.map(([name, kind]) =>
      make("div", { class: kind }, make("dt", {}, name), held(name, make("dd", {}, "–")))));
    const header = make("header", {},
      make("div", { class: "about" }, make("h1", {}, location.host), held("about", make("p"))),
      held("state", make("p", { class: "state", id: "state", "data-state": "live" }, "live")),
      held("told", make("p", { class: "hidden", "aria-live": "polite" })));
    const main = make("main", {},
      panel("requests", "Requests", "tile", number("perSecond", "per second"), spark("requestLine"),
        pairs(["accesses", "in all"], ["c2", "2xx/s"], ["c3", "3xx/s"], ["c4", "4xx/s"], ["c5", "5xx/s"])),
      panel("latency", "Time to answer, last 10 s", "tile", triple, spark("latencyLine", true),
        pairs(["slow", "slower than 1 s"])),
      panel("traffic", "Traffic", "tile", number("sent", "sent/s"), spark("trafficLine"),
        pairs(["received", "received/s"], ["sentAll", "sent in all"])),
      panel("machine", "CPU and memory", "tile", number("cpu", "% of a core"), spark("cpuLine"),
        pairs(["load", "load"], ["free", "memory free"])),
      make("section", { "aria-labelledby": "title-workers", id: "workers" },
        make("div", { class: "title" }, make("h2", { id: "title-workers" }, "Workers"), held("workerSum", make("p"))),
        held("grid", make("div", { class: "grid", role: "img" })), held("key", make("ul", { class: "key" }))),
      panel("connections", "Connections", "half",
        pairs(["total", "open"], ["serving", "being served"], ["keepalive", "keep-alive"], ["writing", "writing"],
          ["closing", "closing"], ["reading", "reading"], ["waiting", "waiting for a script, without a worker"])),
      panel("gate", "Gate for scripts", "half",
        pairs(["running", "running"], ["queued", "waiting"], ["refused", "refused"], ["reserved", "memory taken"],
          ["limit", "limit"]),
        bar("gateBar", "Memory that scripts have or are expected to need")),
      make("section", { id: "now", "aria-label": "Requests being served" }, table("requestRows", "Requests being served", [
        ["For"], ["State", "text"], ["Request", "text wide"], ["Client", "text"], ["Host", "text"], ["PID"]], "tall")),
      held("scripts", make("section", { id: "scripts", "aria-label": "Scripts" }, table("scriptRows", "Scripts", [
        ["Script", "text wide"], ["Running"], ["Waiting"], ["Runs"], ["Failed"], ["Refused"], ["p50"], ["p99"], ["CPU each"],
        ["Memory expected"], ["Memory, most"]]))),
      held("pools", make("section", { id: "pools", "aria-label": "Backends" }, table("poolRows", "Backends", [
        ["Pool", "text wide"], ["Size"], ["Busy"], ["Most"], ["Waiting"], ["Requests"], ["Refused"], ["Waited"], ["Served in"],
        ["Memory"], ["Started"], ["Ended", "text"]]))),
      make("section", { id: "children", "aria-label": "Children" }, table("childRows", "Children", [
        ["PID", "text"], ["Life", "text"], ["Generation"], ["Age"], ["Connections"], ["Busy"], ["Requests"], ["Traffic"],
        ["CPU"]], "tall")));
    const link = (query, text) => make("a", { href: query }, text);
    const footer = make("footer", {},
      make("span", {}, "Requests of pages like this one are left out, but for CPU and what a child has done."),
      link("?refresh=5", "Plain page, again every 5 s"), link("?notable", "Without tables"), link("?auto", "For programs"));
    for (const [letter, name] of STATES) {
      const amount = make("b", {}, "0");
      const item = make("li", {}, make("span", { class: "tag", "data-s": letter, "aria-hidden": "true" }, letter),
        make("span", {}, name), amount);
      at.key.append(item);
      at[`key${letter}`] = { item, amount };
    }
    document.body.className = "live";
    document.body.replaceChildren(header, main, footer);
  };

  // Rows are kept and their texts changed: what somebody reads, or has selected, stays where it is.
  const fill = ({ body, columns, rows }, list, empty) => {
    const wanted = list.length === 0 ? [{ cells: [empty], empty: true }] : list;
    while (rows.length > wanted.length) rows.pop().remove();
    wanted.forEach((row, index) => {
      if (!rows[index] || rows[index].childElementCount !== row.cells.length) {
        const cells = row.cells.map((_, i) => row.empty ? make("td", { class: "text empty", colspan: columns.length })
          : i === 0 ? make("th", { scope: "row", class: columns[i][1] || "" }) : make("td", { class: columns[i][1] || "" }));
        const fresh = make("tr", {}, ...cells);
        if (rows[index]) rows[index].replaceWith(fresh); else body.append(fresh);
        rows[index] = fresh;
      }
      rows[index].className = row.kind || "";
      row.cells.forEach((text, i) => show(rows[index].children[i], text));
    });
  };

  // The past.
  let history = [];
  const points = { time: [], request: [], p50: [], p99: [], traffic: [], cpu: [] };
  const note = (list, value) => { list.push(value); if (list.length > HISTORY) list.shift(); };

  // The snapshot that is so many seconds old, or the oldest one; null where there is none.
  const before = (seconds) => {
    const now = history[history.length - 1];
    const older = history.slice(0, -1);
    return older.find((one) => now.now - one.now <= seconds * 1000 + 500) || older[older.length - 1] || null;
  };

  // Change a second of a counter over so many seconds; null where it is not known.
  const change = (of, seconds = 1) => {
    const old = before(seconds);
    const now = history[history.length - 1];
    return old === null || now.now <= old.now ? null : Math.max(0, of(now) - of(old)) * 1000 / (now.now - old.now);
  };

  // A duration in µs that so large a part of the requests of the last seconds did not exceed.
  const quantile = (share) => {
    const old = before(WINDOW);
    const now = history[history.length - 1];
    if (old === null) return null;
    const counts = now.durations.map((n, i) => n - old.durations[i]);
    const all = counts.reduce((a, b) => a + b, 0);
    let left = all * share;
    if (all <= 0) return null;
    for (let i = 0; i < counts.length; i += 1) {
      if (counts[i] >= left) {
        const low = i === 0 ? 0 : now.bounds[i - 1];
        const high = i < now.bounds.length ? now.bounds[i] : low;
        return low + (high - low) * left / counts[i];
      }
      left -= counts[i];
    }
    return now.bounds[now.bounds.length - 1];
  };

  const path = (values, most) => {
    let text = "";
    values.forEach((value, i) => {
      if (value === null) return;
      const x = 100 - (values.length - 1 - i) * 100 / (HISTORY - 1);
      const pen = text === "" || values[i - 1] === null ? "M" : "L";
      text += `${pen}${x.toFixed(2)} ${(39 - 37 * value / most).toFixed(2)}`;
    });
    return text;
  };
  const draw = ({ area, line, second, scale, least, tell, bottom = "0", kind = "" }, values, others = []) => {
    const peak = Math.max(0, ...values, ...others);
    const most = Math.max(least, peak);
    const text = path(values, most);
    const past = points.time[points.time.length - 1] - points.time[0];
    show(scale, `last ${span(Math.round(past / 1000))}, most ${text === "" ? "–" : tell(peak)}\nscale ${bottom} to ${tell(most)}${kind}`);
    line.setAttribute("d", text);
    const first = values.findIndex((value) => value !== null);
    const left = 100 - (values.length - 1 - first) * 100 / (HISTORY - 1);
    const whole = text !== "" && !second && !values.includes(null, first);
    area.setAttribute("d", whole ? `${text}L100 40L${left.toFixed(2)} 40Z` : "");
    if (second) second.setAttribute("d", path(others, most));
  };

  const drawWorkers = ({ letters, limit, unlisted }) => {
    const used = letters.replace(/\.+$/, "");
    const drawn = used.slice(0, CELLS);
    while (at.grid.childElementCount > drawn.length) at.grid.lastChild.remove();
    while (at.grid.childElementCount < drawn.length) at.grid.append(make("span"));
    [...drawn].forEach((letter, i) => {
      const cell = at.grid.children[i];
      if (cell.textContent !== letter) {
        cell.textContent = letter;
        cell.dataset.s = letter;
      }
    });
    const counts = {};
    for (const letter of letters) counts[letter] = (counts[letter] || 0) + 1;
    for (const [letter] of STATES) {
      const { item, amount } = at[`key${letter}`];
      const n = counts[letter] || 0;
      show(amount, count(n));
      item.hidden = n === 0 && !USUAL.includes(letter);
      item.className = n === 0 ? "none" : "";
    }
    const rows = used.length - (used.match(/\./g) || []).length;
    const busy = rows - (counts._ || 0) - (counts.S || 0) - (counts.I || 0) + unlisted;
    // Without a limit a row is a place on this page, and nothing else.
    const all = limit === null ? `${count(busy)} busy, no limit` : `${count(busy)} of ${count(rows)} busy, ${count(limit)} at most`;
    const others = unlisted > 0 ? `; ${count(unlisted)} of them are not listed one by one` : "";
    const more = used.length > CELLS ? `; the first ${count(CELLS)} are shown` : "";
    show(at.workerSum, all + others + more);
    at.grid.setAttribute("aria-label", STATES.filter(([letter]) => counts[letter])
      .map(([letter, name]) => `${counts[letter]} ${name}`).join(", "));
    return limit === null ? `${count(busy)} requests being served` : `${count(busy)} of ${count(rows)} workers busy`;
  };

  const drawRates = (now) => {
    const requests = change((one) => one.accesses);
    show(at.perSecond, rate(requests));
    show(at.accesses, count(now.accesses));
    [2, 3, 4, 5].forEach((n) => show(at[`c${n}`], rate(change((one) => one.classes[n - 1]))));
    const [p50, p90, p99] = [0.5, 0.9, 0.99].map(quantile);
    [["p50", p50], ["p90", p90], ["p99", p99]].forEach(([name, value]) => show(at[name], micros(value)));
    const second = now.bounds.indexOf(1e6) + 1;
    const slow = (one) => one.durations.slice(second).reduce((a, b) => a + b, 0);
    const old = before(WINDOW);
    show(at.slow, old === null ? "–" : count(Math.max(0, slow(now) - slow(old))));
    const sent = change((one) => one.sent);
    show(at.sent, bytes(sent));
    show(at.received, bytes(change((one) => one.received)));
    show(at.sentAll, bytes(now.sent));
    // Children look at their CPU time once a second.
    const cpu = change((one) => one.cpu, 3);
    show(at.cpu, cpu === null ? "–" : rate(cpu / 1e4));
    show(at.load, now.load.map((value) => value.toFixed(2)).join("  "));
    show(at.free, `${bytes(now.gate.available)} of ${bytes(now.gate.total)}`);
    [["time", now.now], ["request", requests], ["p50", decades(p50)], ["p99", decades(p99)], ["traffic", sent], ["cpu", cpu]]
      .forEach(([name, value]) => note(points[name], value));
    draw(at.requestLine, points.request);
    draw(at.latencyLine, points.p50, points.p99);
    draw(at.trafficLine, points.traffic);
    draw(at.cpuLine, points.cpu);
    return `${rate(requests)} requests per second`;
  };

  // How many of how many are told, where these are not all.
  const partly = ({ note }, list, all, which) => show(note, list.length < all ? `${which} ${count(list.length)} of ${count(all)}` : "");
  const drawTables = (now) => {
    partly(at.requestRows, now.requests, now.extended ? now.served : 0, "the longest");
    fill(at.requestRows, now.requests.map((one) => ({
      cells: [micros(one.for * 1000), one.state, one.request, one.client, one.host, String(one.pid)] })),
      now.extended ? "None." : "Not told: ExtendedStatus is Off.");
    fill(at.childRows, now.children.map((one) => ({
      kind: one.old || one.life === "finishing" ? "old" : "",
      cells: [String(one.pid), one.life, count(one.generation), span(one.age), count(one.connections),
        one.workers === null ? count(one.busy) : `${count(one.busy)} of ${count(one.workers)}`, count(one.requests), bytes(one.bytes), micros(one.cpu)] })), "None.");
    fill(at.scriptRows, now.scripts.map((one) => ({
      cells: [one.name, count(one.running), count(one.waiting), count(one.runs), count(one.failures), count(one.refused),
        one.median ? micros(one.median) : "–", one.p99 ? micros(one.p99) : "–", one.runs ? micros(one.cpu) : "–",
        one.expected ? bytes(one.expected) : "–", one.peak ? bytes(one.peak) : "–"] })), "None.");
    at.scripts.hidden = now.scripts.length === 0;
    fill(at.poolRows, now.pools.map((one) => ({
      cells: [one.name, count(one.size), count(one.busy), count(one.max), count(one.waiting), count(one.served),
        count(one.refused), one.served ? micros(one.waited) : "–", one.served ? micros(one.worked) : "–",
        one.memory ? bytes(one.memory) : "–", count(one.started), one.ended || "–"] })), "None.");
    at.pools.hidden = now.pools.length === 0;
  };

  const drawQueues = ({ connections, gate }) => {
    const { total, reading, waiting, writing, keepalive, closing } = connections;
    const serving = Math.max(0, total - reading - waiting - writing - keepalive - closing);
    Object.entries({ total, serving, reading, waiting, writing, keepalive, closing })
      .forEach(([name, value]) => show(at[name], count(value)));
    show(at.running, count(gate.running));
    show(at.queued, count(gate.waiting));
    show(at.refused, count(gate.refused));
    show(at.reserved, bytes(gate.reserved));
    show(at.limit, gate.limit === null ? "as much as they like" : bytes(gate.limit));
    at.gateBar.value = gate.limit ? Math.min(1, gate.reserved / gate.limit) : 0;
  };

  let told = 0;
  const tell = (text) => { told = Date.now(); show(at.told, text); };
  const drawAll = (now) => {
    const last = history[history.length - 1];
    // Counters begin again with a restart that is not graceful. A request of this page may be counted a moment before it is
    // left out.
    if (last && (now.accesses + 64 < last.accesses || now.now < last.now)) history = [];
    note(history, now);
    show(at.about, `${now.version} · ${now.mpm} · generation ${now.generation} · up ${span(now.uptime)}`);
    const summary = [drawRates(now), drawWorkers(now)];
    drawQueues(now);
    drawTables(now);
    document.title = `${rate(change((one) => one.accesses))}/s · ${location.host}`;
    // The first snapshot is nothing to compare with.
    if (history.length > 1 && Date.now() - told > TOLD) tell(summary.join(", "));
  };

  // The connection: each ends after its snapshot, and the browser comes again by itself; only a refusal it takes for final.
  // One that ends without a snapshot has failed.
  let source = null;
  let last = null; // When a snapshot came, by the clock of who looks.
  let failed = false;
  let timer = 0;
  let built = false;
  const state = (name, text) => {
    if (!built) return;
    document.body.classList.toggle("stale", name === "lost");
    if (at.state.dataset.state === name) return;
    at.state.dataset.state = name;
    if (name !== "live") document.title = `${text} · ${location.host}`;
    show(at.state, text);
    tell(text);
  };
  const lost = () => state("lost", `connection lost, trying again; all figures are of ${last?.toLocaleString("sv")}`);
  const watch = (wait) => {
    clearTimeout(timer);
    timer = setTimeout(() => { lost(); connect(); }, wait);
  };
  const connect = () => {
    if (source) source.close();
    source = new EventSource("?live");
    failed = true;
    source.onmessage = ({ data }) => {
      if (!built) build();
      built = true;
      reveal();
      failed = false;
      last = new Date();
      state("live", "live");
      drawAll(JSON.parse(data));
      watch(SILENCE);
    };
    source.onerror = () => {
      reveal();
      if (failed) lost();
      failed = true;
      if (source.readyState === EventSource.CLOSED) watch(AGAIN);
    };
    watch(SILENCE);
  };
  const reveal = () => { document.documentElement.style.visibility = ""; };

  // Nobody looks: nobody asks.
  const seen = () => {
    if (!document.hidden) return connect();
    clearTimeout(timer);
    if (source) source.close();
    state("paused", "paused");
  };

  document.head.append(
    make("link", { rel: "stylesheet", href: "?live.css" }),
    make("link", { rel: "icon", type: "image/svg+xml", href: "?live.svg" }),
    make("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }));
  document.documentElement.lang = "en";
  // The plain page is there for those for whom this does not work; others need not see it first.
  document.documentElement.style.visibility = "hidden";
  setTimeout(reveal, 1000);
  document.addEventListener("visibilitychange", seen);
  document.addEventListener("DOMContentLoaded", seen);
})();
