// The live status page, third part: shows the snapshots that the server sends once a second (see live.rs).
// Text from clients, scripts and log lines is untrusted: it enters the page only as text.
(() => {
  const { make, show, count, rate, bytes, micros, span, clock, chart, linear, decades, past } = live;
  const CELLS = 2048; // Workers that are drawn.
  const SILENCE = 4000; // Milliseconds without a snapshot after which the connection counts as lost.
  const AGAIN = 2000; // Milliseconds until one that was refused is tried again.
  const TOLD = 15000; // Milliseconds between two summaries for screen readers.
  const MOST_URLS = 12; // URLs that are shown.

  // Properties of TLS handshakes whose shares are shown, and what they are called.
  const SHARES = ["resumed", "1.3", "1.2", "h2", "http/1.1"];
  const PROPERTIES = { 1.3: "TLS 1.3", 1.2: "TLS 1.2", h2: "HTTP/2", "http/1.1": "HTTP/1.1" };

  const STATES = [
    ["_", "waiting"], ["W", "sending reply"], ["R", "reading"], ["K", "keep-alive"], ["C", "closing"], ["G", "finishing"],
    ["S", "starting"], ["D", "name look-up"], ["L", "logging"], ["I", "idle clean-up"], [".", "open slot"],
  ];
  const USUAL = "_WRKCG";

  const CHARTS = {
    requestChart: ["Requests a second", { scale: linear(10), tell: (n) => `${rate(n)}/s`,
      lines: [["requests", "answered"], ["failed", "5xx"]] }],
    latencyChart: ["Time to answer", { scale: decades, tell: micros, lines: [["p50", "p50"], ["p90", "p90"], ["p99", "p99"]] }],
    trafficChart: ["Traffic", { scale: linear(65536, 1024), tell: (n) => `${bytes(n)}/s`,
      lines: [["sent", "sent"], ["received", "received"]] }],
    cpuChart: ["CPU", { scale: linear(1e6), tell: (n) => `${rate(n / 1e4)} %`, lines: [["cpu", "CPU"]] }],
    connectionChart: ["Connections", { scale: linear(10), tell: count,
      lines: [["connections", "open"], ["served", "requests being served"]] }],
    handshakeChart: ["TLS handshakes a second", { scale: linear(10), tell: (n) => `${rate(n)}/s`,
      lines: [["handshakes", "completed"], ["failedHandshakes", "failed"]] }],
  };

  // The frame of the page. `at` holds what changes.
  const at = {};
  const held = (name, node) => (at[name] = node);
  const drawn = (name) => {
    const { node, key, draw } = chart(...CHARTS[name]);
    at[name] = draw;
    return [...key, node];
  };
  const pairs = (...list) => make("dl", { class: "pairs" },
    ...list.map(([name, label]) => make("div", {}, make("dt", {}, label), held(name, make("dd", {}, "–")))));
  const panel = (name, title, kind, ...children) => {
    const id = `title-${name}`;
    return make("section", { "aria-labelledby": id, class: kind, id: name }, make("h2", { id }, title), ...children);
  };
  const bar = (name, label) => held(name, make("meter", { min: 0, max: 1, value: 0, "aria-label": label }));

  // A table. A column is its label, its kind ("text", "wide") and, where the table can be sorted by it, a name for that.
  const table = (name, caption, columns, kind = "") => {
    const sorted = columns.some(([, , key]) => key);
    const head = columns.map(([label, kind, key]) => {
      const cell = make("th", { scope: "col", role: "columnheader", class: kind || "" });
      if (!key) cell.append(label);
      else {
        const button = make("button", { type: "button" }, label);
        button.addEventListener("click", () => { at[name].by = key; at[name].again(); });
        cell.append(button);
        cell.dataset.key = key;
      }
      return cell;
    });
    at[name] = { body: make("tbody", { role: "rowgroup" }), note: make("small"), columns, rows: [], head,
      by: sorted ? columns.find(([, , key]) => key)[2] : null, again: () => {} };
    return make("div", { class: `scroll ${kind}`, tabindex: 0, role: "region", "aria-label": caption },
      make("table", { role: "table" }, make("caption", {}, make("h2", {}, caption), at[name].note),
        make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...head)), at[name].body));
  };
  const tables = (name, label, ...rest) => held(name, make("section", { id: name, "aria-label": label }, table(...rest)));

  const build = () => {
    const number = (name, unit) => make("p", { class: "number" }, held(name, make("span", {}, "–")), make("small", {}, unit));
    const triple = make("dl", { class: "triple" }, ...["p50", "p90", "p99"].map((name, i) =>
      make("div", { class: `line${i}` }, make("dt", {}, name), held(name, make("dd", {}, "–")))));
    const header = make("header", {},
      make("div", { class: "about" }, make("h1", {}, location.host), held("about", make("p"))),
      held("state", make("p", { class: "state", id: "state", "data-state": "live" }, "live")),
      held("told", make("p", { class: "hidden", "aria-live": "polite" })));
    const main = make("main", {},
      panel("requests", "Requests", "half", number("perSecond", "per second"), ...drawn("requestChart"),
        pairs(["accesses", "total"], ["c2", "2xx/s"], ["c3", "3xx/s"], ["c4", "4xx/s"], ["c5", "5xx/s"])),
      panel("latency", "Time to answer, last 10 s", "half", triple, ...drawn("latencyChart").slice(-1),
        pairs(["slow", "slower than 1 s"])),
      panel("traffic", "Traffic", "third", number("sent", "sent/s"), ...drawn("trafficChart"),
        pairs(["received", "received/s"], ["sentAll", "sent in total"])),
      panel("machine", "CPU and memory", "third", number("cpu", "% of a core"), ...drawn("cpuChart"),
        pairs(["load", "load"], ["free", "memory free"])),
      panel("connections", "Connections", "third", number("total", "open"), ...drawn("connectionChart"),
        pairs(["serving", "being served"], ["keepalive", "keep-alive"], ["writing", "writing"], ["closing", "closing"],
          ["reading", "reading"], ["waiting", "waiting for a script"], ["http2", "HTTP/2"], ["streams", "streams"])),
      held("tls", panel("handshakes", "TLS handshakes", "half", number("handshakeRate", "per second"), ...drawn("handshakeChart"),
        pairs(["completed", "total"], ["failedHandshakes", "failed"], ...SHARES.map((name) => [name, PROPERTIES[name] ?? name])))),
      tables("certificates", "Certificates", "certificateRows", "Certificates", [
        ["Virtual host", "text"], ["Expires", "text long"], ["Days left"]], "tall"),
      held("workers", make("section", { "aria-labelledby": "title-workers", id: "workers" },
        make("div", { class: "title" }, make("h2", { id: "title-workers" }, "Workers"), held("workerSum", make("p"))),
        held("grid", make("div", { class: "grid", role: "img" })), held("key", make("ul", { class: "key" })))),
      tables("now", "Requests being served", "requestRows", "Requests being served", [
        ["Running for"], ["State", "text"], ["Request", "text wide"], ["Client", "text"], ["Host", "text long"], ["Protocol", "text"],
        ["PID"]], "tall"),
      tables("urls", "URLs", "urlRows", "URLs, last minutes", [
        ["URL", "text wide"], ["Total time", "", "time"], ["Requests", "", "requests"], ["Mean", "", "mean"],
        ["Slowest", "", "slowest"], ["5xx", "", "failures"], ["By scripts", "", "scripts"]]),
      tables("hosts", "Virtual hosts", "hostRows", "Virtual hosts, last minutes", [
        ["Virtual host", "text"], ["Requests"], ["Total time"], ["Mean"], ["Slowest"], ["5xx"]]),
      tables("lines", "Error log", "lineRows", "Error log", [["When", "text"], ["Level", "text"], ["Line", "text wide"]], "tall"),
      held("scripting", panel("gate", "Gate for scripts", "",
        pairs(["running", "running"], ["queued", "waiting"], ["refused", "refused"], ["reserved", "memory taken"],
          ["limit", "limit"]),
        bar("gateBar", "Memory that scripts have or are expected to need"))),
      tables("scripts", "Scripts", "scriptRows", "Scripts", [
        ["Script", "text wide"], ["Running"], ["Waiting"], ["Runs"], ["Failed"], ["Refused"], ["p50"], ["p99"], ["CPU each"],
        ["Expected memory"], ["Peak memory"]]),
      tables("pools", "Backends", "poolRows", "Backends", [
        ["Pool", "text wide"], ["Size"], ["Busy"], ["Limit"], ["Waiting"], ["Requests"], ["Refused"], ["Waited"], ["Served in"],
        ["Memory"], ["Started"], ["Ended", "text"]]),
      tables("servers", "Servers behind this one", "serverRows", "Servers behind this one", [
        ["Server", "text wide"], ["Busy"], ["Idle connections"], ["Requests"], ["Reused"], ["Connected in"], ["First byte after"],
        ["Served in"], ["Faults", "text"]]),
      tables("children", "Children", "childRows", "Children", [
        ["PID", "text"], ["Life", "text"], ["Generation"], ["Age"], ["Connections"], ["Busy"], ["Requests"], ["Traffic"],
        ["CPU"]], "tall"));
    const link = (query, text) => make("a", { href: query }, text);
    const footer = make("footer", {},
      make("span", {}, "Requests of this page are not counted, except in CPU, connections, handshakes and the figures of children."),
      link("?refresh=5", "Plain page, refreshed every 5 s"), link("?notable", "Without tables"), link("?auto", "For programs"));
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

  // Rows are kept and only their text changes, so that a selection stays in place. On a small screen a row is a card,
  // and each cell shows its label.
  const fill = ({ body, columns, rows }, list, empty) => {
    const wanted = list.length === 0 ? [{ cells: [empty], empty: true }] : list;
    while (rows.length > wanted.length) rows.pop().remove();
    wanted.forEach((row, index) => {
      if (!rows[index] || rows[index].childElementCount !== row.cells.length) {
        const cells = row.cells.map((_, i) => {
          const [label, kind] = columns[i];
          if (row.empty) return make("td", { class: "text empty", role: "cell", colspan: columns.length });
          const about = { class: kind || "", "data-label": label };
          return i === 0 ? make("th", { scope: "row", role: "rowheader", ...about }) : make("td", { role: "cell", ...about });
        });
        const fresh = make("tr", { role: "row" }, ...cells);
        if (rows[index]) rows[index].replaceWith(fresh); else body.append(fresh);
        rows[index] = fresh;
      }
      rows[index].className = row.kind || "";
      row.cells.forEach((text, i) => show(rows[index].children[i], text));
    });
  };

  const drawWorkers = ({ letters, limit, served }) => {
    // If a request needs no worker, workers cannot run out: the chart of connections is enough.
    at.workers.hidden = limit === null;
    if (limit === null) return `${count(served)} requests being served`;
    const used = letters.replace(/\.+$/, "");
    const shown = used.slice(0, CELLS);
    while (at.grid.childElementCount > shown.length) at.grid.lastChild.remove();
    while (at.grid.childElementCount < shown.length) at.grid.append(make("span"));
    [...shown].forEach((letter, i) => {
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
    const busy = rows - (counts._ || 0) - (counts.S || 0) - (counts.I || 0);
    const more = used.length > CELLS ? `; the first ${count(CELLS)} are shown` : "";
    show(at.workerSum, `${count(busy)} of ${count(rows)} busy, ${count(limit)} at most${more}`);
    at.grid.setAttribute("aria-label", STATES.filter(([letter]) => counts[letter])
      .map(([letter, name]) => `${counts[letter]} ${name}`).join(", "));
    return `${count(busy)} of ${count(rows)} workers busy`;
  };

  const drawRates = (now) => {
    const { change } = past;
    const requests = change((one) => one.accesses);
    show(at.perSecond, rate(requests));
    show(at.accesses, count(now.accesses));
    [2, 3, 4, 5].forEach((n) => show(at[`c${n}`], rate(change((one) => one.classes[n - 1]))));
    const recent = past.counts();
    [["p50", 0.5], ["p90", 0.9], ["p99", 0.99]].forEach(([name, share]) =>
      show(at[name], micros(past.quantile(recent, now.bounds, share))));
    const second = now.bounds.indexOf(1e6) + 1;
    show(at.slow, recent === null ? "–" : count(recent.slice(second).reduce((a, b) => a + b, 0)));
    show(at.sent, bytes(change((one) => one.sent)));
    show(at.received, bytes(change((one) => one.received)));
    show(at.sentAll, bytes(now.sent));
    const cpu = change((one) => one.cpu, 3);
    show(at.cpu, cpu === null ? "–" : rate(cpu / 1e4));
    show(at.load, now.load.map((value) => value.toFixed(2)).join("  "));
    show(at.free, `${bytes(now.gate.available)} of ${bytes(now.gate.total)}`);
    Object.keys(CHARTS).forEach((name) => at[name](past.times(), past.series()));
    return `${rate(requests)} requests per second`;
  };

  // How many of all rows are shown, if not all.
  const partly = ({ note }, list, all, which) => show(note, list.length < all ? `${which} ${count(list.length)} of ${count(all)}` : "");

  const drawPlaces = (urls, hosts) => {
    const figures = (one) => ({ ...one, mean: one.time / one.requests });
    const urlTable = at.urlRows;
    urlTable.again = () => {
      const value = (one) => figures(one)[urlTable.by];
      const list = [...urls].sort((one, other) => value(other) - value(one)).slice(0, MOST_URLS);
      urlTable.head.forEach((cell) => {
        if (cell.dataset.key) cell.setAttribute("aria-sort", cell.dataset.key === urlTable.by ? "descending" : "none");
      });
      const named = hosts.length > 1 ? (one) => `${one.host}${one.path}` : (one) => one.path;
      fill(urlTable, list.map((one) => {
        const { mean } = figures(one);
        return { cells: [named(one), micros(one.time), count(one.requests), micros(mean), micros(one.slowest), count(one.failures),
          one.scripts > 0 ? count(one.scripts) : "–"] };
      }), "None.");
    };
    urlTable.again();
    fill(at.hostRows, hosts.map((one) => ({
      cells: [one.host, count(one.requests), micros(one.time), micros(one.time / one.requests), micros(one.slowest),
        count(one.failures)] })), "None.");
    at.hosts.hidden = hosts.length < 2;
  };

  const drawTables = (now) => {
    const off = "Not shown: ExtendedStatus is Off.";
    partly(at.requestRows, now.requests, now.extended ? now.served : 0, "the longest");
    fill(at.requestRows, now.requests.map((one) => ({
      cells: [micros(one.for * 1000), one.state, one.request, one.client, one.host, one.protocol, String(one.pid)] })),
      now.extended ? "None." : off);
    if (now.extended) drawPlaces(now.urls, now.hosts);
    else {
      fill(at.urlRows, [], off);
      at.hosts.hidden = true;
    }
    partly(at.lineRows, now.lines, now.lineCount, "the last");
    fill(at.lineRows, now.lines.map((one) => ({
      kind: `level ${["warn"].includes(one.level) ? "warn" : "bad"}`, cells: [clock(one.at), one.level, one.text] })),
      "No warning and no error since the server started.");
    fill(at.childRows, now.children.map((one) => ({
      kind: one.old || one.life === "finishing" ? "old" : "",
      cells: [String(one.pid), one.life, count(one.generation), span(one.age), count(one.connections),
        one.workers === null ? count(one.busy) : `${count(one.busy)} of ${count(one.workers)}`, count(one.requests), bytes(one.bytes), micros(one.cpu)] })), "None.");
    const pools = new Set(now.pools.map((one) => one.name));
    const scripts = now.scripts.filter((one) => !pools.has(one.name)); // Pools have a table of their own.
    fill(at.scriptRows, scripts.map((one) => ({
      cells: [one.name, count(one.running), count(one.waiting), count(one.runs), count(one.failures), count(one.refused),
        one.median ? micros(one.median) : "–", one.p99 ? micros(one.p99) : "–", one.runs ? micros(one.cpu) : "–",
        one.expected ? bytes(one.expected) : "–", one.peak ? bytes(one.peak) : "–"] })), "None.");
    at.scripts.hidden = scripts.length === 0;
    at.scripting.hidden = now.scripts.length === 0 && now.pools.length === 0;
    fill(at.poolRows, now.pools.map((one) => ({
      cells: [one.name, count(one.size), count(one.busy), count(one.max), count(one.waiting), count(one.served),
        count(one.refused), one.served ? micros(one.waited) : "–", one.served ? micros(one.worked) : "–",
        one.memory ? bytes(one.memory) : "–", count(one.started), one.ended || "–"] })), "None.");
    at.pools.hidden = now.pools.length === 0;
    const took = (time) => time === null ? "–" : micros(time);
    partly(at.serverRows, now.servers, now.serverCount, "the first");
    fill(at.serverRows, now.servers.map((one) => ({
      kind: one.usable ? "" : "level bad",
      cells: [one.name, count(one.busy), count(one.idle), count(one.requests), one.reused === null ? "–" : `${one.reused} %`,
        took(one.connect), took(one.begun), took(one.total), one.faults || "–"] })), "None.");
    at.servers.hidden = now.servers.length === 0;
    partly(at.certificateRows, now.certificates, now.certificateCount, "the first");
    fill(at.certificateRows, now.certificates.map((one) => ({
      kind: one.soon ? "level bad" : "", cells: [one.host, new Date(one.end * 1000).toLocaleString("sv"), count(one.days)] })), "None.");
    at.certificates.hidden = now.certificates.length === 0;
  };

  const drawHandshakes = ({ completed, failed, of }, isTls) => {
    at.tls.hidden = !isTls;
    show(at.handshakeRate, rate(past.change((one) => one.handshakes)));
    show(at.completed, count(completed));
    show(at.failedHandshakes, count(failed));
    SHARES.forEach((name) => show(at[name], completed === 0 ? "–" : `${rate(of[name] * 100 / completed)} %`));
  };

  const drawQueues = ({ connections, gate }) => {
    const { total, reading, waiting, writing, keepalive, closing, http2, streams } = connections;
    const serving = Math.max(0, total - reading - waiting - writing - keepalive - closing);
    Object.entries({ total, serving, reading, waiting, writing, keepalive, closing, http2, streams })
      .forEach(([name, value]) => show(at[name], count(value)));
    show(at.running, count(gate.running));
    show(at.queued, count(gate.waiting));
    show(at.refused, count(gate.refused));
    show(at.reserved, bytes(gate.reserved));
    show(at.limit, gate.limit === null ? "none" : bytes(gate.limit));
    at.gateBar.value = gate.limit ? Math.min(1, gate.reserved / gate.limit) : 0;
  };

  let told = 0;
  const tell = (text) => { told = Date.now(); show(at.told, text); };
  const drawAll = (now) => {
    const { accesses, sent, received, cpu, classes, durations, served, connections, handshakes } = now;
    past.add({ now: now.now, accesses, sent, received, cpu, classes, durations, served, connections: connections.total,
      handshakes: handshakes.completed, failedHandshakes: handshakes.failed }, now.bounds);
    const restarted = now.generation > 0 ? `, restarted ${span(now.uptime)} ago` : "";
    show(at.about, `${now.version} · ${now.mpm} · generation ${now.generation} · up ${span(now.started)}${restarted}`);
    const summary = [drawRates(now), drawWorkers(now)];
    drawQueues(now);
    drawHandshakes(handshakes, now.certificateCount > 0);
    drawTables(now);
    document.title = `${rate(past.change((one) => one.accesses))}/s · ${location.host}`;
    // The first snapshot is nothing to compare with.
    if (past.times().length > 1 && Date.now() - told > TOLD) tell(summary.join(", "));
  };

  // The connection: each ends after its snapshot, and the browser reconnects by itself, except after a refusal. A
  // connection that ends without a snapshot has failed.
  let source = null;
  let last = null; // When a snapshot came, by the viewer's clock.
  let failed = false;
  let timer = 0;
  let built = false;
  let asked = false; // The past was asked for.
  const state = (name, text) => {
    if (!built) return;
    document.body.classList.toggle("stale", name === "lost");
    if (at.state.dataset.state === name) return;
    at.state.dataset.state = name;
    if (name !== "live") document.title = `${text} · ${location.host}`;
    show(at.state, text);
    tell(text);
  };
  const lost = () => state("lost", `connection lost, trying again; figures from ${last?.toLocaleString("sv")}`);
  const watch = (wait) => {
    clearTimeout(timer);
    timer = setTimeout(() => { lost(); connect(); }, wait);
  };
  // Fetches the time that this page has missed: before it started, while it was hidden, while the server was
  // unreachable.
  const askPast = async (bounds) => {
    asked = true;
    try {
      const answer = await fetch("?live.past");
      if (answer.ok) past.begin(await answer.json(), bounds);
    } catch {
      asked = false;
    }
  };
  const connect = () => {
    if (source) source.close();
    source = new EventSource("?live");
    failed = true;
    source.onmessage = ({ data }) => {
      const now = JSON.parse(data);
      if (!built) build();
      built = true;
      reveal();
      failed = false;
      last = new Date();
      state("live", "live");
      if (!asked) askPast(now.bounds);
      drawAll(now);
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

  // A hidden page sends no requests.
  const seen = () => {
    if (!document.hidden) return connect();
    clearTimeout(timer);
    if (source) source.close();
    past.forget();
    asked = false;
    state("paused", "paused");
  };

  document.head.append(
    make("link", { rel: "stylesheet", href: "?live.css" }),
    make("link", { rel: "icon", type: "image/svg+xml", href: "?live.svg" }),
    make("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }));
  document.documentElement.lang = "en";
  // The plain page is for browsers in which this script fails; others hide it from the start.
  document.documentElement.style.visibility = "hidden";
  setTimeout(reveal, 1000);
  document.addEventListener("visibilitychange", seen);
  document.addEventListener("DOMContentLoaded", seen);
})();
