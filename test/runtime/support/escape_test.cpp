#include "runtime/support/escape.h"

#include <gtest/gtest.h>

using dtc::escaped;

TEST(Escape, WritesControlCharactersOut) {
  EXPECT_EQ(escaped("a\x1b[2J\x07"), "a\\x1b[2J\\x07");
  EXPECT_EQ(escaped("\x7f\r"), "\\x7f\\x0d");
  EXPECT_EQ(escaped("\xc2\x9b\x32J"), "\\xc2\\x9b2J") << "the C1 form of ESC [";
}

TEST(Escape, LeavesWordsLinesAndOtherAlphabetsAlone) {
  for (const char *text : {"", "h.0.attn", "two\nlines\tand a tab", "gr\xc3\xbc\xc3\x9f", "\xc2\xa7", "\xc2"})
    EXPECT_EQ(escaped(text), text);
}
