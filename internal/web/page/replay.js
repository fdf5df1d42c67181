"use strict";
// Bringing dead-lettered messages back, as an operator: what a replay would do, how fast, how many are tried
// first, how far it is, and what became of it. The server tells it event by event; ending the request ends it.
(() => {
  const { $, el, own, authorized, asOperator, update } = window.qwatchPage;
  const base = "/api/v1/poison" + own;
  const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");
  const span = (s) => s < 90 ? Math.max(1, Math.round(s)) + " s" : s < 5400 ? Math.round(s / 60) + " min" : (s / 3600).toFixed(1) + " h";

  // stopper ends work: the server is asked to, and then tells what came of it. Where it cannot be asked, and when
  // asking again, the request is ended.
  function stopper(abort) {
    let work = null, wanted = false;
    async function ask() {
      try {
        const r = work && await fetch(base + "/stop?work=" + encodeURIComponent(work), authorized({ method: "POST", cache: "no-store" }));
        if (r && (r.ok || r.status === 404)) { setTimeout(() => abort.abort(), 15000); return; } // 404: it is just over
      } catch { /* then so */ }
      abort.abort();
    }
    return {
      wanted: () => wanted,
      begun(id) { work = id || ""; if (wanted) ask(); },
      stop(e) {
        if (wanted) { abort.abort(); return; }
        wanted = true;
        e.target.textContent = "Stopping…";
        if (work !== null) ask();
      },
    };
  }

  // stream sends a command and hands over each event as it comes.
  async function stream(command, signal, begun, told) {
    const r = await fetch(base + "/replay", authorized({
      method: "POST", cache: "no-store", signal, headers: { "Content-Type": "application/json", Accept: "application/jsonl" }, body: JSON.stringify(command),
    }));
    if (!r.ok) {
      let body = null;
      try { body = await r.json(); } catch { /* told below */ }
      throw Object.assign(new Error((body && body.error) || "the server answered " + r.status), { status: r.status });
    }
    begun(r.headers.get("Qwatch-Work"));
    const reader = r.body.getReader(), decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      text += decoder.decode(value, { stream: !done });
      const lines = text.split("\n");
      text = lines.pop();
      for (const line of lines) if (line) told(JSON.parse(line));
      if (done) return;
    }
  }

  // meter shows how far work is, with its pace and an estimate, in place.
  function meter(place, title, canary, stop) {
    const bar = el("progress", { "aria-label": "How far it is" }), line = el("p", { class: "dim" }, "begun");
    const end = el("button", { type: "button" }, "Stop");
    end.addEventListener("click", stop);
    place.replaceChildren(el("p", {}, el("b", {}, title)), bar, line, el("div", { class: "actions" }, end));
    place.hidden = false;
    let phase = "", since = 0, start = 0;
    return (e) => {
      const at = e.looking || e.progress;
      if (e.waiting !== undefined) { line.textContent = "waiting for about " + plural(e.waiting, "message") + " that somebody hides, half a minute at most"; return; }
      if (!at) return;
      const now = performance.now(), doing = e.looking ? "looked at" : "replayed", of = Math.max(at.of, at.done);
      if (doing !== phase) { phase = doing; since = now; start = at.done; }
      bar.max = Math.max(1, of); bar.value = at.done;
      const took = (now - since) / 1000, pace = took > 1 ? (at.done - start) / took : 0;
      line.textContent = [at.done.toLocaleString("en") + " of " + plural(of, "message") + " " + doing,
        pace > 0 ? (pace >= 10 ? Math.round(pace) : pace.toFixed(1)) + "/s" : "", pace > 0 && of > at.done ? "about " + span((of - at.done) / pace) + " left" : "",
        e.progress && canary && at.done === canary && of > canary ? "watching whether the first " + (canary === 1 ? "one fails" : canary + " fail") + " again" : ""].filter(Boolean).join(" · ");
    };
  }

  const ids = (all) => el("ul", { class: "evidence" }, ...all.slice(0, 20).map((x) => el("li", {}, x)), all.length > 20 ? el("li", {}, "and " + (all.length - 20).toLocaleString("en") + " more") : null);
  const id = (s) => el("code", {}, s);
  const outcomes = { passed: "passed: none was seen to fail", failed: "failed again", unhandled: "still wait on their queue: does anybody consume it?" };

  // facts are what became of a replay, in full.
  function facts(r, error, unmarked) {
    const skipped = r.skipped || [], doubtful = r.mayHaveBeenSent || [], c = r.canary;
    return [["Chosen", r.chosen.toLocaleString("en")], ["Replayed", r.done.toLocaleString("en") + (r.copies > r.done ? "; " + plural(r.copies, "copy").replace(/copys$/, "copies") + " removed" : "")],
      ["Tried first", c ? el("span", {}, plural(c.messages, "message") + ", " + (outcomes[c.outcome] || "not watched to the end"), (c.failed || []).length ? ids(c.failed.map(id)) : null) : null],
      ["Failed", skipped.length ? el("span", {}, skipped.length.toLocaleString("en") + ", left on the poison queue", ids(skipped.map((s) => el("span", {}, id(s.messageId), " " + s.reason)))) : "0"],
      ["May have been sent", doubtful.length ? el("span", {}, doubtful.length.toLocaleString("en") + ", and may be on the queue twice", ids(doubtful.map(id))) : "0"],
      ["Could not be marked", unmarked.length ? el("span", {}, unmarked.length.toLocaleString("en") + ": they fill a message; were qwatch killed at one, the next replay could not tell that it may have been sent", ids(unmarked.map(id))) : null],
      ["Unseen", r.unseen ? "about " + r.unseen.toLocaleString("en") + ": somebody hides them, try again in half a minute" : "0"],
      ["Not met again", r.left ? r.left.toLocaleString("en") + ": " + (error ? "replay again to go on" : "gone meanwhile, or hidden by somebody else") : null],
      ["Ended early", error || null]].filter(([, v]) => v).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]);
  }

  function tell(r, error, unmarked) {
    const clean = !error && !(r.skipped || []).length && !(r.mayHaveBeenSent || []).length && !r.unseen && !r.left;
    $("replay-result").replaceChildren(el("div", { class: "card " + (clean ? "good" : "warn") }, el("h3", {}, error ? "The replay ended early" : clean ? "All were replayed" : "Replayed, but read this"), el("dl", { class: "facts" }, ...facts(r, error, unmarked))));
  }

  // at says whether a replay is at work here: meanwhile nothing else can be begun.
  function at(work) {
    window.qwatchPage.acting = work;
    $("triage-out").inert = work;
    for (const id of ["triage-load", "triage-choose"]) $(id).disabled = work;
  }

  // run carries a command out, and shows how far it is and what became of it.
  async function run(command, after) {
    const said = $("triage-said"), place = $("replay-run");
    const abort = new AbortController(), stopping = stopper(abort);
    const stay = (e) => e.preventDefault();
    await asOperator(said, "Replaying", async () => {
      let result = null, error = "", last = null;
      const doubtful = [], unmarked = [];
      const show = meter(place, "Replaying", command.canary, stopping.stop);
      $("replay-result").replaceChildren();
      at(true);
      addEventListener("beforeunload", stay);
      try {
        await stream(command, abort.signal, stopping.begun, (e) => {
          if (e.result) result = e.result;
          if (e.error) error = e.error;
          if (e.doubtful) doubtful.push(e.doubtful);
          if (e.unmarked) unmarked.push(e.unmarked);
          if (e.progress) last = e.progress;
          show(e);
        });
      } catch (e) {
        if (e.status) throw e; // refused: nothing was begun
        error = abort.signal.aborted ? "stopped, with the message in hand dealt with" : "the connection broke: " + e.message;
      } finally {
        removeEventListener("beforeunload", stay);
        const lost = place.contains(document.activeElement) || document.activeElement === document.body;
        at(false);
        place.hidden = true;
        place.replaceChildren();
        if (lost) $("triage-choose").focus(); // the button that had it is gone
      }
      try { await after(); } catch { /* what was replayed is told all the same */ }
      update();
      if (!result && last) {
        $("replay-result").replaceChildren(el("div", { class: "card warn" }, el("h3", {}, "The replay ended early"), el("p", {}, last.done.toLocaleString("en") + " of " + plural(last.of, "message") + " were replayed when it was last heard of; " + error + ". Nothing is lost: replay again to go on."),
          doubtful.length ? el("p", {}, "May have been sent: " + doubtful.join(", ")) : null, unmarked.length ? el("p", {}, "Could not be marked: " + unmarked.join(", ")) : null));
        return "Ended early after about " + plural(last.done, "message") + ".";
      }
      if (!result && stopping.wanted()) return "Stopped before anything was heard of it. Nothing is lost: look what is still here.";
      if (!result) throw new Error(error || "the server said nothing");
      tell(result, error, unmarked);
      return "Replayed " + plural(result.done, "message") + (error ? ", then " + error : "") + ".";
    });
  }

  // labelled is a field with its label and a hint.
  let named = 0;
  function labelled(text, field, hint) {
    const name = "replay-field-" + ++named;
    field.id = name;
    if (hint) field.setAttribute("aria-describedby", name + "-hint");
    const label = el("label", { for: name }, text);
    return el("div", { class: field.type === "checkbox" ? "check" : "field" }, ...(field.type === "checkbox" ? [field, label] : [label, field]), hint ? el("p", { class: "dim note", id: name + "-hint" }, hint) : null);
  }
  const options = (all) => all.map(([value, text]) => el("option", { value }, text));

  // ask asks what to replay, and how; entries are those that were chosen already, null: a filter chooses.
  function ask(entries, after) {
    const what = entries ? plural(entries.length, "message") : "what is chosen";
    const all = el("input", { type: "checkbox" }), reason = el("input", { type: "text", autocomplete: "off", maxlength: "500" }), limit = el("input", { type: "number", min: "1", step: "1", inputmode: "numeric", placeholder: "all" });
    const category = el("select", {}, ...options([["", "any"], ...$("triage-choose").dataset.categories.split(" ").map((c) => [c, c.replaceAll("_", " ")])]));
    const age = el("select", {}, ...options([["", "at any time"], ["newerThan=1h", "within the last hour"], ["newerThan=24h", "within the last day"], ["olderThan=1h", "more than an hour ago"], ["olderThan=24h", "more than a day ago"], ["olderThan=168h", "more than a week ago"]]));
    const rate = el("input", { type: "number", min: "0.001", max: "1000000", step: "any", inputmode: "decimal", placeholder: "no limit" });
    const canary = el("input", { type: "number", min: "0", step: "1", inputmode: "numeric", placeholder: "none" });
    const wait = el("select", {}, ...options([["10s", "10 seconds"], ["1m", "a minute"], ["5m", "5 minutes"], ["15m", "15 minutes"]]));
    wait.value = "1m";
    const out = el("p", { id: "replay-outcome", role: "status" }), dry = el("button", { type: "button" }, "Dry run"), go = el("button", { type: "submit", class: "primary" }, "Replay " + what), no = el("button", { type: "button" }, "Cancel");
    const place = el("div", { class: "card info", hidden: true });
    const form = el("form", { method: "dialog" }, el("h2", { id: "replay-title" }, "Replay " + what + "?"),
      el("p", {}, "Each goes back to its queue with its exact body and is handled again; mend the cause first. A message that fails again comes back here."),
      entries ? null : el("fieldset", {}, el("legend", {}, "Which"),
        labelled("The whole poison queue", all, "Not only the 32 messages that one look shows. Each message’s dequeue count rises by one."),
        el("div", { class: "fields" }, labelled("Category", category), labelled("Reason contains", reason), labelled("Dead-lettered", age), labelled("Messages at most", limit))),
      el("fieldset", {}, el("legend", {}, "How"), el("div", { class: "fields" }, labelled("Messages a second", rate), labelled("Try so many first", canary), labelled("Watch those at most", wait)),
        el("p", { class: "dim note" }, "If one of those tried first fails again, or nobody handles them, it stops.")),
      place, out, el("div", { class: "actions" }, go, dry, no));
    const d = el("dialog", { "aria-labelledby": "replay-title", class: "roomy" }, form);

    function command() {
      const c = {};
      if (entries) c.ids = entries.map((e) => e.named);
      else {
        if (all.checked) c.all = true;
        if (category.value) c.categories = [category.value];
        if (reason.value.trim()) c.reason = reason.value.trim();
        if (age.value) { const [k, v] = age.value.split("="); c[k] = v; }
        if (limit.value) c.limit = Number(limit.value);
      }
      if (rate.value) c.rate = Number(rate.value);
      if (Number(canary.value)) { c.canary = Number(canary.value); c.canaryWait = wait.value; }
      return c;
    }
    let abort = null;
    async function rehearse() {
      if (!form.reportValidity()) return;
      abort = new AbortController();
      const stopping = stopper(abort);
      dry.disabled = go.disabled = true;
      await asOperator(out, "Looking", async () => {
        const seen = new Map();
        let result = null, error = "";
        const show = meter(place, "Looking through the poison queue", 0, stopping.stop);
        place.hidden = !all.checked;
        try {
          await stream({ ...command(), dryRun: true }, abort.signal, stopping.begun, (e) => {
            if (e.entry && seen.size < 1000) seen.set(e.entry.identity, e.entry);
            if (e.result) result = e.result;
            if (e.error) error = e.error;
            show(e);
          });
        } catch (e) {
          if (e.status) throw e;
          error = abort.signal.aborted ? "stopped" : e.message;
        } finally { place.hidden = true; place.replaceChildren(); }
        if (stopping.wanted() && (error || !result)) return "Stopped. Nothing was moved.";
        if (error || !result) throw new Error(error || "the server said nothing");
        out.after(el("div", { class: "dry" }, ids([...seen.values()].slice(0, 20).map((e) => el("span", {}, id(e.messageId), " " + e.category.replaceAll("_", " ") + ": " + (e.reason || "no reason recorded")))),
          result.chosen > 20 ? el("p", {}, "and " + (result.chosen - 20).toLocaleString("en") + " more") : null));
        const pace = Number(rate.value);
        return "Would replay " + plural(result.chosen, "message") + (pace && result.chosen ? ", in " + span(result.chosen / pace) + " or more at that rate" : "") + ". Nothing was moved."
          + (result.unseen ? " About " + plural(result.unseen, "message") + " were not seen: somebody hides them." : "");
      });
      dry.disabled = go.disabled = false;
    }
    dry.addEventListener("click", () => { for (const e of form.querySelectorAll(".dry")) e.remove(); rehearse(); });
    let sure = false;
    form.addEventListener("submit", () => { sure = true; });
    no.addEventListener("click", () => d.close());
    d.addEventListener("close", () => { const c = command(); if (abort) abort.abort(); d.remove(); if (sure) run(c, after); });
    document.body.append(d);
    d.showModal();
    (entries ? go : all).focus();
  }

  window.qwatchReplay = { ask };
})();
