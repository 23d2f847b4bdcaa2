#!/usr/bin/env python3
"""dtc schedule: pictures, figures and files of timetables, and messages about those that do not work."""

import json
import os
import pty
import subprocess
import unittest
import xml.etree.ElementTree

from driver import DTC, TIMEOUT, DriverTest


class Schedule(DriverTest):
    def answer(self, *words):
        return json.loads(self.dtc("schedule", *words, "--json"))

    def refusal(self, text, *words):
        path = self.directory / "mine.csv"
        path.write_text(text)
        return self.dtc("schedule", "--timetable", path, *words, code=3)

    def test_figures_are_the_papers(self):
        answer = self.answer("--stages", 4, "--microbatches", 8)
        self.assertEqual([answer[key] for key in ["timetable", "stages", "micro_batches", "seconds", "work"]], ["1f1b", 4, 8, 33, 24])
        self.assertEqual(answer["bubble_overhead"], 3 / 8)
        self.assertEqual(answer["bubble_fraction"], 3 / 11)
        self.assertEqual([rank["peak_stashes"] for rank in answer["ranks"]], [4, 3, 2, 1])
        answer = self.answer("--stages", 8, "--microbatches", 32, "--timetable", "zbv")
        self.assertEqual((answer["seconds_without_barrier"], answer["work"]), (192, 192))
        self.assertEqual([rank["stages"] for rank in answer["ranks"]], [[0, 7], [1, 6], [2, 5], [3, 4]])
        self.assertEqual([rank["idle_without_barrier"] for rank in answer["ranks"]], [0] * 4)
        self.assertEqual(answer["weights_out_of_order"], "")

    def test_stages_and_ranks(self):
        for words, ranks in [(["--timetable", "interleaved"], 4), (["--timetable", "interleaved", "--ranks", 2], 2),
                             (["--timetable", "interleaved", "--stages-per-rank", 4], 2), (["--timetable", "gpipe", "--ranks", 2], 2)]:
            with self.subTest(words=words):
                answer = self.answer("--stages", 8, "--microbatches", 8, *words)
                self.assertEqual(len(answer["ranks"]), ranks)
                self.assertEqual(sum(len(rank["stages"]) for rank in answer["ranks"]), 8)
        for words, message in [(["--ranks", 3], "8 stages are not as many on each of 3 ranks"),
                               (["--stages-per-rank", 3], "8 stages are not as many on each rank, with 3 a rank"),
                               (["--timetable", "zbv", "--ranks", 8], "zbv takes 2 stages a rank, and there is 1"),
                               (["--timetable", "dualpipev"], "take more, or zbv")]:
            with self.subTest(words=words):
                self.assertIn(message, self.dtc("schedule", "--stages", 8, "--microbatches", 4, *words, code=3))
        self.assertIn("--microbatches is required", self.dtc("schedule", "--stages", 8, code=2))

    def test_times(self):
        slow = self.answer("--stages", 4, "--microbatches", 8, "--forward", 2, "--backward", 1.5, "--weight", 0.5, "--transfer", 0.25)
        self.assertEqual(slow["work"], 8 * 4)
        begins = [rank["entries"][0]["begin"] for rank in slow["ranks"]]
        self.assertEqual(begins, [0, 2.25, 4.5, 6.75])

    def test_a_picture_in_letters(self):
        lines = self.dtc("schedule", "--stages", 2, "--microbatches", 2).splitlines()
        self.assertEqual(lines[0], "rank 0 F0--F1--........B0------....B1------")
        self.assertTrue(lines[1].startswith("rank 1 ....F0--B0------F1--B1------"), lines[1])
        text = "\n".join(lines)
        for words in ["F forward", "1f1b: 2 stages on 2 ranks, 2 micro-batches", "bubble overhead     0.5 of a rank's work",
                      "bubble fraction     0.3333 of the step", "peak stashes"]:
            self.assertIn(words, text)

    def test_long_steps_fit_on_the_line(self):
        lines = self.dtc("schedule", "--stages", 16, "--microbatches", 200, "--timetable", "zbv").splitlines()
        rows = [line for line in lines if line.startswith("rank ")]
        self.assertEqual(len(rows), 8)
        self.assertLessEqual(max(map(len, rows)), 120)

    def test_a_picture_in_colours(self):
        main, worker = pty.openpty()
        subprocess.run([DTC, "schedule", "--stages", "2", "--microbatches", "2", "--timetable", "zb-h1"], stdout=worker, check=True,
                       timeout=TIMEOUT, env={**os.environ, "TERM": "xterm", "NO_COLOR": ""})
        os.close(worker)
        text = os.read(main, 100000).decode()
        os.close(main)
        for background in ["44", "46", "43"]:
            self.assertRegex(text, rf"\x1b\[(?:\d+;)?(?:97m\x1b\[)?{background}m")
        self.assertIn("\x1b[0m", text)

    def test_files_go_round(self):
        csv, picture = self.directory / "written.csv", self.directory / "picture.svg"
        first = self.answer("--stages", 8, "--microbatches", 10, "--timetable", "dualpipev", "--csv", csv, "-o", picture)
        self.assertEqual(csv.read_text().count("OVERLAP_F_B"), 41)
        self.assertEqual(csv.read_text().splitlines()[0].split(",")[17], "(0F7;7B3)OVERLAP_F_B")
        second = self.answer("--timetable", csv)
        for rank in range(4):
            self.assertEqual(first["ranks"][rank], second["ranks"][rank])
        root = xml.etree.ElementTree.parse(picture).getroot()
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(len(titles), 182)
        self.assertIn("0F0 (stage 0, micro-batch 0): 0 to 1", titles)

    def test_what_does_not_work_is_named(self):
        for text, message in [
                ("0F0,2F0,0B0,2B0\n1F0,3B0,3F0,1B0\n", "mine.csv: rank 1: 3B0 (stage 3, micro-batch 0) comes before 3F0, which it needs"),
                ("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n", "rank 0 waits at 0B0 (stage 0, micro-batch 0) for 1B0 of rank 1"),
                ("0F0,0I0\n", "mine.csv: rank 0: 0W0 (stage 0, micro-batch 0) is missing"),
                ("0F0,0Q0\n", "mine.csv: row 1, column 2: '0Q0': an entry is"), ("", "there are no entries")]:
            with self.subTest(text=text):
                self.assertIn(message, self.refusal(text))
        self.assertIn("at 0F1 (stage 0, micro-batch 1) it holds 2 stashes, and may hold 1",
                      self.refusal("0F0,0F1,0B0,0B1\n", "--memory-limit", 1))

    def test_weights_out_of_order_are_said(self):
        path = self.directory / "mine.csv"
        path.write_text("0F0,0F1,0B1,0B0\n")
        self.assertIn("0B0 (stage 0, micro-batch 0) adds its weight gradients after 0B1", self.dtc("schedule", "--timetable", path))
        self.assertIn("after 0B1", self.answer("--timetable", path)["weights_out_of_order"])

    def test_the_search(self):
        words = ["--stages", 4, "--microbatches", 8, "--timetable", "auto", "--transfer", 0.2, "--weight", 0.6]
        for limit in [1, 3, 5]:
            answer = self.answer(*words, "--memory-limit", limit)
            self.assertLessEqual(max(rank["peak_stashes"] for rank in answer["ranks"]), limit)
            self.assertLessEqual(answer["seconds"], answer["best_named"]["seconds"])
            self.assertEqual(answer, self.answer(*words, "--memory-limit", limit))
        self.assertRegex(self.dtc("schedule", *words), r"best named one +zb-h. takes")
        message = self.dtc("schedule", "--stages", 4, "--ranks", 2, "--microbatches", 8, "--timetable", "auto", "--memory-limit", 1, code=3)
        self.assertIn("no timetable fits in a memory limit of 1", message)

    def test_what_cannot_be_written(self):
        self.assertIn("/nowhere/x.svg", self.dtc("schedule", "--stages", 2, "--microbatches", 2, "-o", "/nowhere/x.svg", code=1))

    def test_the_examples_of_the_help(self):
        examples = [line.split()[2:] for line in self.dtc("schedule", "--help").splitlines() if line.startswith("  $ dtc schedule ")]
        self.assertEqual(len(examples), 4)
        for words in examples:
            with self.subTest(words=words):
                self.dtc(*words, cwd=self.directory)


if __name__ == "__main__":
    unittest.main()
