// An operator at work, on queues whose every text that somebody else decides holds script: names of teams,
// reasons, headers, keys, bodies. A page of another site tries too.
"use strict";
const http = require("http");
module.exports = async ({ open, shot, accessible, until, assert, options: { url, operator, reader, reason, team, body } }) => {
  const page = await open();
  await page.goto(url + "/");
  await until(page, "the team as it is written", (team) => document.getElementById("rows").textContent.includes(team), team);
  await page.goto(url + "/queues/hostile/orders");
  await until(page, "the reason as it is written", (reason) => document.getElementById("clusters").textContent.includes(reason), reason);

  // Without a token nothing is shown, and neither with a wrong one or a reader's.
  await page.click("#triage-load");
  await page.fill("#token", "wrong-horse-battery-staple");
  await page.click("#signin button[type=submit]");
  await until(page, "that the token is refused", () => document.getElementById("signin-error").textContent.includes("not valid"));
  await page.fill("#token", reader);
  await page.click("#signin button[type=submit]");
  await until(page, "that a reader may not", () => document.getElementById("signin-error").textContent.includes("reader"));
  await accessible(page, "signing in");
  assert.equal(await page.$$eval("#triage-out .entry", (all) => all.length), 0);
  await page.fill("#token", operator);
  await page.click("#signin button[type=submit]");
  await until(page, "the messages", () => document.querySelectorAll("#triage-out .entry").length === 6);
  await until(page, "who acts", () => document.getElementById("operator").textContent === "ann (operator)");

  // Bodies are hidden until somebody asks for one, and then they are text.
  assert.ok(!(await page.content()).includes(body.slice(-12)), "a body is there before anybody asked for it");
  await page.click("#triage-out .entry button:text-is('Show body')");
  await until(page, "the body as it is written", (body) => document.querySelector("#triage-out pre")?.textContent === body, body);
  assert.equal(await page.evaluate(() => window.pwned), undefined, "a script of a message ran");
  assert.equal(await page.evaluate(() => document.querySelectorAll("img, script:not([src]), iframe, style").length), 0, "markup of a message");
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await accessible(page, "triage " + scheme);
  }

  // Pause and resume.
  await page.click("#steer button:text-is('Pause consumer')");
  await until(page, "that it is paused", () => document.getElementById("steer-said").textContent === "The consumer is paused.");
  await until(page, "who paused it", () => document.getElementById("events").textContent.includes("consumer paused by ann"));
  await page.click("#steer button:text-is('Resume consumer')");
  await until(page, "that it runs", () => document.getElementById("steer-said").textContent === "The consumer is running.");

  // A replay asks first.
  await page.click("#triage-out button:text-is('Replay 6 messages of this reason')");
  await accessible(page, "asking before a replay");
  await page.click("dialog[open] button:text-is('Cancel')");
  await page.click("#triage-out button:text-is('Replay 6 messages of this reason')");
  const asked = () => page.waitForRequest((r) => r.url().endsWith("/replay"));
  let sent = asked();
  await page.click("dialog[open] button:text-is('Dry run')");
  let command = JSON.parse((await sent).postData());
  assert.deepEqual([Object.keys(command).sort(), command.ids.length], [["dryRun", "ids"], 6], "it asks for more than what was seen");
  await until(page, "what it would do", () => document.getElementById("replay-outcome").textContent === "Would replay 6 messages. Nothing was moved.");
  // Stopped amid its work it has finished the message in hand, and the rest can be replayed later.
  await page.fill("dialog[open] label:text-is('Messages a second') + input", "0.01");
  await page.click("dialog[open] button:text-is('Replay 6 messages')");
  await until(page, "the first", () => document.getElementById("replay-run").textContent.includes("1 of 6 messages replayed"));
  await page.click("#replay-run button:text-is('Stop')");
  await until(page, "that it ended early", () => document.getElementById("triage-said").textContent === "Replayed 1 message, then ann stopped it: this was ended at a step where nothing is lost.");
  await until(page, "the exact result", () => /Chosen6Replayed1.*replay again to go on.*Ended earlyann stopped it/.test(document.getElementById("replay-result").textContent));
  await until(page, "what is left", () => document.querySelectorAll("#triage-out .entry").length === 5);
  await accessible(page, "a replay that was stopped");

  await page.click("#triage-out button:text-is('Replay 5 messages of this reason')");
  await page.fill("dialog[open] label:text-is('Try so many first') + input", "2");
  sent = asked();
  await page.click("dialog[open] button:text-is('Replay 5 messages')");
  command = JSON.parse((await sent).postData());
  assert.deepEqual([Object.keys(command).sort(), command.ids.length, command.canary, command.canaryWait], [["canary", "canaryWait", "ids"], 5, 2, "1m"], "it asks for more than what was seen");
  await until(page, "that they were replayed", () => document.getElementById("triage-said").textContent === "Replayed 5 messages.");
  const told = () => page.$$eval("#replay-result dt", (all) => Object.fromEntries(all.map((e) => [e.textContent, e.nextSibling.textContent])));
  assert.deepEqual(await told(), { Chosen: "5", Replayed: "5", "Tried first": "2 messages, passed: none was seen to fail", Failed: "0", "May have been sent": "0", Unseen: "0" });
  await until(page, "the replay in the timeline", () => document.getElementById("events").textContent.includes("5 messages replayed by ann"));
  assert.ok((await page.textContent("#events")).includes("1 message replayed, and ended early by ann"), "the one that was stopped is not in the timeline");

  // Whatever comes of a replay is told, in full. What the server says is made up here, for not all of it can be had at once.
  const answer = (...events) => page.route("**/replay", (r) => r.fulfill({ contentType: "application/jsonl", body: events.map((e) => JSON.stringify(e) + "\n").join("") }), { times: 1 });
  const again = async () => { await page.click("#triage-choose"); await page.click("dialog[open] button:text-is('Replay what is chosen')"); };
  await answer({ looking: { done: 40, of: 90 } }, { waiting: 7 }, { progress: { done: 0, of: 9 } }, { doubtful: "m-2" }, { unmarked: "m-5" }, { progress: { done: 2, of: 9 } }, {
    result: { chosen: 9, done: 2, copies: 3, left: 4, unseen: 7, mayHaveBeenSent: ["m-2"], skipped: [{ messageId: "m-3", reason: "it was taken by somebody else; try again" }], canary: { messages: 2, outcome: "failed", failed: ["m-1"] } },
    error: "stopped after the canaries: 1 of 2 failed again",
  });
  await again();
  await until(page, "that it ended early", () => document.getElementById("triage-said").textContent === "Replayed 2 messages, then stopped after the canaries: 1 of 2 failed again.");
  assert.deepEqual(await told(), {
    Chosen: "9", Replayed: "2; 3 copies removed", "Tried first": "2 messages, failed againm-1", Failed: "1, left on the poison queuem-3 it was taken by somebody else; try again",
    "May have been sent": "1, and may be on the queue twicem-2", "Could not be marked": "1: they fill a message; were qwatch killed at one, the next replay could not tell that it may have been sentm-5", Unseen: "about 7: somebody hides them, try again in half a minute",
    "Not met again": "4: replay again to go on", "Ended early": "stopped after the canaries: 1 of 2 failed again",
  });
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await accessible(page, "a replay of which much is to be told, " + scheme);
  }
  await answer({ progress: { done: 3, of: 9 } }, { doubtful: "m-4" }); // and no more: the connection broke
  await again();
  await until(page, "how far it was", () => /^The replay ended early3 of 9 messages were replayed when it was last heard of.*May have been sent: m-4$/.test(document.getElementById("replay-result").textContent));
  // A server that says nothing is not waited for when asked twice, and refused nothing.
  await page.route("**/replay", () => {}, { times: 1 });
  await again();
  await page.click("#replay-run button:text-is('Stop')");
  await page.click("#replay-run button:text-is('Stopping…')");
  await until(page, "that it was stopped", () => document.getElementById("triage-said").textContent.startsWith("Stopped before anything was heard of it."));

  // The token stays in its tab.
  const other = await page.context().newPage();
  await other.goto(url + "/queues/hostile/orders");
  await until(other, "an operator's button", () => !document.getElementById("operator").hidden);
  assert.equal(await other.evaluate(() => sessionStorage.length + localStorage.length), 0, "another tab has the token");
  assert.equal((await page.context().cookies()).length, 0, "there is a cookie");

  // A page of another site can read nothing and change nothing, by script or by form.
  const evil = http.createServer((q, r) => { r.setHeader("Content-Type", "text/html"); r.end("<title>evil</title><form method=post><button>go</button></form><iframe></iframe>"); });
  await new Promise((r) => evil.listen(0, "127.0.0.1", r));
  try {
    const context = await page.context().browser().newContext();
    const there = await context.newPage();
    await there.goto("http://127.0.0.1:" + evil.address().port + "/");
    const tried = await there.evaluate(async ([url, operator]) => {
      const out = {};
      for (const [name, path, options] of [
        ["simple", "/pause", { method: "POST", mode: "no-cors" }],
        ["token", "/pause", { method: "POST", headers: { "Qwatch-Token": operator } }],
        ["bearer", "/pause", { method: "POST", headers: { Authorization: "Bearer " + operator } }],
        ["read", "", {}],
      ]) try { const r = await fetch(url + "/api/v1/processors/hostile/orders" + path, options); out[name] = r.type + " " + r.status; } catch (e) { out[name] = "refused"; }
      return out;
    }, [url, operator]);
    assert.deepEqual(tried, { simple: "refused", token: "refused", bearer: "refused", read: "refused" });
    await there.evaluate((url) => { const f = document.querySelector("form"); f.action = url + "/api/v1/processors/hostile/orders/pause"; }, url);
    const [answer] = await Promise.all([there.waitForResponse((r) => r.url().includes("/pause")), there.click("button")]);
    assert.equal(answer.status(), 403);
    // Nor can it be framed.
    await there.goto("http://127.0.0.1:" + evil.address().port + "/");
    await there.evaluate((url) => { document.querySelector("iframe").src = url + "/"; }, url);
    await there.waitForTimeout(500);
    assert.ok(!there.frames().some((f) => f.url() === url + "/"), "the page is framed");
    await context.close();
  } finally { evil.close(); }
  const state = await (await page.request.get(url + "/api/v1/processors/hostile/orders")).json();
  assert.equal(state.state, "running");
  return {};
};
