"use strict";
// Looking into a poison queue, as an operator. Bodies are fetched one by one, when somebody asks for one.
(() => {
  const { $, el, time, own, fetchJSON, authorized, asOperator } = window.qwatchPage;
  const load = $("triage-load"), choose = $("triage-choose"), out = $("triage-out"), said = $("triage-said");
  if (!load) return;
  const base = "/api/v1/poison" + own;
  let seen = { entries: [] };

  // What differs from message to message within one reason: ids, numbers, quoted values.
  const shape = (e) => e.category + "|" + (e.reason || "").replace(/[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|0[xX][0-9a-fA-F]+|\b[0-9a-fA-F]{12,}\b|[0-9]+|"[^"]*"|'[^']*'/g, "…");
  const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");
  const bytes = (n) => n < 1024 ? n + " B" : (n / 1024).toFixed(1) + " KiB";

  async function list() {
    seen = await fetchJSON(base, authorized());
    // An id that several messages say is theirs names none of them; that of a copy does.
    for (const e of seen.entries) e.named = seen.entries.some((o) => o !== e && o.messageId === e.messageId) ? e.poisonMessageId : e.messageId;
    load.textContent = "Look again";
    choose.hidden = false;
    show();
    const n = seen.entries.length;
    return !n ? (seen.total ? "None of its " + plural(seen.total, "message") + " can be seen: they are hidden, or another queue's." : "It holds nothing.")
      : seen.partial ? plural(n, "message") + " of about " + seen.total.toLocaleString("en") + " seen: one look shows 32 at most." : plural(n, "message") + ".";
  }

  const replay = (entries) => window.qwatchReplay.ask(entries, list);

  async function body(e, into, button) {
    const note = el("span", { role: "status" });
    button.after(note);
    await asOperator(note, "Fetching", async () => {
      const v = await fetchJSON(base + "?body=true&id=" + encodeURIComponent(e.named), authorized());
      const found = v.entries[0];
      const text = !found ? null : found.body !== undefined ? found.body : "base64: " + (found.body64 || "");
      if (text === null) return "It is not there any more.";
      into.replaceChildren(el("pre", { tabindex: "0", "aria-label": "Body of " + e.messageId }, text));
      button.remove();
      return "";
    });
    if (!note.textContent) note.remove();
  }

  const attempts = (all) => all && all.length ? el("details", {}, el("summary", {}, plural(all.length, "failed attempt")), el("ol", {}, ...all.map((a) => el("li", {}, a.at ? time(a.at) : null, a.at ? " " : null, a.error || a.category || "")))) : null;

  // history shows what a message was before it was replayed, as far as the failure records tell.
  async function history(e, into, button) {
    const note = el("span", { role: "status" });
    button.after(note);
    await asOperator(note, "Asking", async () => {
      const found = (await fetchJSON(base + "?history=true&id=" + encodeURIComponent(e.named), authorized())).entries[0];
      if (!found) return "It is not there any more.";
      const all = found.history || [];
      into.replaceChildren(...all.map((h) => el("div", { class: "earlier" }, el("p", {}, "It was ", el("code", {}, h.messageId), ", replayed ", time(h.replayedAt)),
        el("p", {}, h.category ? el("b", {}, h.category.replaceAll("_", " ")) : null, h.category ? ": " + (h.reason || "no reason recorded") : "no record tells why it died",
          h.deadLetteredAt ? ", dead-lettered " : "", h.deadLetteredAt ? time(h.deadLetteredAt) : null, h.dequeueCount ? ", delivered " + plural(h.dequeueCount, "time") : ""), attempts(h.attempts))));
      button.remove();
      return found.historyError ? "Not all is known: " + found.historyError : all.length ? "" : "Nothing is recorded of it before: it was not replayed, or no failure records are kept.";
    });
    if (!note.textContent) note.remove();
  }

  function entry(e) {
    const show = el("button", { type: "button" }, "Show body"), again = el("button", { type: "button" }, "Replay"), before = el("button", { type: "button" }, "History"), past = el("div", {}), place = el("div", {});
    show.addEventListener("click", () => body(e, place, show));
    again.addEventListener("click", () => replay([e]));
    before.addEventListener("click", () => history(e, past, before));
    const facts = [["Message", el("code", {}, e.messageId)], ["Dead-lettered", time(e.deadLetteredAt || e.insertedAt)], ["Deliveries", e.dequeueCount ? String(e.dequeueCount) : "not recorded"],
      ["Size", bytes(e.sizeBytes)], ["Business key", e.businessKey], ["Expires", e.expiresAt ? time(e.expiresAt) : "never"],
      ["May have been sent", e.mayHaveBeenSent ? el("span", {}, time(e.mayHaveBeenSent), ", by a replay that did not finish") : ""],
      ["Copies", e.copies > 1 ? String(e.copies) : ""], ["Headers", e.headers && Object.keys(e.headers).length ? Object.entries(e.headers).map(([k, v]) => k + ": " + v).join(" · ") : ""]];
    return el("div", { class: "entry" }, el("dl", {}, ...facts.filter(([, v]) => v).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])),
      attempts(e.attempts), el("div", { class: "actions" }, show, again, before), past, place);
  }

  function show() {
    const groups = new Map();
    for (const e of seen.entries) { const k = shape(e); if (!groups.has(k)) groups.set(k, []); groups.get(k).push(e); }
    const at = (e) => e.deadLetteredAt || e.insertedAt;
    const order = [...groups.values()].sort((a, b) => b.length - a.length);
    out.replaceChildren(...order.map((g) => {
      const times = g.map(at).sort(), all = el("button", { type: "button" }, "Replay " + plural(g.length, "message") + " of this reason");
      all.addEventListener("click", () => replay(g));
      return el("details", { class: "card warn" }, el("summary", {}, el("b", {}, plural(g.length, "message")), " · ", el("b", {}, g[0].category.replaceAll("_", " ")), ": " + (g[0].reason || "no reason recorded") + " ", el("span", { class: "dim" }, "since ", time(times[0]), ", latest ", time(times[times.length - 1]))),
        el("div", { class: "actions" }, all), ...g.map(entry));
    }));
    if (order.length === 1) out.querySelector("details").open = true;
  }

  load.hidden = false;
  load.addEventListener("click", () => asOperator(said, "Looking", list));
  choose.addEventListener("click", () => replay(null));
})();
