// The places of tensors, compared with lifetimes that are computed here once more, pair by pair.
#include "test/passes/schedule/plan.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/abi/random.h"

#include <gtest/gtest.h>

#include <map>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

/// Functions of vectors. Kernels may work in place, contractions and gathers may not; collectives are in progress until
/// they are waited for, some operations later.
class RandomProgram {
public:
  explicit RandomProgram(uint32_t seed) : stream(random::stream(seed, 0, 0)) {
    for (int64_t size : {3, 16, 17, 40})
      values[size] = {"%x" + std::to_string(size)};
    int count = 20 + below(20);
    while (operations < count)
      addOperation();
    while (!pending.empty())
      wait();
  }

  std::string text() const {
    std::string kernels, arguments;
    for (const auto &[size, names] : values) {
      std::string type = vector(size), number = std::to_string(size);
      kernels += "dt.kernel @unary_" + number + "(%x: " + type + ") -> " + type + " {\n  %y = dt.exp %x : " + type +
                 "\n  dt.yield %y : " + type + "\n}\n";
      kernels += "dt.kernel @binary_" + number + "(%x: " + type + ", %y: " + type + ") -> " + type +
                 " {\n  %z = dt.add %x, %y : " + type + "\n  dt.yield %z : " + type + "\n}\n";
      kernels += "dt.kernel @both_" + number + "(%x: " + type + ") -> (" + type + ", " + type +
                 ") {\n  %y = dt.exp %x : " + type + "\n  %z = dt.neg %x : " + type + "\n  dt.yield %y, %z : " + type +
                 ", " + type + "\n}\n";
      if (names.front().starts_with("%x"))
        arguments += (arguments.empty() ? "" : ", ") + names.front() + ": " + type + " {dt.port = #dt.port<input \"x" +
                     number + "\">}";
    }
    std::string result = values.at(16).back(), type = vector(16);
    return "module attributes {dt.mesh = #dt.mesh<\"dp\" = 2>} {\n" + kernels + "func.func @micro(" + arguments +
           ") -> (" + type + " {dt.port = #dt.port<output \"y\">}) {\n" + body + "  %last = dt.launch @unary_16(" +
           result + ") : (" + type + ") -> " + type + "\n  return %last : " + type + "\n}\n}\n";
  }

private:
  struct Future {
    std::string name;
    int64_t size;
  };

  int below(int limit) { return int(random::uniform(stream, draws++) * limit); }
  static std::string vector(int64_t size) { return "tensor<" + std::to_string(size) + "xf32>"; }
  std::string fresh() { return "%v" + std::to_string(names++); }
  int64_t anySize() { return std::next(values.begin(), below(int(values.size())))->first; }
  /// Old values as well as new ones: some live long.
  const std::string &any(int64_t size) { return values[size][below(int(values[size].size()))]; }

  void add(int64_t size, const std::string &operation) {
    std::string name = fresh();
    body += "  " + name + " = " + operation + "\n";
    values[size].push_back(name);
  }

  void start(int64_t size, int64_t resultSize, const std::string &what, const std::string &how) {
    std::string name = fresh();
    body += "  " + name + " = " + what + " " + any(size) + how +
            " over [#dt.axis_ref<\"dp\", 1, 0>] : " + vector(size) + " -> !dt.future<" + vector(resultSize) + ">\n";
    pending.push_back({name, resultSize});
  }

  void wait() {
    int index = below(int(pending.size()));
    Future future = pending[index];
    pending.erase(pending.begin() + index);
    add(future.size, "dt.wait " + future.name + " : !dt.future<" + vector(future.size) + "> -> " + vector(future.size));
  }

