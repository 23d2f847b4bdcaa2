#!/usr/bin/env python3
"""The page of `dtc report`: its contents, compared with metrics, trace and program of real runs."""

import json
import math
import os
import re
import signal
import time
import unittest
import xml.etree.ElementTree

from driver import SANITIZED, SOURCE, DriverTest, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
TWO_CORES = SOURCE / "examples/clusters/two_cores.textproto"
LOSS = "loss_metrics/global_avg_loss"
MOST_BYTES = 5_000_000


def data_of(page):
    """The object that a page draws."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(),
                                re.DOTALL).group(1))


def write_metrics(folder, steps, value):
    """Lines as a run on four ranks writes them; value(step) is the loss."""
    folder.mkdir()
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(1, steps + 1):
            line = {"step": step, "time": "2026-03-01T12:00:05.250Z", LOSS: value(step), "grad_norm": 1 + 1 / step,
                    "lr": 3e-4, "n_tokens_seen": 1024 * step, "throughput(tps)": 4000.0 + step % 7, "tflops": 0.1,
                    "mfu(%)": 30.0, "time_metrics/end_to_end(s)": 0.25, "time_metrics/data_loading(s)": 1e-5,
                    "time_metrics/data_loading(%)": 0.004, "memory/max_active(GiB)": 0.5,
                    "memory/max_reserved(GiB)": 0.6}
            file.write(json.dumps(line) + "\n")
    return folder


class Report(DriverTest):
    def report(self, out, *arguments):
        """Writes the page and returns its object."""
        page = self.directory / "report.html"
        self.dtc("report", out, "-o", page, *arguments)
        self.assertLess(page.stat().st_size, MOST_BYTES)
        return data_of(page)

    def run_model(self, name, *arguments, mesh="tp=2", model=MODEL, **settings):
        data = self.directory / "d.bin"
        if not data.exists():
            write_tokens(data, 4000, 50)
        program = self.compile(name + ".program", model, "--mesh", mesh, steps=6, **settings)
        self.dtc("run", program, "--data", data, "--out", self.directory / name, "--threads", 1, *arguments)
        return program, self.directory / name

    def test_page_shows_what_metrics_program_and_trace_say(self):
        program, out = self.run_model("a", "--trace", "3-4", mesh="dp=2,tp=2")
        data = self.report(out)
        run, = data["runs"]
        self.assertEqual((run["steps_done"], run["steps_planned"], run["state"], run["remarks"]), (6, 6, "", []))
        lines = self.metrics("a")
        for key in (LOSS, "lr", "grad_norm", "throughput(tps)"):
            self.assertEqual(run["metrics"][key], {"steps": [line["step"] for line in lines],
                                                   "values": [line[key] for line in lines], "of": 6})
        self.assertIn("validation_metrics/loss", run["metrics"])
        inspected = json.loads(self.dtc("inspect", program, "--json"))
        self.assertEqual(run["program"]["parameters"], inspected["parameters"])
        self.assertEqual(run["program"]["mesh"], inspected["mesh"])
        self.assertEqual(run["settings"]["optimizer"], inspected["settings"]["optimizer"])
        self.check_memory(data, inspected)
        self.check_communication(data, json.loads(self.dtc("explain", program, "--json")))
        self.check_timeline(data, json.loads((out / "trace.json").read_text())["traceEvents"])
        self.check_shards(data, inspected)
        self.assertNotIn("pipeline", data)
        # The same object for programs.
        answer = json.loads(self.dtc("report", out, "--json"))
        self.assertEqual(answer, data)

    def check_memory(self, data, inspected):
        role, = data["memory"]
        self.assertEqual((role["plan"], role["arena_bytes"]),
                         (inspected["roles"][0]["memory"], inspected["roles"][0]["arena_bytes"]))
        over = role["over_time"]
        self.assertEqual(over["unit"], "microseconds")
        self.assertEqual(over["at"], sorted(over["at"]))
        always = sum(role["always"].values())
        totals = [always + sum(at) for at in zip(*over["bytes"].values())]
        # More than what is always allocated, and never more than the arena.
        self.assertGreater(max(totals), always)
        self.assertLessEqual(max(totals), role["arena_bytes"])
        for name, values in over["bytes"].items():
            self.assertLessEqual(max(values), role["plan"][name])
            self.assertGreater(max(values), 0.8 * role["plan"][name], name)

    def check_communication(self, data, explained):
        expected = {}
        for each in explained["collectives"]:
            if each["times_per_step"]:
                row = expected.setdefault((each["kind"], each["axes"], each["bytes"]), [0, each["sent_bytes"]])
                row[0] += each["times_per_step"]
        found = {(row["kind"], row["axes"], row["bytes"]): [row["times_a_step"], row["sent_bytes"]]
                 for row in data["communication"]}
        self.assertEqual(found, expected)
        for row in data["communication"]:
            self.assertGreater(row["seconds"], 0)

    def check_timeline(self, data, events):
        timeline = data["timeline"]
        self.assertEqual([row["rank"] for row in timeline["rows"]], [0, 1, 2, 3])
        self.assertEqual([step["step"] for step in timeline["steps"]], [3, 4])
        kernels = {"forward", "input gradient", "weight gradient", "update", "other kernels"}
        for row in timeline["rows"]:
            compute, computed = row["lanes"][0], 0
            self.assertEqual(compute["name"], "compute")
            for kind, length in zip(compute["kind"], compute["length"]):
                computed += length / 10 if timeline["kinds"][kind] in kernels else 0
            traced = sum(event["dur"] for event in events
                         if event["ph"] == "X" and event["pid"] == row["rank"] and event["cat"] == "kernel")
            self.assertAlmostEqual(computed, traced, delta=0.02 * traced)
        for its in data["load"]["ranks"]:
            traced = sum(event["dur"] for event in events
                         if event["ph"] == "X" and event["pid"] == its["rank"] and event["cat"] == "kernel")
            self.assertAlmostEqual(its["compute"], traced / 2 / 1e6, delta=1e-9 + 0.01 * its["compute"])

    def check_shards(self, data, inspected):
        """Each rank holds one part of each parameter; parts have the size that a rank stores."""
        count = 0
        for parameter in data["sharding"]:
            count += parameter["count"]
            parts = math.prod(dim["parts"] for dim in parameter["dims"])
            self.assertEqual(len(parameter["parts"]), parts)
            for dim, local in zip(parameter["dims"], parameter["local_shape"]):
                self.assertEqual(local, -(-dim["size"] // dim["parts"]))
        self.assertEqual(count, len(inspected["tensors"]))
        split = next(each for each in data["sharding"] if each["name"].endswith("mlp.c_fc.weight"))
        self.assertEqual([part["ranks"] for part in split["parts"]], ["0, 2", "1, 3"])
        whole = next(each for each in data["sharding"] if each["name"] == "wpe.weight")
        self.assertEqual([part["ranks"] for part in whole["parts"]], ["0-3"])

    def test_what_a_cluster_file_foretells_is_drawn_above(self):
        _, out = self.run_model("a", "--trace", "3-4", mesh="dp=2,tp=2")
        data = self.report(out, "--cluster", TWO_CORES)
        rows = [(row["rank"], row["source"]) for row in data["timeline"]["rows"]]
        self.assertEqual(rows[:2], [(0, "predicted"), (0, "measured")])
        self.assertEqual(sum(source == "predicted" for _, source in rows), 1)  # of one class of ranks
        self.assertIn("dtc_gemm", {row["class"] for row in data["residuals"]})
        for row in data["residuals"]:
            self.assertGreater(row["predicted"] + row["measured"], 0)
        (out / "manifest.pb").unlink()
        self.assertIn("has no manifest.pb, which --cluster takes", self.refused("report", out, "--cluster", TWO_CORES))

    def draw_pipeline(self, mesh, timetable, stages):
        """Compares both pictures of a run with its timetable; returns the run's folder and the page's object."""
        model = self.make_folder(f"{timetable}.model")
        config = json.loads((MODEL / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "n_layer": stages}))
        data = write_tokens(self.directory / "d.bin", 4000, 50)
        program = self.compile(f"{timetable}.program", model, "--mesh", mesh, "--timetable", timetable, steps=4,
                               accumulation=4, global_batch=16)
        out = self.directory / timetable
        self.dtc("run", program, "--data", data, "--out", out, "--threads", 1, "--trace", "2-3")
        data = self.report(out, "--cluster", TWO_CORES)
        self.assertEqual(data["runs"][0]["remarks"], [])
        pipeline = data["pipeline"]
        self.assertEqual((pipeline["timetable"], pipeline["stages"]), (timetable, stages))
        ideal = json.loads(self.dtc("schedule", "--timetable", timetable, "--stages", stages, "--ranks", 2,
                                    "--microbatches", 4, "--json"))
        widths = set()
        for source, steps in (("predicted", {1}), ("measured", {2, 3})):
            with self.subTest(source=source):
                step = pipeline[source]
                self.assertIn(step["step"], steps)
                self.assertEqual([rank["rank"] for rank in step["ranks"]], [0, 1])
                widths.add(self.check_pipeline(step, ideal))
        self.assertEqual(len(widths), 1)
        return out, data

    def test_several_stages_of_a_rank_are_drawn_in_one_row(self):
        for timetable in ("interleaved", "zbv"):
            self.draw_pipeline("pp=2", timetable, 4)

    def test_a_pipeline_is_drawn_as_predicted_and_as_measured(self):
        out, data = self.draw_pipeline("dp=2,pp=2", "zb-h1", 2)
        pipeline = data["pipeline"]
        # Either is drawn alone too, and a trace of something else is reported.
        alone = self.report(out)["pipeline"]
        self.assertNotIn("predicted", alone)
        self.assertEqual(alone["measured"]["ranks"], pipeline["measured"]["ranks"])
        trace = (out / "trace.json").read_text()
        (out / "trace.json").unlink()
        self.assertNotIn("pipeline", self.report(out))
        alone = self.report(out, "--cluster", TWO_CORES)["pipeline"]
        self.assertNotIn("measured", alone)
        self.assertEqual(alone["predicted"]["ranks"], pipeline["predicted"]["ranks"])
        (out / "trace.json").write_text(trace.replace('"micro.forward.1"', '"other"'))
        data = self.report(out)
        self.assertNotIn("pipeline", data)
        self.assertIn("the measured pipeline is not shown", " ".join(data["runs"][0]["remarks"]))

    def check_pipeline(self, step, ideal):
        """The passes of a step, compared with those of its timetable; returns the width of its picture."""
        for rank, expected in zip(step["ranks"], ideal["ranks"]):
            self.assertEqual(rank["stages"], expected["stages"])
            self.assertEqual([each["entry"] for each in rank["entries"]],
                             [each["entry"] for each in expected["entries"]])
            self.assertAlmostEqual(rank["work"] + rank["idle"], step["seconds"], delta=1e-9)
            end = 0
            for each in rank["entries"]:
                self.assertGreaterEqual(each["begin"], end)
                self.assertGreater(each["end"], each["begin"])
                end = each["end"]
        first, second = (rank["entries"][0] for rank in step["ranks"])
        self.assertEqual(first["begin"], 0)
        self.assertGreater(second["begin"], 0)
        idle = sum(rank["idle"] for rank in step["ranks"]) / 2
        self.assertAlmostEqual(step["bubble_overhead"], idle / step["work"])
        self.assertAlmostEqual(step["bubble_fraction"], idle / step["seconds"])
        picture = xml.etree.ElementTree.fromstring(step["svg"])
        texts = "".join(text.text for text in picture.iter("{http://www.w3.org/2000/svg}text"))
        self.assertRegex(texts, f"{ideal['stages']} stages, 2 ranks, 4 micro-batches: bubble overhead [0-9.]+, fraction "
                                "0[0-9.]+")
        titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(len(titles), sum(len(rank["entries"]) for rank in ideal["ranks"]))
        self.assertRegex(titles[0], r"^0F0 \(stage 0, micro-batch 0\): 0 to [0-9.e-]+ ms$")
        return picture.get("width")

    def test_without_a_trace_the_page_says_how_to_get_one(self):
        _, out = self.run_model("a")
        data = self.report(out)
        self.assertNotIn("timeline", data)
        self.assertNotIn("load", data)
        self.assertEqual(data["memory"][0]["over_time"]["unit"], "commands")
        remark, = data["runs"][0]["remarks"]
        self.assertIn("--trace 10-11", remark)

    def test_run_that_ended_half_way_shows_what_is_there(self):
        write_tokens(self.directory / "d.bin", 4000, 50)
        program = self.compile("p", MODEL, "--mesh", "tp=2", steps=100000, checkpoint_every=2)
        out = self.directory / "a"
        job = self.start("run", program, "--data", self.directory / "d.bin", "--out", out, "--threads", 1, "--set",
                         "keep=2")
        self.await_output("checkpoint: ")
        going = self.report(out)["runs"][0]
        self.assertRegex(going["state"], r"^The run goes on: \d+ of 100000 steps are done\.$")
        os.kill(self.children(job)[0], signal.SIGKILL)
        job.wait(timeout=60)
        with open(out / "metrics.jsonl", "a") as file: # as after a full disk or a lost host
            file.write('{"step": 12, "loss_metr')
        run = self.report(out)["runs"][0]
        done = run["steps_done"]
        self.assertEqual(run["metrics"][LOSS]["steps"][-1], done)
        self.assertRegex(run["state"], rf"^The run ended at step {done} of 100000: what was recorded is drawn\. "
                                       r"Its newest checkpoint is of step \d+; 'dtc run PROGRAM --data FILE --resume ")
        self.assertEqual([remark for remark in run["remarks"] if "damaged" in remark],
                         ["metrics.jsonl has 1 damaged line, left out here."])

    def test_names_are_harmless(self):
        _, out = self.run_model("a", "--trace", "2")
        hostile = self.directory / '<' / 'script><img src=x onerror=alert(1)>"\'&<!--'
        hostile.parent.mkdir()
        out.rename(hostile)
        trace = json.loads((hostile / "trace.json").read_text())
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                event["name"] = "</script><img src=x onerror=alert(1)>"
        (hostile / "trace.json").write_text(json.dumps(trace))
        data = self.report(hostile)
        self.assertEqual(data["runs"][0]["folder"], str(hostile))
        self.assertIn("</script><img src=x onerror=alert(1)> · wte", data["timeline"]["names"])
        text = (self.directory / "report.html").read_text()
        begin = text.index('id="data">') + len('id="data">')
        self.assertNotIn("<", text[begin:text.index("</script>", begin)])
        self.assertNotIn("<img", text)
        self.assertEqual(text.count("</script>"), 3)
        # Nothing is fetched, and a name cannot become HTML through the script.
        self.assertIn("default-src 'none'", text)
        script = "".join(path.read_text() for path in (SOURCE / "tools/dtc/report").glob("*.js"))
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            self.assertNotIn(word, script)

    def test_ten_thousand_steps_are_thinned_and_keep_their_peaks(self):
        spikes = {4321: 99.0, 7777: -50.0}
        out = write_metrics(self.directory / "a", 10000, lambda step: spikes.get(step, 3 + math.sin(step)))
        begin = time.monotonic()
        data = self.report(out)
        self.assertLess(time.monotonic() - begin, 60 if SANITIZED else 5)
        series = data["runs"][0]["metrics"][LOSS]
        self.assertEqual(series["of"], 10000)
        self.assertLessEqual(len(series["steps"]), 2000)
        self.assertEqual((series["steps"][0], series["steps"][-1]), (1, 10000))
        self.assertEqual(series["steps"], sorted(set(series["steps"])))
        drawn = dict(zip(series["steps"], series["values"]))
        for step, value in spikes.items():
            self.assertEqual(drawn[step], value)

    def test_many_ranks_fit_into_a_page(self):
        out = write_metrics(self.directory / "a", 10, lambda step: 3.0)
        events = []
        for rank in range(64):
            events.append({"name": "thread_name", "ph": "M", "pid": rank, "tid": 0, "args": {"name": "compute"}})
            at = 0.0
            for i in range(4000):
                length = 3 + (i * 7 + rank) % 11
                direction = "forward" if i % 500 < 300 else "weight gradient"
                events.append({"ph": "X", "pid": rank, "tid": 0, "ts": at, "dur": length, "name": f"kernel_{i % 40}",
                               "cat": "kernel", "args": {"list": "micro", "command": i, "direction": direction}})
                at += length + 0.5
            events.append({"ph": "X", "pid": rank, "tid": 100, "ts": 0, "dur": at, "name": "step 1", "cat": "step"})
        (out / "trace.json").write_text(json.dumps({"traceEvents": events}))
        data = self.report(out)
        rows = data["timeline"]["rows"]
        self.assertEqual(len(rows), 64)
        # Each slice is drawn or counted, and the bars last as long as the slices.
        for row in rows:
            lane, = row["lanes"]
            self.assertEqual(sum(lane["slices"]), 4000)
            self.assertLess(len(lane["after"]), 4000)
        self.assertLess((self.directory / "report.html").stat().st_size, MOST_BYTES)

    def test_two_runs_are_drawn_side_by_side(self):
        self.run_model("a")
        self.run_model("b", mesh="dp=2", learning_rate=0.001)
        data = self.report(self.directory / "a", "--compare", self.directory / "b")
        self.assertEqual([run["folder"] for run in data["runs"]], [str(self.directory / name) for name in "ab"])
        self.assertEqual([run["metrics"][LOSS]["values"] for run in data["runs"]],
                         [[line[LOSS] for line in self.metrics(name)] for name in "ab"])
        differences = {each["what"]: each["values"] for each in data["differences"]}
        self.assertEqual(differences["learning_rate"][1], 0.001)
        self.assertEqual(differences["mesh"], [{"tp": 2}, {"dp": 2}])
        self.assertNotIn("model", differences)
        self.run_model("c", model=SOURCE / "test/e2e/oracle/llama")
        data = self.report(self.directory / "a", "--compare", self.directory / "c")
        self.assertEqual({each["what"]: each["values"] for each in data["differences"]}["model"], ["gpt2", "llama"])

    def test_what_is_no_run_is_refused(self):
        (self.directory / "empty").mkdir()
        (self.directory / "file").write_text("x")
        self.assertIn("there is no such folder", self.refused("report", self.directory / "missing"))
        self.assertIn("neither metrics.jsonl nor settings.toml", self.refused("report", self.directory / "empty"))
        self.assertIn("is a file", self.refused("report", self.directory / "file"))
        out = write_metrics(self.directory / "a", 3, lambda step: 3.0)
        self.assertIn("not the folder of a run", self.refused("report", out, "--compare", self.directory / "empty", "-o",
                                                              self.directory / "r.html"))
        self.assertFalse((self.directory / "r.html").exists())
        # What cannot be read of a run is reported, and the rest is drawn.
        (out / "trace.json").write_text('{"traceEvents": [{')
        (out / "manifest.pb").write_text("no manifest")
        (out / "settings.toml").write_text("[training\n")
        remarks = " ".join(self.report(out)["runs"][0]["remarks"])
        for words in ("The settings cannot be read", "The description of the program cannot be read",
                      "The trace cannot be read"):
            self.assertIn(words, remarks)


if __name__ == "__main__":
    unittest.main()
