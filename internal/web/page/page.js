"use strict";
// Brings the page up to date with the same models it was written from, and lets an operator act.
// Everything that comes from outside is set as text; nothing here makes markup of it.
(() => {
  const page = document.body.dataset.page;
  const $ = (id) => document.getElementById(id);
  const every = 5000;
  const marks = { bad: "▲", warn: "◆", good: "●" };

  // el makes an element: attributes, then children, which are nodes or text.
  function el(tag, attrs, ...children) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs || {})) {
      if (v === undefined || v === null || v === false) continue;
      if (k === "class") e.className = v; else e.setAttribute(k, v === true ? "" : v);
    }
    e.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
    return e;
  }
  function svg(cls, box, line, area, label) {
    const ns = "http://www.w3.org/2000/svg";
    const s = document.createElementNS(ns, "svg");
    s.setAttribute("class", cls); s.setAttribute("viewBox", box); s.setAttribute("preserveAspectRatio", "none");
    if (label) { s.setAttribute("role", "img"); s.setAttribute("aria-label", label); } else s.setAttribute("aria-hidden", "true");
    for (const [c, d] of [["area", area], ["line", line]]) {
      const p = document.createElementNS(ns, "path");
      p.setAttribute("class", c); p.setAttribute("d", d); s.append(p);
    }
    return s;
  }
  const time = (iso) => localize(el("time", { datetime: iso }));
  function localize(t) {
    const at = new Date(t.dateTime), near = Math.abs(Date.now() - at) < 20 * 3600e3;
    t.textContent = near ? at.toLocaleTimeString() : at.toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
    t.title = at.toLocaleString();
    return t;
  }
  const floor = () => el("span", { class: "floor", title: "at least: one look shows 32 messages at most" }, "+", el("span", { class: "sr" }, " or more"));
  const badge = (b) => el("span", { class: "badge " + b.level }, el("span", { "aria-hidden": "true" }, marks[b.level] || "○"), " " + b.text.replaceAll("_", " "));
  const cell = (c) => el("span", { title: c.title }, c.text, c.floor ? floor() : null);
  const link = (l) => el("a", { href: l.path }, l.text);

  const shown = new Map(); // by element id: the model that it shows
  // fill puts children into an element, unless it shows that model already, and keeps the focus in place.
  function fill(id, model, make) {
    const e = $(id), text = JSON.stringify(model);
    if (!e || shown.get(id) === text) return;
    shown.set(id, text);
    const held = document.activeElement, at = e.contains(held) ? [...e.querySelectorAll("a,button")].indexOf(held) : -1;
    e.replaceChildren(...make(model));
    if (at >= 0) { const again = e.querySelectorAll("a,button"); if (again.length) again[Math.min(at, again.length - 1)].focus(); }
  }
  const text = (id, s) => { const e = $(id); if (e && e.textContent !== s) e.textContent = s; };

  const tiles = (all) => all.map((t) => el("div", { class: "tile" }, el("dt", {}, t.name), el("dd", {}, t.value, t.floor ? floor() : null), t.note ? el("dd", { class: "dim note" }, t.note) : null));
  const findings = (all) => all.map((f) => el("article", { class: "card " + f.badge.level }, el("h3", {}, badge(f.badge), " " + f.title),
    f.evidence && f.evidence.length ? el("ul", { class: "evidence" }, ...f.evidence.map((s) => el("li", {}, s))) : null,
    f.next && f.next.length ? el("p", { class: "next-title" }, "Next") : null,
    f.next && f.next.length ? el("ol", { class: "next" }, ...f.next.map((s) => el("li", {}, s.text, s.command ? " " : null, s.command ? el("code", {}, s.command) : null))) : null,
    f.links && f.links.length ? el("p", { class: "links" }, ...f.links.flatMap((l) => [link(l), " "])) : null));
  const events = (all) => all.length ? all.map((e) => el("li", { class: e.level }, time(e.at), el("span", { class: "what" }, e.link ? link(e.link) : null, e.link ? " " : null, e.text))) : [el("li", { class: "dim" }, "Nothing happened since qwatch started.")];
  const clusters = (all) => all.length ? all.map((c) => el("li", {}, el("span", { class: "n-big" }, c.messages), el("span", { class: "what" }, link(c.link), " ", el("b", {}, c.category), ": " + c.reason,
    el("span", { class: "sub dim" }, "since ", time(c.since), ", latest ", time(c.last))))) : [el("li", { class: "dim" }, "This process has dead-lettered nothing since it started.")];

  // ---- keeping up to date
  let held = false, busy = false, again = false, fetched = Date.now();
  async function fetchJSON(url, options) {
    const r = await fetch(url, { cache: "no-store", ...options });
    let body = null;
    try { body = await r.json(); } catch { /* told below */ }
    if (!r.ok) throw Object.assign(new Error((body && body.error) || "the server answered " + r.status), { status: r.status });
    return body;
  }
  function trouble(message) {
    const t = $("trouble");
    t.hidden = !message;
    if (t.textContent !== message) t.textContent = message;
  }
  async function update() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      await (page === "fleet" ? updateFleet() : updateQueue());
      fetched = Date.now();
      trouble("");
    } catch (e) {
      trouble("This page is no longer up to date: " + e.message + ". It tries again.");
    }
    busy = false;
    tick();
    if (again) { again = false; update(); }
  }
  function tick() {
    const s = Math.round((Date.now() - fetched) / 1000);
    text("fresh", held ? "paused, " + s + " s old" : s < 2 ? "up to date" : "updated " + s + " s ago");
  }
  setInterval(() => { tick(); if (!held && !document.hidden && Date.now() - fetched >= every) update(); }, 1000);
  $("hold").hidden = false;
  $("hold").addEventListener("click", () => { held = !held; $("hold").setAttribute("aria-pressed", String(held)); tick(); if (!held) update(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !held) update(); });
  document.querySelectorAll("time").forEach(localize);

  // ---- the fleet
  const query = new URLSearchParams(location.search);
  const size = 100; // rows in the table at a time
  let matched = 0, offset = 0, height = 0, heading = "";
  const rows = new Map(); // by path

  function row(m, old) {
    const r = old || el("tr", {}, el("th", { scope: "row", class: "c-queue" }), el("td", { class: "c-status" }), el("td", { class: "n c-messages" }), el("td", { class: "c-trend" }),
      el("td", { class: "n c-oldest" }), el("td", {}), el("td", { class: "n c-drain" }), el("td", { class: "c-consumer" }), el("td", { class: "n c-read dim" }));
    const [name, status, messages, trend, oldest, poison, drain, consumer, read] = r.children;
    if (!old) name.append(el("a", { href: m.path }, el("span", { class: "acct" }, m.account + "/"), m.queue), el("span", { class: "narrow" }), m.sub ? el("span", { class: "dim sub" }, m.sub) : "");
    const set = (td, key, make) => { if (td.shown !== key) { td.shown = key; td.replaceChildren(...make().filter(Boolean)); } };
    const told = m.badge.text + "|" + m.badge.level + "|" + (m.reason || "");
    set(status, told, () => [badge(m.badge), m.reason ? el("span", { class: "sub bad-text" }, m.reason) : null]);
    set(name.querySelector(".narrow"), told, () => [badge(m.badge)]);
    for (const [td, c] of [[messages, m.messages], [oldest, m.oldest], [poison, m.poison]]) {
      set(td, c.text + (c.floor ? "+" : ""), () => [cell(c)]);
      if (td.firstChild.title !== c.title) td.firstChild.title = c.title || "";
    }
    const kind = "n c-poison" + (m.poison.alarm ? " poisoned" : "");
    if (poison.className !== kind) poison.className = kind;
    set(trend, m.line || "", () => m.line ? [svg("spark", "0 0 100 24", m.line, m.area)] : []);
    for (const [td, s] of [[drain, m.forecast], [consumer, m.consumer], [read, m.read]]) if (td.textContent !== s) td.textContent = s;
    return r;
  }
  // place puts the rows of a window between two spacers as high as the rows that are left out.
  function place(m) {
    const body = $("rows");
    const wanted = m.rows.map((x, i) => {
      const r = row(x, rows.get(x.path));
      const index = String(m.offset + i + 2);
      if (r.getAttribute("aria-rowindex") !== index) r.setAttribute("aria-rowindex", index);
      rows.set(x.path, r);
      return r;
    });
    const keep = new Set(wanted);
    for (const [path, r] of rows) if (!keep.has(r)) { rows.delete(path); r.remove(); }
    let top = $("above"), bottom = $("below");
    if (!top) {
      body.replaceChildren();
      const spacer = (id) => el("tr", { id, class: "spacer", "aria-hidden": "true" }, el("td", {}));
      body.append(top = spacer("above"), bottom = spacer("below"));
    }
    let next = top.nextSibling;
    for (const r of wanted) {
      if (next === r) next = next.nextSibling; else body.insertBefore(r, next);
    }
    if (!height && wanted.length) height = wanted[0].getBoundingClientRect().height;
    top.firstChild.style.height = m.offset * height + "px";
    bottom.firstChild.style.height = Math.max(0, m.matched - m.offset - m.rows.length) * height + "px";
    matched = m.matched; offset = m.offset;
    const none = $("none");
    if (none) none.remove();
    if (!m.matched) bottom.after(el("tr", { id: "none" }, el("td", { colspan: "4", class: "dim" }, "No queue matches.")));
  }
  // windowAt is the first row to have, for what is on the screen.
  function windowAt() {
    if (!height || !$("above")) return offset;
    const first = Math.floor(-$("above").getBoundingClientRect().top / height), seen = Math.ceil(innerHeight / height);
    if (first >= offset && (first + seen <= offset + size || offset + size >= matched)) return offset;
    return Math.max(0, Math.min(first - Math.floor((size - seen) / 2), Math.max(0, matched - size)));
  }
  async function updateFleet() {
    const v = new URLSearchParams(query);
    v.set("offset", String(windowAt())); v.set("limit", String(size));
    const m = await fetchJSON("/view/fleet?" + v);
    const began = performance.now();
    document.title = m.title;
    text("causes-title", m.heading);
    if (heading && heading !== m.heading) text("announce", m.heading);
    heading = m.heading;
    $("causes").className = m.mood;
    fill("cause-cards", m.causes, findings);
    fill("tiles", m.tiles, tiles);
    fill("chips", m.chips, (all) => all.map((c) => el("a", { class: "chip", href: c.href, "aria-current": c.on ? "true" : null }, c.name + " ", el("b", {}, c.count))));
    fill("heads", m.columns, (all) => all.map((c) => el("th", { scope: "col", class: c.class, "aria-sort": c.aria || null }, c.href ? el("a", { href: c.href }, c.name) : c.name)));
    text("order", m.order);
    text("found", m.found);
    $("fleet").setAttribute("aria-rowcount", String(m.matched + 1));
    place(m);
    fill("expiring", m.expiring, (all) => all.length ? all.map((e) => el("li", {}, el("span", { class: "n-big" }, e.in), el("span", { class: "what" }, link(e.link), el("span", { class: "sub dim" }, e.text)))) : [el("li", { class: "dim" }, "Nothing that was seen.")]);
    fill("clusters", m.clusters, clusters);
    fill("events", m.events, events);
    performance.measure("update", { start: began, end: performance.now() });
  }
  // visit shows another order or filter without loading the page again.
  function visit(search) {
    for (const k of [...query.keys()]) query.delete(k);
    for (const [k, v] of new URLSearchParams(search)) if (v && k !== "offset" && k !== "limit") query.set(k, v);
    const s = query.toString();
    history.replaceState(null, "", s ? "/?" + s : "/");
    offset = 0;
    if ($("fleet").getBoundingClientRect().top < 0) $("fleet").scrollIntoView();
    update().then(() => text("announce", $("found").textContent + ", " + $("order").textContent));
  }
  if (page === "fleet") {
    query.delete("offset"); query.delete("limit");
    if ($("pages")) $("pages").remove();
    let wait = 0;
    for (const id of ["heads", "chips"]) $(id).addEventListener("click", (e) => {
      const a = e.target.closest("a");
      if (!a || e.metaKey || e.ctrlKey || e.shiftKey) return;
      e.preventDefault();
      clearTimeout(wait);
      const v = new URL(a.href).searchParams;
      v.set("q", $("q").value.trim()); // the link may be older than what was typed
      visit(v);
    });
    const filter = () => { clearTimeout(wait); const v = new URLSearchParams(query); v.set("q", $("q").value.trim()); visit(v); };
    $("filter").addEventListener("submit", (e) => { e.preventDefault(); filter(); });
    $("q").addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(filter, 200); });
    let pending = false;
    addEventListener("scroll", () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => { pending = false; if (windowAt() !== offset) update(); });
    }, { passive: true });
    addEventListener("resize", () => { height = 0; if (!held) update(); });
  }

  // ---- one queue
  const account = document.body.dataset.account, queue = document.body.dataset.queue;
  const own = "/" + [account, queue].map((s) => encodeURIComponent(s || "")).join("/");
  async function updateQueue() {
    const m = await fetchJSON("/view/queues" + own);
    const began = performance.now();
    fill("badge", m.badge, (b) => [badge(b)]);
    if ($("headline").dataset.status !== undefined && $("headline").dataset.status !== m.badge.text) text("announce", m.headline);
    $("headline").dataset.status = m.badge.text;
    text("headline", m.headline); text("facts", m.facts);
    fill("findings", m.findings, findings);
    fill("numbers", m.numbers, tiles);
    fill("charts", m.charts, (all) => all.length ? all.map((c) => el("figure", {}, el("figcaption", {}, c.name + " ", el("b", {}, c.last), " ", el("span", { class: "dim" }, "highest " + c.most)),
      svg("chart", "0 0 400 110", c.line, c.area, c.label), el("p", { class: "dim axis" }, time(c.from), time(c.to)))) : [el("p", { class: "dim" }, "Nothing is remembered yet.")]);
    fill("consumer", m.consumer, (all) => all.map((s) => el("p", {}, s)));
    fill("work", m.work && !window.qwatchPage.acting ? m.work : null, (w) => w ? [el("div", { class: "card info" }, el("p", {}, el("b", {}, w.text)), w.of ? el("progress", { value: String(w.done), max: String(w.of), "aria-label": "How far it is" }) : null, el("p", { class: "dim" }, w.note))] : []);
    fill("advice", m.advice, (all) => all.map((a) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, a.setting)), el("td", {}, a.now), el("td", {}, badge(a.badge)), el("td", { class: "wrap" }, a.why))));
    text("measured", m.measured);
    fill("events", m.events, events);
    fill("clusters", m.clusters, clusters);
    if (m.evidence) {
      text("evidence-title", m.evidence.title);
      if ($("samples") && $("samples").closest("details").open) fill("samples", m.evidence.rows, (all) => all.map((s) => el("tr", {}, el("th", { scope: "row" }, time(s.at)), ...s.cells.map((c) => el("td", { class: "n" }, c)))));
    }
    const steer = $("steer");
    if (steer) { steer.hidden = false; for (const b of steer.querySelectorAll("button")) b.disabled = m.paused === (b.dataset.steer === "pause"); }
    performance.measure("update", { start: began, end: performance.now() });
  }

  // ---- the operator
  const tokenKey = "qwatch-operator-token";
  const token = () => { try { return sessionStorage.getItem(tokenKey) || ""; } catch { return ""; } };
  function keep(t) { try { if (t) sessionStorage.setItem(tokenKey, t); else sessionStorage.removeItem(tokenKey); } catch { /* the browser keeps nothing */ } }
  const authorized = (options) => ({ ...options, headers: { ...(options && options.headers), "Qwatch-Token": token() } });
  async function who() {
    const b = $("operator");
    b.hidden = false;
    b.textContent = "Operator…";
    if (!token()) return null;
    try {
      const me = await fetchJSON("/api/v1/whoami", authorized());
      b.textContent = me.name + " (" + me.role + ")";
      return me;
    } catch (e) { return { error: e }; }
  }
  const dialog = $("signin");
  let wanted = null; // what to do once somebody has signed in
  function signIn(then) { wanted = then || null; $("signin-error").textContent = ""; $("token").value = ""; dialog.showModal(); }
  $("operator").addEventListener("click", () => signIn());
  $("signin-close").addEventListener("click", () => dialog.close());
  $("forget").addEventListener("click", () => { keep(""); who(); dialog.close(); });
  dialog.querySelector("form").addEventListener("submit", async (e) => {
    e.preventDefault();
    const t = $("token").value.trim();
    if (!t) { $("signin-error").textContent = "Write the token."; return; }
    if (/[^!-~]/.test(t)) { $("signin-error").textContent = "A token has printable ASCII characters only."; return; }
    keep(t);
    const me = await who();
    if (me && me.error) { keep(""); who(); $("signin-error").textContent = me.error.message; return; }
    if (me && me.role !== "operator") { $("signin-error").textContent = "This token has the role " + me.role + "; acting takes operator."; return; }
    $("token").value = "";
    dialog.close();
    if (wanted) wanted();
  });
  // asOperator does something with the token, and asks for it where there is none or it is refused.
  async function asOperator(said, what, act) {
    if (!token()) { signIn(() => asOperator(said, what, act)); return; }
    said.textContent = what + "…";
    said.className = "";
    try { said.textContent = await act() || ""; } catch (e) {
      said.textContent = "Refused: " + e.message;
      said.className = "bad-text";
      if (e.status === 401) { keep(""); who(); }
    }
  }
  who();
  if ($("steer")) $("steer").addEventListener("click", (e) => {
    const verb = e.target.dataset.steer;
    if (verb) asOperator($("steer-said"), verb === "pause" ? "Pausing" : "Resuming", async () => {
      const s = await fetchJSON("/api/v1/processors" + own + "/" + verb, authorized({ method: "POST" }));
      update();
      return "The consumer is " + s.state + ".";
    });
  });
  if (page === "queue") { const steer = $("steer"); if (steer) steer.hidden = false; }
  window.qwatchPage = { $, el, time, own, fetchJSON, authorized, asOperator, update };
  update();
})();
