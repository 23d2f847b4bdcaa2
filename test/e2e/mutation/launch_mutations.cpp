// What a manifest states apart from collectives: scalars and grids of launches, parameters in the file, placements of
// inputs.
#include "test/e2e/mutation/mutations.h"

#include "runtime/abi/library/all.h"

#include <initializer_list>
#include <set>

namespace dtc::test {

namespace {

using namespace abi::library;

/// A launch's scalars that are equal on all ranks; 0 for a rank's index, which may be anything.
int64_t valueOf(const abi::Scalar &scalar) { return scalar.has_value() ? scalar.value() : 0; }

/// Whether scalar `index` of the kernel is the stride of a dimension of one element, which is never used: E4.
bool isUnusedStride(const std::string &symbol, const abi::Launch &launch, int index) {
  auto value = [&](int i) { return valueOf(launch.scalars(i)); };
  // Pairs of (scalar that is a stride, scalar that is its dimension's size).
  std::vector<std::pair<int, int>> strides;
  auto add = [&](auto part, std::initializer_list<size_t> sizes) {
    for (int stride = int(indexOf(part)); size_t size : sizes)
      strides.push_back({stride++, int(size)});
  };
  if (symbol == "dtc_gemm") {
    using S = GemmScalars;
    add(&S::lda, {indexOf(value(int(indexOf(&S::transposeA))) ? &S::k : &S::m)});
    add(&S::ldb, {indexOf(value(int(indexOf(&S::transposeB))) ? &S::n : &S::k)});
    add(&S::ldc, {indexOf(&S::m)});
    add(&S::strideA, {indexOf(&S::batch), indexOf(&S::batch), indexOf(&S::batch)});
  } else if (symbol == "dtc_rotary") {
    using S = RotaryScalars;
    for (auto rows : {&S::x, &S::out})
      add(rows, {indexOf(&S::outer), indexOf(&S::S), indexOf(&S::inner)});
  } else if (symbol == "dtc_copy") {
    for (auto of : {&CopyScalars::inStrides, &CopyScalars::outStrides})
      add(of, {0, 1, 2, 3, 4, 5});
  } else if (symbol.starts_with("dtc_attention")) {
    using S = AttentionBackwardScalars;
    auto queries = [&](auto part) { add(part, {indexOf(&S::B), indexOf(&S::S), indexOf(&S::G), indexOf(&S::R)}); };
    auto keys = [&](auto part) { add(part, {indexOf(&S::B), indexOf(&S::T), indexOf(&S::G)}); };
    queries(&S::q), keys(&S::k), keys(&S::v), queries(&S::out);
    queries(&S::dOut), queries(&S::dQ), keys(&S::dK), keys(&S::dV);
  }
  for (auto [stride, size] : strides)
    if (stride == index && value(size) == 1)
      return true;
  return false;
}

/// Why another value of a scalar means the same; empty: it does not.
std::string equivalenceOf(const abi::Kernel &kernel, const abi::Launch &launch, int index) {
  auto value = [&](int i) { return valueOf(launch.scalars(i)); };
  if (!kernel.library())
    return "";
  if (isUnusedStride(kernel.symbol(), launch, index))
    return "E4";
  auto at = [](auto field) { return int(indexOf(field)); };
  bool noDropout =
      kernel.symbol().starts_with("dtc_attention") && launch.scalars(at(&AttentionScalars::dropout)).real() == 0;
  if (noDropout && index >= at(&AttentionScalars::site) && index <= at(&AttentionScalars::length))
    return "E5";
  if (kernel.symbol() == "dtc_copy" && value(at(&CopyScalars::available)) == INT64_MAX &&
      (index == at(&CopyScalars::limitedDim) || index == at(&CopyScalars::begin)))
    return "E6";
  int scaling = at(&RotaryScalars::scaling);
  if (kernel.symbol() == "dtc_rotary" && launch.scalars(scaling + at(&abi::RotaryScaling::factor)).real() == 1 &&
      index >= scaling + at(&abi::RotaryScaling::perFrequency) && index <= scaling + at(&abi::RotaryScaling::constant))
    return "E9";
  if (kernel.symbol() == "dtc_gemm" && index == at(&GemmScalars::splitColumns) &&
      value(at(&GemmScalars::m)) == value(at(&GemmScalars::n)))
    return "E7";
  return "";
}

/// Makes the mutants of one launch.
class LaunchMutator {
public:
  LaunchMutator(const abi::Manifest &original, int list, int command, std::vector<Mutant> &mutants)
      : original(original), list(list), command(command), mutants(mutants) {}

  void run() {
    for (int64_t step : {-1, 1})
      add("grid " + std::to_string(launch().grid() + step)).set_grid(launch().grid() + step);
    for (int index = 0; index < launch().scalars_size(); ++index)
      changeScalar(index);
  }

private:
  const abi::Launch &launch() const { return original.lists(list).commands(command).launch(); }
  const abi::Kernel &kernel() const { return original.kernels(launch().kernel()); }

  abi::Launch &add(const std::string &what, const std::string &equivalence = "") {
    const abi::CommandList &commands = original.lists(list);
    Mutant &mutant = mutants.emplace_back(Mutant{"list '" + commands.name() + "', command " + std::to_string(command) +
                                                     " (" + kernel().symbol() + "): " + what,
                                                 original, equivalence});
    return *mutant.manifest.mutable_lists(list)->mutable_commands(command)->mutable_launch();
  }

