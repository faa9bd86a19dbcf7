// Sums by bucket, as the service tells them, made into what figures show. Sums of neighbours add up.

const OF_ARM = ["drawn", "odds_sum", "rewarded", "reward_sum", "weighted_sum", "weighted_squares"];
const OF_ALL = ["decisions", "rewards", "defaults", "reward_sum"];
const ENOUGH = 30; // decisions in each of two times that are compared
const colours = new Map();

/** The colour of a name, 1 to 7: the same as long as the page is open. */
export function colour(kind, name) {
  if (!colours.has(kind)) colours.set(kind, new Map());
  const known = colours.get(kind);
  if (!known.has(name)) known.set(name, (known.size % 7) + 1);
  return known.get(name);
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);

/** The buckets from the first decision on, at most `most`, each with its middle `t`, and `starts` and `ends`. */
export function merged(series, most = 48) {
  const first = Math.max(0, series.decisions.findIndex((n) => n > 0));
  const size = Math.max(1, Math.ceil((series.t.length - first) / most));
  const starts = [];
  for (let i = first; i < series.t.length; i += size) starts.push(i);
  const add = (values) => starts.map((i) => sum(values.slice(i, i + size)));
  const added = (columns, names) => Object.fromEntries(names.map((name) => [name, add(columns[name])]));
  const last = series.t.length - 1;
  const begin = starts.map((i) => series.t[i]);
  const end = starts.map((i) => series.t[Math.min(last, i + size - 1)] + series.width_s);
  return {
    ...added(series, OF_ALL),
    t: begin.map((start, i) => (start + end[i]) / 2),
    starts: begin,
    ends: end,
    edges: begin.length ? [begin[0], end.at(-1)] : [0, 1],
    arms: Object.fromEntries(Object.entries(series.arms).map(([name, columns]) => [name, added(columns, OF_ARM)])),
    others: series.others && added(series.others, OF_ARM),
  };
}

/** How many points a figure has room for, so that each stands for some forty decisions. */
export const room = (series) => Math.max(8, Math.min(48, Math.round(sum(series.decisions) / 40)));

/** What to say where a range is empty. */
export function nothing({ data: { stats } }) {
  const begun = stats?.events.decision > 0;
  return begun ? "Nothing happened in this range. Choose a longer one above." : "Waiting for the first decision.";
}

/** Parts of wholes; null where there is no whole. */
export const ratio = (parts, wholes) => parts.map((part, i) => (wholes[i] > 0 ? part / wholes[i] : null));

/** Each arm in a range: share, mean odds, when first drawn, and how its odds moved from the first third to the last. */
export function arms(buckets) {
  const third = Math.max(1, Math.floor(buckets.t.length / 3));
  const share = (values, from, to) => {
    const all = sum(buckets.decisions.slice(from, to));
    return all >= ENOUGH ? sum(values.slice(from, to)) / all : null;
  };
  const all = sum(buckets.decisions);
  const one = (name, columns, rest) => {
    const seen = columns.drawn.findIndex((n) => n > 0);
    const before = share(columns.odds_sum, 0, third);
    const after = share(columns.odds_sum, -third, undefined);
    const [drawn, rewarded] = [sum(columns.drawn), sum(columns.rewarded)];
    return {
      name, columns, rest, drawn, rewarded,
      share: all ? drawn / all : 0,
      odds: all ? sum(columns.odds_sum) / all : 0,
      late: after ?? 0,
      since: seen < 0 ? null : buckets.t[seen],
      moved: before === null || after === null ? null : after - before,
      mean: rewarded ? sum(columns.reward_sum) / rewarded : null,
    };
  };
  const rows = Object.entries(buckets.arms).map(([name, columns]) => one(name, columns, false));
  return buckets.others ? [...rows, one("others", buckets.others, true)] : rows;
}

/** The arms that a figure has room for, half of them those served most of late, and the rest of them as one. */
export function heaviest(rows, most) {
  const named = rows.filter((row) => !row.rest).sort((a, b) => b.drawn - a.drawn);
  const late = [...named].sort((a, b) => b.late - a.late).slice(0, most / 2);
  const ranked = [...new Set([...named.slice(0, most / 2), ...late, ...named])];
  const left = [...ranked.slice(most), ...rows.filter((row) => row.rest && row.drawn)];
  if (!left.length) return named;
  const add = (name) => left[0].columns[name].map((_, i) => sum(left.map((row) => row.columns[name][i])));
  const rest = { name: "others", rest: true, columns: { drawn: add("drawn"), odds_sum: add("odds_sum") } };
  return [...ranked.slice(0, most), rest];
}

/** 95 % interval (Wilson) of a mean of n rewards in [low, high]; wider than need be for rewards between the ends. */
export function interval(mean, n, { low, high }) {
  if (mean === null || !n) return [null, null];
  const [p, z] = [(mean - low) / (high - low), 1.96];
  const middle = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const reach = (z / (1 + (z * z) / n)) * Math.sqrt(Math.max(0, (p * (1 - p)) / n) + (z * z) / (4 * n * n));
  return [middle - reach, middle + reach].map((end) => low + Math.min(1, Math.max(0, end)) * (high - low));
}

/** Decisions a minute of late: over the buckets that reach into the last ten minutes, or the last two. */
export function rate(series, now) {
  const from = Math.max(now - 600, now - 2 * Math.max(series.width_s, 300));
  const late = series.t.findIndex((t) => t + series.width_s > from);
  if (late < 0) return { perMinute: 0, seconds: 600 };
  const seconds = Math.max(60, now - series.t[late]);
  return { perMinute: (60 * sum(series.decisions.slice(late))) / seconds, seconds };
}

/** The weight of each expert over time: those with the most weight at the end, at most `most`, and the rest as one. */
export function weights(history, most = 11) {
  const entries = Object.entries(history.experts);
  const last = ([, values]) => values.findLast((value) => value !== null) ?? 0;
  const ranked = entries.sort((a, b) => last(b) - last(a));
  const first = ranked.length > most + 1 ? ranked.slice(0, most) : ranked;
  const shown = first.map(([name, values]) => ({ name, values }));
  const left = ranked.slice(shown.length).map(([, values]) => values);
  if (history.others) left.push(history.others);
  if (!left.length) return shown;
  const rest = history.t.map((_, i) => sum(left.map((values) => values[i] ?? 0)));
  return [...shown, { name: "others", values: rest, rest: true }];
}
