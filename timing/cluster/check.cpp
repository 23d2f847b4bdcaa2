// Every figure of a cluster file, checked: what is wrong, where, the value, and what to do.
#include "timing/cluster/cluster.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/marks.h"
#include "runtime/support/suggest.h"
#include "timing/cluster/extents.h"

#include <cmath>
#include <fmt/format.h>
#include <set>
#include <tuple>

namespace dtc::timing {

namespace {

/// What figures of one kind can be. The bounds are far beyond all that exists: a figure outside them is a mistake of
/// units.
struct Figure {
  double least, most;
  std::string_view unit;
  std::string_view advice;
  bool mayBeZero = false;
};

constexpr Figure Bandwidth = {1e3, 1e16, "bytes per second",
                              "a link of 400 Gb/s has 50e9, in one direction; NVLink's 900 GB/s are both together"};
constexpr Figure HostBandwidth = {1e6, 1e16, "bytes per second", "16 lanes of PCIe 5.0 reach 50e9 in one direction",
                                  /*mayBeZero=*/true};
constexpr Figure MemoryBandwidth = {1e6, 1e16, "bytes per second", "3.35 TB/s are 3.35e12"};
constexpr Figure Flops = {1e6, 1e18, "floating-point operations per second",
                          "989 TFLOP/s are 989e12; take that of dense products"};
constexpr Figure Seconds = {1e-12, 1, "seconds", "5 microseconds are 5e-6", /*mayBeZero=*/true};
constexpr Figure MeasuredSeconds = {1e-9, 1e5, "seconds", "5 microseconds are 5e-6"};
constexpr Figure FailureSeconds = {1e4, 1e10, "seconds", "a node that fails once in a hundred days has 8.64e6",
                                   /*mayBeZero=*/true};
constexpr Figure Amount = {0, 1e24, "operations or bytes", "give that of one kernel", /*mayBeZero=*/true};
constexpr Figure Payload = {1, 1e15, "bytes", "give those of the whole payload"};
constexpr Figure Share = {1e-6, 1e3, "the roofline", "1 is a kernel that reaches it, 0.5 one that takes twice as long"};
constexpr Figure MemoryBytes = {1 << 20, 1e16, "bytes", "80 GB are 80000000000"};

constexpr uint32_t MostNodes = 1 << 24, MostDevices = 1 << 12, MostCores = 1 << 16;
constexpr int MostLevels = 8, MostKinds = 1000;

/// Finds the first fault, from the top of the file downwards.
class Checker {
public:
  explicit Checker(const Cluster &cluster) : cluster(cluster) {}

  std::string find() {
    if (cluster.devices_size() > MostKinds)
      say("devices: {} kinds are more than {}; list each kind once, however many of it there are",
          cluster.devices_size(), MostKinds);
    for (int i = 0; i < cluster.devices_size() && isSound(); ++i)
      checkDevice(cluster.devices(i), fmt::format("devices[{}]", i));
    checkKindsDiffer();
    checkNodes();
    checkLevels();
    checkAxisOrder();
    checkFigure("failure_seconds", cluster.failure_seconds(), FailureSeconds);
    return fault;
  }

private:
  bool isSound() const { return fault.empty(); }

  template <typename... Args> void say(fmt::format_string<Args...> text, Args &&...args) {
    if (isSound())
      fault = fmt::format(text, std::forward<Args>(args)...);
  }

  void checkFigure(const std::string &where, double value, const Figure &figure) {
    if (value == 0 && figure.mayBeZero)
      return;
    if (!std::isfinite(value) || value <= 0)
      say("{} is {}: it must be a {}number of {} ({})", where, value,
          figure.mayBeZero ? "finite, not negative " : "positive ", figure.unit, figure.advice);
    else if (value < figure.least || value > figure.most)
      say("{} is {} {}, {} than anything that exists: is it in another unit? ({})", where, value, figure.unit,
          value < figure.least ? "less" : "more", figure.advice);
  }

  void checkType(const std::string &where, const std::string &name) {
    std::vector<std::string_view> known;
    for (const abi::ElementType &type : abi::ElementTypes)
      known.push_back(type.name);
    checkName(where, name, known, "element type");
  }

  template <typename Range>
  void checkName(const std::string &where, const std::string &name, const Range &known, std::string_view what) {
    if (std::find(std::begin(known), std::end(known), name) != std::end(known))
      return;
    std::string all = fmt::format("{}", fmt::join(known, ", "));
    if (name.empty())
      say("{} is missing: name the {} ({})", where, what, all);
    else
      say("{} is '{}': the {} must be one of {}{}", where, name, what, all, didYouMean(name, known));
  }

