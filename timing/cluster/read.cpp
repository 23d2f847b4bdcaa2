#include "timing/cluster/cluster.h"

#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/suggest.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

namespace dtc::timing {

/// Anything written by hand or measured by `dtc calibrate` is far shorter.
static constexpr size_t LongestText = size_t(1) << 20;

namespace {

/// Keeps the first error of a text: later ones often follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string &message) override {
    if (!text.empty())
      return;
    std::string_view sentence = message;
    if (sentence.ends_with('.'))
      sentence.remove_suffix(1);
    text = fmt::format("{}:{}: {}{}", line + 1, column + 1, sentence, suggestionFor(message));
  }

  std::string text; ///< "12:3: what is wrong"

private:
  /// For 'Message type "dtc.timing.Level" has no field named "latancy".'
  static std::string suggestionFor(const std::string &message) {
    std::vector<std::string> quoted;
    for (size_t begin = 0; (begin = message.find('"', begin)) != std::string::npos;) {
      size_t end = message.find('"', begin + 1);
      if (end == std::string::npos)
        break;
      quoted.push_back(message.substr(begin + 1, end - begin - 1));
      begin = end + 1;
    }
    const auto *type =
        quoted.size() == 2 ? Cluster::descriptor()->file()->pool()->FindMessageTypeByName(quoted[0]) : nullptr;
    if (!type || message.find("no field named") == std::string::npos)
      return "";
    std::vector<std::string> fields;
    for (int i = 0; i < type->field_count(); ++i)
      fields.push_back(type->field(i)->name());
    return didYouMean(quoted[1], fields);
  }
};

} // namespace

Cluster parseCluster(const std::string &text, const std::string &path) {
  if (text.size() > LongestText)
    throw Error(ExitCode::BadInput, fmt::format("{}: {} bytes are more than a cluster file has, which is at most {}; "
                                                "is it one?",
                                                path, text.size(), LongestText));
  Cluster cluster;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &cluster))
    throw Error(ExitCode::BadInput, fmt::format("{}:{}\nA cluster file is protobuf text; timing/cluster/cluster.proto "
                                                "and docs/clusters.md say its fields",
                                                path, error.text));
  if (std::string fault = findClusterFault(cluster); !fault.empty())
    throw Error(ExitCode::BadInput, path + ": " + fault);
  return cluster;
}

std::string printCluster(const Cluster &cluster) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(cluster, &text);
  return text;
}

Cluster readCluster(const std::string &path) { return parseCluster(std::string(MappedFile(path).text()), path); }

} // namespace dtc::timing
