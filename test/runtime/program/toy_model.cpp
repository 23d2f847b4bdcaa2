#include "test/runtime/program/toy_model.h"

#include "runtime/abi/element_type.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/manifest_version.h"
#include "runtime/abi/optimizers.h"
#include "test/runtime/program/manifests.h"

namespace dtc::test {

namespace {

constexpr int64_t Rows = 5, Length = 4;

class Builder {
public:
  explicit Builder(const ToyOptions &options) : options(options), localRows((Rows + options.tp - 1) / options.tp) {}
  abi::Manifest build();

private:
  void addTraining();
  void addParameters();
  void addTensors();
  void addLists();
  abi::Tensor &addTensor(const char *name, abi::Tensor::Kind kind, abi::DataType type,
                         std::initializer_list<int64_t> global, std::initializer_list<int64_t> local);
  void split(abi::Tensor &tensor, int dim, const char *axis, int64_t size);
  void addLoss(abi::CommandList &list, bool first, const char *loss, const char *count, const char *gradient);
  void addFlip(abi::CommandList &list);
  void addReduction(abi::CommandList &list, const char *tensor, std::initializer_list<const char *> axes);
  uint64_t addressOf(const std::string &name) const;
  int64_t microRows() const { return options.globalBatch / options.accumulation; }

