// The page of a running demo: the fleet, sorting, filtering, a queue's story, light and dark, on a phone,
// by keyboard and without script.
"use strict";
module.exports = async ({ open, shot, accessible, until, assert, options: { url, operator } }) => {
  const found = [];
  for (const scheme of ["light", "dark"]) {
    const page = await open({ scheme });
    await page.goto(url + "/");
    await until(page, "rows of the script's making", () => document.querySelectorAll("#rows tr[aria-rowindex]").length === 7);
    await until(page, "sparklines", () => document.querySelectorAll("#rows svg").length >= 5);
    found.push(...await accessible(page, "fleet " + scheme));
    await shot(page, "fleet-" + scheme);
    await page.goto(url + "/queues/demo/payments");
    await until(page, "charts", () => document.querySelectorAll("#charts svg").length === 3);
    await until(page, "reasons of dead-letters", () => document.querySelectorAll("#clusters a").length >= 1);
    found.push(...await accessible(page, "queue " + scheme));
    await shot(page, "queue-" + scheme);
    await page.context().close();
  }

  const page = await open();
  await page.goto(url + "/");
  const names = () => page.$$eval("#rows tr[aria-rowindex] th a", (all) => all.map((a) => a.textContent.trim()));
  const sorted = (want) => until(page, "rows in order " + want, (want) => [...document.querySelectorAll("#rows tr[aria-rowindex] th a")].map((a) => a.textContent).join() === want, want);
  await until(page, "rows", () => document.querySelectorAll("#rows tr[aria-rowindex]").length === 7);
  await page.click("#heads a:text-is('Queue')");
  await sorted("demo/audit,demo/emails,demo/orders,demo/payments,demo/reminders,demo/reports,demo/shipping");
  assert.equal(await page.getAttribute("#heads th:has-text('Queue')", "aria-sort"), "ascending");
  await page.click("#heads a:text-is('Queue')");
  await sorted("demo/shipping,demo/reports,demo/reminders,demo/payments,demo/orders,demo/emails,demo/audit");
  assert.match(page.url(), /sort=queue/, "the address keeps the order");
  await page.click("#heads a:text-is('Messages')");
  await until(page, "audit has the most messages", () => document.querySelector("#rows tr[aria-rowindex] th a")?.textContent === "demo/audit" || document.querySelector("#rows tr[aria-rowindex] th a")?.textContent === "demo/emails");
  await page.fill("#q", "rep");
  await sorted("demo/reports");
  await until(page, "the number that was found", () => document.getElementById("found").textContent === "1 of 7 queues");
  await page.fill("#q", "nosuch");
  await until(page, "that nothing matches", () => document.getElementById("none"));
  await page.fill("#q", "");
  await until(page, "all rows again", () => document.querySelectorAll("#rows tr[aria-rowindex]").length === 7);
  await page.reload(); // the order comes back with the address
  await until(page, "the order after a reload", () => document.querySelector("#heads [aria-sort=descending]"));

  // It keeps itself up to date, unless it is told to hold.
  const orders = () => page.$eval("#rows", (t) => t.textContent);
  const before = await orders();
  await until(page, "an update by itself", (before) => document.getElementById("rows").textContent !== before, before);
  await page.click("#hold");
  await until(page, "that it holds", () => document.getElementById("fresh").textContent.startsWith("paused"));

  // By keyboard alone: skip to the content, reach a queue, open it.
  await page.goto(url + "/");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  await page.focus("#rows th a");
  const to = await page.evaluate(() => document.activeElement.getAttribute("href"));
  await page.keyboard.press("Enter");
  await page.waitForURL(url + to);

  // What messages died of, for an operator alone: refused without a token and with a wrong one, then a replay.
  await page.goto(url + "/queues/demo/payments");
  await page.click("#triage-load");
  await page.click("#signin button[type=submit]");
  await until(page, "that a token is wanted", () => document.getElementById("signin-error").textContent !== "");
  await page.fill("#token", "wrong-horse-battery-staple");
  await page.click("#signin button[type=submit]");
  await until(page, "that it is refused", () => document.getElementById("signin-error").textContent.includes("not valid"));
  assert.equal(await page.$$eval("#triage-out .entry", (all) => all.length), 0);
  assert.equal((await page.request.get(url + "/api/v1/poison/demo/payments")).status(), 401);
  assert.equal((await page.request.post(url + "/api/v1/poison/demo/payments/replay")).status(), 401);
  await page.fill("#token", operator);
  await page.click("#signin button[type=submit]");
  await until(page, "what died", () => document.querySelectorAll("#triage-out .entry").length >= 5);
  found.push(...await accessible(page, "triage"));
  await page.click("#triage-out summary");
  await page.click("#triage-out details[open] button:text-matches('^Replay .* of this reason$')");
  await page.click("dialog[open] button:text-matches('^Replay ')");
  await until(page, "that it was replayed", () => /^Replayed \d+ message/.test(document.getElementById("triage-said").textContent));
  await until(page, "the replay in the timeline", () => document.getElementById("events").textContent.includes("replayed by demo-operator"));

  // On a phone nothing sticks out, and every queue is named.
  const phone = await open({ width: 375, height: 740, hasTouch: true, isMobile: true });
  for (const [name, path] of [["fleet", "/"], ["queue", "/queues/demo/payments"]]) {
    await phone.goto(url + path);
    await phone.waitForTimeout(600);
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + " is wider than a phone");
    found.push(...await accessible(phone, name + " on a phone"));
    await shot(phone, name + "-phone");
  }
  await phone.goto(url + "/");
  assert.ok(await phone.$eval("#rows th a", (a) => a.getBoundingClientRect().width > 60), "a queue's name has no room on a phone");

  // Without script it reads the same.
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(url + "/?sort=queue&q=re");
  assert.deepEqual((await plain.$$eval("#rows th a", (all) => all.map((a) => a.textContent))), ["demo/reminders", "demo/reports"]);
  await plain.click("#rows th a");
  assert.equal(await plain.textContent("h1"), "reminders");
  assert.ok(await plain.$("#charts svg, #charts p"));
  return { names: await names().catch(() => []), minor: [...new Set(found)] };
};
