// The page of a running demo: the fleet, sorting, filtering, a queue's story, triage, a refusal and a replay, in light
// and dark and on a phone, each looked at by axe-core; then by keyboard and without script.
"use strict";
module.exports = async ({ open, shot, accessible, until, assert, options: { url, operator } }) => {
  const found = [];
  const order = (page, want) => until(page, "rows in order " + want, (want) => [...document.querySelectorAll("#rows tr[aria-rowindex] th a")].map((a) => a.textContent).join() === want, want);
  const all = (page) => until(page, "all rows", () => document.querySelectorAll("#rows tr[aria-rowindex]").length === 7);

  // state looks at a state of the page that the documentation shows, in light and in dark.
  async function state(page, name, how) {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      found.push(...await accessible(page, name + " " + scheme));
      if (how) await shot(page, name + "-" + scheme, how);
    }
  }
  const page = await open();
  await page.goto(url + "/");
  await all(page);
  await until(page, "sparklines", () => document.querySelectorAll("#rows svg").length >= 5);
  await state(page, "fleet", {});

  await page.click("#heads a:text-is('Queue')");
  await order(page, "demo/audit,demo/emails,demo/orders,demo/payments,demo/reminders,demo/reports,demo/shipping");
  assert.equal(await page.getAttribute("#heads th:has-text('Queue')", "aria-sort"), "ascending");
  await page.click("#heads a:text-is('Queue')");
  await order(page, "demo/shipping,demo/reports,demo/reminders,demo/payments,demo/orders,demo/emails,demo/audit");
  assert.match(page.url(), /sort=queue/, "the address keeps the order");
  await page.click("#heads a:text-is('Messages')");
  await until(page, "audit or emails has the most messages", () => /^demo\/(audit|emails)$/.test(document.querySelector("#rows tr[aria-rowindex] th a")?.textContent));
  await state(page, "sort", { screen: true, from: "#queues-title" });

  await page.fill("#q", "re");
  await until(page, "the number that was found", () => document.getElementById("found").textContent === "2 of 7 queues");
  await until(page, "those that were found", () => document.querySelectorAll("#rows tr[aria-rowindex]").length === 2);
  await state(page, "filter", { screen: true, from: "#queues-title" });
  await page.fill("#q", "nosuch");
  await until(page, "that nothing matches", () => document.getElementById("none"));
  await state(page, "a filter that nothing matches");
  await page.fill("#q", "");
  await all(page);
  await page.reload(); // the order comes back with the address
  await until(page, "the order after a reload", () => document.querySelector("#heads [aria-sort=descending]"));

  await page.goto(url + "/queues/demo/payments");
  await until(page, "charts", () => document.querySelectorAll("#charts svg").length === 3);
  await until(page, "reasons of dead-letters", () => document.querySelectorAll("#clusters a").length >= 1);
  await until(page, "who consumes it", () => /in this process is running.*Whether other processes consume it is not known here/.test(document.getElementById("consumer").textContent));
  await state(page, "queue", {});

  // Refused without a token, and with a wrong one.
  await page.click("#triage-load");
  await page.click("#signin button[type=submit]");
  await until(page, "that a token is wanted", () => document.getElementById("signin-error").textContent !== "");
  await page.fill("#token", "wrong-horse-battery-staple");
  await page.click("#signin button[type=submit]");
  await until(page, "that it is refused", () => document.getElementById("signin-error").textContent.includes("not valid"));
  assert.equal(await page.$$eval("#triage-out .entry", (all) => all.length), 0);
  for (const path of ["", "/export"]) assert.equal((await page.request.get(url + "/api/v1/poison/demo/payments" + path)).status(), 401);
  for (const path of ["/replay", "/delete", "/purge", "/import"]) assert.equal((await page.request.post(url + "/api/v1/poison/demo/payments" + path, { data: "{}" })).status(), 401);
  await state(page, "refusal", { screen: true, from: "#clusters-title" });

  // What messages died of, for an operator.
  await page.fill("#token", operator);
  await page.click("#signin button[type=submit]");
  await until(page, "what died", () => document.querySelectorAll("#triage-out .entry").length >= 5);
  await page.evaluate(() => { document.querySelector("#triage-out details").open = true; });
  await state(page, "triage", { screen: true, from: "#triage-title" });

  // A replay: what it would do, how far it is, what became of it.
  await page.click("#triage-choose");
  await page.fill("dialog[open] label:text-is('Messages at most') + input", "5");
  await page.fill("dialog[open] label:text-is('Messages a second') + input", "0.3");
  await page.click("dialog[open] button:text-is('Dry run')");
  await until(page, "what it would do", () => /^Would replay \d+ messages, in .* Nothing was moved\.$/.test(document.getElementById("replay-outcome").textContent));
  await state(page, "rehearsal", { screen: true, from: "#triage-title" });
  await page.click("dialog[open] button:text-is('Replay what is chosen')");
  await until(page, "how far it is", () => /\d+ of \d+ messages replayed · .*\/s · about .* left/.test(document.getElementById("replay-run").textContent));
  for (const javaScriptEnabled of [true, false]) { // somebody else sees it too
    const other = await open({ javaScriptEnabled });
    await other.goto(url + "/queues/demo/payments");
    assert.match(await other.textContent("#work") + " while " + await page.textContent("#replay-run"), /^demo-operator replays dead-lettered messages.* of \d+ messages done/);
    assert.ok(await other.$("#work progress[value]"));
    if (javaScriptEnabled) await state(other, "somebody else's replay");
    await other.context().close();
  }
  await state(page, "progress", { screen: true, from: "#triage-title" });
  await until(page, "that it was replayed", () => /^Replayed \d+ messages?\.$/.test(document.getElementById("triage-said").textContent));
  await until(page, "the replay in the timeline", () => document.getElementById("events").textContent.includes("replayed by demo-operator"));
  for (const fact of ["Chosen", "Replayed", "Failed", "May have been sent", "Unseen"]) assert.ok(await page.$(`#replay-result dt:text-is('${fact}') + dd`), fact + " is not told");
  await state(page, "replay", { screen: true, from: "#triage-title" });
  await page.context().close();

  // On a phone nothing sticks out, and every queue is named.
  const phone = await open({ width: 375, height: 740, hasTouch: true, isMobile: true });
  for (const [name, path] of [["phone", "/"], ["phone-queue", "/queues/demo/payments"]]) {
    await phone.goto(url + path);
    await phone.waitForTimeout(600);
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + " is wider than a phone");
    if (path === "/") assert.ok(await phone.$eval("#rows th a", (a) => a.getBoundingClientRect().width > 60), "a queue's name has no room on a phone");
    await state(phone, name, { screen: true });
    if (path === "/") await state(phone, "phone-table", { screen: true, from: "#queues-title" });
  }
  await phone.evaluate((operator) => sessionStorage.setItem("qwatch-operator-token", operator), operator);
  await phone.click("#triage-load");
  await until(phone, "what died", () => document.querySelectorAll("#triage-out .entry").length >= 1);
  assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "triage is wider than a phone");
  await phone.click("#triage-choose");
  assert.ok(await phone.evaluate(() => { const d = document.querySelector("dialog[open]").getBoundingClientRect(); return d.left >= 0 && d.right <= innerWidth && d.top >= 0 && d.bottom <= innerHeight; }), "the question before a replay is larger than a phone");
  await state(phone, "phone-replay", { screen: true, from: "#triage-title" });
  await phone.click("dialog[open] button:text-is('Cancel')");
  await until(phone, "that nothing was begun", () => !document.querySelector("dialog[open]") && document.activeElement.id === "triage-choose");
  await phone.context().close();

  // It keeps itself up to date, unless it is told to hold.
  const still = await open();
  await still.goto(url + "/");
  await all(still);
  const before = await still.$eval("#rows", (t) => t.textContent);
  await until(still, "an update by itself", (before) => document.getElementById("rows").textContent !== before, before);
  await still.click("#hold");
  await until(still, "that it holds", () => document.getElementById("fresh").textContent.startsWith("paused"));

  // By keyboard alone: skip to the content, reach a queue, open it.
  await still.goto(url + "/");
  await still.keyboard.press("Tab");
  assert.equal(await still.evaluate(() => document.activeElement.className), "skip");
  await still.keyboard.press("Enter");
  await still.focus("#rows th a");
  const to = await still.evaluate(() => document.activeElement.getAttribute("href"));
  await still.keyboard.press("Enter");
  await still.waitForURL(url + to);

  // Without script it reads the same.
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(url + "/?sort=queue&q=re");
  assert.deepEqual((await plain.$$eval("#rows th a", (all) => all.map((a) => a.textContent))), ["demo/reminders", "demo/reports"]);
  await plain.click("#rows th a");
  assert.equal(await plain.textContent("h1"), "reminders");
  assert.ok(await plain.$("#charts svg, #charts p"));
  return { minor: [...new Set(found)] };
};
