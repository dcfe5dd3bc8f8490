// The live status page, second part: the last ten minutes. A moment holds the server's counters; the charts show the
// differences between moments. The server keeps them second by second, so a new page has them, too.
live.past = (() => {
  const SECONDS = 600; // As many as the server keeps.
  const WINDOW = 10; // Seconds over which latencies are told.
  const SERIES = ["requests", "failed", "p50", "p90", "p99", "sent", "received", "cpu", "connections", "served",
    "handshakes", "failedHandshakes"];

  let moments = [];
  let times = [];
  let series = Object.fromEntries(SERIES.map((name) => [name, []]));
  const forget = () => {
    moments = [];
    times = [];
    series = Object.fromEntries(SERIES.map((name) => [name, []]));
  };

  // The moment so many seconds before another one, or the first one; null if there is none.
  const before = (index, seconds) => {
    if (index <= 0) return null;
    const then = moments[index].now - seconds * 1000 + 500;
    let at = index - 1;
    while (at > 0 && moments[at].now > then) at -= 1;
    return moments[at];
  };

  // The change per second of a counter over so many seconds, at a moment; null if unknown.
  const change = (of, seconds = 1, index = moments.length - 1) => {
    const old = before(index, seconds);
    const now = moments[index];
    return old === null || now.now <= old.now ? null : Math.max(0, of(now) - of(old)) * 1000 / (now.now - old.now);
  };

  // How many requests of the last seconds took how long.
  const counts = (index = moments.length - 1) => {
    const old = before(index, WINDOW);
    return old === null ? null : moments[index].durations.map((n, i) => Math.max(0, n - old.durations[i]));
  };

  // The duration in µs that this share of them did not exceed. Between two bounds they are assumed to be evenly spread.
  const quantile = (counts, bounds, share) => {
    const all = counts === null ? 0 : counts.reduce((a, b) => a + b, 0);
    if (all <= 0) return null;
    let left = all * share;
    for (let i = 0; i < counts.length; i += 1) {
      if (counts[i] >= left) {
        const low = i === 0 ? 0 : bounds[i - 1];
        const high = i < bounds.length ? bounds[i] : low;
        return low + (high - low) * left / counts[i];
      }
      left -= counts[i];
    }
    return bounds[bounds.length - 1];
  };

  // Adds a moment. Counters restart at a restart that is not graceful; a request of this page may be counted a moment
  // before it is left out.
  const add = (moment, bounds) => {
    const last = moments[moments.length - 1];
    if (last && (moment.accesses + 64 < last.accesses || moment.now < last.now)) forget();
    moments.push(moment);
    const recent = counts();
    const values = {
      requests: change((one) => one.accesses),
      failed: change((one) => one.classes[4]),
      p50: quantile(recent, bounds, 0.5),
      p90: quantile(recent, bounds, 0.9),
      p99: quantile(recent, bounds, 0.99),
      sent: change((one) => one.sent),
      received: change((one) => one.received),
      cpu: change((one) => one.cpu, 3), // Children look at their CPU time once a second.
      connections: moment.connections,
      served: moment.served,
      handshakes: change((one) => one.handshakes),
      failedHandshakes: change((one) => one.failedHandshakes),
    };
    times.push(moment.now);
    SERIES.forEach((name) => series[name].push(values[name]));
    while (times.length > 1 && moment.now - times[0] > SECONDS * 1000) {
      moments.shift();
      times.shift();
      SERIES.forEach((name) => series[name].shift());
    }
  };

  // Reads the server's history: lists of increments to the list before, in µs and without the zeros at their ends.
  const begin = (lists, bounds) => {
    const ours = moments;
    forget();
    const sums = new Array(9 + 5 + bounds.length + 1).fill(0);
    for (const list of lists) {
      list.forEach((more, i) => { sums[i] += more; });
      const [at, accesses, sent, received, cpu, connections, served, handshakes, failedHandshakes] = sums;
      const moment = { now: at / 1000, accesses, sent, received, cpu, connections, served, handshakes, failedHandshakes,
        classes: sums.slice(9, 14), durations: sums.slice(14) };
      if (ours.length === 0 || moment.now < ours[0].now) add(moment, bounds);
    }
    ours.forEach((moment) => add(moment, bounds));
  };

  return { add, begin, forget, change, counts, quantile, times: () => times, series: () => series };
})();
