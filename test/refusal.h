// The message with which the code under test refuses.
#pragma once

#include "runtime/support/error.h"

#include <gtest/gtest.h>

#include <string>

namespace dtc::test {

/// The message of the Error that `work` throws, whose exit code must be `code`; "no error" where it throws none.
template <typename Work> std::string refusalOf(const Work &work, ExitCode code = ExitCode::BadInput) {
  try {
    work();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), code) << error.what();
    return error.what();
  }
  return "no error";
}

} // namespace dtc::test
