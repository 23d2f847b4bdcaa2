// toml++, without its assumptions about the text. Its parser claims of some places that no malformed text can lead
// there; some do ("[{}]", "[[ }"), and are then refused in good order. As promises to the optimizer these claims are
// undefined behaviour, as assertions they would end the process. So they are neither.
#pragma once

#pragma push_macro("NDEBUG")
#undef NDEBUG // or TOML_ASSERT would not be asked
#define TOML_ASSERT(claim) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
#include <cassert> // as this file's reader wants it
