// Every text that somebody else decides holds script. Wherever a page shows one it stands as it was written; nothing
// runs, nothing opens, nothing is asked of anybody else, and the page's policy has nothing to forbid.
"use strict";
module.exports = async ({ open, accessible, until, assert, options: { url, operator, texts, entries } }) => {
  let looked = 0;
  const inert = async (page, where) => {
    const found = await page.evaluate(() => ({
      ran: window.pwned,
      foreign: [...document.querySelectorAll("img, iframe, object, embed, style, base, [onload], [onerror], [onclick], [style*=expression], a[href^='javascript:' i], script:not([src^='/assets/'])")].map((e) => e.outerHTML.slice(0, 200)),
      elsewhere: [...document.querySelectorAll("[href], [src], [action]")].map((e) => new URL(e.href?.baseVal ?? e.href ?? e.src ?? e.action, location.href).origin).filter((o) => o !== location.origin),
    }));
    assert.deepEqual(found, { ran: undefined, foreign: [], elsewhere: [] }, where);
  };
  const shows = async (page, h) => {
    await until(page, h.name + " as it is written in " + h.shows, ([selector, text]) => [...document.querySelectorAll(selector)].some((e) => (e.matches("input") ? e.value : e.textContent).includes(text)), [h.shows, h.text]);
    looked++;
  };

  // The script does run where markup is taken for markup, and the page's policy stops what would be put into the page:
  // otherwise nothing here could fail.
  const bare = await (await open()).context().browser().newContext();
  const control = await bare.newPage();
  await control.setContent("<table><td title=\"" + texts[0].text);
  assert.notEqual(await control.evaluate(() => window.pwned), undefined, "the script runs nowhere");
  await control.route(url + "/", async (r) => {
    const answer = await r.fetch();
    await r.fulfill({ response: answer, body: (await answer.text()).replace("<main", texts[0].text + "<main") });
  }, { times: 1 });
  await control.goto(url + "/");
  assert.deepEqual(await control.evaluate(() => ({ there: document.querySelectorAll("img[onerror]").length, ran: window.pwned })), { there: 1, ran: undefined }, "the policy lets the server's own markup run");
  await control.goto(url + "/");
  const stopped = await control.evaluate(async (text) => {
    let count = 0;
    addEventListener("securitypolicyviolation", () => count++);
    const tried = [() => document.body.insertAdjacentHTML("beforeend", text), () => document.body.append(Object.assign(document.createElement("script"), { textContent: "window.pwned = 1" })), () => document.body.setAttribute("onclick", "window.pwned = 1")];
    let threw = 0;
    for (const f of tried) try { f(); } catch { threw++; }
    document.body.click();
    await new Promise((r) => setTimeout(r, 100));
    return { count: count >= 2, threw: threw >= 2, ran: window.pwned };
  }, texts[0].text);
  assert.deepEqual(stopped, { count: true, threw: true, ran: undefined }, "the policy stops nothing");
  await bare.close();

  const page = await open({ lost: true });
  page.on("popup", () => assert.fail("a window opened"));
  const on = (address) => texts.filter((h) => h.page === address && h.shows);
  await page.goto(url + "/");
  for (const h of on("/")) await shows(page, h);
  await inert(page, "the fleet");
  await accessible(page, "the fleet");

  // Links that somebody made up.
  for (const h of texts.filter((h) => /^\/.*[=#\/]$/.test(h.page))) {
    const [answer] = await Promise.all([page.waitForResponse((r) => r.request().isNavigationRequest()), page.goto(url + h.page + encodeURIComponent(h.text)).catch(() => null)]);
    assert.ok(answer.status() < 500, h.name + ": " + answer.status());
    assert.equal(answer.headers()["x-content-type-options"], "nosniff", h.name);
    assert.match(answer.headers()["content-security-policy"], /default-src 'none'/, h.name);
    if (h.shows) await shows(page, h); else looked++;
    await inert(page, h.name);
    await page.goto("about:blank"); // so that the next is a navigation, though it be a fragment
  }
  for (const name of ["broken", "owned"]) {
    await page.goto(url + "/queues/hostile/" + name);
    await until(page, "its numbers", () => document.querySelectorAll("#numbers dd").length > 0);
    await inert(page, name);
  }

  await page.goto(url + "/queues/hostile/orders");
  for (const h of on("/queues/hostile/orders").filter((h) => !h.shows.startsWith("#triage-out") && !h.shows.startsWith("#replay"))) await shows(page, h);
  await inert(page, "the queue's page");
  await page.click("#triage-load");
  await page.fill("#token", operator);
  await page.click("#signin button[type=submit]");
  await until(page, "the messages", (n) => document.querySelectorAll("#triage-out .entry").length === n, entries);
  await page.evaluate(() => document.querySelectorAll("#triage-out details").forEach((d) => { d.open = true; }));
  for (let i = 0; i < entries; i++) await page.click("#triage-out .entry button:text-is('Show body')");
  await until(page, "the bodies", (n) => document.querySelectorAll("#triage-out pre").length === n, entries);
  // What the failure records say is put into the server's answer: they are in tables, which this storage has not.
  const hostile = (name) => texts.find((h) => h.name === name).text;
  await page.route("**/*history=true*", async (r) => {
    const answer = await r.fetch(), view = await answer.json();
    assert.equal(view.entries.length, 1);
    const at = "2026-11-30T03:00:00Z";
    view.entries[0].history = [{ messageId: hostile("message id in a history"), replayedAt: at, category: hostile("category in a history"), reason: hostile("reason in a history"), dequeueCount: 5, deadLetteredAt: at, attempts: [{ number: 1, at, error: hostile("error in a history") }] }, { messageId: "first", replayedAt: at }];
    view.entries[0].historyError = hostile("failure of the records");
    await r.fulfill({ response: answer, json: view });
  }, { times: 1 });
  await page.click("#triage-out .entry button:text-is('History')");
  await until(page, "what it was before", () => document.querySelectorAll("#triage-out .earlier").length === 2);
  await page.click("#triage-out .entry button:text-is('History')"); // of the next, by the server's own word
  await until(page, "that nothing is recorded", () => document.getElementById("triage-out").textContent.includes("Nothing is recorded of it before"));
  for (const h of on("/queues/hostile/orders").filter((h) => h.shows.startsWith("#triage-out"))) await shows(page, h);
  await inert(page, "triage");
  await accessible(page, "triage");

  // A dry run lists them, and a replay names the one that an earlier replay may have sent.
  await page.click("#triage-choose");
  await page.click("dialog[open] button:text-is('Dry run')");
  await until(page, "what it would do", (n) => document.getElementById("replay-outcome").textContent === `Would replay ${n} messages. Nothing was moved.`, entries);
  await inert(page, "a dry run");
  await accessible(page, "a dry run");
  await page.click("dialog[open] button:text-is('Replay what is chosen')");
  await until(page, "that they were replayed", (n) => document.getElementById("triage-said").textContent === `Replayed ${n} messages.`, entries);
  for (const h of on("/queues/hostile/orders").filter((h) => h.shows.startsWith("#replay"))) await shows(page, h);
  await inert(page, "a replay");
  await accessible(page, "a replay");
  for (const h of texts.filter((h) => !h.page)) looked++; // shown nowhere, which every look at a page has covered
  return { looked };
};