  void checkDevice(const Device &device, const std::string &where) {
    if (device.name().empty())
      say("{}.name is missing: nodes refer to a kind of devices by its name", where);
    if (device.peaks().empty())
      say("{}.peaks of '{}' are missing: give at least one, such as peaks {{ type: \"f32\" flops: 67e12 }}", where,
          device.name());
    std::set<std::string> types;
    for (int i = 0; i < device.peaks_size(); ++i) {
      const Peak &peak = device.peaks(i);
      std::string at = fmt::format("{}.peaks[{}]", where, i);
      checkType(at + ".type", peak.type());
      checkFigure(at + ".flops", peak.flops(), Flops);
      if (!types.insert(peak.type()).second)
        say("{}.type is '{}', which another peak of '{}' has: keep one of the two", at, peak.type(), device.name());
    }
    if (device.memory_bytes() == 0 && device.threads() == 0)
      say("{}.memory_bytes of '{}' is missing: a GPU has memory of its own (of processors, say threads)", where,
          device.name());
    if (device.memory_bytes() > 0)
      checkFigure(where + ".memory_bytes", static_cast<double>(device.memory_bytes()), MemoryBytes);
    checkFigure(where + ".memory_bandwidth", device.memory_bandwidth(), MemoryBandwidth);
    checkFigure(where + ".launch_seconds", device.launch_seconds(), Seconds);
    checkFigure(where + ".step_seconds", device.step_seconds(), Seconds);
    checkFigure(where + ".host_bandwidth", device.host_bandwidth(), HostBandwidth);
    checkEfficiencies(device, where);
  }

  void checkEfficiencies(const Device &device, const std::string &where) {
    std::set<std::pair<std::string, std::string>> seen;
    for (int i = 0; i < device.efficiencies_size(); ++i) {
      const Efficiency &efficiency = device.efficiencies(i);
      std::string at = fmt::format("{}.efficiencies[{}]", where, i);
      checkName(at + ".kernel_class", efficiency.kernel_class(), abi::ClassNames, "class of kernels");
      if (!efficiency.type().empty())
        checkType(at + ".type", efficiency.type());
      if (!seen.insert({efficiency.kernel_class(), efficiency.type()}).second)
        say("{} is the second of class '{}' and {}: put the points of both into one", at, efficiency.kernel_class(),
            efficiency.type().empty() ? "all types" : "type '" + efficiency.type() + "'");
      if (efficiency.points().empty())
        say("{}.points are missing: give at least one, such as points {{ share: 0.6 }}", at);
      std::set<std::pair<double, double>> sizes;
      for (int j = 0; j < efficiency.points_size(); ++j) {
        const Point &point = efficiency.points(j);
        std::string pointAt = fmt::format("{}.points[{}]", at, j);
        checkFigure(pointAt + ".flops", point.flops(), Amount);
        checkFigure(pointAt + ".bytes", point.bytes(), Amount);
        checkFigure(pointAt + ".share", point.share(), Share);
        if (!sizes.insert({point.flops(), point.bytes()}).second)
          say("{} has the flops ({}) and bytes ({}) of another point: keep one of the two", pointAt, point.flops(),
              point.bytes());
      }
    }
  }

  void checkKindsDiffer() {
    for (int i = 0; i < cluster.devices_size() && isSound(); ++i)
      for (int j = 0; j < i; ++j) {
        const Device &one = cluster.devices(j), &other = cluster.devices(i);
        if (one.name() != other.name())
          continue;
        if (one.threads() == other.threads())
          say("devices[{}].name is '{}' with {} threads, as devices[{}] is: list a kind once (a processor, once for "
              "each number of threads)",
              i, other.name(), other.threads(), j);
        else if (one.threads() == 0 || other.threads() == 0)
          say("devices[{}].name is '{}', as that of devices[{}]: one has threads, as a processor does, and the other "
              "has none; give them different names, or give both threads",
              i, other.name(), j);
      }
  }

  const Device *findDevice(const std::string &name) const {
    for (const Device &device : cluster.devices())
      if (device.name() == name)
        return &device;
    return nullptr;
  }

  void checkNodes() {
    if (cluster.nodes().empty())
      say("nodes are missing: say how many there are and of what, such as nodes {{ count: 1 device: \"H100\" devices: "
          "8 }}");
    std::vector<std::string> names;
    for (const Device &device : cluster.devices())
      names.push_back(device.name());
    for (int i = 0; i < cluster.nodes_size() && isSound(); ++i) {
      const Nodes &nodes = cluster.nodes(i);
      std::string where = fmt::format("nodes[{}]", i);
      const Device *device = findDevice(nodes.device());
      if (!device)
        checkName(where + ".device", nodes.device(), names, "kind of devices");
      else
        checkNode(nodes, *device, where);
      if (isSound() && isOfProcessors(nodes) != isOfProcessors(cluster.nodes(0)))
        say("{} are of {} and nodes[0] of {}: a program is made for one of the two; describe them in two files", where,
            isOfProcessors(nodes) ? "processors" : "GPUs", isOfProcessors(nodes) ? "GPUs" : "processors");
    }
  }