  void addOperation() {
    ++operations;
    int64_t size = anySize(), other = anySize();
    std::string number = std::to_string(size), type = vector(size);
    switch (below(8)) {
    case 0:
      return add(size, "dt.launch @unary_" + number + "(" + any(size) + ") : (" + type + ") -> " + type);
    case 1:
      return add(size, "dt.launch @binary_" + number + "(" + any(size) + ", " + any(size) + ") : (" + type + ", " +
                           type + ") -> " + type);
    case 2: {
      std::string name = fresh();
      body += "  " + name + ":2 = dt.launch @both_" + number + "(" + any(size) + ") : (" + type + ") -> (" + type +
              ", " + type + ")\n";
      return values[size].insert(values[size].end(), {name + "#0", name + "#1"}), void();
    }
    case 3: {
      std::string matrix = "tensor<" + number + "x" + std::to_string(other) + "xf32>", name = fresh();
      body += "  " + name + " = dt.contract \"a,b->ab\" " + any(size) + ", " + any(other) + " : " + type + ", " +
              vector(other) + " -> " + matrix + "\n";
      return add(size, "dt.contract \"ab,b->a\" " + name + ", " + any(other) + " : " + matrix + ", " + vector(other) +
                           " -> " + type);
    }
    case 4:
      return start(size, size, "dt.all_reduce sum", "");
    case 5:
      return size <= 40 ? start(size, 2 * size, "dt.all_gather", " along 0") : void();
    default:
      return pending.empty() ? void() : wait();
    }
  }

  uint32_t stream;
  uint64_t draws = 0;
  int operations = 0, names = 0;
  std::map<int64_t, std::vector<std::string>> values; ///< by size
  std::vector<Future> pending;
  std::string body;
};

/// A value's memory, and from when to when it must keep its contents.
struct Life {
  Value value;
  uint64_t begin = 0, end = 0; ///< bytes
  int first = 0, last = 0;     ///< positions of operations
  bool communicated = false;
};

/// The lifetimes in a function without views, as the test computes them.
class Lives {
public:
  Lives(func::FuncOp function, ArenaLayout &plan) : function(function), plan(plan) {
    for (auto [position, op] : llvm::enumerate(function.front()))
      positions[&op] = int(position);
    for (BlockArgument argument : function.getArguments())
      add(argument, -1);
    for (Operation &op : function.front())
      for (Value result : op.getResults())
        if (!isa<WaitOp>(op)) // its value is that of the future
          add(result, positions[&op]);
  }

  std::vector<Life> all;

  /// Whether an operation may write `made` over `used`, which it reads for the last time.
  bool mayTakeOver(const Life &used, const Life &made) const {
    Operation *op = made.value.getDefiningOp();
    bool reads = op && llvm::is_contained(llvm::map_range(op->getOperands(), ownerOf), used.value);
    bool inPlace = isa_and_nonnull<LaunchOp, AllReduceOp>(op);
    return reads && inPlace && used.begin == made.begin && used.end == made.end && lastRead(used.value) == made.first;
  }

private:
  static Value ownerOf(Value value) {
    auto wait = value.getDefiningOp<WaitOp>();
    return wait ? wait.getFuture() : value;
  }

  int lastRead(Value value) const {
    int last = -1;
    for (Operation *user : value.getUsers())
      last = std::max(last, isa<WaitOp>(user) ? std::max(positions.at(user), lastRead(user->getResult(0)))
                                              : positions.at(user));
    return last;
  }

  void add(Value value, int first) {
    Life life;
    life.value = value;
    life.first = first;
    life.last = std::max(first, lastRead(value));
    auto type = isa<FutureType>(value.getType()) ? cast<FutureType>(value.getType()).getValue()
                                                 : cast<RankedTensorType>(value.getType());
    life.begin = plan.addressOf(function, value);
    life.end = life.begin + 4 * type.getNumElements();
    bool named = isa<BlockArgument>(value);
    std::vector<Value> same = {value};
    for (Operation *user : value.getUsers())
      if (isa<WaitOp>(user)) {
        same.push_back(user->getResult(0));
        EXPECT_EQ(plan.addressOf(function, user->getResult(0)), life.begin);
      }
    for (Value each : same)
      for (Operation *user : each.getUsers()) {
        named |= user->hasTrait<OpTrait::IsTerminator>();
        if (!isa<CollectiveOpInterface>(user))
          continue;
        life.communicated = true;
        // What others read must stay until they have: until the wait.
        for (Operation *wait : user->getResult(0).getUsers())
          life.last = std::max(life.last, positions.at(wait));
      }
    life.communicated |= isa_and_nonnull<CollectiveOpInterface>(value.getDefiningOp());
    if (named)
      life.last = int(positions.size()); // others read it after the function
    all.push_back(life);
  }