  const ToyOptions &options;
  int64_t localRows;
  abi::Manifest manifest;
  uint64_t end = 0;
  uint32_t lastToken = 0;
};

void Builder::addTraining() {
  manifest.set_version(ManifestVersion);
  manifest.set_model_name("toy");
  manifest.set_model_config_json("{\"model_type\": \"toy\"}\n");
  for (auto [name, size] : {std::pair("dp", options.dp), std::pair("tp", options.tp)}) {
    abi::Axis &axis = *manifest.mutable_mesh()->add_axes();
    axis.set_name(name);
    axis.set_size(size);
  }
  abi::Training &training = *manifest.mutable_training();
  training.set_steps(10);
  training.set_global_batch(options.globalBatch);
  training.set_sequence_length(Length);
  training.set_accumulation(options.accumulation);
  training.set_seed(1);
  training.set_optimizer("sgd");
  abi::setSetting(training, "weight_decay", 0);
  abi::setSetting(training, "momentum", 0.9);
  training.set_learning_rate(0.05);
  training.set_schedule("cosine");
  training.set_validation_fraction(0.1);
  abi::Symbol &vocabulary = *manifest.add_symbols();
  vocabulary.set_name("vocab");
  vocabulary.set_size(Rows);
  manifest.set_flops_per_token(3);
}

void Builder::addParameters() {
  abi::Parameter &table = *manifest.add_parameters();
  table.set_name("layer.table");
  for (auto *shape : {table.mutable_file_shape(), table.mutable_factored_shape(), table.mutable_logical_shape()})
    shape->Add(Rows);
  table.add_permutation(0);
  table.mutable_init()->set_kind(abi::Init::NORMAL);
  table.mutable_init()->set_stddev(1);
  // File [6], factored [3, 2], logical [2, 3].
  abi::Parameter &frozen = *manifest.add_parameters();
  frozen.set_name("layer.frozen");
  frozen.add_file_shape(6);
  for (int64_t size : {3, 2})
    frozen.add_factored_shape(size);
  for (int64_t size : {2, 3})
    frozen.add_logical_shape(size);
  for (int64_t dim : {1, 0})
    frozen.add_permutation(dim);
  frozen.mutable_init()->set_kind(abi::Init::NORMAL);
  frozen.mutable_init()->set_stddev(1);
}

abi::Tensor &Builder::addTensor(const char *name, abi::Tensor::Kind kind, abi::DataType type,
                                std::initializer_list<int64_t> global, std::initializer_list<int64_t> local) {
  abi::Tensor &tensor = *manifest.mutable_roles(0)->add_tensors();
  tensor.set_name(name);
  tensor.set_kind(kind);
  tensor.set_type(type);
  tensor.set_address(end);
  tensor.mutable_global_shape()->Add(global.begin(), global.end());
  tensor.mutable_local_shape()->Add(local.begin(), local.end());
  uint64_t elements = 1;
  for (int64_t size : local) {
    elements *= size;
    tensor.mutable_sharding()->add_dims();
  }
  end += (elements * 4 + 63) / 64 * 64;
  return tensor;
}

void Builder::split(abi::Tensor &tensor, int dim, const char *axis, int64_t size) {
  abi::AxisRef &ref = *tensor.mutable_sharding()->mutable_dims(dim)->add_axes();
  ref.set_axis(axis);
  ref.set_pre(1);
  ref.set_size(size);
}

void Builder::addTensors() {
  int64_t rows = microRows(), tp = options.tp;
  for (auto [name, from] : {std::pair("tokens", abi::Source::TOKENS), std::pair("targets", abi::Source::NEXT_TOKENS)}) {
    abi::Tensor &tensor = addTensor(name, abi::Tensor::INPUT, abi::I32, {rows, Length}, {rows / options.dp, Length});
    tensor.mutable_source()->set_kind(from);
    split(tensor, 0, "dp", options.dp);
  }
  addTensor("learning_rate", abi::Tensor::INPUT, abi::F32, {}, {})
      .mutable_source()
      ->set_kind(abi::Source::LEARNING_RATE);
  auto addState = [&](const char *name, abi::Tensor::Kind kind) {
    split(addTensor(name, kind, abi::F32, {Rows}, {localRows}), 0, "tp", tp);
  };
  addState("table", abi::Tensor::PARAMETER);
  addState("table.moment", abi::Tensor::SLOT);
  manifest.mutable_roles(0)->mutable_tensors()->rbegin()->set_slot("momentum_buffer");
  addState("table.gradient", abi::Tensor::GRADIENT);
  int64_t frozenColumns = (3 + tp - 1) / tp;
  abi::Tensor &frozen = addTensor("frozen", abi::Tensor::PARAMETER, abi::F32, {2, 3}, {2, frozenColumns});
  frozen.set_parameter(1);
  split(frozen, 1, "tp", tp);
  for (const char *name : {"loss_sum", "token_count", "update_applied", "eval_loss_sum", "eval_token_count"})
    addTensor(name, abi::Tensor::OUTPUT, abi::F32, {}, {});
  addState("scratch", abi::Tensor::GRADIENT); // the gradient of an evaluation, not used
}

uint64_t Builder::addressOf(const std::string &name) const {
  for (const abi::Tensor &tensor : manifest.roles(0).tensors())
    if (tensor.name() == name)
      return tensor.address();
  return ~uint64_t(0);
}

void Builder::addLoss(abi::CommandList &list, bool first, const char *loss, const char *count, const char *gradient) {
  abi::Command &command = *list.add_commands();
  command.set_location(0);
  abi::Launch &launch = *command.mutable_launch();
  launch.set_kernel(0);
  int64_t tokens = microRows() / options.dp * Length;
  std::pair<const char *, int64_t> buffers[] = {{"tokens", tokens},    {"targets", tokens}, {"table", localRows},
                                                {gradient, localRows}, {loss, 1},           {count, 1}};
  for (auto [name, elements] : buffers) {
    launch.add_buffers(addressOf(name));
    launch.add_buffer_types(name == std::string("tokens") || name == std::string("targets") ? abi::I32 : abi::F32);
    launch.add_buffer_bytes(abi::bytesOf(abi::F32, elements)); // as wide as i32
  }
  launch.add_scalars()->set_value(tokens);
  abi::RankIndex &firstRow = *launch.add_scalars()->mutable_rank_index();
  firstRow.set_scale(localRows);
  abi::AxisRef &axis = *firstRow.add_axes();
  axis.set_axis("tp");
  axis.set_pre(1);
  axis.set_size(options.tp);
  launch.add_scalars()->set_value(localRows);
  launch.add_scalars()->set_value(first);
  launch.add_scalars()->set_value(options.sleepMicroseconds);
  launch.set_grid(1);
  launch.set_grain(1);
}

void Builder::addReduction(abi::CommandList &list, const char *tensor, std::initializer_list<const char *> axes) {
  abi::Collective &collective = *list.add_commands()->mutable_start();
  collective.set_kind(abi::Collective::ALL_REDUCE);
  abi::AxisRefs refs;
  for (const char *name : axes) {
    abi::AxisRef &axis = *refs.Add();
    axis.set_axis(name);
    axis.set_pre(1);
    axis.set_size(name == std::string("dp") ? options.dp : options.tp);
  }
  collective.set_group(test::findOrAddGroup(manifest, refs));
  collective.set_input(addressOf(tensor));
  collective.set_output(addressOf(tensor));
  collective.set_outer(1);
  collective.set_middle(1);
  collective.set_chunk(tensor == std::string("table.gradient") ? localRows : 1);
  collective.set_token(++lastToken);
  collective.set_value(tensor);
  list.add_commands()->mutable_wait()->set_token(lastToken);
}

void Builder::addFlip(abi::CommandList &list) {
  abi::Kernel &kernel = *manifest.add_kernels();
  kernel.set_symbol("toy_flip");
  kernel.set_outputs(1);
  abi::Command &command = *list.add_commands();
  manifest.add_locations("layer.flipped");
  command.set_location(1);
  abi::Launch &launch = *command.mutable_launch();
  launch.set_kernel(static_cast<uint32_t>(manifest.kernels_size() - 1));
  launch.add_buffers(addressOf(options.flip.tensor));
  launch.add_buffer_types(abi::F32);
  launch.add_buffer_bytes(abi::bytesOf(abi::F32, localRows));
  abi::RankIndex &rank = *launch.add_scalars()->mutable_rank_index();
  rank.set_scale(1);
  for (auto [name, size] : {std::pair("dp", options.dp), std::pair("tp", options.tp)}) {
    abi::AxisRef &axis = *rank.add_axes();
    axis.set_axis(name);
    axis.set_pre(1);
    axis.set_size(size);
  }
  launch.add_scalars()->set_value(options.flip.rank);
  launch.add_scalars()->set_value(options.flip.call);
  launch.set_grid(1);
  launch.set_grain(1);
}

/// The lists have names of their own: the runtime must not know any.
void Builder::addLists() {
  abi::Role &role = *manifest.mutable_roles(0);
  role.set_name("all");
  role.set_arena_bytes(end);
  role.set_shared_begin(0);
  role.mutable_spaces(0)->set_stride(end);
  manifest.add_locations("layer.table");
  for (auto [symbol, inputs, outputs] : {std::tuple("toy_loss", 3, 3), std::tuple("toy_update", 4, 3)}) {
    abi::Kernel &kernel = *manifest.add_kernels();
    kernel.set_symbol(symbol);
    kernel.set_inputs(inputs);
    kernel.set_outputs(outputs);
  }
  manifest.add_stages();
  addLoss(addList(manifest, "begin", abi::CommandList::BOTH_PASSES), true, "loss_sum", "token_count", "table.gradient");
  addLoss(addList(manifest, "go_on", abi::CommandList::BOTH_PASSES), false, "loss_sum", "token_count",
          "table.gradient");
  abi::CommandList &join = addList(manifest, "join");
  addReduction(join, "table.gradient", {"dp"});
  addReduction(join, "loss_sum", {"dp", "tp"});
  addReduction(join, "token_count", {"dp"});
  abi::CommandList &look = addList(manifest, "look", abi::CommandList::FORWARD_PASS);
  addLoss(look, true, "eval_loss_sum", "eval_token_count", "scratch");
  addReduction(look, "eval_loss_sum", {"dp", "tp"});
  addReduction(look, "eval_token_count", {"dp"});

  abi::Launch &update = *addList(manifest, "turn").add_commands()->mutable_launch();
  update.set_kernel(1);
  std::pair<const char *, int64_t> buffers[] = {
      {"table.gradient", localRows}, {"loss_sum", 1},      {"token_count", 1},   {"learning_rate", 1},
      {"table.moment", localRows},   {"table", localRows}, {"update_applied", 1}};
  for (auto [name, elements] : buffers) {
    update.add_buffers(addressOf(name));
    update.add_buffer_types(abi::F32);
    update.add_buffer_bytes(abi::bytesOf(abi::F32, elements));
  }
  update.add_scalars()->set_value(localRows);
  update.set_grid(1);
  update.set_grain(1);
  for (int64_t micro = 0; micro < options.accumulation; ++micro)
    addEntry(role, abi::stepTimetable, micro == 0 ? "begin" : "go_on").set_micro_batch(micro);
  for (const char *list : {"join", "turn"})
    addEntry(role, abi::stepTimetable, list);
  for (abi::CommandList &list : *manifest.mutable_lists())
    if (list.name() == options.flip.list)
      addFlip(list);
  addEntry(role, abi::evaluationTimetable, "look").set_micro_batch(0);
}

abi::Manifest Builder::build() {
  addTraining();
  addParameters();
  addSpace(*manifest.add_roles(), abi::Space::REGISTERED, 0, 0);
  addTensors();
  addLists();
  return std::move(manifest);
}

} // namespace

abi::Manifest toyManifest(const ToyOptions &options) { return Builder(options).build(); }

} // namespace dtc::test
