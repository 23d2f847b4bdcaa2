#!/usr/bin/env python3
"""An installation compiles and runs from anywhere, also after it was moved."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import driver
from driver import SANITIZED, SOURCE, DriverTest, write_tokens

BUILD = pathlib.Path(os.environ["DTC_BIN"]).parent


@unittest.skipIf(SANITIZED, "what sanitizers add is not installed")
class Install(DriverTest):
    def test_an_installation_works_wherever_it_lies(self):
        prefix, moved = self.directory / "prefix", self.directory / "moved"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        installed = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
        for name in ["bin/dtc", "libexec/dtc/dtc-compile", "libexec/dtc/dtc-program", "libexec/dtc/dtc-tokenize.py",
                     "libexec/dtc/dtc-sentencepiece", "share/doc/dtc/LICENSE",
                     "share/doc/dtc/CHANGELOG.md", "share/dtc/examples/gpt-small/config.json",
                     "share/bash-completion/completions/dtc", "share/zsh/site-functions/_dtc",
                     "share/fish/vendor_completions.d/dtc.fish"]:
            self.assertIn(name, installed)
        prefix.rename(moved)
        link = self.directory / "dtc"
        link.symlink_to(moved / "bin/dtc")
        data = write_tokens(self.directory / "tokens", 2000, 256)
        program = self.directory / "program"
        self.addCleanup(setattr, driver, "DTC", driver.DTC)
        # Nothing of the build or of the caller's environment can be found there.
        environment = {"PATH": "/usr/bin:/bin"}
        for dtc in [moved / "bin/dtc", link]:
            driver.DTC = str(dtc)
            self.dtc("compile", moved / "share/dtc/examples/gpt-small", "--mesh", "dp=2", "--set", "sequence_length=16",
                     "--set", "global_batch=4", "-o", program, cwd="/", env=environment)
            output = self.dtc("run", program, "--data", data, "--steps", 1, "--threads", 1, "--out",
                              self.directory / dtc.parent.name, cwd="/", env=environment)
            self.assertIn("step 1/1", output)
            (moved / "bin/dtc").stat()
        self.assertFalse(any(str(SOURCE).encode() in path.read_bytes() for path in [moved / "bin/dtc"]))
        (moved / "libexec/dtc/dtc-compile").unlink()
        self.assertIn("libexec/dtc/dtc-compile, which compiles: No such file", self.dtc("compile", "x", code=1))

    def test_links_of_installed_pages_lead_somewhere(self):
        prefix = self.directory / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        pages = prefix / "share/doc/dtc"
        self.assertTrue((pages / "docs/running.md").exists())
        self.assertEqual([path for path in pages.rglob("*") if path.is_dir() and not any(path.iterdir())], [])
        done = subprocess.run([SOURCE / "test/docs/links_test", pages], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_verb_has_a_manual_page(self):
        if not shutil.which("help2man"):
            self.skipTest("there is no help2man, so no pages are made")
        prefix = self.directory / "prefix"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        pages = {path.stem: path for path in (prefix / "share/man/man1").iterdir()}
        verbs = re.findall(r"^  (\w+) {2,}", self.dtc("--help").split("Subcommands:")[1].split("\n\n")[0], re.MULTILINE)
        parts = re.findall(r"^  (\w+) {2,}", self.dtc("data", "--help").split("Subcommands:")[1].split("\n\n")[0], re.MULTILINE)
        names = [[], *([verb] for verb in verbs), *(["data", part] for part in parts)]
        self.assertEqual(sorted(pages), sorted("-".join(["dtc", *words]) for words in names))
        for words in names:
            page = pages["-".join(["dtc", *words])]
            with self.subTest(page=page.name):
                self.assertIn(f'{page.stem} - ', self.answer("lexgrog", page))  # as apropos and whatis read it
                self.assertEqual(self.answer("groff", "-man", "-Tutf8", "-ww", "-z", page, stderr=subprocess.STDOUT), "")
                plain = lambda text: re.sub(r"[\s-]+", "", re.sub(r"\x1b\[\d*m|.\x08", "", text))  # lines are broken elsewhere
                shown = plain(self.answer("groff", "-man", "-Tascii", page))
                for line in self.dtc(*words, "--help").splitlines():
                    if not line.endswith(":"):  # a heading
                        self.assertIn(plain(line.removeprefix("Usage:")), shown)
                self.assertIn("EXAMPLES$dtc", shown)

    def answer(self, *command, **options):
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout

    def test_the_packages_of_an_installation_are_listed(self):
        listed = re.search(r"^runtime=\((.*)\)$", (SOURCE / "scripts/install").read_text(), re.MULTILINE)[1].split()
        loaded = set()
        for name in ["dtc", "dtc-compile", "dtc-program", "dtc-sentencepiece"]:
            lines = subprocess.run(["ldd", BUILD / "bin" / name], check=True, text=True, stdout=subprocess.PIPE).stdout
            direct = subprocess.run(["llvm-readelf-22", "--needed-libs", BUILD / "bin" / name], check=True, text=True,
                                    stdout=subprocess.PIPE).stdout
            for library, path in re.findall(r"^\s*(\S+) => (/\S+)", lines, re.MULTILINE):
                if library in direct.split():
                    loaded.add(self.package_of(pathlib.Path(path)))
        self.assertEqual(sorted(loaded), listed)

    def package_of(self, library):
        # dpkg knows a file by the path it was unpacked to: before or after /lib became a link to /usr/lib.
        real = library.resolve()
        for path in [real, str(real).removeprefix("/usr")]:
            answer = subprocess.run(["dpkg", "-S", path], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            if answer:
                return answer.split(":")[0]
        self.fail(f"no package has {library}")


if __name__ == "__main__":
    unittest.main()