  func::FuncOp function;
  ArenaLayout &plan;
  std::map<Operation *, int> positions;
};

class MemoryPlanTest : public testing::Test {
protected:
  MemoryPlanTest() {
    context.loadDialect<DTDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  }

  void parse(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << errors << text;
  }

  /// Whether all tensors are within the arena, do not overlap those alive at the same time, and are visible where they
  /// must be.
  bool fits(ArenaLayout &plan) {
    Lives lives(function(), plan);
    for (const Life &a : lives.all) {
      if (a.end > plan.bytes() || (a.communicated && a.begin < plan.sharedBegin()))
        return false;
      for (const Life &b : lives.all)
        if (a.value != b.value && a.begin < b.end && b.begin < a.end && a.first <= b.last && b.first <= a.last &&
            !lives.mayTakeOver(a, b) && !lives.mayTakeOver(b, a))
          return false;
    }
    return true;
  }

  func::FuncOp function() { return *module->getOps<func::FuncOp>().begin(); }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string errors;
};

std::string describe(const Life &life) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << life.value << " in [" << life.begin << ", " << life.end << ") from " << life.first << " to " << life.last;
  return text;
}

TEST_F(MemoryPlanTest, WhatLivesAtOnceLiesApart) {
  int overwritten = 0, shared = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomProgram program(seed);
    ASSERT_NO_FATAL_FAILURE(parse(program.text()));
    FailureOr<ArenaLayout> plan = test::planMemory(*module);
    ASSERT_TRUE(succeeded(plan)) << errors;
    Lives lives(function(), *plan);
    for (const Life &life : lives.all) {
      EXPECT_EQ(life.begin % 64, 0U) << describe(life); // whole cache lines
      EXPECT_LE(life.end, plan->bytes()) << describe(life);
      if (life.communicated)
        EXPECT_GE(life.begin, plan->sharedBegin()) << describe(life);
    }
    for (const Life &a : lives.all)
      for (const Life &b : lives.all) {
        bool together = a.first <= b.last && b.first <= a.last, overlap = a.begin < b.end && b.begin < a.end;
        if (a.value == b.value || !overlap)
          continue;
        bool inPlace = lives.mayTakeOver(a, b) || lives.mayTakeOver(b, a);
        EXPECT_TRUE(!together || inPlace) << describe(a) << "\n" << describe(b) << "\n" << program.text();
        (inPlace ? overwritten : shared) += 1;
      }
  }
  // Memory is reused, which is what could go wrong.
  EXPECT_GT(overwritten, 400);
  EXPECT_GT(shared, 4000);
}

// Each place of a temporary in turn is replaced by that of another value. The proof's verdict is then compared with
// that of the lifetimes above.
TEST_F(MemoryPlanTest, ThePlacesThatAreProvedAreThoseThatFit) {
  int refused = 0, proved = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(parse(RandomProgram(seed).text()));
    ASSERT_TRUE(succeeded(test::planMemory(*module))) << errors;
    FailureOr<FunctionOffsets> said = FunctionOffsets::of(function());
    ASSERT_TRUE(succeeded(said));
    SmallVector<int64_t> arguments(said->arguments), results(said->results), values(said->values);
    size_t movable = values.size() - 1; // what is returned, the last, has its place
    for (size_t i = 0; i < movable; ++i) {
      SmallVector<int64_t> moved = values;
      moved[i] = values[(seed + movable / 2) % movable];
      FunctionOffsets{arguments, results, moved}.writeTo(function());
      PassManager passes(&context);
      passes.addPass(createVerifyWhen());
      bool accepted = succeeded(passes.run(*module));
      FailureOr<ArenaLayout> plan = ArenaLayout::read(*module);
      ASSERT_TRUE(succeeded(plan));
      EXPECT_EQ(accepted, fits(*plan)) << errors;
      (accepted ? proved : refused) += 1;
      errors.clear();
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(proved, 20);
}

TEST_F(MemoryPlanTest, ALimitIsOfTheWholeArena) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    ASSERT_NO_FATAL_FAILURE(parse(RandomProgram(seed).text()));
    FailureOr<ArenaLayout> plan = test::planMemory(*module);
    ASSERT_TRUE(succeeded(plan)) << errors;
    uint64_t bytes = plan->bytes();
    EXPECT_TRUE(succeeded(test::planMemory(*module, bytes))) << errors;
    EXPECT_TRUE(failed(test::planMemory(*module, bytes - 1)));
    EXPECT_NE(errors.find("a rank needs " + std::to_string(bytes) + " bytes"), std::string::npos) << errors;
    errors.clear();
  }
}

