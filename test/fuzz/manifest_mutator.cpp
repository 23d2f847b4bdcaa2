// Changes a manifest's fields by reflection, which the runtime's own form of it (protobuf lite) does not have: the
// build compiles the same definition again, in full and in its own package.
#include "test/fuzz/mutators.h"

#include "test/fuzz/reflected_manifest.pb.h"

#include <cmath>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <limits>
#include <stdexcept>

namespace dtc::fuzz {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace {

double edgeReal(Random &random) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  constexpr double edges[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e308, 5e-324, infinite, -infinite, NAN};
  return random.pick(edges);
}

/// The field's own value changed a little, or an edge of its type.
int64_t changedNumber(Random &random, int64_t value) {
  constexpr int64_t steps[] = {1, -1, 2, 4, -4, 64, 4096};
  switch (random.below(4)) {
  case 0:
    return value + random.pick(steps);
  case 1:
    return static_cast<int64_t>(static_cast<uint64_t>(value) << random.below(8));
  default:
    return static_cast<int64_t>(edgeNumber(random));
  }
}

std::string changedText(Random &random, std::string text) {
  constexpr const char *words[] = {"",   "dp", "tp",  "tokens",  "loss_sum", "vocab",    "micro_last", "update",
                                   "\n", "a",  "sgd", "../../x", "\x1b[31m", "gradient", "\xc3\xa9"};
  if (random.oneIn(8))
    return std::string(random.below(100000), 'x');
  if (text.empty() || random.oneIn(2))
    return random.pick(words);
  text[random.below(text.size())] = static_cast<char>('a' + random.below(26));
  return text;
}

void changeSingle(Random &random, Message &message, const FieldDescriptor &field) {
  const Reflection &reflection = *message.GetReflection();
  switch (field.cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT32:
    return reflection.SetInt32(&message, &field, changedNumber(random, reflection.GetInt32(message, &field)));
  case FieldDescriptor::CPPTYPE_INT64:
    return reflection.SetInt64(&message, &field, changedNumber(random, reflection.GetInt64(message, &field)));
  case FieldDescriptor::CPPTYPE_UINT32:
    return reflection.SetUInt32(&message, &field, changedNumber(random, reflection.GetUInt32(message, &field)));
  case FieldDescriptor::CPPTYPE_UINT64:
    return reflection.SetUInt64(&message, &field, changedNumber(random, reflection.GetUInt64(message, &field)));
  case FieldDescriptor::CPPTYPE_DOUBLE:
    return reflection.SetDouble(&message, &field, edgeReal(random));
  case FieldDescriptor::CPPTYPE_BOOL:
    return reflection.SetBool(&message, &field, !reflection.GetBool(message, &field));
  case FieldDescriptor::CPPTYPE_ENUM:
    return reflection.SetEnumValue(&message, &field, static_cast<int>(random.below(9)) - 1);
  case FieldDescriptor::CPPTYPE_STRING:
    return reflection.SetString(&message, &field, changedText(random, reflection.GetString(message, &field)));
  default:
    throw std::logic_error("a field of unknown type");
  }
}

void changeRepeatedNumber(Random &random, Message &message, const FieldDescriptor &field, int at) {
  const Reflection &reflection = *message.GetReflection();
  switch (field.cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT64:
    return reflection.SetRepeatedInt64(&message, &field, at,
                                       changedNumber(random, reflection.GetRepeatedInt64(message, &field, at)));
  case FieldDescriptor::CPPTYPE_UINT32:
    return reflection.SetRepeatedUInt32(&message, &field, at,
                                        changedNumber(random, reflection.GetRepeatedUInt32(message, &field, at)));
  case FieldDescriptor::CPPTYPE_UINT64:
    return reflection.SetRepeatedUInt64(&message, &field, at,
                                        changedNumber(random, reflection.GetRepeatedUInt64(message, &field, at)));
  case FieldDescriptor::CPPTYPE_ENUM:
    return reflection.SetRepeatedEnumValue(&message, &field, at, static_cast<int>(random.below(9)) - 1);
  case FieldDescriptor::CPPTYPE_STRING:
    return reflection.SetRepeatedString(&message, &field, at,
                                        changedText(random, reflection.GetRepeatedString(message, &field, at)));
  default:
    throw std::logic_error("a repeated field of unknown type");
  }
}

void changeMessage(Random &random, Message &message);

void changeRepeated(Random &random, Message &message, const FieldDescriptor &field) {
  const Reflection &reflection = *message.GetReflection();
  int count = reflection.FieldSize(message, &field), at = static_cast<int>(random.below(count));
  bool isMessage = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  switch (random.below(isMessage ? 16 : 8)) { // mostly: go deeper
  case 0:
    return reflection.RemoveLast(&message, &field);
  case 1:
    return reflection.SwapElements(&message, &field, at, static_cast<int>(random.below(count)));
  case 2:
    if (isMessage)
      reflection.AddMessage(&message, &field)->CopyFrom(reflection.GetRepeatedMessage(message, &field, at));
    else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64)
      reflection.AddInt64(&message, &field, static_cast<int64_t>(edgeNumber(random)));
    return;
  case 3:
    if (random.oneIn(4))
      reflection.ClearField(&message, &field);
    return;
  default:
    if (isMessage)
      return changeMessage(random, *reflection.MutableRepeatedMessage(&message, &field, at));
    return changeRepeatedNumber(random, message, field, at);
  }
}

/// Changes one field of the message or of one below it.
void changeMessage(Random &random, Message &message) {
  const Reflection &reflection = *message.GetReflection();
  const auto &descriptor = *message.GetDescriptor();
  if (descriptor.field_count() == 0)
    return;
  const FieldDescriptor &field = *descriptor.field(static_cast<int>(random.below(descriptor.field_count())));
  if (field.is_repeated()) {
    if (reflection.FieldSize(message, &field) > 0)
      changeRepeated(random, message, field);
    else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
      reflection.AddMessage(&message, &field);
  } else if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    changeSingle(random, message, field);
  } else if (reflection.HasField(message, &field) || random.oneIn(20)) {
    if (random.oneIn(20))
      reflection.ClearField(&message, &field);
    else
      changeMessage(random, *reflection.MutableMessage(&message, &field));
  }
}

} // namespace

std::string mutateManifest(Random &random, std::string_view bytes) {
  google::protobuf::LogSilencer silent; // texts with invalid UTF-8 are intended
  reflected::Manifest manifest;
  if (!manifest.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw std::logic_error("the manifest to mutate is none");
  std::string mutant;
  for (size_t changes = random.below(3) + 1; changes > 0 || mutant == bytes;) {
    changeMessage(random, manifest);
    changes -= changes > 0;
    mutant = manifest.SerializeAsString();
  }
  return random.oneIn(20) ? mutateBytes(random, mutant) : mutant;
}

} // namespace dtc::fuzz
