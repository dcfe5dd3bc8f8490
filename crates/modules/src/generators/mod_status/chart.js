// The live status page, first part: formats numbers, and draws them over time. Text enters the page only as text.
"use strict";
const live = (() => {
  // An element with attributes and children; texts become text nodes.
  const fitted = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const make = (tag, attributes = {}, ...children) => fitted(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) =>
    fitted(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const show = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  const integer = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const count = (n) => integer.format(n);
  const rate = (n) => n === null ? "–" : n < 9.95 && !Number.isInteger(n) ? n.toFixed(1) : count(n);
  const scaled = (n, step, units) => {
    let unit = 0;
    while (n >= step * 0.9995 && unit < units.length - 1) { n /= step; unit += 1; }
    return `${unit === 0 || n >= 99.95 || n === Math.round(n) ? count(n) : n.toFixed(1)} ${units[unit]}`;
  };
  const bytes = (n) => n === null ? "–" : scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
  const micros = (n) => n === null ? "–" : n < 1e3 ? `${count(n)} µs`
    : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 && n % 1e3 >= 50 ? 1 : 0)} ms`
      : `${(n / 1e6).toFixed(n % 1e6 < 5e3 ? 0 : n < 1e7 ? 2 : 1)} s`;
  const span = (seconds) => {
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = Math.max(0, parts.findIndex(([unit]) => seconds >= unit));
    if (seconds < 1) return "0 s";
    return parts.slice(first, first + 2).map(([unit, name], i) => {
      const whole = Math.floor(i === 0 ? seconds / unit : (seconds % parts[first][0]) / unit);
      return i === 0 || whole > 0 ? `${whole} ${name}` : "";
    }).join(" ").trim();
  };
  const clock = (ms) => new Date(ms).toLocaleTimeString("sv");

  // Scales: from a peak to the values at which a line is ruled. The least peak keeps next to nothing from looking like a lot.
  const round = (peak) => {
    const unit = 10 ** Math.floor(Math.log10(peak));
    return [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= peak * 0.9999);
  };
  const linear = (least, unit = 1) => (peak) => {
    let base = unit;
    while (unit > 1 && Math.max(least, peak) > 512 * base) base *= unit;
    const top = base * round(Math.max(least, peak) / base);
    return { ticks: [0, top / 2, top], height: (value) => value / top };
  };
  // From 10 µs, each power of ten as high as the next: p50 and p99 can both be read.
  const decades = (peak) => {
    const powers = Math.max(4, Math.ceil(Math.log10(Math.max(peak, 1) / 10) - 1e-6));
    const step = powers > 5 ? 2 : 1;
    const ticks = Array.from({ length: Math.floor(powers / step) + 1 }, (_, i) => 10 ** (1 + i * step));
    return { ticks, height: (value) => Math.max(0, Math.log10(Math.max(value, 10) / 10)) / powers };
  };

  const SPANS = [60, 90, 120, 180, 240, 300, 420, 600]; // Seconds that a chart may be wide.

  // A chart of some series over time. `lines`: [name of a series, what it is called]; `tell`: a value as text.
  const chart = (title, { lines, scale, tell }) => {
    const paths = lines.map((_, i) => svg("path", { class: `line line${i}` }));
    const area = svg("path", { class: "area" });
    const rules = svg("g", { class: "rules" });
    const cursor = svg("line", { class: "cursor", y1: 0, y2: 100, visibility: "hidden" });
    const image = svg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      rules, area, ...paths, cursor);
    const ticks = make("div", { class: "ticks", "aria-hidden": "true" });
    const labels = [make("span"), make("span"), make("span", {}, "now")];
    const said = make("p", { class: "said" });
    const node = make("figure", { class: "chart", tabindex: 0, role: "img" },
      ticks, image, make("div", { class: "times", "aria-hidden": "true" }, ...labels), said);
    let past = null; // What is drawn: times, series, and how many seconds wide.
    let chosen = null; // The time at the pointer.

    const x = (time) => 600 - (past.times[past.times.length - 1] - time) * 0.6 / past.seconds;
    const told = (index) => lines.map(([name, label]) => {
      const value = past.series[name][index];
      return `${lines.length > 1 ? `${label} ` : ""}${value === null ? "–" : tell(value)}`;
    }).join(" · ");
    const speak = () => {
      if (past === null || past.times.length === 0) return;
      let index = past.times.length - 1;
      if (chosen !== null) {
        while (index > 0 && past.times[index] > chosen) index -= 1;
        const at = x(past.times[index]);
        cursor.setAttribute("x1", at);
        cursor.setAttribute("x2", at);
        show(said, `${clock(past.times[index])}: ${told(index)}`);
      } else {
        const peaks = lines.map(([name, label]) => {
          const known = past.series[name].filter((value) => value !== null);
          return known.length === 0 ? null : `${lines.length > 1 ? `${label} ` : ""}${tell(Math.max(...known))}`;
        }).filter((text) => text !== null);
        show(said, peaks.length === 0 ? "nothing yet" : `peak: ${peaks.join(" · ")}`);
      }
      cursor.setAttribute("visibility", chosen === null ? "hidden" : "visible");
      node.setAttribute("aria-label", `${title}: now ${told(past.times.length - 1)}; ${said.textContent}`);
    };
    const point = (event) => {
      if (past === null || past.times.length === 0) return;
      const { left, width } = image.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
      chosen = past.times[past.times.length - 1] - (1 - share) * past.seconds * 1000 + 500;
      speak();
    };
    const leave = () => { chosen = null; speak(); };
    node.addEventListener("pointermove", point);
    node.addEventListener("pointerdown", point);
    node.addEventListener("pointerleave", leave);
    node.addEventListener("blur", leave);
    node.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined || past === null || past.times.length === 0) return;
      event.preventDefault();
      chosen = Math.min(past.times[past.times.length - 1],
        (chosen ?? past.times[past.times.length - 1]) + step * past.seconds * 10);
      speak();
    });

    const draw = (times, series) => {
      const age = (times[times.length - 1] - times[0]) / 1000;
      past = { times, series, seconds: SPANS.find((seconds) => age <= seconds * 1.02) ?? 600 };
      show(labels[0], `−${span(past.seconds)}`);
      show(labels[1], `−${span(past.seconds / 2)}`);
      const peak = Math.max(0, ...lines.flatMap(([name]) => series[name].filter((value) => value !== null)));
      const { ticks: marks, height } = scale(peak);
      const y = (value) => 100 - 100 * height(value);
      const key = marks.join();
      if (ticks.dataset.key !== key) {
        ticks.dataset.key = key;
        rules.replaceChildren(...marks.map((mark) => svg("line", { x1: 0, x2: 600, y1: y(mark), y2: y(mark) })));
        ticks.replaceChildren(...marks.map((mark) => {
          const label = make("span", {}, tell(mark));
          label.style.top = `${y(mark)}%`;
          return label;
        }));
      }
      lines.forEach(([name], i) => {
        let text = "";
        let pen = "M";
        let first = null;
        series[name].forEach((value, index) => {
          if (value === null) { pen = "M"; return; }
          first ??= x(times[index]);
          text += `${pen}${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
          pen = "L";
        });
        paths[i].setAttribute("d", text);
        if (i === 0 && lines.length === 1) area.setAttribute("d", text === "" ? "" : `${text}L600 100L${first.toFixed(1)} 100Z`);
      });
      speak();
    };
    const key = lines.length === 1 ? [] : [make("ul", { class: "lines", "aria-hidden": "true" },
      ...lines.map(([, label], i) => make("li", { class: `line${i}` }, label)))];
    return { node, key, draw };
  };

  return { make, svg, show, count, rate, bytes, micros, span, clock, chart, linear, decades };
})();
