// Ten thousand queues: how soon the page is painted, what an update costs its main thread, how much is sent.
"use strict";
module.exports = async ({ open, shot, accessible, until, assert, options: { url, queues } }) => {
  const paints = [], pages = [];
  for (let i = 0; i < 4; i++) {
    const page = await open();
    const [response] = await Promise.all([page.waitForResponse((r) => r.url() === url + "/"), page.goto(url + "/")]);
    await until(page, "paint", () => performance.getEntriesByName("first-contentful-paint").length);
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    pages.push((await response.request().sizes()).responseBodySize);
    await page.context().close();
  }

  const page = await open();
  await page.goto(url + "/");
  await until(page, "rows", () => document.querySelectorAll("#rows tr[aria-rowindex]").length >= 100);
  assert.equal(await page.getAttribute("#fleet", "aria-rowcount"), String(queues + 1));
  await page.click("#hold");
  // What the page's process works, all its threads together: the main thread's share is less. Time as such
  // would count what the machine does besides.
  const cdp = await page.context().browser().newBrowserCDPSession();
  const worked = async () => (await cdp.send("SystemInfo.getProcessInfo")).processInfo.filter((p) => p.type === "renderer").reduce((sum, p) => sum + p.cpuTime * 1000, 0);
  const updates = 10, answers = [];
  await page.evaluate(() => window.qwatchPage.update());
  const before = await worked();
  for (let i = 0; i < updates; i++) {
    await page.waitForTimeout(1100); // the server makes a new view once a second
    const [response] = await Promise.all([page.waitForResponse((r) => r.url().includes("/view/fleet")), page.evaluate(async () => {
      await window.qwatchPage.update();
      await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
    })]);
    answers.push((await response.request().sizes()).responseBodySize);
  }

  const update = (await worked() - before) / updates;

  // Rows come as they scroll into view, and the table is as long as the fleet.
  const dom = await page.$$eval("#rows tr", (all) => all.length);
  assert.ok(dom < 200, dom + " rows in the document");
  await page.click("#heads a:text-is('Queue')");
  await until(page, "the first by name", () => document.querySelector("#rows th a")?.textContent === "big/q00000");
  const began = Date.now();
  await page.evaluate((n) => { const top = document.getElementById("rows").getBoundingClientRect().top + scrollY; scrollTo(0, top + n * document.querySelector("#rows tr[aria-rowindex]").getBoundingClientRect().height); }, queues / 2);
  await until(page, "the middle of the fleet", (name) => [...document.querySelectorAll("#rows th a")].some((a) => a.textContent === name && a.getBoundingClientRect().top < innerHeight), "big/q0" + queues / 2);
  const scrolled = Date.now() - began;
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await until(page, "the last queue", (name) => [...document.querySelectorAll("#rows th a")].some((a) => a.textContent === name), "big/q0" + (queues - 1));
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.evaluate(() => scrollTo(0, 0));
  await page.fill("#q", "q01234");
  await until(page, "the one that was looked for", () => document.getElementById("found").textContent === "1 of 10,000 queues");
  await page.fill("#q", "");
  await page.click("#heads a:text-is('Messages')");
  await until(page, "the deepest first", () => document.querySelector("#rows tr[aria-rowindex] td.c-messages")?.textContent?.startsWith("9"));
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await accessible(page, "fleet of 10,000, " + scheme);
    await shot(page, "fleet-10000-" + scheme, { screen: true }); // all of it is half a million pixels high
  }
  return { paint: Math.min(...paints), paints, update, page: Math.max(...pages), answer: Math.max(...answers), scrolled, height, dom, measured: await page.evaluate(() => performance.getEntriesByName('update').map((e) => Math.round(e.duration)).join(' ')) };
};
