(() => {
  "use strict";
  const NS = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("data").textContent);

  function svg(name, attributes, parent, text) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }

  function html(name, attributes, parent, text) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }

  /* A number with some digits, and with more where values lie within a narrow range [low, high] far from zero. */
  function format(value, digits = 4, range = [0, 0]) {
    if (value === null || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(value))), wide = range[1] - range[0];
    if (wide > 0 && wide < Math.abs(value)) digits = Math.min(15, digits + size - Math.floor(Math.log10(wide)));
    if (size < -4 || (size >= 6 && size >= digits)) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
    const text = value.toFixed(Math.min(20, Math.max(0, digits - 1 - size)));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }

  function span(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    if (!(low <= high)) return [0, 1];
    const room = Math.max(0.5, Math.abs(low) * 1e-9);
    return low < high ? [low, high] : [low - room, high + room];
  }

  function ticks([low, high], count) {
    if (!(high > low)) return [low];
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const found = [];
    const first = Math.ceil(low / step - 1e-9);
    for (let i = 0; i < 1000 && (first + i) * step <= high + step * 1e-9; i++) found.push((first + i) * step);
    if (found.length < 2 && count < 64) {
      const finer = ticks([low, high], 2 * Math.max(1, count));
      return finer.length <= count + 2 ? finer : [finer[0], finer[finer.length - 1]];
    }
    return found.map((value) => (Math.abs(value) < step * 1e-9 ? 0 : value));
  }

  /* Ticks along an axis of some pixels whose labels, of a width that depends on the text, stay inside it and apart. */
  function fitting([low, high], pixels, most, wide) {
    let found = ticks([low, high], most);
    for (let pass = 0; pass < 2; pass++) {
      const widest = Math.max(...found.map(wide)), edge = Math.min(0.3, widest / 2 / pixels) * (high - low);
      found = ticks([low + edge, high - edge], Math.max(1, Math.min(most, pixels / (1.6 * widest) - 1)));
    }
    return found;
  }

  const scale = ([low, high], from, to) => (value) => (high > low ? from + ((value - low) / (high - low)) * (to - from) : (from + to) / 2);

  function path(xs, ys) {
    let text = "", pen = "M";
    xs.forEach((x, i) => {
      if (x === null || ys[i] === null) { pen = "M"; return; }
      text += `${pen}${x.toFixed(1)} ${ys[i].toFixed(1)}`;
      pen = "L";
    });
    return text;
  }

  function nearest(sorted, value) {
    let low = 0, high = sorted.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (sorted[middle] <= value) low = middle; else high = middle; }
    return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
  }

  function at(series, x, ys) {
    const xs = series.x;
    if (x < xs[0] || x > xs[xs.length - 1]) return null;
    const i = Math.min(xs.length - 2, Math.max(0, xs.findIndex((value) => value >= x) - 1));
    const share = xs[i + 1] > xs[i] ? (x - xs[i]) / (xs[i + 1] - xs[i]) : 0;
    return ys[i] === null || ys[i + 1] === null ? null : ys[i] + share * (ys[i + 1] - ys[i]);
  }

  function onResize(host, draw) {
    let width = -1;
    new ResizeObserver(() => { if (host.clientWidth && host.clientWidth !== width) { width = host.clientWidth; draw(width); } }).observe(host);
  }

  function place(tip, host, x, y) {
    tip.hidden = false;
    const room = host.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, x > host.clientWidth / 2 ? x - tip.offsetWidth - 14 : x + 14))}px`;
    tip.style.top = `${Math.max(0, y)}px`;
  }

  /* A mouse shows values while it is over the picture; a tap shows them until the next one elsewhere. */
  function pointed(host, picture, show, hide) {
    picture.addEventListener("pointermove", show);
    picture.addEventListener("click", show);
    picture.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(); });
    picture.addEventListener("pointercancel", hide); // the finger scrolls the page
    document.addEventListener("pointerdown", (event) => { if (!host.contains(event.target)) hide(); });
  }

  function say(tip, rows) {
    tip.replaceChildren();
    for (const [label, value, kind] of rows) {
      const line = html("div", kind ? { class: kind } : {}, tip);
      html("span", {}, line, label);
      html("span", {}, line, value);
    }
  }

  /* ---- controls ---- */

  function swatch(series) {
    const made = svg("svg", { viewBox: "0 0 26 14", "aria-hidden": "true" });
    const color = series.color;
    if (series.kind === "band" || series.kind === "span") svg("rect", { x: 1, y: 2, width: 24, height: 10, fill: color, "fill-opacity": 0.22 }, made);
    else if (series.kind === "dots") for (const x of [5, 13, 21]) svg("circle", { cx: x, cy: 7, r: 2.2, fill: color }, made);
    else if (series.kind === "ticks") for (const x of [5, 11, 14, 21]) svg("line", { x1: x, x2: x, y1: 3, y2: 11, stroke: color }, made);
    else if (series.kind === "mark") svg("line", { x1: 13, x2: 13, y1: 0, y2: 14, stroke: color, "stroke-width": 2 }, made);
    else svg("line", { x1: 1, x2: 25, y1: 7, y2: 7, stroke: color, "stroke-width": 2.2, "stroke-dasharray": series.dash ? "6 4" : "none" }, made);
    return made;
  }

  function controls(host, list, hidden, changed) {
    for (const series of list) {
      const label = html("label", series.note ? { title: series.note } : {}, host);
      const box = html("input", { type: "checkbox", "data-key": series.key }, label);
      box.checked = !hidden.has(series.key);
      label.append(swatch(series));
      html("span", {}, label, series.label);
      box.addEventListener("change", () => { if (box.checked) hidden.delete(series.key); else hidden.add(series.key); changed(); });
    }
  }

  /* ---- curves over one column ---- */

  const LAYERS = [["span", "band"], ["ticks", "dots"], ["mark"], ["line", "area"]]; // drawn one upon the other

  function curves(host, chart, hidden) {
    const picture = svg("svg", { role: "img", tabindex: 0, "aria-label": `${chart.y} against ${chart.x}. Arrow keys move along the curve.` }, host);
    const tip = html("div", { class: "tip", role: "status", hidden: "" }, host);
    const lines = chart.series.filter((series) => series.kind === "line" || series.kind === "area");
    const band = chart.series.find((series) => series.kind === "band");
    const main = lines.find((series) => series.key === chart.main) || lines.find((series) => series.key === "model") || lines[0];
    const xs = span(chart.range || chart.series.flatMap((series) => (series.kind === "ticks" || series.kind === "mark" ? [] : series.x)));
    const values = chart.series.flatMap((series) => [...(series.y || []), ...(series.low || []), ...(series.high || [])]);
    const ys = span(chart.bare ? [0, ...values] : values);
    const extra = (ys[1] - ys[0]) * 0.05;
    const yRange = chart.bare ? [0, ys[1] + extra] : [ys[0] - extra, ys[1] + extra];
    let layout = null, cursor = null;

    function draw(width = host.clientWidth) {
      const height = chart.bare ? 200 : Math.round(Math.max(250, Math.min(400, width * 0.5)));
      const yTicks = chart.bare ? [] : ticks(yRange, Math.max(3, height / 70));
      const left = chart.bare ? 10 : 16 + 7.2 * Math.max(1, ...yTicks.map((value) => format(value, 4, ys).length));
      const top = chart.bare ? 8 : 26, right = 12, bottom = 46;
      const x = scale(xs, left, width - right), y = scale(yRange, height - bottom, top);
      layout = { x, y, width, height, left, right, top, bottom };
      picture.replaceChildren();
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      for (const value of yTicks) {
        svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }, picture);
        svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, picture, format(value, 4, ys));
      }
      svg("path", { class: "axis", d: `M${left} ${height - bottom}H${width - right}` }, picture);
      for (const value of ticks(xs, Math.max(2, width / 110))) {
        svg("line", { class: "axis", x1: x(value), x2: x(value), y1: height - bottom, y2: height - bottom + 5 }, picture);
        const text = format(value, 4, xs), half = 3.5 * text.length;
        svg("text", { x: Math.max(half, Math.min(width - half, x(value))), y: height - bottom + 19, "text-anchor": "middle" }, picture, text);
      }
      svg("text", { class: "name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, picture, chart.x);
      if (!chart.bare) svg("text", { class: "name", x: 0, y: 13 }, picture, chart.y);
      const inner = svg("g", {}, picture);
      for (const layer of LAYERS) for (const series of chart.series) if (layer.includes(series.kind) && !hidden.has(series.key)) shape(inner, series);
      svg("g", { class: "cursor" }, picture);
      if (cursor !== null) show(cursor);
    }

    function shape(parent, series) {
      const { x, y, height, bottom, top } = layout;
      const group = svg("g", { "data-series": series.key }, parent);
      const px = series.x.map((value) => (value === null ? null : x(value)));
      const py = series.y ? series.y.map((value) => (value === null ? null : y(value))) : null;
      const color = series.color;
      if (series.kind === "line" || series.kind === "area") {
        if (series.kind === "area") svg("path", { d: `${path(px, py)}L${px[px.length - 1]} ${y(0)}L${px[0]} ${y(0)}Z`, fill: color, "fill-opacity": 0.16 }, group);
        svg("path", { d: path(px, py), fill: "none", stroke: color, "stroke-width": series.dash ? 1.8 : 2.2, "stroke-linejoin": "round", "stroke-dasharray": series.dash ? "6 4" : "none" }, group);
      } else if (series.kind === "band") {
        const low = series.low.map((value) => y(value)), high = series.high.map((value) => y(value));
        svg("path", { d: `${path(px, low)}${path([...px].reverse(), [...high].reverse()).replace("M", "L")}Z`, fill: color, "fill-opacity": 0.16 }, group);
      } else if (series.kind === "dots") {
        px.forEach((across, i) => svg("circle", { cx: across, cy: py[i], r: px.length > 400 ? 1.5 : 2.2, fill: color, "fill-opacity": 0.75 }, group));
      } else if (series.kind === "ticks") {
        px.forEach((across) => svg("line", { x1: across, x2: across, y1: height - bottom - 8, y2: height - bottom, stroke: color, "stroke-opacity": 0.7 }, group));
      } else if (series.kind === "span") {
        svg("rect", { x: px[0], y: top, width: Math.max(1, px[1] - px[0]), height: height - bottom - top, fill: color, "fill-opacity": 0.22 }, group);
      } else if (series.kind === "mark") {
        svg("line", { x1: px[0], x2: px[0], y1: top, y2: height - bottom, stroke: color, "stroke-width": 2 }, group);
      }
    }

    function show(index) {
      cursor = Math.max(0, Math.min(main.x.length - 1, index));
      const value = main.x[cursor], { x, y, top, height, bottom } = layout;
      const marks = picture.querySelector(".cursor");
      marks.replaceChildren();
      svg("line", { class: "cross", x1: x(value), x2: x(value), y1: top, y2: height - bottom }, marks);
      const rows = [[chart.x, format(value, 4, xs)]];
      for (const series of lines) {
        if (hidden.has(series.key)) continue;
        const there = at(series, value, series.y);
        if (there === null) continue;
        svg("circle", { cx: x(value), cy: y(there), r: 3.5, fill: "#fff", stroke: series.color, "stroke-width": 2 }, marks);
        rows.push([series.label, format(there, 4, ys)]);
        if (series.key === "model" && band && !hidden.has("band")) {
          rows.push([band.label, `${format(at(band, value, band.low), 4, ys)} to ${format(at(band, value, band.high), 4, ys)}`, "band"]);
        }
      }
      say(tip, rows);
      place(tip, host, x(value), top + 4);
    }

    function hide() { cursor = null; tip.hidden = true; picture.querySelector(".cursor")?.replaceChildren(); }

    function point(event) {
      const box = picture.getBoundingClientRect();
      const across = ((event.clientX - box.left) / box.width) * layout.width;
      const share = (across - layout.left) / (layout.width - layout.left - layout.right);
      if (share < -0.03 || share > 1.03) hide(); else show(nearest(main.x, xs[0] + share * (xs[1] - xs[0])));
    }

    pointed(host, picture, point, hide);
    picture.addEventListener("blur", hide);
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      show((cursor === null ? Math.floor(main.x.length / 2) : cursor) + step);
    });
    onResize(host, draw);
    return draw;
  }

  function group(name, charts) {
    const hosts = [...document.querySelectorAll(`[data-chart="${name}"]`)];
    const panel = document.querySelector(`[data-controls="${name}"]`);
    if (!hosts.length) return;
    const hidden = new Set(), byKey = new Map();
    for (const chart of charts) for (const series of chart.series) {
      if (!byKey.has(series.key)) byKey.set(series.key, series);
      if (series.off) hidden.add(series.key);
    }
    const draws = charts.map((chart, i) => curves(hosts[i], chart, hidden));
    controls(panel, [...byKey.values()], hidden, () => draws.forEach((draw) => draw()));
  }

  /* ---- pairs of parameters ---- */

  function pairs(spec) {
    const host = document.querySelector("[data-pairs]");
    if (!host) return;
    const hidden = new Set(spec.names.length > spec.most ? spec.names.slice(spec.most).map((_, i) => `parameter${i + spec.most}`) : []);
    hidden.add("draws");
    const layers = [
      { key: "contours", label: "regions of 50, 80 and 95 %", kind: "band", color: spec.color },
      { key: "draws", label: `${spec.draws.length} draws`, kind: "dots", color: spec.color },
      { key: "intervals", label: "95 % intervals", kind: "span", color: spec.shade },
      ...(spec.truth ? [{ key: "truth", label: "truth", kind: "mark", color: spec.mark }] : []),
    ];
    const picture = svg("svg", { role: "img", "aria-label": `posterior of ${spec.names.join(", ")}` }, host);
    const tip = html("div", { class: "tip", role: "status", hidden: "" }, host);
    let cells = [];

    function draw(width = host.clientWidth) {
      const shown = spec.names.map((_, i) => i).filter((i) => !hidden.has(`parameter${i}`));
      const n = Math.max(1, shown.length), longest = Math.max(1, ...shown.slice(1).flatMap((i) => ticks(spec.ranges[i], 4).map((value) => format(value, 3, spec.ranges[i]).length)));
      const left = Math.max(width < 500 ? 56 : 64, 24 + 7 * longest), bottom = 44, gap = n > 4 ? 4 : 8;
      const side = Math.min((width - left) / n, 320);
      picture.replaceChildren();
      picture.setAttribute("viewBox", `0 0 ${width} ${side * n + bottom}`);
      cells = [];
      shown.forEach((i, row) => shown.slice(0, row + 1).forEach((j, column) => {
        const size = side - gap, cell = { i, j, x0: left + column * side, y0: row * side, size };
        cell.x = scale(spec.ranges[j], 0, size);
        cell.y = i === j ? scale([0, Math.max(...spec.marginals[i].y) * 1.08], size, 0) : scale(spec.ranges[i], size, 0);
        cells.push(cell);
        const frame = svg("svg", { x: cell.x0, y: cell.y0, width: size, height: size, style: `width:${size}px;height:${size}px`, "data-cell": `${i},${j}` }, picture);
        svg("rect", { width: size, height: size, fill: "#fff", stroke: "#dfe3e8" }, frame);
        (i === j ? marginal : pair)(frame, cell);
        labels(cell, row === n - 1, column === 0 && i !== j, side > 78);
      }));
      shown.forEach((i, row) => shown.slice(row + 1).forEach((j, more) => {
        const r = spec.correlations[i][j], size = side - gap;
        const x0 = left + (row + 1 + more) * side, text = (r < 0 ? "−" : "+") + Math.abs(r).toFixed(2);
        svg("text", { class: "big", x: x0 + size / 2, y: row * side + size / 2 + 4, "text-anchor": "middle", opacity: 0.75 + 0.25 * Math.abs(r) }, picture, text);
      }));
      if (!shown.length) svg("text", { x: left, y: 30 }, picture, "Choose a parameter above.");
    }

    function interval(frame, cell) {
      if (hidden.has("intervals")) return;
      const [a, b] = spec.intervals[cell.j].map(cell.x);
      svg("rect", { "data-series": "intervals", x: a, width: b - a, y: 0, height: cell.size, fill: spec.shade, "fill-opacity": 0.16 }, frame);
    }

    function truth(frame, cell) {
      if (!spec.truth || hidden.has("truth")) return;
      const x = cell.x(spec.truth[cell.j]);
      const mark = svg("g", { "data-series": "truth", stroke: spec.mark, "stroke-width": 1.6 }, frame);
      svg("line", { x1: x, x2: x, y1: 0, y2: cell.size }, mark);
      if (cell.i !== cell.j) { const y = cell.y(spec.truth[cell.i]); svg("line", { x1: 0, x2: cell.size, y1: y, y2: y }, mark); }
    }

    function marginal(frame, cell) {
      interval(frame, cell);
      const curve = spec.marginals[cell.i], xs = curve.x.map(cell.x), ys = curve.y.map(cell.y);
      const line = path(xs, ys);
      svg("path", { d: `${line}L${xs[xs.length - 1]} ${cell.size}L${xs[0]} ${cell.size}Z`, fill: spec.color, "fill-opacity": 0.16 }, frame);
      svg("path", { d: line, fill: "none", stroke: spec.color, "stroke-width": 1.8 }, frame);
      truth(frame, cell);
    }

    function pair(frame, cell) {
      if (!hidden.has("contours")) {
        const group = svg("g", { "data-series": "contours" }, frame);
        for (const region of spec.contours[`${cell.i},${cell.j}`]) {
          const d = region.map((ring) => `${path(ring.map((point) => cell.x(point[0])), ring.map((point) => cell.y(point[1])))}Z`).join("");
          svg("path", { d, fill: spec.color, "fill-opacity": 0.2, "fill-rule": "evenodd", stroke: spec.color, "stroke-width": 0.8 }, group);
        }
      }
      if (!hidden.has("draws")) {
        const group = svg("g", { "data-series": "draws", fill: spec.color, "fill-opacity": 0.55 }, frame);
        for (const theta of spec.draws) svg("circle", { cx: cell.x(theta[cell.j]).toFixed(1), cy: cell.y(theta[cell.i]).toFixed(1), r: 1.3 }, group);
      }
      truth(frame, cell);
    }

    function labels(cell, lowest, first, roomy) {
      const { x0, y0, size } = cell;
      if (lowest) {
        if (roomy) for (const value of fitting(spec.ranges[cell.j], size, 4, (tick) => 7 * format(tick, 3, spec.ranges[cell.j]).length)) svg("text", { x: x0 + cell.x(value), y: y0 + size + 15, "text-anchor": "middle" }, picture, format(value, 3, spec.ranges[cell.j]));
        svg("text", { class: "name", x: x0 + size / 2, y: y0 + size + 34, "text-anchor": "middle" }, picture, spec.names[cell.j]);
      }
      if (first) {
        if (roomy) for (const value of fitting(spec.ranges[cell.i], size, 4, () => 14)) svg("text", { x: x0 - 5, y: y0 + cell.y(value) + 4, "text-anchor": "end" }, picture, format(value, 3, spec.ranges[cell.i]));
        svg("text", { class: "name", transform: `translate(${x0 < 60 ? 10 : 12} ${y0 + size / 2}) rotate(-90)`, "text-anchor": "middle" }, picture, spec.names[cell.i]);
      }
    }

    function point(event) {
      const box = picture.getBoundingClientRect(), zoom = host.clientWidth / box.width;
      const px = (event.clientX - box.left) * zoom, py = (event.clientY - box.top) * zoom;
      const cell = cells.find((one) => px >= one.x0 && px <= one.x0 + one.size && py >= one.y0 && py <= one.y0 + one.size);
      if (!cell) { tip.hidden = true; return; }
      const value = ([low, high], share) => low + share * (high - low);
      const x = value(spec.ranges[cell.j], (px - cell.x0) / cell.size);
      const rows = [[spec.names[cell.j], format(x, 4, spec.ranges[cell.j])]];
      if (cell.i === cell.j) {
        const curve = spec.marginals[cell.i], below = x <= curve.x[0] ? 0 : x >= curve.x[curve.x.length - 1] ? 1 : at(curve, x, curve.below);
        rows.push(["draws below", `${(100 * below).toFixed(0)} %`]);
      } else rows.push([spec.names[cell.i], format(value(spec.ranges[cell.i], 1 - (py - cell.y0) / cell.size), 4, spec.ranges[cell.i])]);
      say(tip, rows);
      place(tip, host, px / zoom, py / zoom + 12);
    }

    pointed(host, picture, point, () => { tip.hidden = true; });
    controls(document.querySelector('[data-controls="pairs"]'), layers, hidden, () => draw());
    const chosen = document.querySelector('[data-controls="parameters"]');
    if (spec.names.length > 2) controls(chosen, spec.names.map((name, i) => ({ key: `parameter${i}`, label: name, kind: "line", color: spec.color })), hidden, () => draw());
    onResize(host, draw);
  }

  for (const [name, charts] of Object.entries(data.groups)) group(name, charts);
  if (data.pairs) pairs(data.pairs);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
})();
