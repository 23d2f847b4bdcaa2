// A manifest with a valid checksum may still be hostile: each number that is used as an index, an offset or a size is
// changed here, and the refusal must name it.
#include "runtime/abi/optimizers.h"
#include "test/runtime/executor/hostile.h"

#include <limits>

namespace dtc {
namespace {

using namespace test;
using testing::HasSubstr;

/// Three places at the end of the arena, which grows by them.
abi::Space &places(Manifest &manifest) {
  abi::Role &role = *manifest.mutable_roles(0);
  uint32_t space = addSpace(role, abi::Space::REGISTERED, role.arena_bytes(), 64, 3);
  role.set_arena_bytes(role.arena_bytes() + 192);
  return *role.mutable_spaces(static_cast<int>(space));
}

TEST_P(ValidateTest, IsRefused) {
  Manifest manifest = program();
  ASSERT_EQ(refusalOf(manifest), "accepted");
  GetParam().change(manifest);
  EXPECT_THAT(refusalOf(manifest), HasSubstr(GetParam().refusal));
}

constexpr int64_t Huge = std::numeric_limits<int64_t>::max();

const Hostile Numbers[] = {
    {"Version", [](Manifest &m) { m.set_version(1); },
     "another version of dtc (its manifest has version 1, this one reads 17)"},
    {"NoRole", [](Manifest &m) { m.clear_roles(); }, "its 0 roles are played by 0 of 4 ranks"},
    {"RoleOfOneRank", [](Manifest &m) { addRanks(*m.mutable_roles(0), 3, 1); }, "its 1 roles are played by 1 of 4 ranks"},
    {"RoleOfNobody", [](Manifest &m) { addRanks(*m.mutable_roles(0), 4, 1); }, "rank 4 of 4, which does not exist"},
    {"TwoRolesOfOneRank",
     [](Manifest &m) {
       addRanks(*m.mutable_roles(0), 0, 4);
       addRanks(*m.add_roles(), 2, 1);
     },
     "'' is played by rank 2 of 4, which has a role already"},
    {"RanksBeyondTheMesh", [](Manifest &m) { addRanks(*m.mutable_roles(0), 0, 2).set_stride(4); },
     "rank 4 of 4, which does not exist"},
    {"RanksWithoutEnd", [](Manifest &m) { addRanks(*m.mutable_roles(0), 0, ~0U); }, "rank 4 of 4, which does not"},
    {"AxisOfNoSize", [](Manifest &m) { m.mutable_mesh()->mutable_axes(0)->set_size(0); }, "axis 'dp' has size 0"},
    {"TooManyRanks", [](Manifest &m) { m.mutable_mesh()->mutable_axes(0)->set_size(1 << 20); }, "more than 1048576"},
    {"Steps", [](Manifest &m) { m.mutable_training()->set_steps(-1); }, "training of -1 steps"},
    {"Accumulation", [](Manifest &m) { m.mutable_training()->set_accumulation(0); }, "in 0 micro-batches"},
    {"Optimizer", [](Manifest &m) { m.mutable_training()->set_optimizer("adam"); }, "the optimizer is 'adam'"},
    {"Rate", [](Manifest &m) { m.mutable_training()->set_learning_rate(NAN); }, "learning_rate is nan"},
    {"Fraction", [](Manifest &m) { m.mutable_training()->set_validation_fraction(1); }, "validation_fraction is 1"},
    {"EvaluationsBackwards", [](Manifest &m) { m.mutable_training()->set_eval_every(-5); }, "counts steps"},
    {"NoVocabulary", [](Manifest &m) { m.clear_symbols(); }, "'vocab'"},
    {"NegativeSymbol", [](Manifest &m) { m.mutable_symbols(0)->set_size(-5); }, "the size 'vocab' is -5"},
    {"FileShape", [](Manifest &m) { m.mutable_parameters(0)->set_file_shape(0, 6); }, "which differ in size"},
    {"NegativeShape", [](Manifest &m) { m.mutable_parameters(0)->set_file_shape(0, -5); }, "sizes are positive"},
    {"OverflowingShape", [](Manifest &m) { m.mutable_parameters(0)->add_file_shape(Huge); }, "more than 2^50"},
    {"ManyDimensions",
     [](Manifest &m) {
       for (int i = 0; i < 16; ++i)
         m.mutable_parameters(0)->add_file_shape(1);
     },
     "17 dimensions; at most 16"},
    {"Permutation", [](Manifest &m) { m.mutable_parameters(0)->set_permutation(0, 1); }, "is no permutation"},
    {"PermutationTwice", [](Manifest &m) { m.mutable_parameters(1)->set_permutation(1, 1); }, "is no permutation"},
    {"Deviation", [](Manifest &m) { m.mutable_parameters(0)->mutable_init()->set_stddev(-1); }, "deviation of -1"},
    {"DimNames",
     [](Manifest &m) { m.mutable_parameters(0)->add_dim_names("a"), m.mutable_parameters(0)->add_dim_names("b"); },
     "2 names for 1 dimensions"},
    {"ParameterIndex", [](Manifest &m) { tensor(m, "table").set_parameter(2); }, "belongs to parameter 2 of 2"},
    {"NegativeParameterIndex", [](Manifest &m) { tensor(m, "table").set_parameter(-1); }, "parameter -1 of 2"},
    {"GradientsParameterIndex", [](Manifest &m) { tensor(m, "scratch").set_parameter(7); }, "parameter 7 of 2"},
    {"TwoParameters",
     [](Manifest &m) {
       tensor(m, "table.moment").set_kind(abi::Tensor::PARAMETER);
       tensor(m, "table.moment").clear_slot();
     },
     "two places"},
    {"TwoSlotsOfOneName",
     [](Manifest &m) {
       abi::Tensor &scratch = tensor(m, "scratch");
       scratch.set_kind(abi::Tensor::SLOT);
       scratch.set_slot("momentum_buffer");
     },
     "two places"},
    {"SlotWithoutName", [](Manifest &m) { tensor(m, "table.moment").clear_slot(); }, "has the slot ''; slots and parts of gradients, and"},
    {"SlotOfAnotherFolder", [](Manifest &m) { tensor(m, "table.moment").set_slot("../x"); }, "has the slot '../x'"},
    {"LongSlot", [](Manifest &m) { tensor(m, "table.moment").set_slot(std::string(65, 'a')); }, "at most 64"},
    {"SlotOfAParameter", [](Manifest &m) { tensor(m, "table").set_slot("exp_avg"); }, "has the slot 'exp_avg'; slots"},
    {"ParameterWithoutPlace", [](Manifest &m) { m.add_parameters(); }, "parameter '' has no place"},
    {"SharedState", [](Manifest &m) { tensor(m, "table.moment").set_address(tensor(m, "table").address()); },
     "shares memory with the one before it"},
    {"TensorBeyondArena", [](Manifest &m) { tensor(m, "table").set_address(m.roles(0).arena_bytes()); },
     "'table' does not lie in its role's memory"},
    {"TensorOffsetWraps", [](Manifest &m) { tensor(m, "table").set_address(~uint64_t(0) - 3); }, "does not lie"},
    {"TensorOffsetOdd", [](Manifest &m) { tensor(m, "table").set_address(2); }, "does not lie in its role's memory"},
    {"TensorType", [](Manifest &m) { tensor(m, "table").set_type(abi::I32); }, "does not hold f32"},
    {"TensorShape", [](Manifest &m) { tensor(m, "table").set_global_shape(0, 4); }, "the shape of its parameter"},
    {"LocalShape", [](Manifest &m) { tensor(m, "table").set_local_shape(0, 2); }, "2 pieces of 2 do not make up"},
    {"LocalDims", [](Manifest &m) { tensor(m, "table").add_local_shape(1); }, "1 global and 2 local dimensions"},
    {"UnknownAxis",
     [](Manifest &m) { tensor(m, "table").mutable_sharding()->mutable_dims(0)->mutable_axes(0)->set_axis("pp"); },
     "no axis 'pp'"},
    {"AxisTwice",
     [](Manifest &m) {
       abi::Sharding &sharding = *tensor(m, "table").mutable_sharding();
       *sharding.add_partial() = sharding.dims(0).axes(0);
     },
     "names a part of 'tp' twice"},
    {"PartialInNoWay",
     [](Manifest &m) {
       abi::Sharding &sharding = *tensor(m, "table").mutable_sharding();
       *sharding.add_partial() = sharding.dims(0).axes(0);
       sharding.clear_dims();
     },
     "is partial over 1 axes and says of 0 how to combine"},
    {"PartialInAnUnknownWay",
     [](Manifest &m) {
       abi::Sharding &sharding = *tensor(m, "table").mutable_sharding();
       *sharding.add_partial() = sharding.dims(0).axes(0);
       sharding.clear_dims();
       sharding.add_reductions(abi::Reduction(9));
     },
     "is combined in an unknown way (9)"},
    {"NoTokens",
     [](Manifest &m) {
       for (const char *name : {"tokens", "targets"}) {
         tensor(m, name).set_kind(abi::Tensor::OUTPUT);
         tensor(m, name).clear_source();
       }
     },
     "it has no input of tokens"},
    {"InputFromNowhere", [](Manifest &m) { tensor(m, "tokens").clear_source(); }, "'tokens' has the source NONE"},
    {"InputFromSomewhere", [](Manifest &m) { tensor(m, "tokens").mutable_source()->set_kind(abi::Source::Kind(77)); },
     "tensor 'tokens' has the source 77"},
    {"GenerationOfNothing", [](Manifest &m) { m.mutable_generation()->set_capacity(4); },
     "it generates 0 rows of 4 positions, of which it reads 0 at a time"},
    {"GenerationThatTrains",
     [](Manifest &m) {
       m.mutable_generation()->set_rows(1);
       m.mutable_generation()->set_capacity(4);
       m.mutable_generation()->set_prompt(4);
     },
     "is none of 1 rows of which 4 positions are read at a time"},
    {"OutputFromTokens", [](Manifest &m) { tensor(m, "loss_sum").mutable_source()->set_kind(abi::Source::TOKENS); },
     "tensor 'loss_sum' has the source TOKENS; inputs, and nothing else"},
    {"CorrectionOfAnotherOptimizer",
     [](Manifest &m) {
       abi::Source &source = *tensor(m, "learning_rate").mutable_source();
       source.set_kind(abi::Source::BIAS_CORRECTION);
       source.set_setting("beta1");
     },
     "the input 'learning_rate' has the source BIAS_CORRECTION of 'beta1'; bias corrections, and nothing else, are of "
     "a setting, one of the optimizer 'sgd'"},
    {"CorrectionOfNoSetting",
     [](Manifest &m) { tensor(m, "learning_rate").mutable_source()->set_kind(abi::Source::BIAS_CORRECTION); },
     "the source BIAS_CORRECTION of ''"},
    {"SettingOfARate", [](Manifest &m) { tensor(m, "learning_rate").mutable_source()->set_setting("momentum"); },
     "the source LEARNING_RATE of 'momentum'"},
    {"SettingOfNoOptimizer", [](Manifest &m) { abi::setSetting(*m.mutable_training(), "gamma", 0.5); },
     "no optimizer has the setting 'gamma'"},
    {"SettingBeyondItsInterval", [](Manifest &m) { abi::setSetting(*m.mutable_training(), "momentum", 1); },
     "momentum is 1; it lies in [0, 1)"},
    {"SettingOfAnotherBeyondItsInterval", [](Manifest &m) { abi::setSetting(*m.mutable_training(), "epsilon", 0); },
     "epsilon is 0; it lies in (0, inf)"},
    {"SettingTwice",
     [](Manifest &m) {
       abi::Setting setting = m.training().optimizer_settings(0);
       *m.mutable_training()->add_optimizer_settings() = setting;
     },
     "setting 'weight_decay' appears twice"},
    {"SettingMissing", [](Manifest &m) { m.mutable_training()->mutable_optimizer_settings()->RemoveLast(); },
     "the optimizer 'sgd' lacks its setting 'momentum'"},
    {"TiedToAnotherParameter", [](Manifest &m) { m.mutable_parameters(0)->add_tied_names("layer.frozen"); },
     "parameter 'layer.table' is tied to the name 'layer.frozen', which is empty or taken"},
    {"TiedTwice",
     [](Manifest &m) {
       for (abi::Parameter &parameter : *m.mutable_parameters())
         parameter.add_tied_names("head");
     },
     "parameter 'layer.frozen' is tied to the name 'head', which is empty or taken"},
    {"TiedToNoName", [](Manifest &m) { m.mutable_parameters(0)->add_tied_names(""); }, "the name '', which is empty"},
    {"TargetsShape", [](Manifest &m) { tensor(m, "targets").set_global_shape(1, 3); }, "the input 'targets'"},
    {"ShortKey",
     [](Manifest &m) {
       abi::Tensor &key = addTensor(m, tensor(m, "tokens"));
       key.set_name("key");
       key.mutable_source()->set_kind(abi::Source::KEY);
       for (auto *shape : {key.mutable_global_shape(), key.mutable_local_shape()})
         shape->Set(0, 1), shape->Set(1, 3);
       key.clear_sharding();
     },
     "'key' has 3 elements of i32 instead of 4 of i32"},
    {"LossOfTwo",
     [](Manifest &m) { tensor(m, "loss_sum").add_local_shape(2), tensor(m, "loss_sum").add_global_shape(2); },
     "'loss_sum' has 2 elements of f32 instead of 1 of f32"},
    {"Arena", [](Manifest &m) { m.mutable_roles(0)->set_arena_bytes(uint64_t(1) << 63); }, "at most 2^46"},
    {"SharedBegin", [](Manifest &m) { m.mutable_roles(0)->set_shared_begin(uint64_t(1) << 40); }, "shared from byte"},
    {"MissingList", [](Manifest &m) { list(m, "turn").set_name("turns"); },
     "list 'turn' in stage 0 (entry 2), which does not exist"},
    {"KernelOfAListThatNobodyRuns",
     [](Manifest &m) { list(m, "go_on").mutable_commands(0)->mutable_launch()->set_kernel(~0U - 3); },
     "the kernel does not exist"},
    {"MissingOutcome", [](Manifest &m) { tensor(m, "update_applied").set_name("applied"); }, "no tensor 'update_app"},
    {"TwoListsOfOneName", [](Manifest &m) { addList(m, "join"); },
     "two lists named 'join'"},
    {"TimetableList", [](Manifest &m) { step(m, 0).set_list("micro"); },
     "list 'micro' on micro-batch 0 in stage 0 (entry 0), which does not exist"},
    {"TimetableMicroBatch", [](Manifest &m) { step(m, 0).set_micro_batch(9); },
     "on micro-batch 9 in stage 0 (entry 0); a step has 1 micro-batches"},
    {"MissingMicroBatch", [](Manifest &m) { entriesOf(m).Clear(); }, "its step runs 0 micro-batches of"},
    {"NoStep", [](Manifest &m) { m.mutable_roles(0)->mutable_timetables(0)->set_name("stride"); },
     "role 'all' has no timetable 'step'"},
    {"TwoTimetablesOfOneName", [](Manifest &m) { m.mutable_roles(0)->mutable_timetables(1)->set_name("step"); },
     "two timetables named 'step'"},
    {"MicroBatchTwice", [](Manifest &m) { *entriesOf(m).Add() = abi::TimetableEntry(step(m, 0)); },
     "its step runs list 'begin' on micro-batch 0 in stage 0 (entry 3) once more than there is need for"},
    {"ListWithoutItsMicroBatch", [](Manifest &m) { entriesOf(m).Add()->set_list("begin"); },
     "its step runs list 'begin' in stage 0 (entry 3); it is a list for a micro-batch"},
    {"MicroBatchForNobody", [](Manifest &m) { step(m, 2).set_micro_batch(0); },
     "its step runs list 'turn' on micro-batch 0 in stage 0 (entry 2); it is a list for no micro-batch"},
    {"Stage", [](Manifest &m) { evaluation(m).Mutable(0)->set_stage(2); },
     "runs list 'look' on micro-batch 0 in stage 2 (entry 0); there are 1 stages"},
    {"NoStages", [](Manifest &m) { m.clear_stages(); }, "its model has no stage"},
    {"StageWithAnUnknownLayer", [](Manifest &m) { m.mutable_stages(0)->add_layers(3); }, "stage 0 has layer 3 of 0"},
    {"StepsAhead", [](Manifest &m) { step(m, 0).set_step(129); }, "for the step 129 ahead; at most 128"},
    {"EvaluationAhead", [](Manifest &m) { evaluation(m).Mutable(0)->set_step(1); },
     "its evaluation runs list 'look' on micro-batch 0 in stage 0 (entry 0) ahead of its step or in turns"},
    {"StepBehind", [](Manifest &m) { step(m, 0).set_step(-1); }, "for the step -1 ahead"},
    {"PlaceOfNoSpace",
     [](Manifest &m) {
       for (int i = 0; i < 2; ++i)
         step(m, 0).add_places(0);
     },
     "in places of 2 spaces of 1"},
    {"TurnsInNoSpace",
     [](Manifest &m) {
       for (int i = 0; i < 2; ++i)
         step(m, 0).add_turns(0);
     },
     "through places of 2 spaces of 1"},
    {"TurnsOfMorePlacesThanThereAre", [](Manifest &m) { step(m, 0).add_turns(2); }, "through 2 places of space '"},
    {"Place",
     [](Manifest &m) {
       places(m).set_name("stash");
       setPlace(step(m, 0), 3);
     },
     "in place 3 of space 'stash', which has 3"},
    {"PlacesOfNoBytes", [](Manifest &m) { places(m).set_stride(0); }, "space 'space 1' of 3 places of 0 bytes"},
    {"PlacesBetweenLines", [](Manifest &m) { places(m).set_stride(72); }, "of 72 bytes"},
    {"ManyPlaces",
     [](Manifest &m) {
       places(m).set_places(1 << 21);
       m.mutable_roles(0)->set_arena_bytes(uint64_t(1) << 40);
     },
     "of 2097152 places of 64 bytes"},
    {"MicroBatchBeyondNumbers", [](Manifest &m) { evaluation(m).Mutable(0)->set_micro_batch(Huge); },
     "its evaluation runs list 'look' on micro-batch 9223372036854775807 in stage 0 (entry 0); at most 1048576"},
    {"NoPlaces", [](Manifest &m) { places(m).set_places(0); }, "of 0 places"},
    {"PlacesWrap", [](Manifest &m) { places(m).set_stride(uint64_t(1) << 63); }, "does not lie in the shared part"},
    {"SpaceBeyondTheArena", [](Manifest &m) { places(m).set_base(m.roles(0).arena_bytes() - 128); }, "from byte"},
    {"PrivateSpaceInTheSharedPart", [](Manifest &m) { places(m).set_kind(abi::Space::PRIVATE); },
     "does not lie in the private part of the arena, bytes 0 to 0"},
    {"KindOfSpace", [](Manifest &m) { places(m).set_kind(abi::Space::Kind(7)); }, "does not lie in the private part"},
    {"SpacesOverSpaces", [](Manifest &m) { places(m).set_base(places(m).base() - 64); },
     "space 'space 2' shares memory with another"},
    {"ManySpaces",
     [](Manifest &m) {
       for (int i = 0; i < 64; ++i)
         places(m);
     },
     "has 65 spaces; at most 64"},
    {"BufferInNoSpace", [](Manifest &m) { copy(m).set_output(abi::addressOf(1, 0)); }, "lies in space 1 of 1"},
    {"BufferAcrossPlaces",
     [](Manifest &m) {
       places(m);
       copy(m).set_output(abi::addressOf(1, 60));
     },
     "the target of a copy at byte 60 of 2 elements of f32 does not lie in [0, 64) of space 'space 1'"},
    {"NoEvaluation", [](Manifest &m) { evaluation(m).Clear(); }, "its evaluation runs no micro-batch"},
    {"EvaluationList", [](Manifest &m) { evaluation(m).Mutable(0)->set_list("eval"); },
     "its evaluation runs list 'eval' on micro-batch 0 in stage 0 (entry 0), which does not exist"},
    {"EvaluationMicroBatch", [](Manifest &m) { evaluation(m).Mutable(0)->set_micro_batch(1); },
     "its evaluation runs 1 micro-batches of 2 in stage 0"},
    {"NoCommand", [](Manifest &m) { list(m, "join").add_commands(); }, "unknown kind of command"},
    {"Kernel", [](Manifest &m) { launch(m).set_kernel(2); }, "the kernel does not exist"},
    {"Grid", [](Manifest &m) { launch(m).set_grid(-1); }, "the grid is negative"},
    {"EndlessGrid", [](Manifest &m) { launch(m).set_grid(Huge); }, "a grid of 9223372036854775807"},
    {"Grain", [](Manifest &m) { launch(m).set_grain(0); }, "the grain not positive"},
    {"Outputs", [](Manifest &m) { m.mutable_kernels(0)->set_outputs(7); }, "more outputs than"},
    {"Inputs", [](Manifest &m) { m.mutable_kernels(0)->set_inputs(2); }, "another number of buffers"},
    {"Buffer", [](Manifest &m) { launch(m).set_buffers(0, m.roles(0).arena_bytes() - 4); }, "a buffer at byte"},
    {"BufferType", [](Manifest &m) { launch(m).set_buffer_types(0, abi::DataType(6)); }, "type of a buffer's elements"},
    {"BufferWithoutType", [](Manifest &m) { launch(m).mutable_buffer_types()->RemoveLast(); },
     "not every buffer has a type"},
    {"HalfAnElement",
     [](Manifest &m) {
       launch(m).set_buffer_types(0, abi::BF16);
       launch(m).set_buffer_bytes(0, 3);
     },
     "not a whole number of elements"},
    {"BetweenElements",
     [](Manifest &m) {
       launch(m).set_buffer_types(0, abi::BF16);
       launch(m).set_buffers(0, 1);
     },
     "a buffer at byte 1 of"},
    {"UnknownTensorType", [](Manifest &m) { tensor(m, "table").set_type(abi::DataType(6)); }, "or type 6"},
    {"Extent", [](Manifest &m) { launch(m).set_buffer_bytes(0, uint64_t(1) << 60); }, "a buffer's extent"},
    {"Scalar", [](Manifest &m) { launch(m).mutable_scalars(0)->clear_kind(); }, "a scalar has no value"},
    {"Scale", [](Manifest &m) { launch(m).mutable_scalars(1)->mutable_rank_index()->set_scale(Huge); }, "beyond 2^40"},
    {"RankAxis", [](Manifest &m) { launch(m).mutable_scalars(1)->mutable_rank_index()->mutable_axes(0)->set_size(3); },
     "has no part of size 3"},
    {"GridCount", [](Manifest &m) { launch(m).set_grid_count(m.roles(0).arena_bytes()); },
     "the count of its grid at byte"},
    {"GridCountBetweenElements", [](Manifest &m) { launch(m).set_grid_count(2); },
     "the count of its grid at byte 2 of"},
    {"LayerOfNoList", [](Manifest &m) { m.add_layers()->set_number(1); },
     "layer '.1' has no list or a negative number"},
    {"LayerBelowZero",
     [](Manifest &m) {
       m.add_layers()->set_list("h");
       m.mutable_layers()->rbegin()->set_number(-1);
     },
     "layer 'h.-1' has no list or a negative number"},
    {"LayerOfAParameter", [](Manifest &m) { m.mutable_parameters(0)->set_layer(9); }, "is in layer 9 of "},
    {"LayerOfACommand", [](Manifest &m) { list(m, "join").mutable_commands(0)->set_layer(9); },
     "list 'join', command 0 (layer.table): is in an unknown layer"},
    {"Direction", [](Manifest &m) { list(m, "join").mutable_commands(0)->set_direction(abi::Direction(9)); },
     "has an unknown direction"},
    {"WorkClass",
     [](Manifest &m) { list(m, "join").mutable_commands(0)->mutable_work()->set_kind(abi::Work::Class(99)); },
     "has work of an unknown class"},
    {"WorkBelowZero", [](Manifest &m) { list(m, "join").mutable_commands(0)->mutable_work()->set_flops(-1); },
     "has work of an unknown class, or not a number of operations"},
    {"WorkOfNoNumber", [](Manifest &m) { list(m, "join").mutable_commands(0)->mutable_work()->set_flops(NAN); },
     "has work of an unknown class, or not a number of operations"},
    {"Site", [](Manifest &m) { launch(m).mutable_scalars(0)->set_site(0); }, "a scalar is an unknown random site"},
    {"TokenSpace", [](Manifest &m) { collective(m).set_token_space(1); },
     "its token counts the places of a space that does not exist"},
    {"TokenOfTwoSpaces",
     [](Manifest &m) {
       places(m);
       collective(m).set_token_space(1);
     },
     "its token counts the places of another space elsewhere"},
    {"LargeToken", [](Manifest &m) { collective(m).set_token(~0U); }, "its token is too large"},
    {"Token", [](Manifest &m) { collective(m).set_token(99); }, "'join', which waits for a command that was not"},
    {"NoWait", [](Manifest &m) { list(m, "join").mutable_commands()->RemoveLast(); },
     "its step runs list 'turn', which ends before anybody waits for token 3"},
    {"WaitTwice", [](Manifest &m) { *list(m, "join").add_commands() = list(m, "join").commands(1); },
     "list 'join', command 6 (layer.table): waits for a command that was not started"},
    {"WaitOfAnotherTimetable",
     [](Manifest &m) { // the evaluation waits for what only the step starts
       list(m, "look").mutable_commands(2)->mutable_wait()->set_token(collective(m).token());
     },
     "its evaluation runs list 'look', which waits for a command that was not started, of token 1"},
    {"StartOfThePending",
     [](Manifest &m) { // the step's join leaves its last one to the next list, which starts the same
       list(m, "join").mutable_commands()->RemoveLast();
       *list(m, "turn").add_commands() = list(m, "join").commands(4);
     },
     "list 'turn', which starts a command with the pending token 3"},
};

INSTANTIATE_TEST_SUITE_P(Numbers, ValidateTest, testing::ValuesIn(Numbers),
                         [](const auto &info) { return info.param.name; });

/// Enumerations are open in proto3: a file may hold any number.
TEST(ValidateEnumerationTest, UnknownNumbersAreRefused) {
  auto unknown = [](auto change, const char *refusal) {
    Manifest manifest = program();
    change(manifest);
    EXPECT_THAT(refusalOf(manifest), HasSubstr(refusal));
  };
  unknown([](Manifest &m) { collective(m).set_kind(static_cast<abi::Collective::Kind>(9)); }, "kind of collective");
  unknown([](Manifest &m) { collective(m).set_reduction(static_cast<abi::Reduction>(9)); }, "unknown reduction");
  unknown([](Manifest &m) { collective(m).set_type(static_cast<abi::DataType>(9)); }, "type of elements");
  unknown([](Manifest &m) { tensor(m, "table").set_kind(static_cast<abi::Tensor::Kind>(9)); }, "unknown kind 9");
  unknown([](Manifest &m) { tensor(m, "table").set_type(static_cast<abi::DataType>(9)); }, "type 9");
  unknown([](Manifest &m) { m.mutable_parameters(0)->mutable_init()->set_kind(static_cast<abi::Init::Kind>(9)); },
          "begins in an unknown way");
}

/// Tokens are the role's: another list may wait for what one has started.
TEST(ValidateTokenTest, ALaterListMayWait) {
  Manifest manifest = program();
  abi::CommandList &join = list(manifest, "join"), &turn = list(manifest, "turn");
  abi::Command wait = join.commands(5), update = turn.commands(0);
  join.mutable_commands()->RemoveLast();
  *turn.mutable_commands(0) = wait;
  *turn.add_commands() = update;
  EXPECT_EQ(refusalOf(manifest), "accepted");
}

/// Kernels that move elements may store them narrowly: each width has its own alignment and its own end of the arena.
TEST(ValidateWidthTest, PlacesAreOfTheirTypesWidth) {
  Manifest manifest = program();
  uint64_t end = manifest.roles(0).arena_bytes();
  auto place = [&](abi::DataType type, uint64_t offset, uint64_t bytes) {
    launch(manifest).set_buffer_types(0, type);
    launch(manifest).set_buffers(0, offset);
    launch(manifest).set_buffer_bytes(0, bytes);
    return refusalOf(manifest);
  };
  for (abi::DataType type : {abi::BF16, abi::F16})
    EXPECT_EQ(place(type, end - 6, 6), "accepted");
  EXPECT_EQ(place(abi::I8, end - 3, 3), "accepted");
  EXPECT_THAT(place(abi::MASK, end - 6, 4), HasSubstr("of mask does not lie"));
  EXPECT_THAT(place(abi::BF16, end - 4, 6), HasSubstr("3 elements of bf16 does not lie"));
  EXPECT_EQ(place(abi::F32, 0, 4), "accepted");

  abi::Collective &moved = collective(manifest);
  moved.set_kind(abi::Collective::ALL_GATHER);
  moved.set_type(abi::BF16);
  moved.set_outer(1);
  moved.set_chunk(1);
  moved.set_input(2);
  moved.set_output(end - 4); // two ranks' elements
  EXPECT_EQ(refusalOf(manifest), "accepted");
  moved.set_output(end - 2);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("the output at byte"));
  moved.set_output(end - 3);
  EXPECT_THAT(refusalOf(manifest), HasSubstr("the output at byte"));

  abi::Tensor &narrow = *manifest.mutable_roles(0)->add_tensors();
  narrow.set_name("narrow");
  narrow.set_kind(abi::Tensor::OUTPUT);
  narrow.add_global_shape(3);
  narrow.add_local_shape(3);
  moved.set_output(0);
  for (auto [type, offset, fits] : {std::tuple(abi::F16, end - 6, true), std::tuple(abi::F16, end - 4, false),
                                    std::tuple(abi::I8, end - 3, true), std::tuple(abi::F32, end - 8, false)}) {
    narrow.set_type(type);
    narrow.set_address(offset);
    EXPECT_THAT(refusalOf(manifest), HasSubstr(fits ? "accepted" : "'narrow' does not lie in its role's memory"));
  }
}

TEST(ValidateEnumerationTest, BytesThatAreNoManifestAreRefused) {
  EXPECT_THROW(parseManifest("\xff\xff", "gpt.train"), Error);
  EXPECT_THROW(parseManifest("", "gpt.train"), Error);
}

} // namespace
} // namespace dtc