// Counted by hand: whole lines of 64 bytes.
constexpr const char *countedText = R"(
module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {
dt.kernel @exp(%x: tensor<17xf32>) -> tensor<17xf32> {
  %y = dt.exp %x : tensor<17xf32>
  dt.yield %y : tensor<17xf32>
}
func.func @update(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">},
                  %m: tensor<16xf32> {dt.port = #dt.port<slot "exp_avg" of "p">},
                  %v: tensor<16xf32> {dt.port = #dt.port<slot "exp_avg_sq" of "p">},
                  %g: tensor<100xf32> {dt.port = #dt.port<gradient "q", partial>},
                  %x: tensor<17xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<17xf32> {dt.port = #dt.port<output "y">}) {
  %e = dt.launch @exp(%x) : (tensor<17xf32>) -> tensor<17xf32>
  %o = dt.contract "a,b->ab" %e, %p : tensor<17xf32>, tensor<16xf32> -> tensor<17x16xf32>
  %s = dt.contract "ab,b->a" %o, %m : tensor<17x16xf32>, tensor<16xf32> -> tensor<17xf32>
  %f = dt.all_gather %s along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<17xf32> -> !dt.future<tensor<34xf32>>
  %w = dt.wait %f : !dt.future<tensor<34xf32>> -> tensor<34xf32>
  %k = dt.contract "ab,b->a" %o, %v : tensor<17x16xf32>, tensor<16xf32> -> tensor<17xf32>
  %q = dt.contract "a,b->ab" %w, %k : tensor<34xf32>, tensor<17xf32> -> tensor<34x17xf32>
  %r = dt.contract "ab,a->b" %q, %w : tensor<34x17xf32>, tensor<34xf32> -> tensor<17xf32>
  return %r : tensor<17xf32>
}
})";

TEST_F(MemoryPlanTest, BytesByCategory) {
  ASSERT_NO_FATAL_FAILURE(parse(countedText));
  FailureOr<ArenaLayout> plan = test::planMemory(*module);
  ASSERT_TRUE(succeeded(plan)) << errors;
  std::map<std::string, uint64_t> use;
  uint64_t sum = 0;
  for (auto [category, bytes] : plan->memoryUse()) {
    use[category] = bytes;
    sum += bytes;
  }
  EXPECT_EQ(sum, plan->bytes());
  EXPECT_EQ(use["parameters"], 64U);
  EXPECT_EQ(use["optimizer state"], 128U);
  EXPECT_EQ(use["gradients"], 448U);          // 400
  EXPECT_EQ(use["inputs and outputs"], 256U); // 68 and 68
  // Most is alive at the last outer product: 34 x 17 and the vector of 17, above what came before.
  EXPECT_EQ(use["activations and workspace"], 2368U + 128U); // 2312 and 68
  EXPECT_EQ(use["communication buffers"], 128U + 192U);      // 68 and 136, alive at once
  EXPECT_EQ(plan->bytes(), plan->sharedBegin() + 320);
  EXPECT_EQ(plan->sharedBegin(), 2U << 20);
}

} // namespace
