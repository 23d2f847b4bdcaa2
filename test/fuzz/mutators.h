// Mutators that know a format's structure, so that most mutants get past its first check.
#pragma once

#include "test/fuzz/random.h"

#include <string>
#include <string_view>
#include <vector>

namespace dtc::fuzz {

/// The elements of a textual format, apart from words, numbers, strings and punctuation.
struct TextFormat {
  std::vector<std::string> words; ///< keywords and fragments to insert
  std::vector<std::string> nests; ///< openings that nest when repeated, e.g. "[" or "{\"a\":"
};

TextFormat jsonFormat();
TextFormat tomlFormat();
TextFormat mlirFormat();

/// One to four changes of tokens: deleted, doubled, swapped, replaced by numbers at the edges of types, nested deeply.
std::string mutateText(Random &random, std::string text, const TextFormat &format);

/// One to four changes of bytes: flips, edge numbers of four and eight bytes, cuts, doubled pieces.
std::string mutateBytes(Random &random, std::string bytes);

/// One flipped bit.
std::string flipBit(Random &random, std::string bytes);

/// A length of eight bytes, a JSON header and data, each changed in its own way.
std::string mutateSafetensors(Random &random, std::string_view file);

/// Fields of a serialized manifest, chosen and changed by reflection.
std::string mutateManifest(Random &random, std::string_view manifest);

} // namespace dtc::fuzz
