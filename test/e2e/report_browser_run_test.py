#!/usr/bin/env python3
"""The page of `dtc report` in a browser: headless Chromium renders it in light, dark, narrow and on paper. It must
print nothing on its console, fetch nothing, and draw something on each canvas. Only with DTC_LONG_TESTS, and where
Chromium is installed."""

import json
import os
import re
import shutil
import subprocess
import unittest

from driver import SOURCE, DriverTest, write_tokens
from report_run_test import MODEL, write_metrics

CHROMIUM = shutil.which("chromium")

# Runs after the page's own scripts and inspects the result. Colours of the palette are drawn, so a canvas with a single
# value is empty.
LOOK = """
<script nonce="dtc-report">
window.addEventListener("load", () => setTimeout(() => {
  const isDrawn = (canvas) => {
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return pixels.some((pixel) => pixel !== pixels[0]);
  };
  const canvases = [...document.querySelectorAll("canvas")];
  const seen = {canvases: canvases.length, empty: canvases.filter((canvas) => !isDrawn(canvas)).length,
    headings: [...document.querySelectorAll("h2")].map((heading) => heading.textContent),
    pictures: document.querySelectorAll(".pipeline svg rect title").length, wide: document.documentElement.scrollWidth > window.innerWidth, images: document.images.length,
    paper: getComputedStyle(document.body).backgroundColor};
  document.documentElement.setAttribute("data-seen", JSON.stringify(seen));
}, 100));
</script>
"""


@unittest.skipUnless(os.environ.get("DTC_LONG_TESTS"), "only with DTC_LONG_TESTS (scripts/test --all)")
@unittest.skipUnless(CHROMIUM, "there is no chromium")
class Browser(DriverTest):
    def browse(self, page, *arguments, size=(1280, 1600)):
        """Runs Chromium on a page; returns what it prints, and its messages."""
        done = subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
             f"--user-data-dir={self.directory / 'profile'}", f"--window-size={size[0]},{size[1]}",
             "--virtual-time-budget=5000", *arguments, f"file://{page}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def look(self, page, *arguments, **options):
        """The visible contents of a page, which must print nothing on the console."""
        copy = self.directory / "looked-at.html"
        copy.write_text(page.read_text().replace("</body>", LOOK + "</body>"))
        document, said = self.browse(copy, "--dump-dom", *arguments, **options)
        self.assertEqual(said, [])
        seen = re.search(r'data-seen="(.*?)"', document)
        self.assertIsNotNone(seen, document[-2000:])
        seen = json.loads(seen[1].replace("&quot;", '"').replace("&amp;", "&"))
        self.assertGreater(seen["canvases"], 3)
        self.assertEqual((seen["empty"], seen["images"]), (0, 0))
        self.assertFalse(seen["wide"], "it is wider than the window")
        return seen

    def check(self, page):
        light = self.look(page)
        dark = self.look(page, "--blink-settings=preferredColorScheme=0")
        narrow = self.look(page, size=(420, 900))
        self.assertEqual(light["headings"], dark["headings"])
        self.assertEqual(light["canvases"], narrow["canvases"])
        self.assertNotEqual(light["paper"], dark["paper"])
        sheet = self.directory / "sheet.pdf"
        _, said = self.browse(page, f"--print-to-pdf={sheet}", "--no-pdf-header-footer")
        self.assertEqual(said, [])
        self.assertGreater(sheet.stat().st_size, 20_000)
        return light

    def test_run(self):
        write_tokens(self.directory / "d.bin", 4000, 50)
        for name, rate in (("a", 0.0003), ("b", 0.001)):
            program = self.compile(name + ".program", MODEL, "--mesh", "dp=2,tp=2", steps=6, learning_rate=rate)
            self.dtc("run", program, "--data", self.directory / "d.bin", "--out", self.directory / name, "--threads", 1,
                     "--trace", "3-4")
        page = self.directory / "report.html"
        self.dtc("report", self.directory / "a", "-o", page)
        self.assertEqual(self.check(page)["headings"],
                         ["Timeline", "Training", "Memory", "Communication", "Load", "Shards", "Settings"])
        self.dtc("report", self.directory / "a", "--compare", self.directory / "b", "-o", page)
        self.assertIn("Two runs", self.check(page)["headings"])

    def test_pipeline(self):
        write_tokens(self.directory / "d.bin", 4000, 50)
        program = self.compile("a.program", MODEL, "--mesh", "pp=2", steps=4, accumulation=8, global_batch=16)
        self.dtc("run", program, "--data", self.directory / "d.bin", "--out", self.directory / "a", "--threads", 1,
                 "--trace", "2-3")
        page = self.directory / "report.html"
        self.dtc("report", self.directory / "a", "--cluster", SOURCE / "examples/clusters/two_cores.textproto", "-o", page)
        seen = self.check(page)
        self.assertIn("Pipeline", seen["headings"])
        self.assertEqual(seen["pictures"], 2 * 2 * 8 * 2)  # two pictures of two ranks with two passes a micro-batch

    def test_hostile_names_run_nothing(self):
        folder = self.directory / "<" / "script><img src=x onerror=\"document.title='caught'\">"
        folder.parent.mkdir()
        write_metrics(folder, 10000, lambda step: 3 + 1 / step)
        page = self.directory / "report.html"
        self.dtc("report", folder, "-o", page)
        self.check(page)
        document, _ = self.browse(page, "--dump-dom")
        self.assertNotIn("<title>caught", document)


if __name__ == "__main__":
    unittest.main()
