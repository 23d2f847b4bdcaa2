// Every figure that a cluster file may have wrong, and what is said of it.
#include "test/refusal.h"
#include "test/timing/cluster/text.h"
#include "timing/cluster/cluster.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace dtc::timing {
namespace {

using testing::HasSubstr;

struct Fault {
  std::string file, what, with;    ///< what is replaced in the file, and with what
  std::vector<std::string> saying; ///< parts of the message
};

std::string messageOf(const std::string &text) {
  return test::refusalOf([&] { parseCluster(text, "c.textproto"); });
}

/// One of the nodes' level, which says this, too.
Fault outerWith(const std::string &more, const std::vector<std::string> &saying) {
  return {Gpus, "units: 2", "units: 2 " + more, saying};
}

/// What ctest calls the case.
void PrintTo(const Fault &fault, std::ostream *out) {
  std::string name = fault.what.substr(0, 60) + " to " + fault.with.substr(0, 60);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  *out << name;
}

class ClusterFault : public testing::TestWithParam<Fault> {};

TEST_P(ClusterFault, IsSaidWithPlaceAndValueAndRemedy) {
  const Fault &fault = GetParam();
  EXPECT_EQ(messageOf(fault.file), "no error");
  std::string message = messageOf(replaced(fault.file, fault.what, fault.with));
  EXPECT_THAT(message, HasSubstr("c.textproto:"));
  for (const std::string &part : fault.saying)
    EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Devices, ClusterFault,
    testing::Values(
        Fault{Gpus, "name: \"G1\"", "", {"devices[0].name is missing", "by its name"}},
        Fault{Gpus, "type: \"bf16\" flops", "flops", {"devices[0].peaks[0].type is missing", "f32, i32, bf16"}},
        Fault{Gpus,
              "type: \"bf16\" flops",
              "type: \"bf17\" flops",
              {"devices[0].peaks[0].type is 'bf17'", "did you mean 'bf16'?"}},
        Fault{Gpus,
              "type: \"f32\"",
              "type: \"bf16\"",
              {"devices[0].peaks[1].type is 'bf16'", "another peak", "keep one"}},
        Fault{Gpus, "flops: 300e12", "flops: 0", {"devices[0].peaks[0].flops is 0", "positive"}},
        Fault{Gpus, "flops: 300e12", "", {"devices[0].peaks[0].flops is 0", "positive"}},
        Fault{Gpus, "flops: 300e12", "flops: -1e12", {"flops is -1000000000000", "positive"}},
        Fault{Gpus, "flops: 300e12", "flops: nan", {"flops is nan", "positive"}},
        Fault{Gpus, "flops: 300e12", "flops: inf", {"flops is inf", "positive"}},
        Fault{Gpus, "flops: 300e12", "flops: 300", {"flops is 300 ", "less than anything", "another unit", "989e12"}},
        Fault{Gpus, "flops: 300e12", "flops: 300e18", {"flops is 3e+20", "more than anything"}},
        Fault{Gpus, "memory_bytes: 80000000000", "", {"devices[0].memory_bytes of 'G1' is missing", "threads"}},
        Fault{Gpus,
              "memory_bytes: 80000000000",
              "memory_bytes: 80",
              {"devices[0].memory_bytes is 80 bytes", "80 GB are"}},
        Fault{Gpus, "memory_bandwidth: 2e12", "", {"devices[0].memory_bandwidth is 0", "bytes per second"}},
        Fault{Gpus,
              "memory_bandwidth: 2e12",
              "memory_bandwidth: 2",
              {"memory_bandwidth is 2 bytes per second", "another unit"}},
        Fault{Gpus,
              "launch_seconds: 3e-6",
              "launch_seconds: 3e-6 host_bandwidth: 25",
              {"host_bandwidth is 25 bytes per second", "another unit", "50e9"}},
        Fault{Gpus, "launch_seconds: 3e-6", "launch_seconds: 3", {"devices[0].launch_seconds is 3 seconds", "5e-6"}},
        Fault{Gpus, "launch_seconds: 3e-6", "launch_seconds: -1e-6", {"launch_seconds is -1e-06", "not negative"}},
        Fault{Gpus,
              "kernel_class: \"product\"",
              "kernel_class: \"prodct\"",
              {"efficiencies[0].kernel_class is 'prodct'", "did you mean 'product'?"}},
        Fault{Gpus, "kernel_class: \"product\"", "", {"efficiencies[0].kernel_class is missing", "elementwise"}},
        Fault{Gpus,
              "\"product\" type: \"bf16\"",
              "\"product\" type: \"fp16\"",
              {"efficiencies[0].type is 'fp16'", "did you mean 'f16'?"}},
        Fault{Gpus, "share: 0.5", "share: 0", {"efficiencies[0].points[0].share is 0", "positive"}},
        Fault{Gpus, "share: 0.5", "share: 5000", {"points[0].share is 5000", "1 is a kernel that reaches it"}},
        Fault{Gpus, "flops: 1e9 bytes", "flops: -1 bytes", {"points[0].flops is -1", "not negative"}},
        Fault{Gpus, "flops: 1e9 bytes: 1e6 ", "", {"points[1] has the flops (0) and bytes (0) of another", "keep one"}},
        Fault{Gpus,
              "points { flops: 1e9 bytes: 1e6 share: 0.5 } points { share: 0.9 }",
              "",
              {"efficiencies[0].points are missing"}},
        Fault{Gpus,
              "  efficiencies {",
              "efficiencies { kernel_class: \"product\" type: \"bf16\" points { share: 1 } } efficiencies {",
              {"efficiencies[1] is the second of class 'product' and type 'bf16'"}},
        Fault{Gpus,
              "devices {",
              "devices { name: \"G1\" peaks { type: \"f32\" flops: 1e12 } memory_bytes: 1000000000 memory_bandwidth: "
              "1e12 } devices {",
              {"devices[1].name is 'G1'", "devices[0]", "list a kind once"}},
        Fault{Processors, "threads: 2 ", "threads: 1 ", {"devices[1].name is 'P1' with 1 threads, as devices[0]"}},
        Fault{Processors, "threads: 2 ", "memory_bytes: 9000000000 ", {"devices[1].name is 'P1'", "give both threads"}},
        Fault{Processors, "peaks { type: \"f32\" flops: 100e9 }", "", {"devices[0].peaks of 'P1' are missing"}}));

INSTANTIATE_TEST_SUITE_P(
    Nodes, ClusterFault,
    testing::Values(
        Fault{Gpus, "nodes { count: 2 device: \"G1\" devices: 4 }", "", {"nodes are missing"}},
        Fault{Gpus, "nodes { count: 2", "nodes { count: 0", {"nodes[0].count is 0"}},
        Fault{Gpus, "nodes { count: 2", "nodes { count: 4000000000", {"nodes[0].count is 4000000000"}},
        Fault{Gpus,
              "device: \"G1\"",
              "device: \"G2\"",
              {"nodes[0].device is 'G2'", "the kind of devices must be one of", "did you mean 'G1'?"}},
        Fault{Gpus, "device: \"G1\"", "", {"nodes[0].device is missing"}},
        Fault{Gpus, "devices: 4", "", {"nodes[0].devices is 0", "G1"}},
        Fault{Gpus, "devices: 4", "devices: 4 cores: 8", {"nodes[0] has cores (8) and devices (4)", "remove one"}},
        Fault{Gpus, "devices: 4", "cores: 8", {"nodes[0].cores is 8", "no threads"}},
        Fault{Processors, "cores: 8", "devices: 8", {"nodes[0].cores is 0", "has threads"}},
        Fault{Processors, "cores: 8", "cores: 8 devices: 8", {"nodes[0] has cores (8) and devices (8)"}},
        Fault{Processors,
              "cores: 8 memory_bytes: 16000000000",
              "cores: 8",
              {"nodes[0].memory_bytes is missing", "share"}},
        Fault{Processors, "memory_bytes: 16000000000", "memory_bytes: 16", {"nodes[0].memory_bytes is 16 bytes"}},
        Fault{Gpus,
              "nodes {",
              "devices { name: \"P\" threads: 1 peaks { type: \"f32\" flops: 1e12 } memory_bandwidth: 1e10 } nodes { "
              "count: 1 device: \"P\" cores: 2 memory_bytes: 8000000000 } nodes {",
              {"nodes[1] are of GPUs and nodes[0] of processors", "two files"}}));

INSTANTIATE_TEST_SUITE_P(
    Levels, ClusterFault,
    testing::Values(
        Fault{Gpus, "name: \"NVLink\"", "", {"levels[0].name is missing"}},
        Fault{Gpus, "bandwidth: 25e9", "bandwidth: 0", {"levels[1].bandwidth is 0", "positive", "50e9"}},
        Fault{Gpus, "bandwidth: 25e9", "", {"levels[1].bandwidth is 0"}},
        Fault{Gpus,
              "bandwidth: 25e9",
              "bandwidth: 25",
              {"levels[1].bandwidth is 25 bytes per second", "less than anything", "400 Gb/s"}},
        Fault{Gpus, "bandwidth: 25e9", "bandwidth: 1e30", {"levels[1].bandwidth is 1e+30", "more than anything"}},
        Fault{Gpus, "latency: 5e-6", "latency: 5", {"levels[1].latency is 5 seconds", "5e-6"}},
        Fault{Gpus, "latency: 5e-6", "latency: -5e-6", {"levels[1].latency is -5e-06"}},
        outerWith("processor_share: 1.5", {"levels[1].processor_share is 1.5", "0 (compute goes on) to 1"}),
        outerWith("processor_share: nan", {"levels[1].processor_share is nan"}),
        Fault{Gpus, "units: 2", "units: 3", {"levels[1].units is 3", "join 3 nodes", "has 2", "0"}},
        Fault{Gpus, "units: 4", "units: 3", {"levels[0].units makes it join 3 devices", "a node has 4"}},
        Fault{Gpus, "units: 4", "units: 16", {"levels[0].units is 16", "join 4 nodes", "has 2"}},
        Fault{Gpus,
              "levels { name: \"InfiniBand\" units: 2 latency: 5e-6 bandwidth: 25e9 }",
              "",
              {"levels: together they join 1 nodes", "has 2 nodes", "units: 0"}},
        Fault{Gpus,
              "levels { name: \"InfiniBand\" units: 2",
              "levels { name: \"InfiniBand\" units: 1",
              {"levels: together they join 1 nodes"}},
        Fault{Gpus,
              "levels { name: \"InfiniBand\" units: 2",
              "levels { name: \"a\" latency: 1e-6 bandwidth: 1e9 } levels { name: \"b\"",
              {"levels[1].units is 0", "nothing is left for levels[2]"}},
        outerWith("transport: SHARED_MEMORY", {"levels[1].transport is SHARED_MEMORY", "joins 2 nodes"}),
        outerWith("transport: 7", {"levels[1].transport"}),
        Fault{Processors,
              "levels { name: \"shared memory\"",
              "levels { name: \"shared memory\" units: 8",
              {"levels[0].units is 8", "write 0"}},
        outerWith("loaded_latency: 1e-9", {"levels[1].loaded_latency is 1e-09", "no less than its latency"}),
        outerWith("measured { collective: \"allreduce\" ranks: 2 bytes: 8 seconds: 1e-6 }",
                  {"levels[1].measured[0].collective is 'allreduce'", "did you mean 'all_reduce'?"}),
        outerWith("measured { collective: \"send\" ranks: 1 bytes: 8 seconds: 1e-6 }",
                  {"levels[1].measured[0].ranks is 1", "2 or more"}),
        outerWith("measured { collective: \"send\" ranks: 2 seconds: 1e-6 }", {"levels[1].measured[0].bytes is 0"}),
        outerWith("measured { collective: \"send\" ranks: 2 bytes: 8 }", {"levels[1].measured[0].seconds is 0"}),
        outerWith("measured { collective: \"send\" ranks: 2 bytes: 8 seconds: 1e-6 processor_seconds: 2e-6 }",
                  {"levels[1].measured[0].processor_seconds is 2e-06", "a part of its seconds (1e-06)"}),
        outerWith("measured { collective: \"send\" ranks: 2 bytes: 8 seconds: 1e-6 } measured { collective: "
                  "\"send\" ranks: 2 bytes: 8 seconds: 2e-6 }",
                  {"levels[1].measured[1] is the second of send with 2 ranks and 8 bytes"}),
        Fault{Gpus,
              "axis_order: \"tp\"",
              "axis_order: [\"tp\", \"dp\", \"tp\"]",
              {"axis_order[2] is 'tp'", "remove one"}},
        Fault{Gpus, "axis_order: \"tp\"", "axis_order: \"\"", {"axis_order[0] is empty"}},
        Fault{Gpus, "axis_order: \"tp\"", "failure_seconds: -1", {"failure_seconds is -1", "not negative", "8.64e6"}},
        Fault{Gpus, "axis_order: \"tp\"", "failure_seconds: inf", {"failure_seconds is inf", "finite"}},
        Fault{Gpus,
              "axis_order: \"tp\"",
              "failure_seconds: 100",
              {"failure_seconds is 100 seconds, less than anything", "another unit", "once in a hundred days"}},
        Fault{Gpus, "axis_order: \"tp\"", "failure_seconds: 1e11", {"failure_seconds is 1", "more than anything"}}));

INSTANTIATE_TEST_SUITE_P(
    Text, ClusterFault,
    testing::Values(
        Fault{Gpus,
              "bandwidth: 25e9",
              "bandwith: 25e9",
              {"c.textproto:14:", "no field named \"bandwith\"", "did you mean 'bandwidth'?", "docs/clusters.md"}},
        Fault{Gpus, "bandwidth: 25e9", "bandwidth: fast", {"c.textproto:14:", "fast"}},
        Fault{Gpus,
              "bandwidth: 25e9",
              "bandwidth: 25e9 bandwidth: 26e9",
              {"c.textproto:14:", "specified multiple times"}},
        Fault{Gpus, "axis_order: \"tp\"", "axis_order: \"tp", {"c.textproto:15:"}},
        Fault{Gpus, "axis_order: \"tp\"", "levels {", {"c.textproto:16:"}},
        Fault{Gpus, "axis_order: \"tp\"", std::string(2 << 20, '#'), {"bytes are more than a cluster file has"}}));

TEST(ClusterText, OfVeryManyThingsIsRefusedAtOnce) {
  std::string kinds, levels;
  for (int i = 0; i < 20000; ++i)
    kinds += "devices { name: \"d" + std::to_string(i) + "\" } ";
  for (int i = 0; i < 9; ++i)
    levels += "levels { name: \"a\" latency: 1e-6 bandwidth: 1e9 } ";
  EXPECT_THAT(messageOf(kinds), HasSubstr("devices: 20000 kinds are more than 1000"));
  EXPECT_THAT(messageOf(Gpus + levels), HasSubstr("levels: 11 of them are more than 8"));
}

TEST(ClusterText, OfNothingSaysWhatIsMissing) { EXPECT_THAT(messageOf(""), HasSubstr("nodes are missing")); }

} // namespace
} // namespace dtc::timing