  void changeScalar(int index) {
    const abi::Scalar &scalar = launch().scalars(index);
    std::string name = "scalar " + std::to_string(index);
    if (scalar.has_rank_index() && scalar.rank_index().axes_size() == 0)
      return; // the index within no axes is zero, with any scale
    abi::Scalar &changed = *add(name, equivalenceOf(kernel(), launch(), index)).mutable_scalars(index);
    if (scalar.has_real())
      changed.set_real(scalar.real() * 1.5 + 0.1);
    else if (scalar.has_site())
      changed.set_value(1 << 20); // no place in the model
    else if (scalar.has_value())
      changed.set_value(scalar.value() == INT64_MAX ? 0 : scalar.value() + 1);
    else
      changed.mutable_rank_index()->set_scale(scalar.rank_index().scale() + 1);
    if (scalar.has_rank_index())
      add(name + " as on rank 0", equivalenceOf(kernel(), launch(), index)).mutable_scalars(index)->set_value(0);
  }

  const abi::Manifest &original;
  int list, command;
  std::vector<Mutant> &mutants;
};

/// "dp" on dimension 0 and nothing on dimension 1, and so on: every placement of an input other than its own.
void misplaceInput(const abi::Manifest &original, int tensor, std::vector<Mutant> &mutants) {
  const abi::Tensor &input = original.roles(0).tensors(tensor);
  auto add = [&](const std::string &what) -> abi::Sharding & {
    mutants.push_back({"input '" + input.name() + "' " + what, original, ""});
    return *mutants.back().manifest.mutable_roles(0)->mutable_tensors(tensor)->mutable_sharding();
  };
  for (int dim = 0; dim < input.sharding().dims_size(); ++dim) {
    std::string along = " along dimension " + std::to_string(dim);
    const auto &own = input.sharding().dims(dim).axes();
    if (own.empty())
      continue;
    add("split by nothing" + along).mutable_dims(dim)->clear_axes();
    for (const abi::Axis &axis : original.mesh().axes()) {
      if (own.size() == 1 && own[0].axis() == axis.name())
        continue;
      abi::DimSharding &changed = *add("split by " + axis.name() + along).mutable_dims(dim);
      changed.clear_axes();
      abi::AxisRef &ref = *changed.add_axes();
      ref.set_axis(axis.name());
      ref.set_pre(1);
      ref.set_size(axis.size());
    }
    for (int other = 0; other < input.sharding().dims_size(); ++other)
      if (other != dim) {
        abi::Sharding &changed =
            add("split along dimension " + std::to_string(other) + " instead of " + std::to_string(dim));
        changed.mutable_dims(dim)->Swap(changed.mutable_dims(other));
      }
  }
}

} // namespace

std::vector<Mutant> makeLaunchMutants(const abi::Manifest &original) {
  std::vector<Mutant> mutants;
  std::set<std::string> seen;
  for (int list = 0; list < original.lists_size(); ++list)
    for (int i = 0; i < original.lists(list).commands_size(); ++i) {
      const abi::Command &command = original.lists(list).commands(i);
      if (!command.has_launch())
        continue;
      // The layers launch the same kernels on other buffers.
      abi::Launch launch = command.launch();
      launch.clear_buffers();
      if (seen.insert(original.lists(list).name() + launch.SerializeAsString()).second)
        LaunchMutator(original, list, i, mutants).run();
    }
  return mutants;
}

std::vector<Mutant> makeFileMutants(const abi::Manifest &original) {
  std::vector<Mutant> mutants;
  for (int i = 0; i < original.parameters_size(); ++i) {
    auto add = [&](const char *what) -> abi::Parameter & {
      mutants.push_back({"parameter " + original.parameters(i).name() + ": " + what, original, ""});
      return *mutants.back().manifest.mutable_parameters(i);
    };
    const abi::Parameter &own = original.parameters(i);
    for (int dim = 1; dim < own.permutation_size(); ++dim)
      add("permutation").mutable_permutation()->SwapElements(dim - 1, dim);
    for (int dim = 1; dim < own.file_shape_size(); ++dim)
      if (own.file_shape(dim - 1) != own.file_shape(dim))
        add("shape in the file").mutable_file_shape()->SwapElements(dim - 1, dim);
    for (int dim = 1; dim < own.factored_shape_size(); ++dim)
      if (own.factored_shape(dim - 1) != own.factored_shape(dim))
        add("factored shape").mutable_factored_shape()->SwapElements(dim - 1, dim);
    add("name").set_name(original.parameters((i + 1) % original.parameters_size()).name());
    add("decay").set_decays(!own.decays());
  }
  return mutants;
}

std::vector<Mutant> makePlacementMutants(const abi::Manifest &original) {
  std::vector<Mutant> mutants;
  for (int i = 0; i < original.roles(0).tensors_size(); ++i)
    if (original.roles(0).tensors(i).kind() == abi::Tensor::INPUT)
      misplaceInput(original, i, mutants);
  return mutants;
}

} // namespace dtc::test
