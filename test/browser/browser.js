// Runs a scenario in Chromium: node browser.js SCENARIO, with what it needs in the environment. What the
// scenario returns is printed as JSON; what fails in it fails the process.
"use strict";
const fs = require("fs"), path = require("path"), assert = require("assert/strict");
const { CHROMIUM, MODULES, SHOTS, OPTIONS } = process.env;
const { chromium } = require(path.join(MODULES, "playwright-core"));
const axe = fs.readFileSync(path.join(MODULES, "axe-core", "axe.min.js"), "utf8");

async function main() {
  const browser = await chromium.launch({
    executablePath: path.join(CHROMIUM, "usr/lib/chromium/chromium"),
    env: { PATH: process.env.PATH, HOME: process.env.HOME, LD_LIBRARY_PATH: path.join(CHROMIUM, "lib"), FONTCONFIG_FILE: path.join(CHROMIUM, "fonts.conf") },
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const faults = [], asked = new Set();
  // open returns a page that notes every fault and every address it asks for; lost, it may go where there is nothing.
  async function open({ scheme = "light", width = 1280, height = 860, lost = false, ...more } = {}) {
    const told = lost ? /status of (400|401|403|404|429|503)/ : /status of (401|403|429|503)/;
    const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height }, ...more });
    context.setDefaultTimeout(15000);
    await context.addInitScript(() => addEventListener("securitypolicyviolation", (e) => console.error("policy violated: " + e.violatedDirective + " " + e.blockedURI)));
    const page = await context.newPage();
    page.on("pageerror", (e) => faults.push("script: " + e.message));
    page.on("console", (m) => { if (m.type() === "error" && !told.test(m.text())) faults.push("console: " + m.text()); });
    page.on("request", (r) => asked.add(new URL(r.url()).origin));
    page.on("dialog", (d) => { faults.push("a dialog: " + d.message()); d.dismiss(); });
    return page;
  }
  // shot keeps a picture of the whole page; of what is on the screen with `screen`, beginning at the element `from`.
  async function shot(page, name, { screen = false, from = "" } = {}) {
    if (!SHOTS) return;
    await page.evaluate((from) => {
      const bar = document.querySelector(".bar").getBoundingClientRect().height;
      scrollTo(0, from ? document.querySelector(from).getBoundingClientRect().top + scrollY - bar - 12 : 0);
    }, from);
    await page.screenshot({ path: path.join(SHOTS, name + ".png"), fullPage: !screen });
  }
  // accessible fails on whatever axe-core finds that is serious.
  async function accessible(page, where) {
    const found = await page.evaluate(axe + ";axe.run(document, {resultTypes: ['violations']})");
    const serious = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
    assert.deepEqual(serious.map((v) => `${where}: ${v.id} (${v.impact}): ${v.nodes[0].html.slice(0, 300)} ${v.nodes[0].failureSummary}`), [], where);
    return found.violations.map((v) => v.id);
  }
  const until = async (page, what, fn, arg) => { try { await page.waitForFunction(fn, arg); } catch (e) { throw new Error("never: " + what + "\n" + e.message + "\n" + (await page.evaluate(() => document.body.innerText)).slice(0, 3000)); } };
  const options = JSON.parse(OPTIONS);
  try {
    const result = await require(path.join(__dirname, process.argv[2]))({ open, shot, accessible, until, assert, options });
    assert.deepEqual(faults, [], "faults in the browser");
    assert.deepEqual([...asked], [options.url], "requests to other origins");
    console.log(JSON.stringify(result || {}));
  } finally {
    await browser.close();
  }
}
main().catch((e) => { console.error(e); process.exit(1); });
