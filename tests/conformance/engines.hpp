#pragma once  // engines.hpp: the engines that must pass the suite.

#include <gtest/gtest.h>

#include <gantry/gantry.hpp>
#include <ostream>

#include "engine/inline/inline_engine.hpp"
#include "engine/thread/thread_engine.hpp"

namespace gantry {

struct EngineCase {
  const char* name;
  std::shared_ptr<Engine> (*make)();
};

inline void PrintTo(const EngineCase& engine, std::ostream* out) {
  *out << engine.name;
}

inline const EngineCase kEngines[] = {
    {"inline", [] { return make_inline_engine(); }},
    {"thread1", [] { return *make_thread_engine(1); }},
    {"thread3", [] { return *make_thread_engine(3); }},
};

}  // namespace gantry
