# cmake -DSOURCE=... -DOUTPUT=... -P WriteCommit.cmake
# Writes the commit that the source tree is at as a header, which is not touched unless it changes. A tree without git
# has the commit in commit.txt if git archive made it.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --exclude=* --abbrev=12
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS "${SOURCE}/.git") # also a tree within another repository
  file(STRINGS "${SOURCE}/cmake/commit.txt" commit LIMIT_COUNT 1)
  if(NOT commit MATCHES "^[0-9a-f]+$")
    set(commit "unknown")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define DTC_COMMIT \"@commit@\"\n" @ONLY)
