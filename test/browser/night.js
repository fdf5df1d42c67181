// A bad night: the page says what is behind many queues before it shows them.
"use strict";
module.exports = async ({ open, shot, accessible, until, assert, options: { url, titles } }) => {
  for (const scheme of ["light", "dark"]) {
    const page = await open({ scheme });
    await page.goto(url + "/");
    await until(page, "every cause", (titles) => titles.every((t) => document.getElementById("cause-cards").textContent.includes(t)), titles);
    assert.ok(await page.evaluate(() => document.getElementById("cause-cards").compareDocumentPosition(document.getElementById("fleet")) & Node.DOCUMENT_POSITION_FOLLOWING), "causes come before the table");
    assert.match(await page.title(), /^\(\d+\) qwatch$/);
    await accessible(page, "a bad night, " + scheme);
    await shot(page, "night-" + scheme);
    await page.click("#cause-cards .links a");
    await until(page, "the queue's own story names it", (titles) => titles.some((t) => document.getElementById("findings").textContent.includes(t)), titles);
    await page.context().close();
  }
  return {};
};