  void checkNode(const Nodes &nodes, const Device &device, const std::string &where) {
    bool isProcessor = device.threads() > 0;
    if (nodes.count() < 1 || nodes.count() > MostNodes)
      say("{}.count is {}: give how many such nodes there are, 1 to {}", where, nodes.count(), MostNodes);
    if (nodes.cores() > 0 && nodes.devices() > 0)
      say("{} has cores ({}) and devices ({}): a node of processors has cores, which its ranks share, one of GPUs "
          "devices; remove one of the two",
          where, nodes.cores(), nodes.devices());
    if (isProcessor && (nodes.cores() < 1 || nodes.cores() > MostCores))
      say("{}.cores is {}: '{}' has threads, so its nodes need cores, 1 to {}", where, nodes.cores(), device.name(),
          MostCores);
    if (!isProcessor && nodes.cores() > 0)
      say("{}.cores is {}, and '{}' has no threads: a node of GPUs has devices; say threads in the device if it is a "
          "processor",
          where, nodes.cores(), device.name());
    if (!isProcessor && (nodes.devices() < 1 || nodes.devices() > MostDevices))
      say("{}.devices is {}: give how many '{}' each node has, 1 to {}", where, nodes.devices(), device.name(),
          MostDevices);
    if (nodes.memory_bytes() > 0)
      checkFigure(where + ".memory_bytes", static_cast<double>(nodes.memory_bytes()), MemoryBytes);
    else if (device.memory_bytes() == 0)
      say("{}.memory_bytes is missing, and '{}' has none of its own: give the memory of a node, which its ranks share",
          where, device.name());
  }

  void checkLevels() {
    if (cluster.levels_size() > MostLevels)
      say("levels: {} of them are more than {}", cluster.levels_size(), MostLevels);
    std::vector<Extent> extents;
    if (isSound())
      extents = extentsOf(cluster, fault);
    for (int i = 0; i < cluster.levels_size() && isSound(); ++i) {
      const Level &level = cluster.levels(i);
      std::string where = fmt::format("levels[{}]", i);
      if (level.name().empty())
        say("{}.name is missing: messages call the links by it, such as \"NVLink\"", where);
      checkFigure(where + ".latency", level.latency(), Seconds);
      checkFigure(where + ".bandwidth", level.bandwidth(), Bandwidth);
      if (level.loaded_latency() != 0)
        checkFigure(where + ".loaded_latency", level.loaded_latency(), Seconds);
      if (level.loaded_latency() != 0 && level.loaded_latency() < level.latency())
        say("{}.loaded_latency is {}: a message takes no less than its latency ({}) while others fill the link", where,
            level.loaded_latency(), level.latency());
      if (!(level.processor_share() >= 0 && level.processor_share() <= 1))
        say("{}.processor_share is {}: it must be 0 (compute goes on) to 1 (all of it stands still)", where,
            level.processor_share());
      if (!Level::Transport_IsValid(level.transport()))
        say("{}.transport is {}: it must be LIBRARY, SHARED_MEMORY or TCP", where, static_cast<int>(level.transport()));
      if (level.transport() == Level::SHARED_MEMORY && !extents[i].isWithinNode())
        say("{}.transport is SHARED_MEMORY, and the level joins {} nodes: it reaches no further than one; say TCP, or "
            "units that stay within a node",
            where, extents[i].nodes);
      checkMeasured(level, where);
    }
  }

  void checkMeasured(const Level &level, const std::string &where) {
    std::vector<std::string_view> known(abi::CollectiveNames.begin(), abi::CollectiveNames.end());
    known.insert(known.end(), {"send", "copy"});
    std::set<std::tuple<std::string, uint32_t, double>> seen;
    for (int i = 0; i < level.measured_size() && isSound(); ++i) {
      const Measured &measured = level.measured(i);
      std::string at = fmt::format("{}.measured[{}]", where, i);
      checkName(at + ".collective", measured.collective(), known, "collective");
      uint32_t least = measured.collective() == "copy" ? 1 : 2;
      if (measured.ranks() < least)
        say("{}.ranks is {}: {} takes {} or more", at, measured.ranks(), measured.collective(), least);
      checkFigure(at + ".bytes", measured.bytes(), Payload);
      checkFigure(at + ".seconds", measured.seconds(), MeasuredSeconds);
      if (!(measured.processor_seconds() >= 0 && measured.processor_seconds() <= measured.seconds()))
        say("{}.processor_seconds is {}: it is a part of its seconds ({}), for which a device's compute stands still",
            at, measured.processor_seconds(), measured.seconds());
      if (!seen.insert({measured.collective(), measured.ranks(), measured.bytes()}).second)
        say("{} is the second of {} with {} ranks and {} bytes: keep one of the two", at, measured.collective(),
            measured.ranks(), measured.bytes());
    }
  }

  void checkAxisOrder() {
    std::set<std::string> seen;
    for (int i = 0; i < cluster.axis_order_size(); ++i) {
      const std::string &axis = cluster.axis_order(i);
      if (axis.empty())
        say("axis_order[{}] is empty: name a mesh axis, such as \"tp\"", i);
      else if (!seen.insert(axis).second)
        say("axis_order[{}] is '{}', which is already listed: an axis has one place; remove one of the two", i, axis);
    }
  }

  const Cluster &cluster;
  std::string fault;
};

} // namespace

std::string findClusterFault(const Cluster &cluster) { return Checker(cluster).find(); }

} // namespace dtc::timing
